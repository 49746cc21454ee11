"""The report is one self-contained page; the command line reports wrong inputs."""

import csv
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
from kafka_shim.pipeline.report.findings import judgement
from kafka_shim.pipeline.report.page import advice
from kafka_shim.pipeline.warehouse import Warehouse
from kafka_shim.why.verdicts import clause_of


def test_the_page_has_every_section(warehouse: Warehouse, tmp_path: Path) -> None:
    page = write_report(warehouse, tmp_path / "report.html", "a <test>")
    text = page.read_text()
    for heading in ("Why groups rebalance", "How long", "Worst groups", "Worst rounds", "Storms", "Violations"):
        assert f"<small>{heading}</small>" in text
    assert "Rebalances of a &lt;test&gt;" in text
    plots = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(plots) >= 9
    identifiers: list[str] = []
    for plot in plots:
        root = ElementTree.fromstring(plot)
        identifiers += [each.attrib["id"] for each in root.iter() if "id" in each.attrib]
    assert len(identifiers) == len(set(identifiers))
    # The page loads nothing: its only addresses are names of XML namespaces, and links beside the page.
    assert not re.search(
        r'(src|@import|href="https?:)', re.sub(r'xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "")
    )
    # The page contains the line of the trace, not a link to a file of gigabytes.
    line = r'<details class="line"><summary>node-0/trace, byte \d+</summary><pre>(.*?)</pre>'
    lines = re.findall(line, text, re.DOTALL)
    assert len(lines) == 6
    assert all(json.loads(unescape(line))["event"] in ("round", "epoch") for line in lines)
    # Sentences take several lines.
    assert "<td class=words data-v='Nothing, if it comes to stay. Start the members" in text
    assert "none" not in re.findall(r"<h3>.*?None\.", text)


def test_the_headline_is_the_costliest_finding_of_why(warehouse: Warehouse) -> None:
    judged = judgement(warehouse)
    assert judged.unread == ()
    troubles = [each for of in judged.by_group.values() for each in of.troubles]
    assert judged.costliest is not None
    assert judged.costliest[1] is max(troubles, key=lambda each: each.cost)
    assert clause_of(judged.costliest[1]) in judged.headline()


def test_each_worst_round_has_its_own_advice(warehouse: Warehouse) -> None:
    judged = judgement(warehouse)
    rounds = warehouse.read("rounds").where("total_ms > 9000 and kind = 'classic'").collect()
    advice = {
        (each.group_id, each.generation): judged.advice_of(each) for each in rounds if each.group_id in judged.by_group
    }
    for group, generation in advice:
        explanation = judged.by_group[group]
        (rebalance,) = (each for each in explanation.rebalances if each.generation == generation)
        remedies = explanation.remedies_of(rebalance)
        assert (remedies[0].why if remedies else explanation.advice_of(rebalance)) in advice[group, generation]
    assert len(set(advice.values())) == len(advice) > 1


def test_advice_is_the_setting_with_the_least_pauses() -> None:
    played = {"played_pause_s": 10.0, "static_pause_s": 9.0, "cooperative_pause_s": 1.0, "both_pause_s": 1.0}
    assert advice(played) == "KIP-848 or a cooperative assignor"
    assert advice({**played, "both_pause_s": 0.1}) == "both"
    assert advice(dict.fromkeys(played, 10.0)) == "none"


@pytest.mark.parametrize("most", [1500, 61_000, 150_000, 4_000_000, 90_000_000])
@pytest.mark.parametrize("width", [plots.WIDE, plots.NARROW])
def test_ticks_of_a_time_axis_differ(most: float, width: float) -> None:
    began = datetime(2026, 1, 1)
    text = plots.storm_line(began, [(began + timedelta(milliseconds=most), 1.0, "NEW_MEMBER")], width)
    marks = [unescape(each) for each in re.findall(r"<text[^>]*>([^<]+)</text>", text)]
    # The labels of the other axis are below a millisecond.
    times = [each for each in marks if re.fullmatch(r"[\d.]+ (ms|s|min|h)( [\d.]+ (s|min))?", each) and each != "1 ms"]
    assert len(times) >= 2
    assert len(set(times)) == len(times)


def test_long_names_lose_their_middle_and_one_bin_has_ticks() -> None:
    assert plots.clipped("group-00002-client-3 9d0e", plots.NARROW).endswith("client-3 9d0e"[-10:])
    assert len(plots.clipped("x" * 100, plots.NARROW)) == 18
    assert plots.clipped("orders", plots.NARROW) == "orders"
    text = plots.histogram({34: 4}, 10)
    assert {"2.5 s", "3.2 s"} <= {unescape(each) for each in re.findall(r"<text[^>]*>([^<]+)</text>", text)}


def test_answers_are_written_as_csv(warehouse: Warehouse) -> None:
    for name in ("storms", "blame", "causes", "cost", "migration", "replays", "heartbeat_gaps", "regressions"):
        (written,) = Path(warehouse.folder(f"{name}.csv").removeprefix("file:")).glob("*.csv")
        assert len(written.read_text().splitlines()) >= 2, name


def test_csv_answers_are_read_by_other_programs(warehouse: Warehouse, tmp_path: Path) -> None:
    texts = ['say "hello"', "a,b", "back\\slash", "two\nlines"]
    rows = warehouse.spark.createDataFrame([(text,) for text in texts], "text string").coalesce(1)
    other = Warehouse(warehouse.spark, str(tmp_path))
    with other.change("run"):
        other.write_result("texts", rows)
    (written,) = Path(other.folder("texts.csv").removeprefix("file:")).glob("*.csv")
    with written.open(newline="") as file:
        assert [row["text"] for row in csv.DictReader(file)] == texts


def test_wrong_inputs_are_reported_before_spark_starts(tmp_path: Path) -> None:
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
    assert "was not written by" in done.output
    trace = tmp_path / "trace.jsonl"
    trace.write_text("{}\n")
    done = run.invoke(cli, ["run", str(trace), "--out", str(trace / "out")])
    assert done.exit_code == 2
    assert "cannot be written" in done.output
    done = run.invoke(cli, ["tables", str(tmp_path), "nonsense"])
    assert "no table nonsense" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("width", [40, 200])
def test_a_narrow_terminal_shows_whole_rows(width: int) -> None:
    console = Console(width=width, file=io.StringIO())
    _show(console, ["group", "generation", "cause"], [["billing-of-the-north", 7, "NEW_MEMBER"], ["b", 8, None]])
    assert isinstance(console.file, io.StringIO)
    output = console.file.getvalue()
    for text in ("billing-of-the-north", "generation", "NEW_MEMBER", "7", "8"):
        assert text in output
    assert (output.count("generation") == 1) == (width == 200)


@pytest.mark.parametrize("width", [60, 200])
def test_names_in_a_table_are_neither_obeyed_nor_read_as_markup(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    _show(
        console,
        ["group[red]", "a\u202e"],
        [["a[/b]", "\x1b[31m\x1b]52;c;aGk=\x07\r\nFAKE LINE\x9b2J\u2066[red]x[/red]"]],
    )
    assert isinstance(console.file, io.StringIO)
    output = console.file.getvalue()
    assert not {each for each in output if not each.isprintable()} - {"\n"}, output
    for text in ("group[red]", "a\\u202e", "a[/b]", "\\x1b[31m", "[red]x[/red]"):
        assert text in output
    assert not any(line.lstrip().startswith("FAKE LINE") for line in output.split("\n")), output


def test_commands_tables_and_generate_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run = CliRunner()
    listed = run.invoke(cli, ["tables"])
    assert listed.exit_code == 0
    assert "violations" in listed.output
    generation = run.invoke(cli, ["generate", "--out", str(tmp_path / "d"), "--groups", "1", "--seed", "4"])
    volume = json.loads(generation.output)
    assert volume["events"] > 1000
    assert volume["faults"] == len(json.loads((tmp_path / "d" / "faults.json").read_text()))
    again = run.invoke(cli, ["generate", "--out", str(tmp_path / "d"), "--groups", "1"])
    assert again.exit_code == 1
    assert "is not empty" in again.output
