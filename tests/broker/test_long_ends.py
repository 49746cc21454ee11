"""The end of a transaction with many markers or offsets: in turns, and clients are served in between."""

import pytest

from kafka_shim.broker.transaction_ends import OFFSETS_AT_ONCE
from kafka_shim.groups.transactions import MAX_PENDING

from .transacting import UNSTABLE, Transacting


def with_partitions(partitions: int) -> Transacting:
    broker = Transacting()
    broker.cluster.topics.delete(broker.cluster.topics.named("t"))
    broker.cluster.topics.declare("t", partitions)
    return broker


@pytest.fixture
def groups_of_all() -> tuple[Transacting, list[str]]:
    """Return a broker, and a group in each partition of `__consumer_offsets`."""
    broker = with_partitions(OFFSETS_AT_ONCE)
    by_partition = {broker.service.partition_of(group): group for group in map(str, range(100))}
    return broker, [by_partition[partition] for partition in range(4)]


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_end_partition_by_partition(groups_of_all: tuple[Transacting, list[str]], commit: bool) -> None:
    broker, groups = groups_of_all
    producer = broker.init()
    for group in groups:
        assert set(broker.commit_in(producer, dict.fromkeys(range(OFFSETS_AT_ONCE), 7), group=group)) == {0}
    next_producer = broker.end(producer, commit=commit)
    assert isinstance(next_producer, tuple)
    unstable, ended = dict.fromkeys(range(3), UNSTABLE), dict.fromkeys(range(3), 7) if commit else {}
    for count in range(1, 5):
        seen = [broker.offsets(group=group) for group in groups]
        assert seen == [ended] * count + [unstable] * (4 - count)
        assert broker.add(next_producer, 0) == [51 if count < 4 else 0]
        broker.service.fire(broker.now)
        broker.settle()
    assert broker.service.counters.marker_retries == 0


def test_an_end_goes_on_after_a_restart_between_its_turns(groups_of_all: tuple[Transacting, list[str]]) -> None:
    broker, groups = groups_of_all
    producer = broker.init()
    for group in groups:
        broker.commit_in(producer, dict.fromkeys(range(OFFSETS_AT_ONCE), 7), group=group)
    broker.end(producer)
    broker.restart()
    for _ in groups:
        broker.service.fire(broker.now)
        broker.settle()
    assert [broker.offsets(group=group) for group in groups] == [dict.fromkeys(range(3), 7)] * 4


def test_markers_are_written_in_turns() -> None:
    broker = with_partitions(OFFSETS_AT_ONCE)
    producer = broker.init()
    assert set(broker.add(producer, *range(OFFSETS_AT_ONCE))) == {0}
    broker.end(producer)
    logs = [each.log for each in broker.cluster.topics.named("t").partitions]
    assert sum(log.end_offset for log in logs) == OFFSETS_AT_ONCE // 2
    broker.service.fire(broker.now)
    broker.settle()
    assert [log.end_offset for log in logs] == [1] * OFFSETS_AT_ONCE
    assert broker.add(broker.init(), 0) == [0]


def test_a_producer_has_a_bound_of_pending_offsets_in_a_partition() -> None:
    most = MAX_PENDING // 2
    broker = with_partitions(most)
    groups = [group for group in map(str, range(100)) if broker.service.partition_of(group) == 0]
    producer = broker.init()
    for group in groups[:2]:
        assert set(broker.commit_in(producer, dict.fromkeys(range(most), 1), group=group)) == {0}
    assert broker.commit_in(producer, {0: 2}, group=groups[0]) == [0]
    assert broker.commit_in(producer, {0: 2}, group=groups[2]) == [-1]
    broker.end(producer)
    assert [broker.offsets(group=group) for group in groups[:3]] == [{0: 2, 1: 1, 2: 1}, {0: 1, 1: 1, 2: 1}, {}]
