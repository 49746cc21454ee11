"""One partition shared by a group: locks, delivery counts and what acknowledgements do, on time as a number."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.broker.share_partition import (
    Acknowledge,
    AcquiredBatch,
    Offsets,
    RecordState,
    Refused,
    SharePartition,
)
from kafka_shim.broker.share_partition import ShareAcknowledgementBatch as Batch
from kafka_shim.groups.share.persister import ShareState

ACCEPT, RELEASE, REJECT, GAP, RENEW = (
    Acknowledge.ACCEPT,
    Acknowledge.RELEASE,
    Acknowledge.REJECT,
    Acknowledge.GAP,
    Acknowledge.RENEW,
)
TEN = [Offsets(0, 4), Offsets(5, 9)]


def shared(state: ShareState | None = None, *, deliveries: int = 5, in_flight: int = 100) -> SharePartition:
    state = state or ShareState()
    return SharePartition(state, max(state.start_offset, 0), most_deliveries=deliveries, most_in_flight=in_flight)


def acquire(
    partition: SharePartition, member: str = "m", batches: list[Offsets] = TEN, *, until: float = 30.0, **limits: int
) -> list[AcquiredBatch]:
    return partition.acquire(
        member,
        batches,
        until,
        max_records=limits.get("records", 500),
        batch_size=limits.get("size", 500),
        whole_batches=bool(limits.get("whole", 1)),
    )


def say(partition: SharePartition, kind: int, first: int, last: int | None = None, *, member: str = "m") -> bool:
    return partition.acknowledge(member, [Batch(first, first if last is None else last, [kind])], 60.0)


def test_what_one_member_has_another_does_not_get() -> None:
    partition = shared()
    assert acquire(partition) == [AcquiredBatch(0, 9, 1)]
    assert acquire(partition, "other") == []
    assert partition.first_to_fetch() == 10
    with pytest.raises(Refused, match="Member is not the owner") as refused:
        say(partition, ACCEPT, 3, member="other")
    assert refused.value.error == E.INVALID_RECORD_STATE


def test_what_is_released_is_delivered_again_and_counted() -> None:
    partition = shared()
    acquire(partition)
    assert say(partition, RELEASE, 3, 4)
    assert partition.first_to_fetch() == 3
    assert acquire(partition, "other") == [AcquiredBatch(3, 4, 2)]


def test_after_its_last_delivery_a_record_is_done() -> None:
    partition = shared(deliveries=2)
    for count in (1, 2):
        assert acquire(partition, batches=[Offsets(0, 0)]) == [AcquiredBatch(0, 0, count)]
        say(partition, RELEASE, 0)
    assert acquire(partition, batches=[Offsets(0, 0)]) == []
    assert (partition.start_offset, partition.first_to_fetch()) == (1, 1)


def test_the_group_begins_after_what_is_done() -> None:
    partition = shared()
    acquire(partition)
    say(partition, ACCEPT, 2, 3)
    assert partition.start_offset == 0
    say(partition, REJECT, 0)
    assert partition.start_offset == 1
    say(partition, GAP, 1)
    assert partition.start_offset == 4
    assert not say(partition, ACCEPT, 0, 2), "what is past is not looked at"


def test_the_state_keeps_what_was_acknowledged_and_where_the_group_was_then() -> None:
    state = ShareState()
    partition = shared(state)
    acquire(partition)
    assert (state.start_offset, state.completed) == (-1, 0)
    partition.acknowledge("m", [Batch(0, 2, [ACCEPT, ACCEPT, RELEASE])], 60.0)
    assert (state.start_offset, state.completed) == (0, 2)
    say(partition, ACCEPT, 4)
    assert (state.start_offset, state.completed) == (2, 1)
    successor = shared(state)
    assert not partition.is_current
    assert successor.start_offset == 2
    assert list(successor.states()) == [
        (Offsets(2, 2), RecordState.AVAILABLE, 1),
        (Offsets(3, 3), RecordState.AVAILABLE, 0),
        (Offsets(4, 4), RecordState.ACKNOWLEDGED, 1),
    ]
    assert acquire(successor, "other") == [AcquiredBatch(2, 2, 2), AcquiredBatch(3, 3, 1), AcquiredBatch(5, 9, 1)]


@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        ([Batch(10, 10, [1])], E.INVALID_REQUEST, "first offset in request is past"),
        ([Batch(9, 10, [1])], E.INVALID_REQUEST, "last offset in request is past"),
        (
            [Batch(0, 1, [1]), Batch(8, 8, [1])],
            E.INVALID_RECORD_STATE,
            "is not acquired",
        ),
        (
            [Batch(0, 1, [1]), Batch(1, 2, [2])],
            E.INVALID_RECORD_STATE,
            "is not acquired",
        ),
    ],
)
def test_what_is_refused_changes_nothing(batches: list[Batch], error: E, message: str) -> None:
    partition = shared()
    acquire(partition)
    say(partition, RELEASE, 8)
    before = list(partition.states())
    with pytest.raises(Refused, match=message) as refused:
        partition.acknowledge("m", batches, 60.0)
    assert refused.value.error == error
    assert list(partition.states()) == before


def test_a_lock_that_runs_out_lets_the_record_go() -> None:
    partition = shared()
    acquire(partition, batches=[Offsets(0, 1)], until=30.0)
    acquire(partition, "other", [Offsets(2, 3)], until=40.0)
    say(partition, RENEW, 1)
    assert partition.next_deadline == 30.0
    assert not partition.expire(29.9)
    assert partition.expire(30.0)
    assert acquire(partition, "third", [Offsets(0, 3)], until=90.0) == [AcquiredBatch(0, 0, 2)]
    assert partition.expire(60.0)
    assert acquire(partition, "third", [Offsets(0, 3)]) == [AcquiredBatch(1, 3, 2)]


def test_a_member_that_is_gone_lets_all_go() -> None:
    partition = shared()
    acquire(partition, batches=[Offsets(0, 1)])
    acquire(partition, "other", [Offsets(2, 3)])
    assert partition.release("m")
    assert not partition.release("m")
    assert partition.next_deadline == 30.0
    assert partition.release("other")
    assert partition.next_deadline == inf
    assert acquire(partition, "third", [Offsets(0, 3)]) == [AcquiredBatch(0, 3, 2)]


def test_a_batch_is_divided_only_if_it_may_be() -> None:
    assert acquire(shared(), records=3) == [AcquiredBatch(0, 4, 1)]
    partition = shared()
    assert acquire(partition, records=7, whole=0) == [AcquiredBatch(0, 6, 1)]
    assert partition.next_offset == 7
    assert acquire(partition, "other", records=7, whole=0) == [AcquiredBatch(7, 9, 1)]
    assert acquire(shared(), size=2) == [AcquiredBatch(0, 4, 1), AcquiredBatch(5, 9, 1)]


def test_no_more_are_in_flight_than_may_be() -> None:
    partition = shared(in_flight=5)
    assert acquire(partition) == [AcquiredBatch(0, 4, 1)]
    assert partition.first_to_fetch() is None
    say(partition, ACCEPT, 1, 4)
    assert partition.first_to_fetch() is None
    say(partition, RELEASE, 0)
    assert acquire(partition, "other") == [AcquiredBatch(0, 0, 2)]
    say(partition, ACCEPT, 0, member="other")
    assert partition.first_to_fetch() == 5


def test_what_the_log_has_dropped_is_nobodys() -> None:
    partition = shared()
    acquire(partition)
    say(partition, ACCEPT, 5, 6)
    partition.truncate(5)
    assert (partition.start_offset, partition.next_offset) == (7, 10)
    partition.truncate(20)
    assert (partition.start_offset, partition.first_to_fetch()) == (20, 20)


def test_aborted_records_are_done_at_once() -> None:
    partition = shared()
    taken = partition.acquire(
        "m", TEN, 30.0, max_records=500, batch_size=500, whole_batches=True, aborted=[Offsets(0, 4)]
    )
    assert taken == [AcquiredBatch(5, 9, 1)]
    assert partition.start_offset == 5


steps = st.lists(
    st.one_of(
        st.tuples(st.just("acquire"), st.sampled_from("ab"), st.integers(1, 6), st.booleans()),
        st.tuples(
            st.just("say"), st.sampled_from("ab"), st.integers(0, 20), st.integers(0, 3), st.sampled_from(Acknowledge)
        ),
        st.tuples(st.just("release"), st.sampled_from("ab")),
        st.tuples(st.just("wait"), st.integers(1, 40)),
        st.tuples(st.just("reload")),
    ),
    max_size=30,
)


@given(steps)
def test_no_record_has_two_members_and_none_comes_back_once_it_is_done(script: list[tuple[object, ...]]) -> None:
    """A model of what members hold beside the partition, on any history."""
    state, now = ShareState(start_offset=0), 0.0
    partition = shared(state, deliveries=3, in_flight=12)
    held: dict[int, tuple[str, float]] = {}
    done: set[int] = set()
    delivered: dict[int, int] = {}

    def gone(offset: int) -> None:
        del held[offset]
        if delivered[offset] == 3:
            done.add(offset)

    for step in script:
        match step:
            case ("acquire", str(member), int(records), bool(whole)):
                first = partition.first_to_fetch()
                if first is None:
                    continue
                batches = [Offsets(base, base + 2) for base in range(first - first % 3, first + 9, 3)]
                for first, last, count in acquire(
                    partition, member, batches, until=now + 30, records=records, whole=whole
                ):
                    for offset in range(first, last + 1):
                        assert offset not in held
                        assert offset not in done
                        delivered[offset] = delivered.get(offset, 0) + 1
                        assert count == delivered[offset] <= 3
                        held[offset] = member, now + 30
            case ("say", str(member), int(first), int(more), Acknowledge() as kind):
                offsets = range(first, first + more + 1)
                try:
                    partition.acknowledge(member, [Batch(first, first + more, [kind])], now + 30)
                except Refused:
                    assert any(each not in held or held[each][0] != member for each in offsets)
                    continue
                for offset in offsets:
                    if offset in held and held[offset][0] == member:
                        if kind is RENEW:
                            held[offset] = member, now + 30
                        else:
                            gone(offset)
                            if kind is not RELEASE:
                                done.add(offset)
            case ("release", str(member)):
                partition.release(member)
                for offset in [each for each, (owner, _) in held.items() if owner == member]:
                    gone(offset)
            case ("wait", int(seconds)):
                now += seconds
                partition.expire(now)
                for offset in [each for each, (_, until) in held.items() if until <= now]:
                    gone(offset)
            case _:
                # As when another broker leads: only what was acknowledged or released is known of.
                partition = shared(state, deliveries=3, in_flight=12)
                held.clear()
                delivered = {offset: count for offset, (_, count) in state.records.items()}
        assert all(offset in done for offset in range(partition.start_offset))
        in_flight = {
            offset: kind for part, kind, _ in partition.states() for offset in range(part.first, part.last + 1)
        }
        assert {offset for offset, kind in in_flight.items() if kind is RecordState.ACQUIRED} == held.keys()
        assert min(in_flight, default=partition.next_offset) == partition.start_offset
        assert partition.next_deadline == min((until for _, until in held.values()), default=inf)
