"""The page stands alone and says what was found; the command line says what is wrong."""

import io
import json
import re
from datetime import datetime, timedelta
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from rich.console import Console

from kafka_shim.pipeline.cli import _show, cli
from kafka_shim.pipeline.report import plots, write_report
from kafka_shim.pipeline.report.page import advice
from kafka_shim.pipeline.warehouse import Warehouse


def test_the_page(warehouse: Warehouse, tmp_path: Path) -> None:
    page = write_report(warehouse, tmp_path / "report.html", "a <test>")
    text = page.read_text()
    for heading in ("Why groups rebalance", "How long", "Worst groups", "Worst rounds", "Storms", "Violations"):
        assert f">{heading}</h2>" in text
    assert "Rebalances of a &lt;test&gt;" in text
    plots = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(plots) >= 9
    identifiers: list[str] = []
    for plot in plots:
        root = ElementTree.fromstring(plot)
        identifiers += [each.attrib["id"] for each in root.iter() if "id" in each.attrib]
    assert len(identifiers) == len(set(identifiers))
    # Nothing is fetched: the only addresses are names of XML spaces, and links beside the page.
    assert not re.search(
        r'(src|@import|href="https?:)', re.sub(r'xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "")
    )
    # The line of the trace is there, not a link to a file of gigabytes.
    line = r'<details class="line"><summary>node-0/trace, byte \d+</summary><pre>(.*?)</pre>'
    lines = re.findall(line, text, re.DOTALL)
    assert len(lines) == 6
    assert all(json.loads(unescape(line))["event"] in ("round", "epoch") for line in lines)
    # Sentences take several lines.
    assert "<td class=words data-v='Start the members" in text
    assert "none" not in re.findall(r"<h3>.*?None\.", text)


def test_advice_is_what_paused_least_when_played_again() -> None:
    played = {"played_pause_s": 10.0, "static_pause_s": 9.0, "cooperative_pause_s": 1.0, "both_pause_s": 1.0}
    assert advice(played) == "KIP-848 or a cooperative assignor"
    assert advice({**played, "both_pause_s": 0.1}) == "both"
    assert advice(dict.fromkeys(played, 10.0)) == "none"


@pytest.mark.parametrize("most", [1500, 61_000, 150_000, 4_000_000, 90_000_000])
@pytest.mark.parametrize("width", [plots.WIDE, plots.NARROW])
def test_ticks_of_a_time_axis_are_all_different(most: float, width: float) -> None:
    began = datetime(2026, 1, 1)
    text = plots.storm_line(began, [(began + timedelta(milliseconds=most), 1.0, "NEW_MEMBER")], width)
    marks = [unescape(each) for each in re.findall(r"<text[^>]*>([^<]+)</text>", text)]
    # Those of the other axis are below a millisecond.
    times = [each for each in marks if re.fullmatch(r"[\d.]+ (ms|s|min|h)( [\d.]+ (s|min))?", each) and each != "1 ms"]
    assert len(times) >= 2
    assert len(set(times)) == len(times)


def test_names_are_cut_where_they_are_alike_and_one_bin_has_ticks() -> None:
    assert plots.clipped("group-00002-client-3 9d0e", plots.NARROW).endswith("client-3 9d0e"[-10:])
    assert len(plots.clipped("x" * 100, plots.NARROW)) == 18
    assert plots.clipped("orders", plots.NARROW) == "orders"
    text = plots.histogram({34: 4}, 10)
    assert {"2.5 s", "3.2 s"} <= {unescape(each) for each in re.findall(r"<text[^>]*>([^<]+)</text>", text)}


def test_results_lie_beside_it_as_csv(warehouse: Warehouse) -> None:
    for name in ("storms", "blame", "causes", "cost", "migration", "replays", "heartbeat_gaps", "regressions"):
        (written,) = Path(warehouse.folder(f"{name}.csv").removeprefix("file:")).glob("*.csv")
        assert len(written.read_text().splitlines()) >= 2, name


def test_wrong_inputs_are_told_before_spark_is_started(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    run = CliRunner()
    for command in ("run", "report", "stream"):
        done = run.invoke(cli, [command, str(tmp_path / "empty"), "--out", str(tmp_path / "out")])
        assert done.exit_code == 2
        assert "holds neither a trace" in done.output
        done = run.invoke(cli, [command, str(tmp_path / "none"), "--out", str(tmp_path / "out")])
        assert done.exit_code == 2
        assert "does not exist" in done.output
    done = run.invoke(cli, ["tables", str(tmp_path / "empty"), "rounds"])
    assert done.exit_code == 2
    assert "is not the folder of a run" in done.output
    trace = tmp_path / "trace.jsonl"
    trace.write_text("{}\n")
    done = run.invoke(cli, ["run", str(trace), "--out", str(trace / "out")])
    assert done.exit_code == 2
    assert "cannot be written" in done.output
    done = run.invoke(cli, ["tables", str(tmp_path), "nonsense"])
    assert "no table nonsense" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("width", [40, 200])
def test_rows_are_shown_whole_however_narrow_the_terminal(width: int) -> None:
    console = Console(width=width, file=io.StringIO())
    _show(console, ["group", "generation", "cause"], [["billing-of-the-north", 7, "NEW_MEMBER"], ["b", 8, None]])
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for text in ("billing-of-the-north", "generation", "NEW_MEMBER", "7", "8"):
        assert text in shown
    assert (shown.count("generation") == 1) == (width == 200)


def test_tables_and_generate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run = CliRunner()
    listed = run.invoke(cli, ["tables"])
    assert listed.exit_code == 0
    assert "violations" in listed.output
    made = run.invoke(cli, ["generate", "--out", str(tmp_path / "d"), "--groups", "1", "--seed", "4"])
    volume = json.loads(made.output)
    assert volume["events"] > 1000
    assert volume["faults"] == len(json.loads((tmp_path / "d" / "faults.json").read_text()))
    again = run.invoke(cli, ["generate", "--out", str(tmp_path / "d"), "--groups", "1"])
    assert again.exit_code == 1
    assert "is not empty" in again.output
