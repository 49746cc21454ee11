"""Files on the page in a real browser: dropped traces, and pages in one file."""

import base64
import gzip
import json
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.testing import CoordinatorServer
from tests.browser import DRAWN, Browser
from tests.lab.test_replay import record
from tests.sources.broker_lines import life
from tests.why.simulated import recorded
from tests.why.test_remedies import a_member_is_slow_to_join

pytestmark = pytest.mark.second_stage("a browser")

TRACE = Path(__file__).parents[1] / "pipeline" / "recordings" / "kafka-4.2" / "trace" / "trace.jsonl.gz"


def drop(browser: Browser, *files: tuple[str, bytes]) -> None:
    """Drop files on the page."""
    contents = json.dumps([(name, base64.b64encode(data).decode()) for name, data in files])
    browser.evaluate(
        f"(() => {{ const data = new DataTransfer(); for (const [name, text] of {contents}) data.items.add("
        "new File([Uint8Array.from(atob(text), (each) => each.charCodeAt(0))], name));"
        " document.dispatchEvent(new DragEvent('drop', { dataTransfer: data })); })()"
    )


def test_the_page_refuses_a_file_that_is_not_a_trace_and_continues(browser: Browser, tmp_path: Path) -> None:
    record(4, tmp_path)
    journal = (tmp_path / "journal.jsonl").read_bytes()
    packed, html = tmp_path / "journal.jsonl.gz", tmp_path / "run.html"
    packed.write_bytes(gzip.compress(journal))
    refused = "document.querySelector('#refused').textContent"
    config = {"group.initial.rebalance.delay.ms": "0"}
    with CoordinatorServer(topics={"orders": 4}, config=config, control=True) as server:
        browser.open(server.control_url + "/", width=420)
        server.puppet("billing", ["orders"], client_id="first")
        browser.wait("page.model.groups.get('billing')?.present.length === 1")
        sentences = {}
        for name, data in {
            "it's mine.jsonl": journal,
            "journal.jsonl.gz": packed.read_bytes(),
            "trace.jsonl.zst": zstandard.compress(b'{"event":"trace"}\n'),
            "groups.json": b'{"groups": []}\n',
            "empty": b"",
            "notes.md": b"# Notes\n",
        }.items():
            drop(browser, (name, data))
            browser.wait(f"{refused}.startsWith({json.dumps(name)})")
            sentences[name] = browser.evaluate(refused)
        assert sentences == {
            "it's mine.jsonl": "it's mine.jsonl is a journal, which is replayed outside a browser: kafka-shim replay"
            " 'it'\\''s mine.jsonl' --html run.html writes this page with it.",
            "journal.jsonl.gz": "journal.jsonl.gz is a journal, which is replayed outside a browser: kafka-shim replay"
            " journal.jsonl.gz --html run.html writes this page with it.",
            "trace.jsonl.zst": "trace.jsonl.zst is packed by zstd, which browsers do not unpack: kafka-shim trace"
            " export trace.jsonl.zst --html trace.html writes this page with it.",
            "groups.json": "groups.json is no trace: its first line is no event.",
            "empty": "empty is no trace: its first line is no event.",
            "notes.md": "notes.md is no trace: a line of it is no JSON.",
        }
        assert browser.evaluate("document.documentElement.scrollWidth") <= 420
        assert browser.violations() == []
        # The page is as live as before.
        server.puppet("billing", ["orders"], client_id="second")
        browser.wait("page.model.groups.get('billing').present.length === 2")
        # An unfinished trace shows its complete lines.
        drop(browser, ("trace.jsonl", gzip.decompress(TRACE.read_bytes())[:-20]))
        browser.wait("page.model.groups.size === 3")
        assert browser.evaluate(refused) == ""
        browser.evaluate(f"select('billing'); open(0); {DRAWN}")
        assert "kafka-shim why billing trace.jsonl" in browser.evaluate("document.querySelector('#drawer').textContent")
        assert browser.errors == []
    done = CliRunner().invoke(cli, ["replay", str(packed), "--html", str(html)])
    assert done.exit_code == 0, done.output
    browser.open(html.as_uri())
    browser.wait("page.model.groups.size > 3")
    browser.wait("page.why?.group === page.group")
    assert browser.errors == []


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (420, True)])
def test_a_page_of_one_file_has_the_text_of_why_and_links_to_rebalances(
    browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    with recorded() as simulated:
        a_member_is_slow_to_join(simulated.simulation)
        trace = simulated.write(tmp_path / "trace.jsonl")
    html = tmp_path / "trace.html"
    done = CliRunner().invoke(cli, ["trace", "export", str(trace), "--html", str(html)])
    assert done.exit_code == 0, done.output
    why = json.loads(CliRunner().invoke(cli, ["why", "billing", str(trace), "--json"]).stdout)
    assert any(remedy["after"] for remedy in why["remedies"])
    costliest = max(why["rebalances"], key=lambda each: each["partition_seconds"])
    browser.open(f"{html.as_uri()}#billing@{costliest['first_seq']}", width=width, dark=dark)
    browser.wait("document.querySelector('#drawer').hidden === false")
    browser.wait("document.querySelector('#verdict').textContent !== ''")
    assert browser.evaluate("document.querySelector('#verdict').textContent") == why["verdict"]
    text = browser.evaluate("document.querySelector('#drawer').textContent")
    assert costliest["reason"] in text
    assert f"{costliest['partition_seconds']:.1f} partition-seconds" in text
    remedies = browser.evaluate("[...document.querySelectorAll('#drawer li strong')].map((each) => each.textContent)")
    assert remedies == [
        f"{each['who']}, {each['side']}: {each['setting']}, {each['seen']} → {each['proposed']}"
        for each in why["remedies"]
    ]
    assert "replayed: " in text
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.violations() == []
    assert browser.errors == []


@pytest.mark.parametrize(("dark", "width"), [(False, 1100), (True, 420)])
def test_the_page_says_what_is_concluded_from_a_log_and_from_which_lines(
    browser: Browser, tmp_path: Path, dark: bool, width: int
) -> None:
    log, trace, html = tmp_path / "server.log", tmp_path / "trace.jsonl", tmp_path / "run.html"
    log.write_bytes(life("4.4"))
    for command in (
        ["trace", "from-log", str(log), "--out", str(trace)],
        ["trace", "export", str(trace), "--html", str(html), "--no-replay"],
    ):
        assert CliRunner().invoke(cli, command).exit_code == 0
    browser.open(html.as_uri(), dark=dark, width=width)
    browser.wait("page.model.groups.size === 1")
    browser.evaluate("(open(1), 1)")
    drawer = browser.evaluate("document.querySelector('#drawer').innerText")
    lines = browser.evaluate("page.model.groups.get('billing').rebalances[1].lines")
    assert f"from lines of a log: {lines[0]} to {lines[1]}" in drawer
    assert lines[0].startswith("server.log:")
    assert "a log does not show partition-seconds" in drawer
    chips = "[...document.querySelectorAll('#rebalances .chip')]"
    assert browser.evaluate(f"{chips}.length && {chips}.every((each) => each.title && each.matches('.inferred'))")
    assert "dotted edges" in browser.evaluate("document.querySelector('#legend').textContent")
    assert browser.evaluate(
        "(() => { const group = page.model.groups.get('billing');"
        " return layout(group, group.first, group.last, 900, group.last).chips.every((each) => each.inferred); })()"
    )
    assert browser.errors == []
    assert browser.violations() == []
