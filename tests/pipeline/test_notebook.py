"""The notebook of examples/pipeline, cell by cell."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.pipeline.warehouse import Warehouse

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "pipeline" / "rebalances.ipynb"


def test_every_cell_runs(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUT", warehouse.path)
    names: dict[str, Any] = {}
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(sources) == 8
    for number, source in enumerate(sources, 1):
        exec(compile(source, f"cell {number}", "exec"), names)
    output = capsys.readouterr().out
    assert f"|{names['group']}" in output
    assert "needless_seconds" in output
    rounds = warehouse.read("rounds").count()
    assert f"{rounds} rounds then, {rounds} now" in output
    # Each cause is a bar of the plot.
    legend = {text.get_text() for text in names["axes"].get_legend().get_texts()}
    assert legend >= {"NEW_MEMBER", "SESSION_EXPIRED", "MEMBER_LEFT"}
