"""The three doors of the documentation: every page is behind one, and what the first one has you type is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_every_page_is_in_the_contents() -> None:
    index = (DOCS / "index.md").read_text()
    contents = set(re.findall(r"^([a-z_/-]+)$", "\n".join(re.findall(r"```\{toctree\}(.*?)```", index, re.S)), re.M))
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    assert contents == pages - {"index"}


def test_the_tests_of_the_first_door_pass(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "start-testing.md").read_text(), re.S)
    assert len(blocks) == 3
    (tmp_path / "test_orders.py").write_text("\n\n".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_site_asks_no_other_host_for_anything() -> None:
    conf = (DOCS / "conf.py").read_text()
    assert re.findall(r"extensions = (\[.*\])", conf)[0] == '["myst_parser", "sphinx_design"]'
