"""DescribeTransactions, ListTransactions and DescribeProducers: transactions as an administrator sees them.

Sources: KIP-664, KIP-994, KIP-1152; Kafka's TransactionCoordinator and ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_shim.apis.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from kafka_shim.apis.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kafka_shim.apis.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafka_shim.apis.list_transactions import TransactionState as ListedTransaction
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.topics import Topics, name_refusal
from kafka_shim.groups.interface import MORE, PARKED, More, Parked, whole
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.regex import Matching, RegexError, compiled, is_large, takes_too_long
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.transactional_ids import STATES, Transaction

_STATES_WITHOUT_ID: Final = frozenset({"Dead", "PrepareEpochFence"})
"""States that Kafka knows too; no listed id is in one of them."""


class TransactionViews:
    """The rules about transactional ids on one broker; `groups` keeps the ids."""

    def __init__(self, groups: GroupService) -> None:
        self._groups = groups
        self._listings: dict[object, Listing] = {}
        """The listings in other threads, by the exchange that waits."""

    def describe(self, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        """Describe transactional ids. Errors per id: INVALID_REQUEST (42) for the empty one, TRANSACTIONAL_ID_NOT_FOUND
        (105), and 14, 15 or 16 if this broker does not coordinate it, or not yet."""
        return DescribeTransactionsResponse(
            transaction_states=[self._state(each) for each in request.transactional_ids]
        )

    def ids(self) -> Sequence[tuple[int, str]]:
        """Return all transactional ids, each after its partition of `__consumer_offsets`."""
        return [(partition, each) for partition, shard in self._groups.shards.items() for each in shard.transactions]

    def list_ids(
        self,
        request: ListTransactionsRequest,
        now: float,
        exchange: object,
        ids: Sequence[tuple[int, str]] | None = None,
    ) -> ListTransactionsResponse | Parked:
        """List the ids that pass all filters: those of `ids` that there are, or all. COORDINATOR_LOAD_IN_PROGRESS (14)
        instead of all while any are loaded, INVALID_REGULAR_EXPRESSION (128). Parks the `exchange` if matching may take
        long."""
        states = {*STATES.values(), *_STATES_WITHOUT_ID}
        response = ListTransactionsResponse(
            unknown_state_filters=[each for each in request.state_filters if each not in states]
        )
        pattern = request.transactional_id_pattern
        if pattern:
            try:
                compiled(pattern)
            except RegexError:
                response.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
                return response
        if self._groups.is_loading:
            response.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return response
        filters = _Filters(
            frozenset(request.state_filters), frozenset(request.producer_id_filters), request.duration_filter
        )
        for partition, transactional_id in self.ids() if ids is None else ids:
            shard = self._groups.shards.get(partition)
            transaction = None if shard is None else shard.transactions.get(transactional_id)
            if shard is not None and transaction is not None and filters.accept(transaction, shard.wall_ms(now)):
                response.transaction_states.append(
                    ListedTransaction(transactional_id, transaction.producer_id, STATES[transaction.status])
                )
        if not pattern:
            return response
        outbox = self._groups.outbox
        listing = Listing(outbox, exchange, response, pattern, self._listings)
        if outbox.offloads and is_large([pattern], listing.ids):
            self._listings[exchange] = listing
            outbox.computations.append(listing)
            return PARKED
        return listing.answer(whole(listing))

    def drop(self, exchange: object) -> None:
        """Drop a listing after the end of its connection."""
        self._listings.pop(exchange, None)

    def weight_of(self, transactional_ids: Sequence[str]) -> int:
        """Return the number of partitions in the transactions of some ids."""
        weight = 0
        for transactional_id in transactional_ids:
            shard = self._groups.shard_of(transactional_id)
            transaction = None if isinstance(shard, ErrorCode) else shard.transactions.get(transactional_id)
            weight += 0 if transaction is None else len(transaction.partitions)
        return weight

    def _state(self, transactional_id: str) -> TransactionState:
        if not transactional_id:
            return TransactionState(ErrorCode.INVALID_REQUEST)
        shard = self._groups.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return TransactionState(shard, transactional_id)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
        places: Iterable[tuple[str, int]] = transaction.unmarked if transaction.is_prepared else transaction.partitions
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(places):
            by_topic.setdefault(topic, []).append(index)
        return TransactionState(
            transactional_id=transactional_id,
            transaction_state=STATES[transaction.status],
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.started_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[TopicData(*each) for each in by_topic.items()],
        )


class Listing:
    """Matching of ids with a pattern, and the answer with those that match. Implements `Computation`; `waiting` are the
    listings that an exchange waits for."""

    def __init__(
        self,
        outbox: Outbox,
        exchange: object,
        response: ListTransactionsResponse,
        pattern: str,
        waiting: dict[object, Listing],
    ) -> None:
        self.ids = [each.transactional_id for each in response.transaction_states]
        self._outbox = outbox
        self._exchange = exchange
        self._response = response
        self._pattern = pattern
        self._is_checked = False
        self._matching = Matching([pattern], self.ids)
        self._waiting = waiting

    @property
    def is_awaited(self) -> bool:
        return self._waiting.get(self._exchange) is self

    def compute(self) -> frozenset[str] | More | None:
        """Return the ids that match; None if the pattern is too large for one of them."""
        if not self._is_checked:
            if takes_too_long(self._pattern, self.ids):
                return None
            self._is_checked = True
        return MORE if self._matching.go_on() else self._matching.found[self._pattern]

    def finish(self, result: frozenset[str] | Exception | None, now: float) -> None:
        self._waiting.pop(self._exchange, None)
        self._outbox.reply_at_once(self._exchange, self.answer(result))

    def answer(self, result: frozenset[str] | Exception | None) -> ListTransactionsResponse:
        response = self._response
        matching = result if isinstance(result, frozenset) else frozenset()
        response.transaction_states = [
            each for each in response.transaction_states if each.transactional_id in matching
        ]
        if result is None:
            response.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
        elif isinstance(result, Exception):
            response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        return response


class _Filters(NamedTuple):
    """The filters of a request; an empty set passes all."""

    states: frozenset[str]
    producer_ids: frozenset[int]
    duration_ms: int

    def accept(self, transaction: Transaction, now_ms: int) -> bool:
        """Return True if the transaction passes all."""
        if self.states and STATES[transaction.status] not in self.states:
            return False
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        # An id without a transaction passes every duration, as in Kafka.
        return self.duration_ms < 0 or now_ms - transaction.started_ms > self.duration_ms


def describe_producers(request: DescribeProducersRequest, node_id: int, topics: Topics) -> DescribeProducersResponse:
    """Describe the producers that the replicas of this broker remember.

    Errors per partition: INVALID_TOPIC_EXCEPTION (17), UNKNOWN_TOPIC_OR_PARTITION (3), NOT_LEADER_OR_FOLLOWER (6).
    """
    return DescribeProducersResponse(
        topics=[
            TopicResponse(topic.name, [_of_partition(topic.name, index, node_id, topics) for index in indexes])
            for topic in request.topics
            for indexes in (topic.partition_indexes,)
        ]
    )


def weight_of_producers(topics: Topics, requests: Sequence[TopicRequest]) -> int:
    """Return the number of producers that are described for some topics of a request."""
    weight = 0
    for request in requests:
        topic = topics.named(request.name)
        partitions = () if topic is None else map(topic.partition, request.partition_indexes)
        weight += sum(len(each.log.producers) for each in partitions if each is not None)
    return weight


def _of_partition(name: str, index: int, node_id: int, topics: Topics) -> PartitionResponse:
    if (refusal := name_refusal(name)) is not None:
        return PartitionResponse(index, ErrorCode.INVALID_TOPIC_EXCEPTION, refusal)
    topic = topics.named(name)
    if topic is None:
        return PartitionResponse(
            index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    partition = topic.partition(index)
    if partition is None:
        return PartitionResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if node_id not in partition.replicas:
        return PartitionResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return PartitionResponse(index, active_producers=list(_producers(partition.log)))


def _producers(log: PartitionLog) -> Iterator[ProducerState]:
    for producer_id, producer in log.producers.items():
        began = log.transactions.began_at(producer_id)
        yield ProducerState(
            producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_timestamp,
            log.transactions.coordinator_epoch(producer_id),
            -1 if began is None else began,
        )
