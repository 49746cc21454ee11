"""The page in a real browser draws the events of the trace."""

import gzip
import json
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from kafka_shim.commands.logs import Logs
from kafka_shim.groups.classic.states import TRANSITIONS
from kafka_shim.lab.scheduler import Network
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.events import FAULT_ACTIONS
from kafka_shim.trace.history import History
from kafka_shim.trace.reconciliation import INTERVAL
from kafka_shim.why.page import standalone
from tests.browser import DRAWN, Browser
from tests.relay.test_epochs import Life
from tests.sources.recordings import RECORDINGS
from tests.why.simulated import recorded

pytestmark = pytest.mark.second_stage("a browser")

TRACE = Path(__file__).parents[1] / "pipeline" / "recordings" / "kafka-4.2" / "trace" / "trace.jsonl.gz"
WALL = 1.76e9
CONSUMER_GROUP = Path(__file__).parent / "recordings" / "consumer-group.jsonl.gz"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "trace.html"
    path.write_bytes(standalone(gzip.decompress(TRACE.read_bytes()), "recorded </script>"))
    return path.as_uri()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1400, 420])
def test_a_page_of_one_file_sends_no_request_and_shows_the_trace(
    browser: Browser, page: str, width: int, dark: bool
) -> None:
    browser.open(page, dark=dark, width=width)
    browser.wait("page.model.groups.size === 3")
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    history = History()
    for line in gzip.decompress(TRACE.read_bytes()).splitlines():
        history.add(json.loads(line))
    for name, group in history.groups.items():
        browser.evaluate(f"select({json.dumps(name)}); {DRAWN}")
        rows = browser.evaluate(
            "[...document.querySelectorAll('#rebalances tbody tr')].map((tr) => tr.cells[2].textContent).reverse()"
        )
        assert rows == [each.cause for each in group.rebalances]
        phases = browser.evaluate(
            f"page.model.groups.get({json.dumps(name)}).rebalances.map((each) =>"
            " phasesOf(each, 0).map((phase) => phase.seconds).reduce((a, b) => a + b, 0))"
        )
        assert phases == pytest.approx([each.seconds for each in group.rebalances], abs=0.01)
        moves = browser.evaluate(f"page.model.groups.get({json.dumps(name)}).rebalances.map((each) => each.moved)")
        assert [a for a, each in zip(moves, group.rebalances, strict=True) if each.moved is not None] == [
            each.moved.moved for each in group.rebalances if each.moved is not None
        ]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.errors == []


def test_a_relay_shows_the_wait_for_the_assignment_interval(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(monkeypatch, "consumer", 3, interval_ms=8_000)
    for _ in range(3):
        life.make()
        life.recorded.run(1)
    events, _ = life.end()
    lines = [{**event, "seq": seq, "wall": WALL + event["mono"]} for seq, event in enumerate(events)]
    history = History()
    for line in lines:
        history.add(line)
    rebalances = list(history.groups["billing"].rebalances)
    path = tmp_path / "trace.html"
    path.write_bytes(standalone(b"\n".join(json.dumps(line, default=str).encode() for line in lines), "relay"))
    browser.open(path.as_uri(), width=1400)
    browser.wait("page.model.groups.size === 1")
    on_page = browser.evaluate(
        "page.model.groups.get('billing').rebalances.map((each) =>"
        " phasesOf(each, 0).map((phase) => [phase.name, phase.seconds]))"
    )
    assert INTERVAL in {phase.name for each in rebalances for phase in each.phases}
    for phases, each in zip(on_page, rebalances, strict=True):
        assert [name for name, _ in phases] == [phase.name for phase in each.phases]
        assert [seconds for _, seconds in phases] == pytest.approx([each.seconds for each in each.phases], abs=0.001)
    assert browser.errors == []


@pytest.mark.parametrize("name", ["poll-interval-exceeded-java-3.9.2", "a-consumer-is-paused-java-4.4.0-consumer"])
def test_a_log_does_not_show_how_many_partitions_moved(browser: Browser, tmp_path: Path, name: str) -> None:
    recording = next(each for each in RECORDINGS if each.name == name)
    events = list(Logs([str(recording.folder / "server.log.gz")], UTC, recording.group).events())
    page = tmp_path / "log.html"
    page.write_bytes(standalone(b"".join(orjson.dumps(each) + b"\n" for each in events), "log"))
    browser.open(page.as_uri())
    browser.wait("page.model.groups.size === 1")
    rebalances = browser.evaluate(
        "[...page.model.groups.values()][0].rebalances.map((each) => [each.cause, each.moved])"
    )
    assert len(rebalances) >= 3
    assert {moved for _, moved in rebalances} == {None}
    browser.wait("document.querySelectorAll('#rebalances tbody tr').length > 0")
    rows = browser.evaluate(
        "[...document.querySelectorAll('#rebalances tbody tr')].map((tr) => tr.cells[6].textContent)"
    )
    assert set(rows) == {""}


def test_a_consumer_group_has_epochs_and_targets(browser: Browser, tmp_path: Path) -> None:
    trace = gzip.decompress(CONSUMER_GROUP.read_bytes())
    path = tmp_path / "trace.html"
    path.write_bytes(standalone(trace, "consumer group"))
    history = History()
    for line in trace.splitlines():
        history.add(json.loads(line))
    group = history.groups["billing"]
    browser.open(path.as_uri(), width=1400)
    browser.wait("page.model.groups.size === 1")
    browser.evaluate(f"select('billing'); {DRAWN}")
    rebalances = browser.evaluate(
        "page.model.groups.get('billing').rebalances.map((each) => ({cause: each.cause, moved: each.moved,"
        " phases: phasesOf(each, 0).map((phase) => [phase.name, phase.seconds])}))"
    )
    # The last one is not over: the static member is away.
    finished = list(zip(rebalances, group.rebalances, strict=True))[:-1]
    assert len(finished) == 7
    for on_page, each in finished:
        assert on_page["cause"] == each.cause
        assert on_page["moved"] == (each.moved.moved if each.moved is not None else None)
        assert [name for name, _ in on_page["phases"]] == [phase.name for phase in each.phases]
        assert [s for _, s in on_page["phases"]] == pytest.approx([phase.seconds for phase in each.phases], abs=0.001)
    lanes = browser.evaluate("[...page.model.groups.get('billing').members.values()].map((member) => member.name)")
    assert lanes == ["a", "b", "c", "s", "s#2"]
    cells = browser.evaluate(
        "[...document.querySelectorAll('#owners tr')].map((tr) => [...tr.cells].at(-1).textContent)"
    )
    assert cells == ["target", "orders 0-7"]
    browser.evaluate(f"open(1); {DRAWN}")
    assert "waitedb for a" in browser.evaluate("document.querySelector('#drawer').textContent")
    assert browser.errors == []


def test_bars_cover_the_time_of_ownership(browser: Browser, page: str) -> None:
    browser.open(page, width=1400)
    browser.wait("page.model.groups.size === 3")
    browser.evaluate(f"select('billing'); {DRAWN}")
    plan = browser.evaluate(
        "(() => { const group = page.model.groups.get('billing');"
        " return layout(group, page.from, page.to, 1400, group.last); })()"
    )
    assert [lane["name"] for lane in plan["lanes"]] == [f"kafka-python-3.0-{number}" for number in (1, 2, 3, 4)]
    # Causes do not overlap, and the chosen rebalance shows its cause.
    written = browser.evaluate(
        "(() => { const group = page.model.groups.get('billing');"
        " const plan = layout(group, page.from, page.to, 400, group.last);"
        " return captions(plan.chips, 400, 2, (text) => 8 * text.length); })()"
    )
    assert written[0]["chip"]["index"] == 2
    assert 1 < len(written) < 6
    places = sorted((each["left"], each["left"] + each["size"]) for each in written)
    assert all(right < start for (_, right), (start, _) in pairwise(places))
    assert places[-1][1] <= 400
    first = [bar for bar in plan["bars"] if bar["member"].startswith("kafka-python-3.0-1-")]
    assert [len(bar["partitions"]) for bar in first] == [6, 3, 2, 3, 2]
    for bar in plan["bars"]:
        assert plan["name"] <= bar["left"] <= bar["right"] <= 1400
    by_member: dict[str, list[Any]] = {}
    for bar in plan["bars"]:
        by_member.setdefault(bar["member"], []).append(bar)
    for bars in by_member.values():
        assert all(a["to"] <= b["from"] for a, b in pairwise(bars))


def test_the_page_works_with_keys_alone(browser: Browser, page: str) -> None:
    browser.open(page, width=1400)
    browser.wait("page.model.groups.size === 3")
    browser.evaluate(f"select('billing'); {DRAWN}")

    def press(key: str) -> None:
        browser.evaluate(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: {key!r}}})); {DRAWN}")

    press(",")
    assert browser.evaluate("document.querySelector('#drawer').hidden") is False
    text = browser.evaluate("document.querySelector('#drawer').textContent")
    assert "SESSION_EXPIRED" in text
    assert "waiting for members" in text
    press(",")
    assert "NEW_MEMBER" in browser.evaluate("document.querySelector('#drawer').textContent")
    wide = browser.evaluate("page.to - page.from")
    press("w")
    assert browser.evaluate("page.to - page.from") < wide
    press("q")
    assert browser.evaluate("document.querySelector('#drawer').hidden") is True
    assert browser.evaluate("document.activeElement.id") == "scene"


def test_the_state_machine_equals_the_rules_and_lights_the_present_state(browser: Browser, tmp_path: Path) -> None:
    with recorded() as trace:
        for number in range(2):
            trace.simulation.puppet("billing", ["orders"], client_id=f"billing-{number}", session_timeout=20)
        trace.simulation.run(5)
        trace.simulation.puppet("billing", ["orders"], client_id="late", session_timeout=20)
        trace.simulation.run(0.5)
        path = tmp_path / "states.html"
        path.write_bytes(standalone(trace.write(tmp_path / "trace.jsonl").read_bytes(), "states"))
    timers_of = {(event["kind"], event["member_id"]): event for event in trace.events if event["event"] == "timer"}
    armed = [each for each in timers_of.values() if each["change"] == "armed"]
    lines = [each["kind"] + (" of " + each["member_id"][:-37] if each["member_id"] else "") for each in armed]
    for width, dark in ((1400, False), (420, True)):
        browser.open(path.as_uri(), width=width, dark=dark)
        browser.wait("page.model.groups.get('billing')?.state === 'PreparingRebalance'")
        browser.evaluate(f"document.querySelector('#machine').open = true; {DRAWN}")
        browser.wait("document.querySelector('#states .lit') !== null")
        assert browser.evaluate("document.querySelector('#states .lit').dataset.state") == "PreparingRebalance"
        timers = browser.evaluate("[...document.querySelectorAll('#timers li')].map((line) => line.textContent)")
        assert sorted(line.partition(" fires in ")[0] for line in timers) == sorted(lines)
        assert len(lines) > 2
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []
    arrows = browser.evaluate("[...document.querySelectorAll('#states a')].map((link) => link.dataset.arrow)")
    assert set(arrows) == {
        f"{before.value}>{after.value}" for before, each in TRANSITIONS.items() for after in each if before is not after
    }
    assert browser.errors == []


def test_the_page_draws_only_visible_members_of_five_hundred(browser: Browser, tmp_path: Path) -> None:
    with recorded() as trace:
        for number in range(500):
            trace.simulation.puppet("billing", ["orders"], client_id=f"billing-{number}")
        trace.simulation.run(5)
        path = tmp_path / "many.html"
        path.write_bytes(standalone(trace.write(tmp_path / "trace.jsonl").read_bytes(), "many"))
    browser.open(path.as_uri(), width=1400)
    browser.wait("page.model.groups.get('billing')?.members.size === 500")
    browser.evaluate(DRAWN)
    in_sight = """(() => {
        const scene = document.querySelector('#scene'), group = page.model.groups.get('billing');
        const plan = draw(scene, group, page.from, page.to, -1, group.last);
        return plan.lanes.filter((lane) => plan.seen.has(lane.member)).map((lane) => lane.name);
    })()"""
    names = browser.evaluate("[...page.model.groups.get('billing').members.values()].map((member) => member.name)")
    first = browser.evaluate(in_sight)
    assert first == names[: len(first)]
    assert 4 < len(first) < 40
    assert browser.evaluate("document.querySelector('#timeline').height <= innerHeight")
    browser.evaluate(f"document.querySelector('#scene').scrollTop = 1e6; {DRAWN}")
    last = browser.evaluate(in_sight)
    assert last == names[-len(last) :]
    assert len(last) < 40
    assert browser.errors == []


def test_a_second_trace_stands_below_the_first_with_the_bill_of_both(browser: Browser, tmp_path: Path) -> None:
    def trace_of(protocol: str) -> tuple[bytes, Any]:
        with recorded(network=Network(least=0.01, most=0.1)) as trace:
            for number in range(3):
                trace.simulation.puppet("billing", ["orders"], client_id=f"billing-{number}", protocols=[protocol])
            trace.simulation.run(20)
            trace.simulation.puppet("billing", ["orders"], client_id="late", protocols=[protocol])
            trace.simulation.run(20)
            return trace.write(tmp_path / f"{protocol}.jsonl").read_bytes(), trace.history()

    (eager, first), (cooperative, second) = trace_of("roundrobin"), trace_of("cooperative-sticky")
    path = tmp_path / "eager.html"
    path.write_bytes(standalone(eager, "eager.jsonl"))
    browser.open(path.as_uri(), width=1400)
    browser.wait("page.model.groups.has('billing')")
    browser.evaluate(
        "(() => { const other = new Model(); other.read(" + json.dumps(cooperative.decode()) + ");"
        f" compareWith(other, 'cooperative.jsonl'); open(1); return {DRAWN}; }})()"
    )
    rows = browser.evaluate(
        "[...document.querySelectorAll('#bill tbody tr')].map((tr) => [...tr.cells].map((td) => td.textContent))"
    )
    bill = {name: (here, there) for name, here, there in rows}
    assert bill["rebalances"] == (str(len(first.rebalances)), str(len(second.rebalances)))
    moves = [sum(each.moved.moved for each in group.rebalances if each.moved) for group in (first, second)]
    assert bill["partitions moved"] == tuple(map(str, moves))
    # With the cooperative protocol no member stands still for others.
    assert float(bill["member-seconds standing still"][0]) > 0
    assert float(bill["member-seconds standing still"][1]) == 0
    causes = [[each.cause for each in group.rebalances] for group in (first, second)]
    for cause in set(causes[0] + causes[1]):
        assert bill[cause] == tuple(str(each.count(cause)) for each in causes)
    # The rebalance of the late member stands below the one of the late member.
    began = browser.evaluate(
        "(() => { const here = page.model.groups.get('billing'), other = beside.model.groups.get('billing');"
        " return counterpart(here, 1, other).started; })()"
    )
    late = [each for each in second.rebalances if each.cause == first.rebalances[1].cause]
    place = causes[0][:1].count(causes[0][1])
    assert began == pytest.approx(late[place].started)
    assert browser.errors == []
    for width, dark in ((1400, False), (420, True)):
        browser.open(path.as_uri(), width=width, dark=dark)
        browser.wait("page.model.groups.has('billing')")
        browser.evaluate(
            "(() => { const other = new Model(); other.read(" + json.dumps(cooperative.decode()) + ");"
            f" compareWith(other, 'cooperative.jsonl'); return {DRAWN}; }})()"
        )
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []


def test_the_page_follows_a_group_that_forms_and_breaks(browser: Browser) -> None:
    config = {"group.initial.rebalance.delay.ms": "0"}
    with CoordinatorServer(topics={"orders": 4}, config=config, control=True) as server:
        browser.open(server.control_url + "/", width=1400)
        server.puppet("billing", ["orders"], client_id="first")
        server.group("billing").stable(members=1)
        second = server.puppet("billing", ["orders"], client_id="second")
        server.group("billing").stable(members=2)
        browser.wait("page.model.groups.get('billing')?.present.length === 2")
        browser.wait("page.model.groups.get('billing').rebalances.length === 2")
        second.leave()
        server.group("billing").stable(members=1)
        browser.wait("page.model.groups.get('billing').rebalances.at(-1).cause === 'MEMBER_LEFT'")
        browser.wait("page.why?.rebalances.length === 3")
        browser.wait("document.querySelector('#verdict').textContent.startsWith('Rebalanced 3 times')")
        lanes = browser.evaluate("[...page.model.groups.get('billing').members.values()].map((member) => member.name)")
        assert lanes == ["first", "second"]
        # A later reader sees the earlier events.
        browser.open(server.control_url + "/", width=420)
        browser.wait("page.model.groups.get('billing')?.rebalances.length === 3")
        assert {url.partition("//")[2].partition("/")[0] for url in browser.requests if url.startswith("http")} == {
            server.control_url.partition("//")[2]
        }
        assert browser.errors == []


def test_the_page_operates_the_laboratory(browser: Browser, tmp_path: Path) -> None:
    config = {"group.initial.rebalance.delay.ms": "0"}

    def send(form: str, **fields: str) -> None:
        browser.evaluate(
            f"(() => {{ const form = document.querySelector({form!r}); for (const [name, value] of"
            f" Object.entries({json.dumps(fields)})) form.elements[name].value = value; form.requestSubmit(); }})()"
        )

    def press(what: str, name: str) -> None:
        row = f"[...document.querySelectorAll('#lab-table tr')].find((tr) => tr.textContent.includes({what!r}))"
        button = f"[...{row}.querySelectorAll('button')].find((button) => button.textContent === {name!r})"
        browser.wait(f"({row}) && ({button})")
        browser.evaluate(f"{button}.click()")

    with CoordinatorServer(topics={"orders": 4}, config=config, control=True) as server:
        browser.open(server.control_url + "/", width=1400)
        browser.wait("document.querySelector('#lab').hidden === false")
        browser.evaluate("document.querySelector('#lab').open = true")
        assert browser.evaluate("document.querySelector('#lab-topics').value") == "orders"
        send("#lab-puppet", client_id="one")
        send("#lab-puppet", client_id="two")
        group = server.group("billing")
        group.stable(members=2)
        browser.evaluate("document.querySelector('#freeze').click()")
        browser.wait("document.querySelector('#clock').textContent.startsWith('Time stands still; the next timer')")
        assert server.clock.is_frozen
        press("one in billing", "silence")
        # The session, and a heartbeat: that tells the other member of the rebalance.
        send("#lab-advance", seconds="46")
        group.stable(members=["two"])
        browser.wait("page.model.groups.get('billing').rebalances.at(-1).cause === 'SESSION_EXPIRED'")
        before = browser.evaluate("fetch('/v1/clock').then((answer) => answer.json())")
        browser.evaluate("document.querySelector('#next-timer').click()")
        send("#lab-barrier", point="join-arrived")
        browser.wait("document.querySelector('#lab-table').textContent.includes('holds 0')")
        send("#lab-puppet", client_id="three")
        browser.wait("document.querySelector('#lab-table').textContent.includes('holds 1')")
        press("holds 1", "remove")
        browser.evaluate("document.querySelector('#freeze').click()")
        group.stable(members=2)
        now = browser.evaluate("fetch('/v1/clock').then((answer) => answer.json())")
        assert now["now"] >= before["due"]
        for kind in ("consumer", "share", "streams"):
            browser.evaluate(f"$('#lab-kind').value = '{kind}'; $('#lab-kind').dispatchEvent(new Event('change')); 0")
            send("#lab-puppet", group=f"of-{kind}")
            browser.wait(f"page.model.groups.get('of-{kind}')?.kind === '{kind}'")
            browser.wait(f"document.querySelector('#lab-table').textContent.includes('puppet ({kind})')")
        send("#lab-fault", error="NO_SUCH_ERROR")
        browser.wait("document.querySelector('#lab-refused').textContent !== ''")
        send("#lab-fault", error="NOT_COORDINATOR")
        press("error Heartbeat", "remove")
        shown = "[...document.querySelectorAll('#lab-fault .own')].filter((each) => each.checkVisibility())"
        own = {
            "error": ["error", "applied"],
            "delay": ["seconds", "applied"],
            "close": ["when"],
            "half-open": ["applied"],
            "slow": ["bytes_per_second"],
        }
        for action in FAULT_ACTIONS:
            browser.evaluate(
                f"$('#lab-action').value = '{action}'; $('#lab-action').dispatchEvent(new Event('change'))"
            )
            assert browser.evaluate(f"{shown}.map((each) => each.name)") == own.get(action, [])
            send("#lab-fault", api="Produce")
            press(f"{action} Produce", "remove")
        # Only the deliberate refusals.
        assert [error for error in browser.errors if "400" not in error] == []
        press("broker", "kill")
        press("down", "restart")
        # While the broker is down it has no group for the page.
        assert [error for error in browser.errors if "400" not in error and "404" not in error] == []
        for width, dark in ((1400, True), (420, False)):
            browser.open(server.control_url + "/", width=width, dark=dark)
            browser.wait("document.querySelector('#lab').hidden === false")
            browser.wait("page.model.groups.get('billing')?.rebalances.length > 1")
            browser.evaluate(f"document.querySelector('#lab').open = true; open(1); {DRAWN}")
            # Without a journal no run can continue.
            assert browser.evaluate("document.querySelector('#lab-sandbox').checkVisibility()") is False
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert browser.violations() == []
            browser.open(server.control_url + "/docs", width=width, dark=dark)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert browser.violations() == []
