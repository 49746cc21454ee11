"""Consumers that follow the protocol, with and without sessions, against random producers, growth, and time.

Each consumer gets every record of every partition once and in order, and an answer in time.
"""

from __future__ import annotations

from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.fetch_sessions import next_epoch
from tests.broker.context import Cluster, batch, records_of

PARTITIONS = 3
MAX_WAIT = 0.5


class Consumer:
    """One consumer: the records it read, its positions and the answer it waits for."""

    def __init__(self, cluster: Cluster, name: str, *, sessions: bool) -> None:
        self.cluster = cluster
        self.name = name
        self.sessions = sessions
        self.read: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        self.assignment = set(self.read)
        self.positions_in_session: dict[int, int] = {}
        self.session_id = 0
        self.epoch = 0 if sessions else -1
        self.asked_at: float | None = None
        self.again: FetchRequest | None = None

    def request(self, max_bytes: int) -> FetchRequest:
        positions = {index: len(self.read[index]) for index in sorted(self.assignment)}
        under_way = self.epoch > 0
        named = {
            index: at for index, at in positions.items() if not under_way or self.positions_in_session.get(index) != at
        }
        dropped = [index for index in self.positions_in_session if index not in positions] if under_way else []
        self.positions_in_session = positions
        return FetchRequest(
            max_wait_ms=int(MAX_WAIT * 1000),
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[
                FetchTopic(
                    "t", partitions=[FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=2**20)]
                )
                for index, at in named.items()
            ],
            forgotten_topics_data=[ForgottenTopic("t", partitions=dropped)] if dropped else [],
        )

    def ask(self, max_bytes: int) -> None:
        request = self.request(max_bytes)
        # The server hands in the object it had when the bytes are the same.
        if self.epoch == -1 and self.again == request:
            request = self.again
        self.again = request
        self.asked_at = self.cluster.now
        answer = self.cluster.fetch(request, exchange=self.name)
        if isinstance(answer, FetchResponse):
            self.answered(answer)

    def answered(self, response: FetchResponse) -> None:
        assert self.asked_at is not None
        assert self.cluster.now <= self.asked_at + MAX_WAIT
        self.asked_at = None
        if response.error_code:
            assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            assert not self.positions_in_session
            self.epoch = self.session_id = 0
            return
        if self.sessions:
            self.session_id = response.session_id
            self.epoch = next_epoch(self.epoch) if self.session_id else 0
        for topic in response.responses:
            for data in topic.partitions:
                assert data.error_code == 0
                found = records_of(data.records or b"")
                values = self.read[data.partition_index]
                assert all(record.offset == at for at, record in enumerate(found, found[0].offset if found else 0))
                values += [record.value for record in found if record.offset >= len(values)]


class FetchModel(RuleBasedStateMachine):
    """Three consumers: two that want sessions where there is room for one, and one that wants none."""

    @initialize()
    def begin(self) -> None:
        self.cluster = Cluster(max_incremental_fetch_session_cache_slots="1")
        self.cluster.topics.declare("t", PARTITIONS)
        self.sent: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        self.consumers = {
            name: Consumer(self.cluster, name, sessions=sessions)
            for name, sessions in {"session": True, "crowded out": True, "plain": False}.items()
        }

    def deliver(self) -> None:
        for exchange, response in self.cluster.replies():
            self.consumers[exchange].answered(response)

    @rule(index=st.integers(0, PARTITIONS - 1), count=st.integers(1, 3))
    def produce(self, index: int, count: int) -> None:
        values = [b"%d-%d" % (index, len(self.sent[index]) + each) for each in range(count)]
        self.cluster.send("t", index, batch(*values))
        self.sent[index] += values
        self.deliver()

    @rule(name=st.sampled_from(["session", "crowded out", "plain"]), max_bytes=st.sampled_from([1, 150, 2**20]))
    def fetch(self, name: str, max_bytes: int) -> None:
        consumer = self.consumers[name]
        if consumer.asked_at is None:
            consumer.ask(max_bytes)

    @rule(
        name=st.sampled_from(["session", "crowded out", "plain"]),
        assignment=st.sets(st.integers(0, PARTITIONS - 1), min_size=1),
    )
    def assign(self, name: str, assignment: set[int]) -> None:
        self.consumers[name].assignment = assignment

    @rule(seconds=st.sampled_from([0.1, 0.25, 0.5]))
    def pass_time(self, seconds: float) -> None:
        deadline = self.cluster.broker.next_deadline()
        until = self.cluster.now + seconds
        while deadline <= until:
            self.cluster.advance(max(0.0, deadline - self.cluster.now))
            self.deliver()
            deadline = self.cluster.broker.next_deadline()
        self.cluster.now = until

    @rule()
    def other_topics_come_and_go(self) -> None:
        self.cluster.topics.delete(self.cluster.topics.declare("other", 1))
        self.cluster.topics.settle(self.cluster.now)
        self.deliver()

    @rule(name=st.sampled_from(["session", "crowded out", "plain"]))
    def reconnect(self, name: str) -> None:
        """Lose the connection; the consumer goes on from its last record, with a new session."""
        self.cluster.broker.forget(name)
        consumer = self.consumers[name]
        consumer.asked_at = None
        consumer.positions_in_session = {}
        consumer.epoch = 0 if consumer.sessions else -1

    @invariant()
    def nothing_is_lost_or_repeated(self) -> None:
        for consumer in self.consumers.values():
            for index, values in consumer.read.items():
                assert values == self.sent[index][: len(values)]

    @invariant()
    def who_waits_has_nothing_to_read(self) -> None:
        for consumer in self.consumers.values():
            if consumer.asked_at is not None:
                assert all(at == len(self.sent[index]) for index, at in consumer.positions_in_session.items())
                assert self.cluster.now < consumer.asked_at + MAX_WAIT

    @precondition(lambda self: all(each.asked_at is None for each in self.consumers.values()))
    @invariant()
    def nothing_is_parked_when_nobody_waits(self) -> None:
        assert self.cluster.broker.fetches.next_deadline() == inf


TestFetchModel = FetchModel.TestCase
