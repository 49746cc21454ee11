"""When offsets go away by themselves: the table of semantics 3.4, row by row, with time as a number.

Retention is 60 minutes, a pass runs every 10 minutes; both in seconds below.
"""

from typing import Any

import pytest

from kafka_shim.groups.offsets import LOOKS_AT_ONCE
from kafka_shim.persistence.records import (
    NO_TOPIC_ID,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafka_shim.trace import schema
from tests.groups.offsets_coordinator import START_MS, Coordinator

FOO0, BAR0 = ("foo", 0), ("bar", 0)
PASS, RETENTION = 600, 3600


def coordinator() -> Coordinator:
    return Coordinator(
        offsets_retention_minutes=RETENTION // 60,
        offsets_retention_check_interval_ms=PASS * 1000,
        group_max_session_timeout_ms=10_000_000,
    )


def stable(here: Coordinator, *topics: str, **how: Any) -> tuple[str, int]:
    return here.stable("grp", *topics, session_ms=10_000_000, **how)


def test_the_first_pass_is_one_interval_after_loading() -> None:
    here = coordinator()
    assert here.service.next_deadline() == PASS
    here.advance(PASS - 1)
    here.restart()
    assert here.service.next_deadline() == 2 * PASS - 1


def test_a_simple_group_counts_from_the_commit() -> None:
    here = coordinator()
    here.commit("grp", {FOO0: 1})
    here.advance(PASS + 1)
    here.commit("grp", {BAR0: 1})
    here.advance(RETENTION - PASS - 2)
    assert here.fetch("grp") == {FOO0: 1, BAR0: 1}
    here.advance(1)
    assert here.fetch("grp") == {BAR0: 1}
    here.advance(PASS)
    assert here.fetch("grp") == {BAR0: 1}
    here.advance(PASS)
    assert here.fetch("grp") == {}
    assert "grp" not in here.service.groups
    assert list(here.store.load(0)) == []


def test_an_empty_classic_group_counts_from_when_it_became_empty() -> None:
    here = coordinator()
    member, generation = stable(here, "foo")
    here.commit("grp", {FOO0: 1}, member=member, generation=generation)
    here.advance(2 * RETENTION)
    assert here.fetch("grp") == {FOO0: 1}
    here.leave("grp", member)
    here.advance(RETENTION - 1)
    assert here.fetch("grp") == {FOO0: 1}
    here.advance(1)
    assert here.fetch("grp") == {}
    assert "grp" not in here.service.groups


def test_retention_counts_from_the_same_moment_after_a_restart() -> None:
    here = coordinator()
    member, generation = stable(here, "foo")
    here.commit("grp", {FOO0: 1}, member=member, generation=generation)
    here.advance(2 * RETENTION)
    here.leave("grp", member)
    here.advance(RETENTION - 100)
    # A new process has clocks of its own; the time of day goes on.
    here.restart()
    here.advance(99)
    assert here.fetch("grp") == {FOO0: 1}
    here.advance(PASS)
    assert here.fetch("grp") == {}


def test_an_empty_group_of_old_counts_from_the_commit() -> None:
    here = coordinator()
    here.store.write(
        [
            (0, GroupMetadataKey("grp"), GroupMetadataValue("consumer", 3, None, None, -1, [])),
            (0, OffsetCommitKey("grp", "foo", 0), OffsetCommitValue(1, -1, "", START_MS - 1000 * (RETENTION - PASS))),
        ]
    )
    here.restart()
    here.advance(PASS - 1)
    assert here.fetch("grp") == {FOO0: 1}
    here.advance(1)
    assert here.fetch("grp") == {}


def test_a_stable_consumer_group_loses_only_unsubscribed_topics() -> None:
    here = coordinator()
    here.commit("grp", {FOO0: 1, BAR0: 1})
    stable(here, "foo")
    here.advance(RETENTION - 1)
    assert here.fetch("grp") == {FOO0: 1, BAR0: 1}
    here.advance(1)
    assert here.fetch("grp") == {FOO0: 1}
    here.advance(RETENTION)
    assert here.fetch("grp") == {FOO0: 1}


def test_a_group_with_members_outlives_its_last_offset() -> None:
    here = coordinator()
    here.commit("grp", {BAR0: 1})
    stable(here, "foo")
    here.advance(RETENTION)
    assert here.fetch("grp") == {}
    assert here.service.groups["grp"].state == "Stable"


def test_nothing_expires_while_a_group_rebalances() -> None:
    here = coordinator()
    here.commit("grp", {BAR0: 1})
    first, _ = stable(here, "foo")
    here.join("grp", "foo", session_ms=10_000_000)
    here.join("grp", "foo", session_ms=10_000_000, member_id=first)
    group = here.service.groups["grp"]
    assert group.state == "CompletingRebalance"
    here.service.timers.cancel(group.sync_timer)
    here.advance(RETENTION + PASS)
    assert here.fetch("grp") == {BAR0: 1}


@pytest.mark.parametrize("how", [{"metadata": b"\0"}, {"metadata": b"x", "protocol_type": "connect"}])
def test_nothing_expires_while_subscriptions_are_not_known(how: dict[str, Any]) -> None:
    here = coordinator()
    here.commit("grp", {BAR0: 1})
    stable(here, **how)
    here.advance(RETENTION + PASS)
    assert here.fetch("grp") == {BAR0: 1}


def test_an_explicit_time_overrules_retention_both_ways() -> None:
    here = coordinator()
    here.commit("grp", {FOO0: 1}, retention_ms=PASS * 1000, version=4)
    here.commit("grp", {BAR0: 1}, retention_ms=2 * RETENTION * 1000, version=2)
    here.advance(PASS - 1)
    assert here.fetch("grp") == {FOO0: 1, BAR0: 1}
    here.advance(1)
    assert here.fetch("grp") == {BAR0: 1}
    here.advance(2 * RETENTION - PASS - 1)
    assert here.fetch("grp") == {BAR0: 1}
    here.advance(1)
    assert here.fetch("grp") == {}


def test_an_explicit_time_does_not_count_while_the_topic_is_subscribed() -> None:
    here = coordinator()
    here.commit("grp", {FOO0: 1}, retention_ms=0, version=4)
    stable(here, "foo")
    here.advance(PASS)
    assert here.fetch("grp") == {FOO0: 1}


def test_an_empty_group_that_never_had_offsets_goes_at_the_next_pass() -> None:
    here = coordinator()
    member, _ = stable(here, "foo")
    here.leave("grp", member)
    here.advance(PASS - 1)
    assert "grp" in here.service.groups
    here.advance(1)
    assert "grp" not in here.service.groups
    assert list(here.store.load(0)) == []


def test_a_deleted_topic_takes_its_offsets_along_in_all_groups() -> None:
    here = coordinator()
    here.commit("grp", {FOO0: 1, BAR0: 2})
    here.commit("other", {FOO0: 3, ("foo", 1): 4})
    here.service.topic_deleted("foo", NO_TOPIC_ID, here.now)
    here.settle()
    assert here.fetch("grp") == {BAR0: 2}
    assert here.fetch("other") == {}
    assert [key for key, _ in here.store.load(0)] == [OffsetCommitKey("grp", "bar", 0)]
    assert here.service.counters.offset_deletions == 3


def test_a_topic_deleted_while_a_partition_loads_takes_its_offsets_along_too() -> None:
    here = coordinator()
    here.commit("grp", {FOO0: 1, BAR0: 2})
    here.service.unload(0, here.now)
    here.service.begin_loading(0)
    here.service.topic_deleted("foo", NO_TOPIC_ID, here.now)
    here.service.load(0, here.store.load(0), here.now)
    here.settle()
    assert here.fetch("grp") == {BAR0: 2}


def test_expired_offsets_are_traced_and_counted() -> None:
    here = coordinator()
    here.commit("grp", {FOO0: 1, BAR0: 1})
    here.advance(RETENTION)
    (event,) = here.events("offsets_expired")
    assert event["group"] == "grp"
    assert event["offsets"] == [{"topic": "foo", "partition": 0}, {"topic": "bar", "partition": 0}]
    assert [event["change"] for event in here.events("group")] == ["expired"]
    assert [problem for event in here.outbox.events for problem in schema.problems(event)] == []
    assert here.service.counters.offset_expirations == 2


def with_many_offsets() -> Coordinator:
    """Return a coordinator with five parts of a pass in one group, and a small group after it."""
    here = coordinator()
    many = {f"t{number}": LOOKS_AT_ONCE for number in range(5)}
    here.broker.topics.partitions |= many
    for topic in many:
        errors = here.commit("large", {(topic, number): 1 for number in range(LOOKS_AT_ONCE)})
        assert set(errors.values()) == {0}
    here.commit("small", {FOO0: 1})
    here.now = RETENTION + PASS
    return here


def test_clients_are_served_between_the_parts_of_a_pass() -> None:
    here = with_many_offsets()
    for part in range(1, 6):
        here.service.fire(here.now)
        assert here.service.next_deadline() == here.now
        assert here.service.shards[0].offsets.count == (5 - part) * LOOKS_AT_ONCE + min(part, 2)
        here.commit("new", {BAR0: part})
        here.settle()
    here.service.fire(here.now)
    assert here.service.next_deadline() == here.now + PASS
    assert list(here.service.groups) == ["new"]
    assert here.fetch("new") == {BAR0: 5}
    assert here.service.counters.offset_expirations == 5 * LOOKS_AT_ONCE + 1


def test_a_pass_goes_on_after_the_deletion_of_its_group() -> None:
    here = with_many_offsets()
    here.service.fire(here.now)
    here.service.delete(["large"], here.now)
    here.service.fire(here.now)
    assert here.service.next_deadline() == here.now + PASS
    assert not here.service.groups
