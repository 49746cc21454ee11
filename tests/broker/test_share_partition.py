"""One partition shared by a group: locks, delivery counts and acknowledgements, with time as a number."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.releases import rules_of
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.broker.share_batches import InFlight, Offsets, RecordState
from kafka_shim.broker.share_partition import Acknowledge, AcquiredBatch, Reader, Refused, SharePartition
from kafka_shim.broker.share_partition import ShareAcknowledgementBatch as Batch
from kafka_shim.groups.share.persister import Place, SharePersister, ShareState, StateBatch
from tests.effort import effort

ACCEPT, RELEASE, REJECT, GAP, RENEW = (
    Acknowledge.ACCEPT,
    Acknowledge.RELEASE,
    Acknowledge.REJECT,
    Acknowledge.GAP,
    Acknowledge.RENEW,
)
TEN = [Offsets(0, 4), Offsets(5, 9)]


PLACE = Place("g", bytes(range(16)), 0)


def shared(states: SharePersister | None = None, *, deliveries: int = 5, in_flight: int = 100) -> SharePartition:
    """A partition that goes on with the state that the group has in it, or begins at 0."""
    states = states or SharePersister()
    states.initialize(PLACE, 1)
    state = state_of(states)
    start = max(state.start_offset, 0)
    return SharePartition(states, PLACE, state, start, most_deliveries=deliveries, most_in_flight=in_flight)


def state_of(states: SharePersister) -> ShareState:
    state = states.get(PLACE)
    assert state is not None
    return state


def acquire(
    partition: SharePartition, member: str = "m", batches: list[Offsets] = TEN, *, until: float = 30.0, **limits: int
) -> list[AcquiredBatch]:
    reader = Reader(member, until, limits.get("records", 500), limits.get("size", 500), bool(limits.get("whole", 1)))
    fetch_offset = partition.first_to_fetch()
    return [] if fetch_offset is None else partition.acquire(reader, fetch_offset, batches)


def offsets_of(partition: SharePartition) -> dict[int, tuple[RecordState, int]]:
    """State and delivery count of each offset in flight."""
    return {offset: (run.state, run.count) for run in partition.in_flight for offset in range(run.first, run.last + 1)}


def say(partition: SharePartition, kind: int, first: int, last: int | None = None, *, member: str = "m") -> bool:
    return partition.acknowledge(member, [Batch(first, first if last is None else last, [kind])], 60.0)


def test_a_locked_record_goes_to_no_other_member() -> None:
    partition = shared()
    assert acquire(partition) == [AcquiredBatch(0, 9, 1)]
    assert acquire(partition, "other") == []
    assert partition.first_to_fetch() == 10
    with pytest.raises(Refused, match="Member is not the owner") as refused:
        say(partition, ACCEPT, 3, member="other")
    assert refused.value.error == E.INVALID_RECORD_STATE


def test_a_released_record_is_delivered_again_and_counted() -> None:
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
    assert (partition.in_flight.start_offset, partition.first_to_fetch()) == (1, 1)


def test_the_group_starts_after_the_done_records() -> None:
    partition = shared()
    acquire(partition)
    say(partition, ACCEPT, 2, 3)
    assert partition.in_flight.start_offset == 0
    say(partition, REJECT, 0)
    assert partition.in_flight.start_offset == 1
    say(partition, GAP, 1)
    assert partition.in_flight.start_offset == 4
    assert not say(partition, ACCEPT, 0, 2), "what is past is not looked at"


def test_the_state_keeps_acknowledgements_and_the_start_of_the_group() -> None:
    states = SharePersister()
    partition = shared(states)
    state = state_of(states)
    acquire(partition)
    assert (state.start_offset, state.completed) == (-1, 0)
    partition.acknowledge("m", [Batch(0, 2, [ACCEPT, ACCEPT, RELEASE])], 60.0)
    assert (state.start_offset, state.completed) == (0, 2)
    say(partition, ACCEPT, 4)
    assert (state.start_offset, state.completed) == (2, 1)
    successor = shared(states)
    assert not partition.is_current
    assert successor.in_flight.start_offset == 2
    assert [(run.first, run.last, run.state, run.count) for run in successor.in_flight] == [
        (2, 2, RecordState.AVAILABLE, 1),
        (4, 4, RecordState.ACKNOWLEDGED, 1),
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
def test_a_refused_acknowledgement_changes_nothing(batches: list[Batch], error: E, message: str) -> None:
    partition = shared()
    acquire(partition)
    say(partition, RELEASE, 8)
    before = offsets_of(partition)
    with pytest.raises(Refused, match=message) as refused:
        partition.acknowledge("m", batches, 60.0)
    assert refused.value.error == error
    assert offsets_of(partition) == before


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
    assert acquire(partition, "third", [Offsets(0, 3)]) == [AcquiredBatch(1, 1, 2), AcquiredBatch(2, 3, 2)]


def test_a_lost_member_releases_all_records() -> None:
    partition = shared()
    acquire(partition, batches=[Offsets(0, 1)])
    acquire(partition, "other", [Offsets(2, 3)])
    assert partition.release("m")
    assert not partition.release("m")
    assert partition.next_deadline == 30.0
    assert partition.release("other")
    assert partition.next_deadline == inf
    assert acquire(partition, "third", [Offsets(0, 3)]) == [AcquiredBatch(0, 1, 2), AcquiredBatch(2, 3, 2)]


def test_a_batch_is_divided_only_if_it_may_be() -> None:
    assert acquire(shared(), records=3) == [AcquiredBatch(0, 4, 1)]
    partition = shared()
    assert acquire(partition, records=7, whole=0) == [AcquiredBatch(0, 6, 1)]
    assert partition.in_flight.next_offset == 10, "the batch in flight is whole, and its rest is available"
    assert acquire(partition, "other", records=7, whole=0) == [AcquiredBatch(7, 9, 1)]
    assert acquire(shared(), size=2) == [AcquiredBatch(0, 4, 1), AcquiredBatch(5, 9, 1)]


def test_records_in_flight_are_bounded() -> None:
    partition = shared(in_flight=5)
    assert acquire(partition) == [AcquiredBatch(0, 4, 1)]
    assert partition.first_to_fetch() is None
    say(partition, ACCEPT, 1, 4)
    assert partition.first_to_fetch() is None
    say(partition, RELEASE, 0)
    assert acquire(partition, "other") == [AcquiredBatch(0, 0, 2)]
    say(partition, ACCEPT, 0, member="other")
    assert partition.first_to_fetch() == 5


def test_records_that_the_log_dropped_are_not_delivered() -> None:
    partition = shared()
    acquire(partition)
    say(partition, ACCEPT, 5, 6)
    partition.in_flight.truncate(5)
    assert (partition.in_flight.start_offset, partition.in_flight.next_offset) == (5, 10)
    say(partition, ACCEPT, 7, 8)
    assert partition.in_flight.start_offset == 5, "what is locked before the start keeps the group there"
    assert partition.expire(30.0)
    assert partition.in_flight.start_offset == 9
    partition.in_flight.truncate(20)
    assert (partition.in_flight.start_offset, partition.first_to_fetch()) == (20, 20)


def test_a_batch_of_the_log_that_begins_before_all_in_flight_meets_them() -> None:
    partition = shared()
    acquire(partition, batches=[Offsets(1, 2)])
    partition.release("m")
    partition.in_flight.truncate(2)
    assert acquire(partition, batches=[Offsets(0, 11)]) == [AcquiredBatch(2, 2, 2), AcquiredBatch(3, 11, 1)]
    assert sorted((run.first, run.last) for run in partition.in_flight) == [(1, 1), (2, 2), (3, 11)]


def test_aborted_records_are_done_at_once() -> None:
    partition = shared()
    taken = partition.acquire(Reader("m", 30.0, 500, 500, True), 0, TEN, [Offsets(0, 4)])
    assert taken == [AcquiredBatch(5, 9, 1)]
    assert partition.in_flight.start_offset == 5


def test_aborted_records_divide_the_others() -> None:
    partition = shared()
    reader = Reader("m", 30.0, 500, 5, True)
    aborted = [Offsets(1, 1), Offsets(3, 6), Offsets(9, 9)]
    taken = partition.acquire(reader, 0, TEN, aborted)
    assert taken == [AcquiredBatch(0, 0, 1), AcquiredBatch(2, 2, 1), AcquiredBatch(7, 8, 1)]
    done = [offset for offset, (state, _) in offsets_of(partition).items() if state is RecordState.ARCHIVED]
    assert done == [1, 3, 4, 5, 6, 9]


def delivered_and_released(partition: SharePartition, batches: list[Offsets]) -> list[AcquiredBatch]:
    """Acquire batches and release them all; return them."""
    taken = acquire(partition, batches=batches)
    for first, last, _ in taken:
        say(partition, RELEASE, first, last)
    return taken


def test_records_delivered_often_come_in_halves_and_alone_in_the_end() -> None:
    partition, eight = shared(), [Offsets(0, 7)]
    for count in (1, 2, 3):
        assert delivered_and_released(partition, eight) == [AcquiredBatch(0, 7, count)]
    assert delivered_and_released(partition, eight) == [AcquiredBatch(0, 3, 4)]
    for offset in range(4):
        assert acquire(partition, batches=eight) == [AcquiredBatch(offset, offset, 5)]
        say(partition, ACCEPT if offset else RELEASE, offset)
    assert delivered_and_released(partition, eight) == [AcquiredBatch(4, 7, 4)]
    assert acquire(partition, batches=eight) == [AcquiredBatch(4, 4, 5)]
    assert partition.in_flight.start_offset == 4


def test_records_delivered_often_come_without_others() -> None:
    partition, two = shared(), [Offsets(0, 1), Offsets(2, 3)]
    for _ in range(3):
        delivered_and_released(partition, two[:1])
    assert acquire(partition, batches=two) == [AcquiredBatch(0, 0, 4)]


def test_batches_in_flight_keep_the_shape_in_which_they_were_acquired() -> None:
    partition = shared()
    assert acquire(partition, batches=TEN[:1]) == [AcquiredBatch(0, 4, 1)]
    assert acquire(partition, batches=TEN[1:]) == [AcquiredBatch(5, 9, 1)]
    partition.release("m")
    assert acquire(partition) == [AcquiredBatch(0, 4, 2), AcquiredBatch(5, 9, 2)]
    joined = shared()
    assert acquire(joined) == [AcquiredBatch(0, 9, 1)]
    joined.release("m")
    assert acquire(joined, records=1) == [AcquiredBatch(0, 9, 2)], "what was acquired together is one batch"


def test_the_record_limit_joins_batches() -> None:
    partition = shared()
    assert acquire(partition, size=2, whole=0) == [AcquiredBatch(0, 9, 1)]


def test_compacted_offsets_are_done() -> None:
    """A fetch from an offset that was compacted away finds a later batch."""
    partition = shared()
    three = [Offsets(0, 4), Offsets(5, 9), Offsets(10, 14)]
    for each in three:
        acquire(partition, batches=[each])
    say(partition, ACCEPT, 0, 4)
    partition.release("m")
    assert partition.first_to_fetch() == 5
    assert acquire(partition, batches=three[2:]) == [AcquiredBatch(10, 14, 2)]
    say(partition, ACCEPT, 10, 14)
    assert (partition.in_flight.start_offset, partition.first_to_fetch()) == (15, 15)


def test_a_batch_that_is_compacted_in_part_is_acquired_whole_with_its_holes() -> None:
    partition = shared()
    assert acquire(partition, batches=[Offsets(3, 4), Offsets(8, 9)]) == [AcquiredBatch(3, 9, 1)]
    say(partition, RELEASE, 5, 6)
    assert acquire(partition, batches=[Offsets(8, 9)]) == [], "nothing of the hole is there"
    say(partition, ACCEPT, 3, 4)
    assert partition.in_flight.start_offset == 7


def test_a_batch_of_many_offsets_costs_as_much_as_one() -> None:
    partition = shared()
    assert acquire(partition, batches=[Offsets(0, 2**40)]) == [AcquiredBatch(0, 2**40, 1)]
    say(partition, RELEASE, 5, 2**39)
    assert len(list(partition.in_flight)) == 3


@pytest.mark.parametrize("together", [True, False])
def test_the_work_of_an_acknowledgement_grows_as_its_types(together: bool) -> None:
    def work(size: int) -> int:
        partition = shared(in_flight=size)
        acquire(partition, batches=[Offsets(0, size - 1)])
        types = [ACCEPT, RELEASE] * (size // 2)
        batches = [Batch(at, at, [kind]) for at, kind in enumerate(types)]
        if together:
            batches = [Batch(0, size - 1, types)]
        count = effort(lambda: partition.acknowledge("m", batches, 60.0))
        assert len(list(partition.in_flight)) == size
        return count + effort(lambda: acquire(partition))

    assert work(800) < 6 * work(200)


def test_types_divide_the_records_only_between_unequal_ones() -> None:
    partition = shared()
    acquire(partition)
    say(partition, RELEASE, 4)
    acquire(partition)
    partition.acknowledge("m", [Batch(2, 7, [RELEASE, RELEASE, RELEASE, RELEASE, ACCEPT, RENEW])], 60.0)
    assert [(run.first, run.last, run.state) for run in partition.in_flight] == [
        (0, 1, RecordState.ACQUIRED),
        (2, 3, RecordState.AVAILABLE),
        (4, 4, RecordState.AVAILABLE),
        (5, 5, RecordState.AVAILABLE),
        (6, 6, RecordState.ACKNOWLEDGED),
        (7, 7, RecordState.ACQUIRED),
        (8, 9, RecordState.ACQUIRED),
    ]


def test_an_acknowledgement_needs_a_record_in_flight() -> None:
    with pytest.raises(Refused, match="not found in the cache") as refused:
        say(shared(), ACCEPT, 0)
    assert refused.value.error == E.INVALID_RECORD_STATE


def test_an_altered_state_is_not_overwritten_by_an_earlier_reader() -> None:
    states = SharePersister()
    partition = shared(states)
    acquire(partition)
    states.reset(PLACE, 1, 7)
    say(partition, ACCEPT, 0)
    assert state_of(states).start_offset == 0, "in the epoch in which it was read it is"
    states.reset(PLACE, 2, 7)
    with pytest.raises(Refused, match="state epoch did not match") as refused:
        say(partition, ACCEPT, 1)
    assert refused.value.error == E.NOT_LEADER_OR_FOLLOWER
    assert state_of(states).start_offset == 7
    assert partition.expire(30.0), "locks run out all the same"
    assert state_of(states).start_offset == 7
    states.delete(PLACE)
    acquire(partition)
    with pytest.raises(Refused, match="uninitialized share partition") as refused:
        say(partition, ACCEPT, 1)
    assert refused.value.error == E.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("release", "sentence"),
    [
        ("4.3", "The share coordinator rejected the request because the share-group state epoch did not match."),
        ("4.4", "The coordinator rejected the request because the state epoch did not match."),
    ],
)
def test_the_text_of_a_fenced_state_epoch_is_that_of_the_release(release: str, sentence: str) -> None:
    states = SharePersister()
    states.initialize(PLACE, 1)
    limits = {"most_deliveries": 5, "most_in_flight": 100}
    partition = SharePartition(states, PLACE, state_of(states), 0, rules=rules_of(release), **limits)
    acquire(partition)
    states.reset(PLACE, 2, 0)
    with pytest.raises(Refused) as refused:
        say(partition, ACCEPT, 0)
    assert refused.value.message == f"Error in write state RPC. {sentence}"


def test_newer_states_take_the_place_of_older_ones() -> None:
    state = ShareState()
    state.write(0, 0, [StateBatch(0, 9, 0, 1)])
    state.write(0, 3, [StateBatch(2, 4, 2, 1), StateBatch(8, 12, 0, 1)])
    assert state.batches == [StateBatch(0, 1, 0, 1), StateBatch(2, 4, 2, 1), StateBatch(5, 12, 0, 1)]
    state.write(5, 0, [StateBatch(6, 6, 4, 1)])
    assert state.batches == [StateBatch(5, 5, 0, 1), StateBatch(6, 6, 4, 1), StateBatch(7, 12, 0, 1)]


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
    """Compare the partition with a model of the members' locks, on any history."""
    states, now = SharePersister(), 0.0
    states.reset(PLACE, 1, 0)
    partition = shared(states, deliveries=3, in_flight=12)
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
                # As when another broker leads: it knows only acknowledged and released records.
                partition = shared(states, deliveries=3, in_flight=12)
                held.clear()
                delivered = {
                    offset: count
                    for first, last, _, count in state_of(states).batches
                    for offset in range(first, last + 1)
                }
        assert all(offset in done for offset in range(partition.in_flight.start_offset))
        in_flight = {offset: run.state for run in partition.in_flight for offset in range(run.first, run.last + 1)}
        assert {offset for offset, kind in in_flight.items() if kind is RecordState.ACQUIRED} == held.keys()
        assert partition.next_deadline == min((until for _, until in held.values()), default=inf)


def test_gap_in_the_state_begins_at_the_start_of_the_log() -> None:
    """The state lacks offsets that the log no longer has."""
    in_flight = InFlight(0, [(5, 6, RecordState.AVAILABLE, 1)])
    assert in_flight.first_available() == 0
    in_flight.truncate(3)
    assert in_flight.first_available() == 3
    in_flight.truncate(5)
    assert in_flight.first_available() == 5
