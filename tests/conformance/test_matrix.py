"""The page of many runs."""

import json
from pathlib import Path

from click.testing import CliRunner

from conformance.report.matrix import main, page_of

SERVER = {
    "target": "kfake",
    "description": "kfake 1",
    "cells": [{"case": "join/a/1", "verdict": verdict} for verdict in ("pass", "fail", "skip")],
}
CLIENT = {"target": "shim", "results": [{"client": "kafkajs", "case": "R20", "verdict": "fail"}]}


def test_a_cell_counts_what_was_run_and_says_how_to_repeat_it() -> None:
    page = page_of([SERVER], "today")
    assert "kfake 1" in page
    assert "kafka-shim conformance --target kfake --case &#x27;join/*&#x27;" in page
    assert '<td class="part"' in page
    assert ">1/2</td>" in page


def test_the_page_is_written_from_reports(tmp_path: Path) -> None:
    for name, run in (("server", SERVER), ("client", CLIENT)):
        (tmp_path / name).write_text(json.dumps(run))
    page = tmp_path / "page.html"
    outcome = CliRunner().invoke(main, [str(page), str(tmp_path / "server"), str(tmp_path / "client")])
    assert outcome.exit_code == 0
    assert "R20" in page.read_text()
    assert "--client kafkajs --case R20" in page.read_text()
