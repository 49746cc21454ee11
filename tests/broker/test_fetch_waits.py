"""Parked fetches: the wait ends when there are enough bytes, and a change costs the same beside many partitions."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.fetch import FetchPartition, FetchResponse, FetchTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import parse_batch
from kafka_shim.broker.fetch_sessions import next_epoch
from kafka_shim.broker.fetch_state import FetchedPartition, FetchState
from kafka_shim.broker.fetches import AT_ONCE, IN_A_TURN
from kafka_shim.broker.fetches import Turns as InTurns
from kafka_shim.broker.log import PartitionLog
from kafka_shim.conformance.record_batch import record_batch
from tests.broker.context import EPOCH_MS, Client, Cluster, batch, fetch_request, partitions_of

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


class TestSessionOfManyPartitions:
    """A session of 1,000 partitions: a fetch looks at those that may have news."""

    PARTITIONS = 1000

    @pytest.fixture
    def cluster(self) -> Cluster:
        cluster = Cluster()
        cluster.topics.declare("t", self.PARTITIONS)
        return cluster

    def client(self, cluster: Cluster, topic: str = "t") -> Client:
        """Return a client that was answered twice."""
        client = Client(cluster, *((topic, index, 0) for index in range(self.PARTITIONS)))
        client.answer()
        return client

    def test_fetch_without_news_looks_at_nothing(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        client = self.client(cluster)
        seen = looks(monkeypatch)
        assert partitions_of(client.answer()) == {}
        assert seen == []

    def test_fetch_looks_at_the_changed_partitions(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        client = self.client(cluster)
        seen = looks(monkeypatch)
        client.ask(max_wait_ms=500)
        cluster.send("t", 7, batch(b"a"))
        ((_, response),) = cluster.replies()
        assert list(partitions_of(response)) == [("t", 7)]
        assert partitions_of(client.answer(("t", 7, 1))) == {}
        assert len(seen) <= 10

    def test_topic_that_appears_leads_to_no_look_at_known_partitions(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = self.client(cluster)
        client.ask(("late", 0, 0), max_wait_ms=500)
        cluster.topics.declare("late", 1)
        seen = looks(monkeypatch)
        cluster.send("late", 0, batch(b"a"))
        cluster.advance(0.5)
        ((_, response),) = cluster.replies()
        assert {key: data.error_code for key, data in partitions_of(response).items()} == {("late", 0): 0}
        assert len(seen) <= 10

    def test_other_isolation_level_leads_to_a_look_at_open_transactions(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = self.client(cluster)
        log = cluster.topics.named("t").partitions[7].log
        data = record_batch([b"v"], EPOCH_MS, (1, 0, 0), transactional=True)
        log.append(parse_batch(data, max_bytes=2**20), None, 0.0)
        seen = looks(monkeypatch)
        answers = [client.answer(isolation_level=level) for level in (1, 0, 1, 0)]
        read = [[key for key, data in partitions_of(each).items() if data.records] for each in answers]
        assert read == [[], [("t", 7)], [], [("t", 7)]]
        assert len(seen) <= 40

    def test_unread_partition_without_room_is_no_news(self, cluster: Cluster) -> None:
        client = Client(cluster, ("t", 0, 0), ("t", 1, 0), ("t", 2, 0))
        for index in range(3):
            cluster.send("t", index, batch(b"a"))
        order = [list(partitions_of(client.answer(max_bytes=1))) for _ in range(4)]
        assert order == [[("t", 0), ("t", 1), ("t", 2)], [("t", 1)], [("t", 2)], [("t", 0)]]


class Turns:
    """Work that was handed over, to be done a turn at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self.work: list[InTurns] = []
        cluster.broker.fetches.take_turns = self.work.append

    def turn(self) -> bool:
        return self.work[0].go_on(0.0)


class TestAnswerInTurns:
    """A session of 1,200 partitions, none of which exists: each has its error in each answer."""

    COUNT = 1200

    @pytest.fixture
    def cluster(self) -> Cluster:
        return Cluster()

    @pytest.fixture
    def client(self, cluster: Cluster) -> Client:
        return Client(cluster, *(("nope", index, 0) for index in range(self.COUNT)))

    def test_turn_looks_at_some_partitions(
        self, cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        turns = Turns(cluster)
        exchange = client.ask(max_wait_ms=0)
        assert not cluster.replies()
        count = 1
        seen = looks(monkeypatch)
        while turns.turn():
            assert len(seen) <= 4 * IN_A_TURN * count
            count += 1
        ((answered, response),) = cluster.replies()
        assert answered == exchange
        assert [data.error_code for data in partitions_of(response).values()] == [3] * self.COUNT
        assert count >= self.COUNT // IN_A_TURN

    def test_few_partitions_are_answered_at_once(self, cluster: Cluster) -> None:
        turns = Turns(cluster)
        client = Client(cluster, *(("nope", index, 0) for index in range(AT_ONCE)))
        assert len(partitions_of(client.answer())) == AT_ONCE
        assert turns.work == []

    def test_full_fetch_is_answered_at_once(self, cluster: Cluster) -> None:
        """It has turns of its own, as every long request."""
        turns = Turns(cluster)
        client = Client(cluster, *(("nope", index, 0) for index in range(self.COUNT)))
        assert len(partitions_of(client.first)) == self.COUNT
        assert turns.work == []

    def test_overtaken_fetch_gets_an_error(self, cluster: Cluster, client: Client) -> None:
        turns = Turns(cluster)
        overtaken = client.ask(max_wait_ms=0)
        turns.turn()
        client.ask(max_wait_ms=0)
        assert not turns.turn()
        ((exchange, response),) = cluster.replies()
        assert (exchange, response.error_code) == (overtaken, ErrorCode.INVALID_FETCH_SESSION_EPOCH)

    def test_topic_that_is_deleted_between_two_turns_is_unknown(self, cluster: Cluster, client: Client) -> None:
        topic = cluster.topics.declare("t", 1)
        client.answer(("t", 0, 0))
        cluster.send("t", 0, batch(b"a"))
        turns = Turns(cluster)
        client.ask(max_wait_ms=0)
        assert turns.turn()
        cluster.topics.delete(topic)
        while turns.turn():
            pass
        ((_, response),) = cluster.replies()
        assert {data.error_code for data in partitions_of(response).values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def test_turns_end_with_the_connection(self, cluster: Cluster, client: Client) -> None:
        turns = Turns(cluster)
        exchange = client.ask(max_wait_ms=0)
        assert turns.turn()
        cluster.broker.forget(exchange)
        assert not turns.turn()
        assert cluster.replies() == []

    def test_error_in_a_turn_fails_the_fetch(self, cluster: Cluster, client: Client) -> None:
        turns = Turns(cluster)
        exchange = client.ask(max_wait_ms=0)
        turns.work[0].broken(ValueError("in a turn"))
        assert not turns.turn()
        (failure,) = [each.effect for each in cluster.outbox.effects]
        assert failure.exchange == exchange
        cluster.broker.fetches.take_turns = None
        assert len(partitions_of(client.answer())) == self.COUNT

    def test_parked_fetch_is_answered_in_turns(self, cluster: Cluster, client: Client) -> None:
        cluster.topics.declare("t", 1)
        client.answer(("t", 0, 0))
        turns = Turns(cluster)
        exchange = client.ask(max_wait_ms=500)
        assert turns.work == []
        cluster.send("t", 0, batch(b"a"))
        while turns.turn():
            assert not cluster.replies()
        ((answered, response),) = cluster.replies()
        assert answered == exchange
        partitions = partitions_of(response)
        assert partitions["t", 0].records
        assert len(partitions) == self.COUNT + 1


@pytest.mark.parametrize("in_turns", [True, False])
def test_answer_to_a_session_has_some_partitions_and_the_next_ones_have_the_others(
    monkeypatch: pytest.MonkeyPatch, in_turns: bool
) -> None:
    monkeypatch.setattr("kafka_shim.broker.fetch_answers.MOST_PARTITIONS", 20)
    monkeypatch.setattr("kafka_shim.broker.fetches.AT_ONCE", 30)
    cluster = Cluster()
    cluster.topics.declare("t", 2)
    client = Client(cluster, *(("nope", index, 0) for index in range(45)), ("t", 0, 0), ("t", 1, 0))
    assert len(partitions_of(client.first)) == 47
    turns = Turns(cluster)
    if not in_turns:
        cluster.broker.fetches.take_turns = None
    cluster.send("t", 1, batch(b"a"))
    answers: list[list[tuple[str, int]]] = []
    for _ in range(5):
        response = client.ask(max_wait_ms=0)
        if in_turns:
            while turns.turn():
                pass
            turns.work.clear()
            ((_, response),) = cluster.replies()
        answers.append(list(partitions_of(response)))
    unknown = [("nope", index) for index in range(45)]
    assert answers[:2] == [unknown[:20], unknown[20:40]]
    # The partitions of a topic stand together.
    assert answers[2] == [*unknown[40:], *unknown[:14], ("t", 1)]
    assert answers[3:] == [unknown[14:34], [*unknown[34:], *unknown[:8], ("t", 1)]]


class TestManyParkedFetches:
    """Fetches of ten clients without a session, each for 200 partitions."""

    COUNT = 200

    @pytest.fixture
    def cluster(self) -> Cluster:
        cluster = Cluster()
        cluster.topics.declare("t", self.COUNT)
        return cluster

    def park(self, cluster: Cluster) -> list[object]:
        asked = [FetchPartition(index, partition_max_bytes=1000) for index in range(self.COUNT)]
        requests = [fetch_request() for _ in range(10)]
        for request in requests:
            request.topics = [FetchTopic("t", partitions=asked)]
        return [cluster.fetch(request) for request in requests]

    def answers_of_turns(self, turns: Turns, seen: list[object], cluster: Cluster) -> list[object]:
        """Take all turns, and return the exchanges that got an answer."""
        answered: list[object] = []
        while turns.work:
            del seen[:]
            if not turns.turn():
                del turns.work[0]
            assert len(seen) <= IN_A_TURN
            answered += [exchange for exchange, _ in cluster.replies()]
        return answered

    def test_change_that_all_wait_for_is_answered_in_turns(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exchanges = self.park(cluster)
        turns = Turns(cluster)
        seen = looks(monkeypatch)
        cluster.send("t", 0, batch(b"a"))
        assert len(seen) <= AT_ONCE + 2 * len(exchanges)
        answered = [exchange for exchange, _ in cluster.replies()]
        assert len(answered) == AT_ONCE // self.COUNT
        cluster.send("t", 0, batch(b"b"))
        answered += self.answers_of_turns(turns, seen, cluster)
        assert answered == exchanges

    def test_time_that_ends_for_all_is_answered_in_turns(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exchanges = self.park(cluster)
        turns = Turns(cluster)
        seen = looks(monkeypatch)
        cluster.advance(0.5)
        assert len(seen) <= 2 * AT_ONCE
        answered = [exchange for exchange, _ in cluster.replies()]
        assert len(answered) == AT_ONCE // self.COUNT
        answered += self.answers_of_turns(turns, seen, cluster)
        assert answered == exchanges
        assert cluster.broker.next_deadline() == inf

    def test_new_topic_is_looked_for_in_turns(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        unknown = [("nope", index, 0) for index in range(self.COUNT)]
        waiting = [cluster.fetch(fetch_request(("t", 0, 0), *unknown, min_bytes=1000)) for _ in range(10)]
        turns = Turns(cluster)
        found: list[object] = []
        find = FetchState._find
        monkeypatch.setattr(FetchState, "_find", lambda *each: (found.append(each), find(*each)))
        cluster.topics.declare("other", 1)
        cluster.send("t", 0, batch(b"a"))
        assert len(found) <= AT_ONCE
        cluster.send("t", 0, batch(b"a"))
        assert len(turns.work) == len(waiting) - AT_ONCE // self.COUNT
        while turns.work:
            assert not turns.turn()
            del turns.work[0]
        assert len(found) >= len(waiting) * self.COUNT
        assert not cluster.replies()
        cluster.advance(0.1)
        cluster.send("t", 0, batch(b"a" * 1000))
        assert len(cluster.replies()) == AT_ONCE // self.COUNT

    def test_connection_that_ends_before_its_turn_gets_no_answer(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exchanges = self.park(cluster)
        turns = Turns(cluster)
        cluster.send("t", 0, batch(b"a"))
        cluster.replies()
        for exchange in exchanges[5:]:
            cluster.broker.forget(exchange)
        answered = self.answers_of_turns(turns, looks(monkeypatch), cluster)
        assert answered == exchanges[AT_ONCE // self.COUNT : 5]
        log = cluster.topics.named("t").partitions[0].log
        assert not log.watchers


def test_fetch_that_waits_below_a_new_log_start_gets_the_error() -> None:
    cluster = Cluster()
    log = cluster.topics.declare("t", 1).partitions[0].log
    cluster.send("t", 0, batch(b"a"))
    cluster.fetch(fetch_request(("t", 0, 0), min_bytes=1000))
    cluster.topics.declare("other", 1)
    log.cut(1)
    cluster.topics.settle(0.0)
    ((_, response),) = cluster.replies()
    assert partitions_of(response)["t", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_connection_that_ends_for_the_answer_of_another_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.broker.fetches.LONG", 1)
    cluster = Cluster()
    cluster.topics.declare("t", 1)
    request = fetch_request(("t", 0, 0))
    first, second = cluster.fetch(request), cluster.fetch(request)
    cluster.broker.fetches.hold = lambda exchange, size: cluster.broker.forget(second)
    cluster.send("t", 0, batch(b"a"))
    assert [exchange for exchange, _ in cluster.replies()] == [first]
    assert cluster.outbox.effects == []


def test_a_log_that_begins_while_fetches_are_answered_answers_none_of_them_twice() -> None:
    """As the log of a partition of `__consumer_offsets` does at its first read."""
    cluster = Cluster()
    log = cluster.topics.declare("t", 1).partitions[0].log
    client = Client(cluster, ("t", 0, 0))
    short, long = client.ask(max_wait_ms=100_000), client.ask(max_wait_ms=100_000, min_bytes=100_000)
    partition = cluster.topics.named("t").partitions[0]
    calls = []

    def begin() -> int:
        calls.append(1)
        partition.begin_log = None
        log.append(parse_batch(batch(b"v"), max_bytes=2**20), None, 0.0)
        cluster.topics.settle(0.0)
        return 0

    partition.begin_log = begin
    log.tell()
    cluster.topics.settle(0.0)
    assert calls == [1]
    assert [token for token, _ in cluster.replies()] == [short]
    assert [token for token, _ in cluster.broker.fetches.parked()] == [long]
    assert cluster.outbox.effects == []
