"""Parked fetches: the wait ends when there are enough bytes, and a change costs the same beside many partitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.fetch import FetchPartition, FetchResponse, FetchTopic
from kafka_shim.broker.batches import parse_batch
from kafka_shim.broker.fetch_sessions import next_epoch
from kafka_shim.broker.fetch_state import FetchedPartition
from kafka_shim.broker.log import PartitionLog
from kafka_shim.conformance.record_batch import record_batch
from tests.broker.context import EPOCH_MS, Cluster, batch, fetch_request

PARTITIONS = 3
indexes = st.integers(0, PARTITIONS - 1)
positions = st.tuples(st.integers(0, 4), st.sampled_from([-1, 0, 60, 100, 300, 1000]))
"""Offset and largest number of bytes."""


class Asking:
    """A client with a session, and a look at all of its partitions."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.logs = [each.log for each in self.cluster.topics.declare("t", PARTITIONS).partitions]
        self.positions = dict.fromkeys(range(PARTITIONS), (0, 1000))
        self.id = self.epoch = 0
        self.others = 0
        self.sequences = [0] * PARTITIONS
        self.waits_for: int | None = None
        self.read_committed = False

    def is_ready(self, min_bytes: int) -> bool:
        logs = [(self.logs[index], offset, most) for index, (offset, most) in self.positions.items()]
        if not all(log.has(offset) for log, offset, _ in logs):
            return True
        return min_bytes <= sum(min(log.readable(at, committed=self.read_committed), most) for log, at, most in logs)

    def ask(self, changes: dict[int, tuple[int, int]], min_bytes: int) -> None:
        if self.waits_for is not None:
            return
        self.positions |= changes
        request = fetch_request(
            session_id=self.id,
            session_epoch=self.epoch,
            isolation_level=int(self.read_committed),
            min_bytes=min_bytes,
            max_wait_ms=100_000,
        )
        asked = [
            FetchPartition(index, fetch_offset=offset, partition_max_bytes=most)
            for index, (offset, most) in (changes if self.epoch else self.positions).items()
        ]
        request.topics = [FetchTopic("t", partitions=asked)]
        self.waits_for = min_bytes
        answer = self.cluster.fetch(request)
        self.hear([answer] if isinstance(answer, FetchResponse) else [])

    def hear(self, answers: list[FetchResponse]) -> None:
        assert self.waits_for is not None
        assert bool(answers) == self.is_ready(self.waits_for)
        for answer in answers:
            assert answer.error_code == 0
            self.id, self.epoch, self.waits_for = answer.session_id, next_epoch(self.epoch), None

    def settle(self) -> None:
        self.cluster.topics.settle(0.0)
        answers = [answer for _, answer in self.cluster.replies()]
        if self.waits_for is not None:
            self.hear(answers)

    def produce(self, index: int, transactional: bool) -> None:
        data = batch(b"v")
        if transactional:
            data = record_batch([b"v"], EPOCH_MS, (1, 0, self.sequences[index]), transactional=True)
            self.sequences[index] += 1
        self.logs[index].append(parse_batch(data, max_bytes=2**20), None, 0.0)
        self.settle()

    def end_transaction(self, index: int) -> None:
        self.logs[index].end_transaction(1, 0, 0, EPOCH_MS, 0.0, committed=True)
        self.settle()

    def cut(self, index: int) -> None:
        self.logs[index].cut(min(self.logs[index].start_offset + 1, self.logs[index].end_offset))
        self.settle()

    def change_isolation(self) -> None:
        if self.waits_for is None:
            self.read_committed = not self.read_committed

    def make_topic(self) -> None:
        self.others += 1
        self.cluster.topics.declare(f"other-{self.others}", 1)
        self.settle()


ASKED = st.tuples(st.just(Asking.ask), st.dictionaries(indexes, positions, max_size=2), st.integers(1, 500))
STEPS = st.one_of(
    ASKED,
    ASKED,
    st.tuples(st.just(Asking.produce), indexes, st.booleans()),
    st.tuples(st.just(Asking.end_transaction), indexes),
    st.tuples(st.just(Asking.cut), indexes),
    st.tuples(st.just(Asking.change_isolation)),
    st.tuples(st.just(Asking.make_topic)),
)


@given(st.lists(STEPS, min_size=5, max_size=40))
def test_fetch_waits_until_a_look_at_all_partitions_finds_enough(steps: list[tuple[object, ...]]) -> None:
    asking = Asking()
    for step, *arguments in steps:
        assert callable(step)
        step(asking, *arguments)


def looks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets each partition or log that a fetch looks at from now on."""
    seen: list[object] = []
    refusal, readable = FetchedPartition.refusal, PartitionLog.readable

    def counted_refusal(part: FetchedPartition, node_id: int) -> int:
        seen.append(part)
        return refusal(part, node_id)

    def counted_readable(log: PartitionLog, offset: int, *, committed: bool = False) -> int:
        seen.append(log)
        return readable(log, offset, committed=committed)

    monkeypatch.setattr(FetchedPartition, "refusal", counted_refusal)
    monkeypatch.setattr(PartitionLog, "readable", counted_readable)
    return seen


@pytest.mark.parametrize("session_epoch", [0, -1])
@pytest.mark.parametrize("unknown", [0, 1000])
def test_change_of_one_log_leads_to_no_look_at_the_others(
    monkeypatch: pytest.MonkeyPatch, session_epoch: int, unknown: int
) -> None:
    cluster = Cluster()
    cluster.topics.declare("t", 1000)
    asked = [("t", index, 0) for index in range(1000)] + [("nope", index, 0) for index in range(unknown)]
    data = batch(b"a")
    cluster.fetch(fetch_request(*asked, session_epoch=session_epoch, min_bytes=len(data) * 11))
    seen = looks(monkeypatch)
    for index in range(10):
        cluster.send("t", index % 2, data)
    assert len(seen) <= 20
    assert not cluster.replies()
    cluster.send("t", 5, data)
    assert len(cluster.replies()) == 1
