"""The first view of the page: the sickest group, its culprit, the reason and the remedy in sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_shim.lab.replaying import play
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.reading import read
from kafka_shim.trace.reconciliation import HANDING_OVER, INTERVAL, NOT_ASSIGNED, REVOKING
from kafka_shim.why.export import page_of
from tests.browser import DRAWN, Browser
from tests.why.simulated import recorded

pytestmark = pytest.mark.second_stage("a browser")

LONG = "a-very-long-name-of-a-group-that-a-template-of-the-deployment-has-made-for-everybody"
HEIGHT = 900
RECORDING = Path(__file__).parent / "recordings" / "provoked" / "poll-interval-exceeded-java-4.2.2.jsonl.gz"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sixty groups; one client of the last one dies and is started again, nine times, and its group is the sickest."""
    folder = tmp_path_factory.mktemp("groups")
    names = [LONG, *(f"group-{number}" for number in range(1, 60))]
    with recorded() as trace:
        for name in names:
            for number in range(2):
                trace.simulation.puppet(name, ["orders"], client_id=f"{name}-{number}")
        trace.simulation.run(5)
        for _ in range(9):
            puppet = trace.simulation.puppet("group-59", ["orders"], client_id="storm", session_timeout=6)
            trace.simulation.run(6)
            puppet.crash()
            trace.simulation.run(9)
        path = folder / "trace.html"
        path.write_bytes(page_of(read([trace.write(folder / "trace.jsonl")]), "sixty groups", play))
    return path.as_uri()


@pytest.mark.parametrize("width", [1440, 900])
def test_the_page_opens_on_the_sickest_group_with_its_answer_in_sight(browser: Browser, page: str, width: int) -> None:
    browser.open(page, width=width)
    browser.wait("page.model.groups.size === 60 && !$('#answer').hidden")
    assert browser.evaluate("page.group") == "group-59"
    first = browser.evaluate("[...$('#groups tbody').rows[0].cells].map((cell) => cell.textContent)")
    assert first[0] == "group-59"
    assert "storm" in first[1]
    text = browser.evaluate("$('#answer').textContent")
    assert "whostorm" in text
    assert "find out why it died" in text
    box = browser.evaluate("$('#answer').getBoundingClientRect().toJSON()")
    assert box["top"] >= 0
    assert browser.evaluate("innerHeight") >= box["bottom"]
    # A rebalance has its own answer in the same place.
    browser.evaluate(f"open(3); {DRAWN}")
    browser.evaluate(DRAWN)
    box = browser.evaluate("$('#drawer').getBoundingClientRect().toJSON()")
    assert 0 <= box["top"] < box["bottom"] <= browser.evaluate("innerHeight")
    assert "who" in browser.evaluate("$('#drawer').textContent")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.violations() == []
    assert browser.errors == []


def test_a_client_that_comes_back_keeps_its_lane(browser: Browser, page: str) -> None:
    browser.open(page, width=1440)
    browser.wait("page.group === 'group-59'")
    lanes = browser.evaluate(
        "layout(page.model.groups.get('group-59'), page.from, page.to, 1400, 0).lanes.map((lane) => lane.name)"
    )
    assert sorted(lanes) == ["group-59-0", "group-59-1", "storm"]
    assert browser.evaluate("page.model.groups.get('group-59').members.size") == 11


def test_groups_are_searched_and_filtered_and_long_names_hide_no_column(browser: Browser, page: str) -> None:
    browser.open(page, width=1440)
    browser.wait("page.model.groups.size === 60")
    assert browser.evaluate("$('#groups .list').scrollWidth <= $('#groups .list').clientWidth")
    browser.evaluate(f"$('#group-search').value = 'VERY-long'; redraw(); {DRAWN}")
    assert browser.evaluate("[...$('#groups tbody').rows].map((row) => row.cells[0].textContent)") == [LONG]
    browser.evaluate(f"$('#group-search').value = ''; $('#group-order').value = 'name'; redraw(); {DRAWN}")
    assert browser.evaluate("$('#groups tbody').rows.length") == 60
    assert browser.evaluate("$('#groups tbody').rows[1].cells[0].textContent") == "group-1"


def test_shortcuts_can_be_switched_off(browser: Browser, page: str) -> None:
    browser.open(page, width=1440)
    browser.wait("page.group === 'group-59'")
    press = f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: ','}})); {DRAWN}"
    browser.evaluate(f"$('#shortcuts').checked = false; {press}")
    assert browser.evaluate("$('#drawer').hidden") is True
    browser.evaluate(f"$('#shortcuts').checked = true; {press}")
    assert browser.evaluate("$('#drawer').hidden") is False


def test_the_member_that_all_wait_for_has_a_frame(browser: Browser, tmp_path: Path) -> None:
    with recorded() as trace:
        for name, think in (("fast", 0.0), ("slow", 9.0)):
            trace.simulation.puppet("billing", ["orders"], client_id=name, think=think)
        trace.simulation.run(30)
        trace.simulation.puppet("billing", ["orders"], client_id="third")
        trace.simulation.run(30)
        path = tmp_path / "slow.html"
        path.write_bytes(page_of(read([trace.write(tmp_path / "trace.jsonl")]), "slow", play))
    browser.open(path.as_uri(), width=1440)
    browser.wait("page.group === 'billing'")
    found = browser.evaluate(
        "(() => { const group = page.model.groups.get('billing');"
        " const plan = layout(group, page.from, page.to, 1400, group.last);"
        " return plan.awaited.map((each) => group.nameOf(each.member)); })()"
    )
    assert set(found) == {"slow"}


def test_a_server_that_is_gone_leaves_a_grey_page_that_says_when(browser: Browser) -> None:
    with CoordinatorServer(topics={"orders": 4}, control=True) as server:
        browser.open(server.control_url + "/", width=1440)
        browser.wait("page.live && $('#none').textContent.includes('bootstrap_servers')")
        assert server.bootstrap in browser.evaluate("$('#none').textContent")
        server.puppet("billing", ["orders"], client_id="first")
        server.group("billing").stable(members=1)
        browser.wait("page.model.groups.get('billing')?.state === 'Stable'")
        # Focus stays where it is while tables change.
        browser.evaluate("$('#groups tbody button').focus()")
        server.puppet("billing", ["orders"], client_id="second")
        server.group("billing").stable(members=2)
        browser.wait("page.model.groups.get('billing').present.length === 2")
        browser.evaluate(DRAWN)
        assert browser.evaluate("document.activeElement.textContent") == "billing"
    browser.wait("document.body.classList.contains('stale')")
    text = browser.evaluate("$('#source').textContent")
    assert text.startswith("not connected; last heard at ")
    assert browser.evaluate("document.title").startswith("not connected")


def test_a_session_that_a_test_ended_is_no_death(browser: Browser) -> None:
    with CoordinatorServer(topics={"orders": 4}, control=True) as server:
        for client_id in ("one", "two"):
            server.puppet("billing", ["orders"], client_id=client_id)
        server.group("billing").stable(members=2)
        server.expire("billing", "one")
        browser.open(server.control_url + "/", width=1440)
        browser.wait("page.model.groups.get('billing')?.rebalances.some((each) => each.byTest)")
        assert "died" not in browser.evaluate("troubleOf(page.model.groups.get('billing')).text")


def test_the_answer_says_what_the_server_has_forgotten(browser: Browser) -> None:
    with CoordinatorServer(topics={"orders": 4}, control=True) as server:
        server.kit.history.limit(9000, 1_000_000)
        for number in range(3):
            server.puppet("billing", ["orders"], client_id=f"m{number}")
            server.group("billing").stable(members=number + 1)
        browser.open(f"{server.control_url}/", width=1440)
        browser.wait("page.why !== null && !$('#answer').hidden")
        answer = browser.evaluate("$('#answer').textContent")
    assert "not completethe server has forgotten its oldest " in answer
    assert "Rebalanced at least " in answer


def test_a_link_into_many_rebalances_explains_once(browser: Browser) -> None:
    config = {"group.initial.rebalance.delay.ms": "0"}
    with CoordinatorServer(topics={"orders": 4}, config=config, control=True) as server:
        server.puppet("billing", ["orders"], client_id="first")
        for _ in range(10):
            other = server.puppet("billing", ["orders"], client_id="other")
            server.group("billing").stable(members=2)
            other.leave()
            server.group("billing").stable(members=1)
        started = [event for event in server.events("billing") if event.get("to") == "PreparingRebalance"]
        browser.open(f"{server.control_url}/#billing@{started[5]['seq']}", width=1440)
        browser.wait("!$('#drawer').hidden && page.why !== null")
        assert browser.evaluate("page.model.groups.get('billing').rebalances[page.selected].seq") == started[5]["seq"]
        browser.wait("!explaining && !asksAgain")
        assert sum(url.endswith("/why") for url in browser.requests) == 1
        # The reader changes the address of the open page.
        browser.evaluate(f"location.hash = 'billing@{started[7]['seq']}'")
        browser.wait(f"page.model.groups.get('billing').rebalances[page.selected].seq === {started[7]['seq']}")
        browser.evaluate("location.hash = 'lesson=fencing'")
        browser.wait("lesson.data?.title && !$('#lesson').hidden")
        browser.evaluate(f"location.hash = 'billing@{started[5]['seq']}'")
        browser.wait("page.live && !$('#drawer').hidden && page.group === 'billing'")
        assert browser.evaluate("page.model.groups.get('billing').rebalances[page.selected].seq") == started[5]["seq"]
        assert browser.evaluate("$('#lesson').hidden")
        assert browser.errors == []
        browser.evaluate("location.hash = 'lesson=nosuch'")
        browser.wait("$('#refused').textContent === 'There is no lesson nosuch.'")


def test_the_list_tells_a_missed_poll_from_a_death(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "trace.html"
    path.write_bytes(page_of(read([RECORDING]), "missed polls", play))
    browser.open(path.as_uri(), width=1440)
    # The list is drawn a frame after the trace was read.
    browser.wait("$('#groups tbody').rows.length === 1")
    trouble = browser.evaluate("$('#groups tbody').rows[0].cells[1].textContent")
    assert trouble == "storm, 3 missed polls"


LIVES = Path(__file__).parent / "recordings" / "lives"
STARTED, MISSED, MISSED_BY_JAVA, REFUSED = (
    LIVES / f"{name}.jsonl.gz"
    for name in (
        "another-group-on-the-topic-has-trouble-confluent-kafka-2.16-consumer",
        "a-consumer-misses-its-poll-confluent-kafka-2.16-consumer",
        "a-consumer-misses-its-poll-java-4.2.2-consumer",
        "may-not-find-the-coordinator-aiokafka-0.14",
    )
)


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Groups of real clients: two consumers that start and stop, polls missed twice, no rights, one behind a relay."""
    path = tmp_path_factory.mktemp("lives") / "trace.html"
    relay = LIVES.parent / "provoked" / "killed-behind-a-relay-kafka-python-3.0.jsonl.gz"
    path.write_bytes(page_of(read([STARTED, MISSED, MISSED_BY_JAVA, REFUSED, relay]), "lives", play))
    return path.as_uri()


def test_the_list_of_groups_agrees_with_why(browser: Browser, lives: str) -> None:
    browser.open(lives, width=1400)
    browser.wait("page.model.groups.size === 5 && $('#groups tbody').rows.length === 5 && !$('#answer').hidden")
    browser.evaluate(DRAWN)
    rows = browser.evaluate("[...$('#groups tbody').rows].map((row) => [...row.cells].map((cell) => cell.textContent))")
    signs = {row[0]: (row[1], row[2], row[5]) for row in rows}
    # Heartbeats of 5 s are no trouble, and neither are a start and a shutdown.
    assert signs[STARTED.name.removesuffix(".jsonl.gz")] == ("", "Empty", "0")
    for missed in (MISSED, MISSED_BY_JAVA):
        assert signs[missed.name.removesuffix(".jsonl.gz")] == ("2 missed polls", "Empty", "0")
    assert signs[REFUSED.name.removesuffix(".jsonl.gz")][0] == "1 refused"
    # A relay writes no states of a classic group, but its members have left.
    assert signs["killed-behind-a-relay-kafka-python-3.0"] == ("1 died", "Empty", "0")
    browser.evaluate(f"select({REFUSED.name.removesuffix('.jsonl.gz')!r}); {DRAWN}")
    assert browser.evaluate("$('#group-title').textContent").endswith(": it has had no member")
    assert browser.errors == []


@pytest.mark.parametrize("width", [1400, 400])
def test_a_rebalance_shows_its_wait_for_the_assignment_interval(browser: Browser, lives: str, width: int) -> None:
    group = STARTED.name.removesuffix(".jsonl.gz")
    browser.open(lives, width=width)
    browser.wait("page.model.groups.size === 5 && $('#groups tbody').rows.length === 5 && !$('#answer').hidden")
    browser.evaluate(DRAWN)
    browser.evaluate(f"select({group!r}); open(1); {DRAWN}")
    browser.wait("!$('#drawer').hidden")
    text = browser.evaluate("$('#drawer').textContent")
    assert "waiting for the assignment interval" in text
    assert "Up to 909 ms was the wait for consumer.assignment.interval.ms." in text
    phases = browser.evaluate(
        f"phasesOf(page.model.groups.get({group!r}).rebalances[1], 0).map((each) => [each.name, each.seconds])"
    )
    assert [name for name, _ in phases] == [INTERVAL, NOT_ASSIGNED, REVOKING, HANDING_OVER]
    assert phases[0][1] == pytest.approx(0.909)
    # A name beside a bar has room for whole words, on a phone too.
    widths = browser.evaluate("[...document.querySelectorAll('#drawer .phase')].map((each) => each.clientWidth)")
    assert min(widths) > 250


def test_no_shade_hides_text_in_forced_colours(browser: Browser, lives: str) -> None:
    group = STARTED.name.removesuffix(".jsonl.gz")
    browser.open(lives, width=1400, forced=True)
    browser.wait("page.model.groups.size === 5 && $('#groups tbody').rows.length === 5 && !$('#answer').hidden")
    browser.evaluate(DRAWN)
    browser.evaluate(f"select({group!r}); open(1); {DRAWN}")
    browser.evaluate(DRAWN)
    # The share of pixels of the background around the name of the cause.
    background = browser.evaluate(
        "(() => { const canvas = $('.scene canvas'), pen = canvas.getContext('2d');"
        " const chip = layout(page.model.groups.get(page.group), page.from, page.to, canvas.clientWidth, 0)"
        ".chips.find((each) => each.index === 1);"
        " const { data } = pen.getImageData(chip.left + 4, 4, chip.right - chip.left - 8, 16); let empty = 0;"
        " for (let at = 3; at < data.length; at += 4) empty += data[at] === 0; return empty / (data.length / 4); })()"
    )
    assert background > 0.6
