"""DescribeTransactions, ListTransactions and DescribeProducers."""

from typing import Any

import pytest

from kafka_shim.apis.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from kafka_shim.apis.describe_transactions import DescribeTransactionsRequest, TopicData, TransactionState
from kafka_shim.apis.list_transactions import ListTransactionsRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.admin import transaction_views
from kafka_shim.groups.interface import MORE, PARKED, Computation, whole
from tests.broker.context import EPOCH_MS
from tests.broker.transacting import Transacting
from tests.effort import ComparedNumber, ComparedText, comparisons


@pytest.fixture
def broker() -> Transacting:
    return Transacting()


def described(broker: Transacting, name: str = "id") -> TransactionState:
    (state,) = broker.ask("DescribeTransactions", DescribeTransactionsRequest([name]), 0).transaction_states
    return state


def listed(broker: Transacting, *filters: Any, version: int = 2) -> list[tuple[str, str]]:
    answer = broker.ask("ListTransactions", ListTransactionsRequest(*(filters or ([], []))), version)
    assert answer.error_code == 0
    return sorted((each.transactional_id, each.transaction_state) for each in answer.transaction_states)


def producers(broker: Transacting, partition: int = 0, topic: str = "t") -> list[ProducerState]:
    request = DescribeProducersRequest([TopicRequest(topic, [partition])])
    (found,) = broker.ask("DescribeProducers", request, 0).topics[0].partitions
    assert found.error_code == 0
    return found.active_producers


class TestDescribe:
    def test_a_transaction_from_its_beginning_to_its_end(self, broker: Transacting) -> None:
        producer = broker.init(timeout=30_000)
        assert described(broker) == TransactionState(0, "id", "Empty", 30_000, -1, *producer, [])
        broker.advance(1.0)
        broker.add(producer, 1)
        broker.advance(1.0)
        broker.add(producer, 0)
        topics = [TopicData("t", [0, 1])]
        assert described(broker) == TransactionState(0, "id", "Ongoing", 30_000, EPOCH_MS + 1000, *producer, topics)
        broker.advance(1.0)
        broker.end(producer)
        state = described(broker)
        assert (state.transaction_state, state.transaction_start_time_ms) == ("CompleteCommit", EPOCH_MS + 1000)
        assert state.topics == []

    def test_an_aborted_transaction_is_described(self, broker: Transacting) -> None:
        producer = broker.init()
        broker.add(producer, 0)
        broker.end(producer, commit=False)
        assert described(broker).transaction_state == "CompleteAbort"

    def test_the_start_of_a_transaction_survives_a_restart(self, broker: Transacting) -> None:
        producer = broker.init()
        broker.advance(2.0)
        broker.add(producer, 0)
        broker.restart()
        assert described(broker).transaction_start_time_ms == EPOCH_MS + 2000

    def test_unknown_ids_are_refused(self, broker: Transacting) -> None:
        assert described(broker, "none") == TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "none")
        assert described(broker, "") == TransactionState(ErrorCode.INVALID_REQUEST)

    def test_an_id_of_another_broker(self, broker: Transacting) -> None:
        broker.init()
        for partition in list(broker.service.shards):
            broker.service.unload(partition, broker.now)
        assert described(broker) == TransactionState(ErrorCode.NOT_COORDINATOR, "id")


class TestList:
    @pytest.fixture
    def several(self, broker: Transacting) -> Transacting:
        broker.init("idle")
        producer = broker.init("open-1")
        broker.add(producer, 0, name="open-1")
        broker.advance(10.0)
        producer = broker.init("open-2")
        broker.add(producer, 1, name="open-2")
        return broker

    def test_without_filters_all(self, several: Transacting) -> None:
        every = [("idle", "Empty"), ("open-1", "Ongoing"), ("open-2", "Ongoing")]
        assert listed(several) == listed(several, version=0) == every

    def test_by_state(self, several: Transacting) -> None:
        assert listed(several, ["Empty"], []) == [("idle", "Empty")]
        answer = several.ask("ListTransactions", ListTransactionsRequest(["Empty", "empty", "Dead"], []), 2)
        assert answer.unknown_state_filters == ["empty"]
        assert [each.transactional_id for each in answer.transaction_states] == ["idle"]

    def test_by_producer_id(self, several: Transacting) -> None:
        producer_id = described(several, "open-2").producer_id
        assert listed(several, [], [producer_id, 2**40]) == [("open-2", "Ongoing")]

    def test_each_transaction_is_looked_up_once_among_many_filters(self, several: Transacting) -> None:
        states = [ComparedText(f"state-{number}") for number in range(300)]
        assert comparisons(lambda: listed(several, [*states, "Empty"], [])) <= 300
        ids = [ComparedNumber(10**6 + number) for number in range(300)]
        assert comparisons(lambda: listed(several, [], ids)) <= 300

    def test_by_duration_which_an_id_without_a_transaction_always_has(self, several: Transacting) -> None:
        assert listed(several, [], [], 5000) == [("idle", "Empty"), ("open-1", "Ongoing")]

    def test_by_pattern_of_the_whole_id(self, several: Transacting) -> None:
        assert listed(several, [], [], -1, "open-[12]") == [("open-1", "Ongoing"), ("open-2", "Ongoing")]
        assert listed(several, [], [], -1, "open") == []
        assert len(listed(several, [], [], -1, "")) == 3
        answer = several.ask("ListTransactions", ListTransactionsRequest([], [], -1, "["), 2)
        assert (answer.error_code, answer.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])

    def matched_elsewhere(self, broker: Transacting, pattern: str) -> Computation:
        """The computation of a listing with this pattern."""
        broker.outbox.offloads = True
        assert broker.ask("ListTransactions", ListTransactionsRequest([], [], -1, pattern), 2) is PARKED
        (computation,) = broker.outbox.computations
        return computation

    def test_a_short_pattern_is_matched_at_once(self, several: Transacting) -> None:
        several.outbox.offloads = True
        assert listed(several, [], [], -1, "open-[12]") == [("open-1", "Ongoing"), ("open-2", "Ongoing")]

    def test_a_pattern_that_takes_long_is_matched_elsewhere(self, several: Transacting) -> None:
        several.init("a" * 10_000)
        computation = self.matched_elsewhere(several, "(.*a.*){50}|open-1")
        computation.finish(whole(computation), several.now)
        (reply,) = several.outbox.replies
        assert reply.response.error_code == 0
        assert {each.transactional_id for each in reply.response.transaction_states} == {"a" * 10_000, "open-1"}

    def test_a_pattern_that_is_too_large_for_an_id_is_refused(self, several: Transacting) -> None:
        several.init("a" * 32_767)
        computation = self.matched_elsewhere(several, "(.*a.*){200}")
        computation.finish(whole(computation), several.now)
        (reply,) = several.outbox.replies
        assert reply.response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert reply.response.transaction_states == []

    def test_a_failed_computation_is_an_error_of_the_server(self, several: Transacting) -> None:
        several.init("a" * 32_767)
        self.matched_elsewhere(several, "(.*a.*){200}").finish(RuntimeError(), several.now)
        (reply,) = several.outbox.replies
        assert reply.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert reply.response.transaction_states == []

    def test_matching_has_a_part_for_so_many_steps(self, several: Transacting) -> None:
        for number in range(3):
            several.init("a" * (10_000 + number))
        computation = self.matched_elsewhere(several, "(.*a.*){50}")
        assert computation.compute() is MORE
        assert len(whole(computation)) == 3

    def test_the_length_of_the_ids_is_checked_in_the_first_part(
        self, several: Transacting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(3):
            several.init("a" * (10_000 + number))
        computation = self.matched_elsewhere(several, "(.*a.*){50}")
        checks: list[object] = []
        monkeypatch.setattr(transaction_views, "takes_too_long", lambda *checked: checks.append(checked))
        parts = 1
        while computation.compute() is MORE:
            parts += 1
        assert parts > 2
        assert len(checks) == 1

    def test_a_listing_ends_with_its_connection_or_its_answer(self, several: Transacting) -> None:
        several.init("a" * 10_000)
        first = self.matched_elsewhere(several, "(.*a.*){50}")
        several.outbox.computations.clear()
        second = self.matched_elsewhere(several, "(.*a.*){50}")
        views = several.cluster.broker.transaction_views
        exchange, _ = views._listings
        several.cluster.broker.forget(exchange)
        assert (first.is_awaited, second.is_awaited) == (False, True)
        second.finish(whole(second), several.now)
        assert not second.is_awaited
        assert not views._listings

    def test_while_any_are_loaded(self, several: Transacting) -> None:
        several.service.unload(0, several.now)
        several.service.begin_loading(0)
        answer = several.ask("ListTransactions", ListTransactionsRequest([], []), 2)
        assert (answer.error_code, answer.transaction_states) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


class TestProducers:
    def test_an_open_transaction_and_its_end(self, broker: Transacting) -> None:
        assert producers(broker) == []
        producer = broker.init()
        broker.add(producer, 0)
        broker.produce(producer, 0)
        (state,) = producers(broker)
        assert (state.producer_id, state.producer_epoch, state.last_sequence) == (*producer, 0)
        assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, 0)
        broker.advance(3.0)
        broker.end(producer)
        (ended,) = producers(broker)
        assert (ended.coordinator_epoch, ended.current_txn_start_offset) == (0, -1)
        assert ended.last_timestamp == EPOCH_MS + 3000

    def test_refused(self, broker: Transacting) -> None:
        request = DescribeProducersRequest([TopicRequest("t", [9]), TopicRequest("none", [0]), TopicRequest("..", [0])])
        answer = broker.ask("DescribeProducers", request, 0)
        assert [each.partitions[0].error_code for each in answer.topics] == [3, 3, ErrorCode.INVALID_TOPIC_EXCEPTION]
