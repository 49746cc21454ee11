"""Details of the page in a real browser: frames, assignments, the rules of an arrow, lessons."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import page as smoothness
from kafka_shim.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_shim.apis.join_group import JoinGroupRequest
from kafka_shim.apis.streams_group_topology_description_update import (
    GlobalStore,
    Node,
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    Subtopology,
    TopologyDescription,
)
from kafka_shim.apis.wire.headers import decode_request_header
from kafka_shim.commands.replay import replay
from kafka_shim.conformance.sources import cited_rules
from kafka_shim.groups.classic.states import MEANING
from kafka_shim.learn.assignments import side_by_side
from kafka_shim.learn.lesson import ours
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.history import History
from kafka_shim.why.arrows import CLASSIC, MACHINES
from kafka_shim.why.page import standalone
from tests.browser import DRAWN, Browser
from tests.groups.test_arrows import consumers, sharers, threads
from tests.lab.test_replay import record
from tests.server.wire import Client
from tests.why import pictures

pytestmark = pytest.mark.second_stage("a browser")

TRACE = Path(__file__).parents[1] / "pipeline" / "recordings" / "kafka-4.2" / "trace" / "trace.jsonl.gz"
CONSUMER_GROUP = Path(__file__).parent / "recordings" / "consumer-group.jsonl.gz"
SIZES = [(1400, False), (420, True)]


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    """A coordinator with a group of two members, after one of them left."""
    config = {"group.initial.rebalance.delay.ms": "0"}
    with CoordinatorServer(topics={"orders": 4}, config=config, control=True) as server:
        yield server


def text_of(browser: Browser, selector: str) -> str:
    text: str = browser.evaluate(f"document.querySelector({selector!r}).textContent")
    return text


def rows_of(browser: Browser, selector: str) -> list[list[str]]:
    rows: list[list[str]] = browser.evaluate(
        f"[...document.querySelectorAll({selector!r})].map((tr) => [...tr.cells].map((td) => td.textContent))"
    )
    return rows


def press(browser: Browser, key: str) -> None:
    browser.evaluate(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: {key!r}}})); {DRAWN}")


_numbers = count(1)


def watched_group(browser: Browser, server: CoordinatorServer, width: int, dark: bool) -> str:
    """Form a group while the page is open, and return its name."""
    browser.open(server.control_url + "/", width=width, dark=dark)
    browser.wait("document.querySelector('#source').textContent.startsWith('live')")
    group = f"billing-{next(_numbers)}"
    server.puppet(group, ["orders"], client_id="first")
    server.group(group).stable(members=1)
    server.puppet(group, ["orders"], client_id="second")
    server.group(group).stable(members=2)
    browser.wait(f"page.model.groups.get('{group}')?.rebalances[1]?.division")
    browser.evaluate(f"select('{group}'); {DRAWN}")
    return group


def test_the_page_shows_a_request_as_bytes_fields_and_its_table_row(
    browser: Browser, server: CoordinatorServer
) -> None:
    for width, dark in SIZES:
        group = watched_group(browser, server, width, dark)
        browser.evaluate("document.querySelector('#requests').open = true")
        browser.wait("document.querySelectorAll('#request-list tbody tr').length > 3")
        browser.evaluate(
            f"openRequest(page.model.groups.get('{group}').marks.find((each) => each.api === 'JoinGroup'))"
        )
        browser.wait("document.querySelectorAll('#frame:not([hidden]) .frame').length === 2")
        row = browser.evaluate(
            "[...document.querySelectorAll('#frame .frame')].map((box) =>"
            " [...box.querySelectorAll('.hex [data-piece]')].map((run) => run.textContent).join(' '))"
        )
        data = bytes.fromhex(row[0])
        assert len(data) == int.from_bytes(data[:4]) + 4
        _, version, _, client_id, body = decode_request_header(data[4:])
        assert client_id == "first"
        request, _ = JoinGroupRequest.decoder(version)(data[4:], body)
        assert (request.group_id, request.protocols[0].name) == (group, "range")
        fields = browser.evaluate(
            "[...document.querySelectorAll('#frame .fields')].map((list) =>"
            " [...list.querySelectorAll('button')].map((field) => field.textContent))"
        )
        assert f"group_id '{group}'" in fields[0]
        assert any(field.startswith("error_code 79 MEMBER_ID_REQUIRED") for field in fields[1])
        here = browser.evaluate("[...document.querySelector('#frame tr.here').cells].map((cell) => cell.textContent)")
        assert here == ["Empty", "hand-out-id"]
        assert "READ of group" in text_of(browser, "#frame .row")
        # A field lights its bytes, and arrows lead to the next field.
        browser.evaluate("document.querySelector('#frame .fields button[data-piece=\"1\"]').focus()")
        lit = "[...document.querySelectorAll('#frame .hex .on')].map((run) => run.textContent).join('')"
        assert browser.evaluate(lit) == "00 0b"
        browser.evaluate(
            "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true}))"
        )
        assert browser.evaluate("document.activeElement.textContent") == f"api_version {version}"
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []
        before = text_of(browser, "#frame h3")
        press(browser, "]")
        browser.wait(f"document.querySelector('#frame h3').textContent !== {before!r}")
        press(browser, "[")
        browser.wait(f"document.querySelector('#frame h3').textContent === {before!r}")
        press(browser, "q")
        assert browser.evaluate("document.querySelector('#frame').hidden")
        assert browser.errors == []


def test_a_replayed_run_has_its_bytes_and_a_trace_the_rows_that_are_possible(browser: Browser, tmp_path: Path) -> None:
    record(4, tmp_path)
    done = CliRunner().invoke(replay, [str(tmp_path / "journal.jsonl"), "--html", str(tmp_path / "run.html")])
    assert done.exit_code == 0, done.output
    browser.open((tmp_path / "run.html").as_uri(), width=1400)
    browser.wait("page.model.groups.size > 3")
    marks = browser.evaluate(
        "(async () => { const marks = []; for (const group of page.model.groups.values()) { page.group = group.name;"
        " for (const mark of group.marks) { const event = JSON.parse(mark.line);"
        " const frames = await page.source.frames(event);"
        " marks.push({ api: event.api, bytes: frames !== null, quiet: mark.quiet, table: frames?.row?.table ?? null,"
        "   guarded: frames?.row ? frames.row.error !== event.error : false,"
        "   here: frames?.row?.cells.find((cell) => cell.here)?.does ?? null,"
        "   said: rowsOf(event).map((each) => each.textContent).join(' ') }); } } return marks; })()"
    )
    assert all(each["bytes"] for each in marks if not each["quiet"])
    apis = {each["api"] for each in marks if each["bytes"]}
    assert apis >= {"JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"}
    classic = [each for each in marks if each["table"] and "classic" in each["table"] and not each["guarded"]]
    assert len(classic) > 20
    # The rows that the trace alone allows include the row that really answered.
    missed = [(each["api"], each["here"], each["said"]) for each in classic if each["here"] not in each["said"]]
    assert missed == []
    assert sum("This row of the table answered it" in each["said"] for each in classic) > len(classic) / 2
    browser.evaluate(
        "(() => { for (const group of page.model.groups.values()) {"
        " const mark = group.marks.find((each) => each.api === 'SyncGroup');"
        " if (mark) { select(group.name); openRequest(mark); return; } } })()"
    )
    browser.wait("document.querySelectorAll('#frame:not([hidden]) .hex').length === 2")
    assert browser.violations() == []
    assert browser.errors == []


def test_a_moment_of_the_timeline_applies_to_all_parts(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "trace.html"
    path.write_bytes(standalone(gzip.decompress(TRACE.read_bytes()), "recorded"))
    browser.open(path.as_uri(), width=1400)
    browser.wait("page.model.groups.size === 3")
    browser.evaluate(f"select('billing'); {DRAWN}")
    browser.evaluate("document.addEventListener('moment', (event) => { window.chosen = event.detail; })")
    at = browser.evaluate("page.from + (page.to - page.from) / 2")
    browser.evaluate(
        "(() => { const canvas = document.querySelector('#timeline'), box = canvas.getBoundingClientRect();"
        " const plan = layout(page.model.groups.get('billing'), page.from, page.to, canvas.clientWidth, 0);"
        " const where = { clientX: box.left + plan.x(" + repr(at) + "), clientY: box.top + 5, pointerId: 1 };"
        " canvas.setPointerCapture = () => {};"
        " for (const name of ['pointerdown', 'pointerup']) canvas.dispatchEvent(new PointerEvent(name, where)); })()"
    )
    chosen = browser.evaluate("window.chosen")
    assert chosen["group"] == "billing"
    assert chosen["at"] == pytest.approx(at, rel=1e-9)
    assert browser.evaluate("page.moment") == chosen["at"]
    # A trace has the fields of requests and not their bytes; the page says so.
    press(browser, "]")
    browser.wait("!document.querySelector('#frame').hidden")
    assert "not its bytes" in text_of(browser, "#frame")
    assert "group_id billing" in browser.evaluate(
        "[...document.querySelectorAll('#frame .fields li')].map((line) => line.textContent)"
    )
    assert browser.errors == []


def test_the_page_shows_the_lag_of_groups(browser: Browser, server: CoordinatorServer, tmp_path: Path) -> None:
    puppet = server.puppet("behind", ["orders"], client_id="one")
    server.group("behind").stable(members=1)
    server.produce("orders", "a", "b", "c", partition=2)
    puppet.commit({("orders", 2): 1, ("orders", 3): 0})
    server.group("behind").committed("orders", 3, at_least=0)
    browser.open(f"{server.control_url}/", width=1400)
    browser.wait("page.model.groups.has('behind')")
    browser.evaluate(f"select('behind'); askLags().then(() => {DRAWN})")
    (row,) = [row for row in rows_of(browser, "#groups tbody tr") if row[0] == "behind"]
    assert row == ["behind", "", "Stable", "classic", "range", "1", "2", "1", "NEW_MEMBER"]
    assert rows_of(browser, "#owners tbody tr") == [["one", "127.0.0.1", "orders 0-3", "2", "nothing"]]
    # For a trace, the page computes the lag from commits and ends of partitions.
    history = [json.loads(line) for line in gzip.decompress(TRACE.read_bytes()).splitlines()]
    committed = {
        (each["topic"], each["partition"]): each["offset"]
        for event in history
        if event["event"] == "commit" and event["group"] == "billing"
        for each in event["offsets"]
    }
    ends = {
        (each["topic"], each["partition"]): each["offset"]
        for event in history
        if event["event"] == "end_offsets"
        for each in event["offsets"]
    }
    expected = sum(max(0, ends[key] - offset) for key, offset in committed.items() if key in ends)
    path = tmp_path / "trace.html"
    path.write_bytes(standalone(gzip.decompress(TRACE.read_bytes()), "recorded"))
    browser.open(path.as_uri(), width=1400)
    browser.wait("page.model.groups.size === 3")
    assert browser.evaluate("lagOf(page.model.groups.get('billing'))") == str(expected)
    assert browser.errors == []


@pytest.mark.parametrize("recording", [TRACE, CONSUMER_GROUP], ids=["classic", "consumer"])
def test_the_matrix_shows_needed_and_needless_moves(browser: Browser, tmp_path: Path, recording: Path) -> None:
    trace = gzip.decompress(recording.read_bytes())
    path = tmp_path / "trace.html"
    path.write_bytes(standalone(trace, "recorded"))
    history = History()
    for line in trace.splitlines():
        history.add(json.loads(line))
    browser.open(path.as_uri(), width=1400)
    browser.wait("page.model.groups.size > 0")
    compared = 0
    for name, group in history.groups.items():
        browser.evaluate(f"select({json.dumps(name)}); {DRAWN}")
        matrices = browser.evaluate(
            f"page.model.groups.get({json.dumps(name)}).rebalances.map((each) => each.division &&"
            " moves(each.division.rows, each.division.members))"
        )
        for matrix, each in zip(matrices, group.rebalances, strict=True):
            if matrix is not None and each.moved is not None:
                assert (matrix["moved"], matrix["needed"], matrix["between"]) == (
                    each.moved.moved,
                    each.moved.needed,
                    len(each.moved.between),
                )
                compared += 1
        numbers = [number for number, each in enumerate(group.rebalances) if each.moved and each.moved.moved]
        for number in numbers:
            browser.evaluate(f"open({number}); {DRAWN}")
            gets = browser.evaluate("document.querySelectorAll('#division .gets').length")
            gives = browser.evaluate("document.querySelectorAll('#division .gives').length")
            assert gives == group.rebalances[number].moved.moved  # type: ignore[union-attr]
            assert gets >= gives
            assert text_of(browser, "#division p").startswith(f"{gives} of ")
    assert compared >= 5
    # Without a server no assignor can answer.
    assert browser.evaluate("document.querySelector('#assignors').hidden")
    assert browser.errors == []


def test_every_assignor_divides_the_same_group(browser: Browser, server: CoordinatorServer) -> None:
    expected = side_by_side({"orders": 4}, ["first"], ["first", "second"])
    for width, dark in SIZES:
        watched_group(browser, server, width, dark)
        browser.evaluate(f"open(1); document.querySelector('#assignors').open = true; {DRAWN}")
        browser.wait("document.querySelectorAll('#assignors-table tbody tr').length === 5")
        spread = {True: lambda each: str(each.most), False: lambda each: f"{each.fewest} to {each.most}"}
        assert rows_of(browser, "#assignors-table tbody tr") == [
            [
                each.assignor,
                each.style,
                spread[each.fewest == each.most](each),
                str(each.moved),
                str(each.needed),
                str(each.stopped),
            ]
            for each in expected
        ]
        assert browser.evaluate("document.querySelectorAll('#assignors-matrices .matrix').length") == 5
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []
        browser.evaluate(
            "(() => { const form = document.querySelector('#assignors form'); form.elements.topics.value = 'orders:6';"
            " form.elements.after.value = 'first, first'; form.requestSubmit(); })()"
        )
        browser.wait("document.querySelector('#assignors-refused').textContent !== ''")
        # The answer about the rebalance comes again, and leaves the form alone.
        browser.evaluate(
            "(() => { const group = page.model.groups.get(page.group); fillDrawer(group, group.rebalances[1]); })()"
        )
        assert browser.evaluate("document.querySelector('#assignors form').elements.topics.value") == "orders:6"
        assert [error for error in browser.errors if "400" not in error] == []


def test_each_arrow_leads_to_its_rules(browser: Browser, server: CoordinatorServer) -> None:
    for width, dark in SIZES:
        watched_group(browser, server, width, dark)
        browser.evaluate(f"document.querySelector('#machine').open = true; {DRAWN}")
        browser.wait("document.querySelectorAll('#states a').length === 10")
        for (before, after), arrow in CLASSIC.items():
            link = f"document.querySelector('#states a[data-arrow=\"{before.value}>{after.value}\"]')"
            browser.evaluate(f"{link}.dispatchEvent(new MouseEvent('click', {{bubbles: true, cancelable: true}}))")
            text = text_of(browser, "#rule")
            assert all(MEANING[rule] in text for rule in arrow.rules)
            for cite in arrow.cites:
                (rule,) = cited_rules(cite)
                assert rule.text in text
        links = browser.evaluate("[...document.querySelectorAll('#rule a')].map((link) => link.getAttribute('href'))")
        assert links == ["/semantics/2#2.1"]
        assert browser.evaluate("document.activeElement.id") == "rule"
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []
    for width, dark in SIZES:
        browser.open(f"{server.control_url}/semantics/2?{width}#2.1", width=width, dark=dark)
        assert browser.evaluate("document.getElementById('2.1') !== null")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    # Only its beginning: axe needs seconds for so long a document.
    browser.evaluate(
        "(() => { const main = document.querySelector('main');"
        " main.replaceChildren(...[...main.children].slice(0, 24)); })()"
    )
    assert browser.evaluate("document.querySelectorAll('main > .table').length") > 0
    assert browser.violations() == []
    assert browser.errors == []


HISTORIES = {"consumer": consumers, "share": sharers, "streams": threads}


def test_each_kind_of_group_has_its_states_with_the_present_one_lit(
    browser: Browser, server: CoordinatorServer
) -> None:
    browser.open(f"{server.control_url}/", width=1400)
    browser.wait("page.live")
    for kind, history in HISTORIES.items():
        events = history().events
        states = [each for each in events if each["event"] == "state"]
        browser.evaluate(
            f"(() => {{ window.events = {json.dumps(events)}; disconnect(); show(new Model(), '{kind}');"
            " $('#machine').open = true; })()"
        )
        lit: list[str] = browser.evaluate(
            "(() => { const lit = []; for (const event of events) {"
            " page.model.add({ ...event, seq: 1, mono: 1, wall: 1 });"
            " if (event.event !== 'state') continue;"
            " page.group = event.group; renderStates(); lit.push($('#states .lit').dataset.state); } return lit; })()"
        )
        assert lit == [each["to"] for each in states]
        names = {state.value for arrow in MACHINES[kind] for state in arrow}
        assert names == set(browser.evaluate("[...document.querySelectorAll('#states g')].map((g) => g.dataset.state)"))
        links = browser.evaluate("[...document.querySelectorAll('#states a')].map((link) => link.dataset.arrow)")
        # One arrow leads to Empty from all states with members.
        arrows = {f"{a.value}>{b.value}": arrow for (a, b), arrow in MACHINES[kind].items()}
        assert {each for each in arrows if not each.endswith(">Empty")} == {
            each for each in links if not each.endswith(">Empty")
        }
        assert sum(each.endswith(">Empty") for each in links) == 1
        for name in links:
            browser.evaluate(
                f"document.querySelector('#states a[data-arrow=\"{name}\"]')"
                ".dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"
            )
            for cite in arrows[name].cites:
                (rule,) = cited_rules(cite)
                assert rule.text in text_of(browser, "#rule")
        links = browser.evaluate("[...document.querySelectorAll('#rule a')].map((link) => link.getAttribute('href'))")
        assert links
        assert all(re.match(r"/semantics/(\d)#\1", link) for link in links)
    assert browser.violations() == []
    assert browser.errors == []


def test_all_arrows_cite_existing_rules() -> None:
    for machine in MACHINES.values():
        for arrow in machine.values():
            assert all(len(cited_rules(cite)) == 1 for cite in arrow.cites)


def test_a_lesson_asks_and_then_shows_the_answer(browser: Browser, server: CoordinatorServer) -> None:
    fencing = next(each for each in ours() if each.name == "fencing")
    for width, dark in SIZES:
        browser.open(f"{server.control_url}/", width=width, dark=dark)
        browser.wait("document.querySelectorAll('#lesson-list option').length >= 15")
        browser.evaluate("localStorage.removeItem('lessons')")
        browser.evaluate(
            "document.querySelector('#lesson-list').value = 'fencing';"
            " document.querySelector('#lessons form').requestSubmit()"
        )
        browser.wait("document.querySelector('#lesson h2')?.textContent === " + json.dumps(fencing.title))

        def click(name: str) -> None:
            browser.evaluate(
                "[...document.querySelectorAll('#lesson button')]"
                f".find((button) => button.textContent === {name!r}).click(); {DRAWN}"
            )

        # Not the groups of the server, nor that it has none.
        assert browser.evaluate(f"{DRAWN}.then(() => $('#groups').hidden && !$('#groups').checkVisibility())")
        click("Let it happen")
        assert browser.evaluate(f"{DRAWN}.then(() => $('#groups').checkVisibility())")
        lanes = browser.evaluate("[...page.model.groups.get('billing').members.values()].map((member) => member.how)")
        assert lanes == ["expired", ""]
        click("Next step")
        assert fencing.steps[1].ask in text_of(browser, "#lesson legend")
        assert browser.violations() == []
        # The page shows no event before the reader asks for it.
        assert "OffsetCommit" not in browser.evaluate(
            "page.model.groups.get('billing').marks.map((mark) => mark.api).join()"
        )
        browser.evaluate("document.querySelectorAll('#lesson input')[1].click()")
        click("See what happens")
        assert fencing.steps[1].options[1].reply in text_of(browser, "#lesson .verdict")
        assert text_of(browser, "#lesson .right").startswith(" UNKNOWN_MEMBER_ID (25)")
        browser.wait("!document.querySelector('#frame').hidden")
        assert "OffsetCommit" in text_of(browser, "#frame h3")
        assert any(
            field.startswith("error_code 25 UNKNOWN_MEMBER_ID")
            for field in browser.evaluate(
                "[...document.querySelectorAll('#frame .fields button')].map((field) => field.textContent)"
            )
        )
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []
        click("Back")
        click("Back")
        assert text_of(browser, "#lesson h3") == fencing.steps[0].title
        click("Leave the lesson")
        browser.wait("document.querySelector('#source').textContent.startsWith('live')")
        # The page knows how far the reader was, and goes on there.
        assert text_of(browser, "#lesson-list :checked").endswith(" – 2 of 3 steps")
        # Opening a trace ends a lesson too.
        browser.evaluate("beginLesson('fencing')")
        browser.wait("lesson.data !== null && lesson.step === 2")
        browser.evaluate("openFiles([new File(['{\"event\":\"trace\"}'], 'trace.jsonl')])")
        browser.wait("document.querySelector('#lesson').hidden && page.zero === null")
        assert browser.errors == []


def test_every_lesson_can_be_played_on_the_page(browser: Browser, server: CoordinatorServer) -> None:
    browser.open(f"{server.control_url}/", width=1400)
    browser.wait("document.querySelectorAll('#lesson-list option').length >= 15")
    for lesson in ours():
        if lesson.client:
            continue  # in a terminal alone
        browser.evaluate(f"beginLesson({lesson.name!r})")
        browser.wait(f"lesson.data?.lesson === {lesson.name!r}")
        played: dict[str, Any] = browser.evaluate("lesson.data")
        assert [step["title"] for step in played["steps"]] == [step.title for step in lesson.steps]
        for number, step in enumerate(lesson.steps):
            browser.evaluate(f"goTo({number}, true)")
            assert sum(option["right"] for option in played["steps"][number]["options"]) == bool(step.ask)
            views = [what for what in step.show if what.startswith("bytes")]
            assert len(played["steps"][number]["bytes"]) == len(views)
            if views:
                browser.wait("!document.querySelector('#frame').hidden")
    assert browser.errors == []


def test_the_measurement_of_smoothness_has_figures(browser: Browser, tmp_path: Path) -> None:
    trace = smoothness.trace(20, 3000)
    figures = smoothness.figures(browser, tmp_path / "many.html", trace, 0.3)
    assert (trace.count(b"\n"), figures["members"]) == (3000, 20 + smoothness.LATER)
    assert figures["opened_ms"] > 0
    for way in smoothness.WAYS:
        assert figures[way]["frames"] > 1
        assert 0 <= figures[way]["script_p50"] <= figures[way]["script_p95"] <= figures[way]["script_max"]


def test_every_picture_of_the_documentation_can_be_taken_and_is_small(browser: Browser, tmp_path: Path) -> None:
    pictures.take(browser, tmp_path, "dark")
    paths = [path for path, _, _ in pictures.pictures()]
    assert sorted(paths) == sorted(pictures.FOLDER.iterdir())
    assert all(path.stat().st_size < pictures.LARGEST for path in (*paths, *tmp_path.iterdir()))
    text = "".join(page.read_text() for page in pictures.FOLDER.parent.glob("*.md"))
    assert all(f"pictures/{path.name}" in text for path in paths if "light" in path.name)


def test_the_nodes_of_a_streams_application_are_a_table_until_the_group_is_deleted(browser: Browser) -> None:
    plugin = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
    config = {"group.streams.topology.description.plugin.class": plugin}
    source, sink = Node("read", 1, ["lines"], None, [], ["count"]), Node("write", 3, [], "counts", [], [])
    description = TopologyDescription(
        [Subtopology("0", [source, Node("count", 2, [], None, ["words"], ["write"]), sink])],
        [GlobalStore(Node("all", 1, ["settings"], None, [], ["keep"]), Node("keep", 2, [], None, ["kept"], []))],
    )
    with CoordinatorServer(topics={"lines": 2, "counts": 2}, config=config, control=True) as server:
        member = server.streams_puppet("words", ["lines"])
        server.group("words").stable(members=1)
        browser.open(server.control_url + "/", width=1400)
        browser.wait("page.model.groups.get('words')?.present.length === 1")
        assert browser.evaluate(f"select('words'); {DRAWN}.then(() => document.querySelector('#topology').hidden)")
        with Client(server.bootstrap) as client:
            update = StreamsGroupTopologyDescriptionUpdateRequest("words", member.member_id, 0, description)
            assert client.ask(update, 0, StreamsGroupTopologyDescriptionUpdateResponse).error_code == 0
        browser.wait("!document.querySelector('#topology').hidden")
        assert browser.evaluate(
            "[...document.querySelectorAll('#topology tbody tr')]"
            ".map((tr) => [...tr.cells].map((td) => td.textContent))"
        ) == [
            ["0", "read", "source", "lines", "", "count"],
            ["0", "count", "processor", "", "words", "write"],
            ["0", "write", "sink", "counts", "", ""],
            ["global store", "all", "source", "settings", "", "keep"],
            ["global store", "keep", "processor", "", "kept", ""],
        ]
        member.leave()
        server.group("words").empty()
        with Client(server.bootstrap) as client:
            assert client.ask(DeleteGroupsRequest(["words"]), 2, DeleteGroupsResponse).results[0].error_code == 0
        browser.wait("document.querySelector('#topology').hidden")
        assert browser.errors == []
