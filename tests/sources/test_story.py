"""The lines of brokers of every release become events of the trace, and the fold reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.sources.mixture import Mixture
from kafka_shim.sources.new_broker import NEW_BROKER
from kafka_shim.sources.old_broker import OLD_BROKER
from kafka_shim.sources.reading import Reading
from kafka_shim.trace import schema
from kafka_shim.trace.history import GroupHistory, History
from tests.examples import examples
from tests.sources.broker_lines import Broker, life, uuid

RELEASES = ["2.0", "2.1", "2.4", "2.8", "3.1", "3.9", "4.0", "4.2", "4.4"]
ONE, TWO, THREE = (f"app-{number}-{uuid(number)}" for number in (1, 2, 3))


def read(tmp_path: Path, *logs: bytes, group: str | None = None) -> tuple[Reading, list[dict[str, Any]]]:
    files = [tmp_path / f"{number}.log" for number in range(len(logs))]
    for file, log in zip(files, logs, strict=True):
        file.write_bytes(log)
    reading = Reading([OLD_BROKER, NEW_BROKER], group=group)
    return reading, list(Mixture(group).events(reading.signs(files)))


def history_of(events: Sequence[dict[str, Any]], group: str = "billing") -> GroupHistory:
    history = History()
    for event in events:
        history.add(event)
    return history.groups[group]


def causes(history: GroupHistory) -> list[tuple[int | None, str, str]]:
    return [(each.generation, each.cause, each.trigger) for each in history.rebalances]


@pytest.mark.parametrize("release", RELEASES)
def test_the_life_of_a_group_is_read_from_each_release(tmp_path: Path, release: str) -> None:
    reading, events = read(tmp_path, life(release))
    assert (reading.unknown, reading.example, reading.brokers) == (0, "", {"0"})
    assert reading.understood == len(life(release).splitlines())
    assert [problem for event in events for problem in schema.problems(event)] == []
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    history = history_of(events)
    before_reasons, before_leaving = release == "2.0", release in ("2.0", "2.1")
    left = "MEMBER_LEFT" if release < "3.2" else "POLL_TIMEOUT_REASON"
    assert causes(history) == [
        (1, "", "") if before_reasons else (1, "NEW_MEMBER", ONE),
        (2, "SESSION_EXPIRED", TWO),
        (3, "", "") if before_reasons else (3, "NEW_MEMBER", THREE),
        (4, "", "") if before_reasons else (4, left, THREE),
        (5, "", "") if before_reasons else (5, "MEMBER_LEFT", ONE),
    ]
    assert [round(each.seconds, 3) for each in history.rebalances][:2] == [
        3.05 if before_reasons else 3.047,
        1.05,
    ] or before_leaving
    assert history.rebalances[0].initial
    assert history.state == "Empty"
    assert history.members[TWO].how == "expired"


@pytest.mark.parametrize("release", ["2.8", "3.9", "4.4"])
def test_an_event_names_its_line(tmp_path: Path, release: str) -> None:
    _, events = read(tmp_path, life(release))
    lines = life(release).decode().splitlines()
    stabilized = next(event for event in events if event["event"] == "round")
    file, _, number = stabilized["where"].partition(":")
    assert (file, "Stabilized" in lines[int(number) - 1]) == ("0.log", True)
    assert all(event["inferred"] for event in events)


def test_timeouts_client_and_host_come_from_the_line_about_a_departure(tmp_path: Path) -> None:
    history = history_of(read(tmp_path, life("3.9"))[1])
    member = history.members[THREE]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (45_000, 300_000)
    assert (member.client_id, member.client_host) == ("app-3", "/10.0.0.7")
    assert member.reason == "consumer poll timeout has expired."


@pytest.mark.parametrize("release", ["2.4", "3.1", "3.9"])
def test_a_static_member_that_leaves_was_removed_by_an_administrator(tmp_path: Path, release: str) -> None:
    broker = Broker(release)
    broker.new_member(0, ONE, 0, "Empty", instance="i")
    broker.round(3, 1, ONE, 1)
    broker.leaves(10, ONE, 1, instance="i")
    broker.empty(10.01, 2)
    history = history_of(read(tmp_path, broker.text)[1])
    assert causes(history)[1] == (2, "ADMIN_REMOVED", ONE)


@pytest.mark.parametrize("release", ["4.0", "4.4"])
def test_an_administrators_request_names_no_member(tmp_path: Path, release: str) -> None:
    broker = Broker(release)
    broker.new_member(0, ONE, 0, "Empty", instance="i")
    broker.round(3, 1, ONE, 1)
    broker.leaves(10, ONE, 1, instance="i")
    assert causes(history_of(read(tmp_path, broker.text)[1]))[1] == (None, "ADMIN_REMOVED", ONE)


def test_the_follow_up_of_a_cooperative_group_has_its_own_cause(tmp_path: Path) -> None:
    broker = Broker("3.9")
    broker.new_member(0, ONE, 0, "Empty")
    broker.round(3, 1, ONE, 1)
    broker.new_member(20, TWO, 1, "Stable")
    broker.round(22, 2, ONE, 2)
    broker.preparing(22.2, 2, f"Updating metadata for member {ONE} during Stable; client reason: not provided")
    broker.round(22.4, 3, ONE, 2)
    broker.preparing(90, 3, f"Updating metadata for member {ONE} during Stable; client reason: not provided")
    broker.round(91, 4, ONE, 2)
    assert [cause for _, cause, _ in causes(history_of(read(tmp_path, broker.text)[1]))] == [
        "NEW_MEMBER", "NEW_MEMBER", "COOPERATIVE_FOLLOWUP", "SUBSCRIPTION_CHANGED",
    ]  # fmt: skip


def test_a_member_that_did_not_rejoin_is_in_dropped(tmp_path: Path) -> None:
    broker = Broker("3.9")
    broker.new_member(0, ONE, 0, "Empty")
    broker.round(3, 1, ONE, 1)
    broker.new_member(20, TWO, 1, "Stable")
    broker.not_rejoined(320, ONE)
    broker.round(320, 2, TWO, 1)
    history = history_of(read(tmp_path, broker.text)[1])
    assert history.rebalances[1].dropped == (ONE,)
    assert history.rebalances[1].members == (TWO,)
    assert history.members[ONE].how == "removed"


def test_doubled_lines_count_once_and_mixed_up_lines_are_sorted(tmp_path: Path) -> None:
    lines = life("3.9").splitlines(keepends=True)
    mixed = b"".join(lines[1::2] + lines[::2])
    once = causes(history_of(read(tmp_path, life("3.9"))[1]))
    reading, events = read(tmp_path, life("3.9"), mixed)
    assert causes(history_of(events)) == once
    assert reading.understood == len(lines)


def test_a_group_that_moved_between_brokers_is_one_story(tmp_path: Path) -> None:
    first, second = Broker("3.9", node=1), Broker("3.9", node=2)
    first.new_member(0, ONE, 0, "Empty")
    first.round(3, 1, ONE, 1)
    first.write(10, "Unloading group metadata for billing with generation 1")
    second.write(11, "Loading group metadata for billing with generation 1")
    second.new_member(20, TWO, 1, "Stable")
    second.round(21, 2, ONE, 2)
    reading, events = read(tmp_path, second.text, first.text)
    history = history_of(events)
    assert causes(history) == [(1, "NEW_MEMBER", ONE), (2, "NEW_MEMBER", TWO)]
    assert history.rebalances[1].members == (ONE, TWO)
    assert reading.groups == {"billing": {"1", "2"}}


def test_members_of_before_the_log_are_not_made_up(tmp_path: Path) -> None:
    broker = Broker("3.9")
    broker.new_member(20, TWO, 7, "Stable")
    broker.round(21, 8, ONE, 5)
    history = history_of(read(tmp_path, broker.text)[1])
    (only,) = history.rebalances
    assert (only.members, only.size, only.initial, history.size) == ((TWO,), 5, False, 5)


def test_a_new_life_of_a_name_begins_with_other_members(tmp_path: Path) -> None:
    broker = Broker("3.9")
    broker.new_member(0, ONE, 0, "Empty")
    broker.round(3, 1, ONE, 1)
    broker.new_member(900_000, TWO, 0, "Empty")
    broker.round(900_003, 1, TWO, 1)
    history = history_of(read(tmp_path, broker.text)[1])
    assert history.rebalances[1].members == (TWO,)


def test_one_group_of_several_is_read(tmp_path: Path) -> None:
    other = Broker("3.9", group="orders")
    other.new_member(0.5, TWO, 0, "Empty")
    reading, events = read(tmp_path, life("3.9"), other.text, group="orders")
    assert {event.get("group", "orders") for event in events} == {"orders"}
    assert reading.understood == len(other.lines)
    assert reading.groups.keys() == {"orders", "billing"}


def test_a_line_of_a_later_release_is_counted_with_an_example(tmp_path: Path) -> None:
    broker = Broker("4.4")
    broker.write(0, "Group billing was moved to another floor.")
    broker.write(0, "Group orders was moved to another floor.")
    reading, _ = read(tmp_path, broker.text + life("4.4"), group="billing")
    assert (reading.unknown, reading.example.startswith("0.log:1: [2026-11-27 09:26:06,123] INFO")) == (1, True)


LIFE = [line for release in ("2.0", "2.8", "3.9", "4.4") for line in life(release).splitlines()]
SOME_LINE = st.sampled_from(LIFE)


@settings(max_examples=examples(100))
@given(
    st.lists(
        SOME_LINE
        | st.binary(max_size=40)
        | st.builds(lambda line, end: line[:end], SOME_LINE, st.integers(0, 400))
        | st.builds(
            lambda line, at, part: line[:at] + part + line[at:], SOME_LINE, st.integers(0, 400), st.binary(max_size=9)
        ),
        max_size=60,
    )
)
def test_cut_shuffled_and_broken_lines_give_events_of_the_schema(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    _, events = read(tmp_path_factory.mktemp("logs"), b"\n".join(lines))
    assert [problem for event in events for problem in schema.problems(event)] == []
    history = History()
    for event in events:
        history.add(event)
