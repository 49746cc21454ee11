"""Cases about transactions for administrators: DescribeTransactions, ListTransactions, DescribeProducers."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kafka_shim.apis.describe_producers import DescribeProducersRequest, TopicRequest
from kafka_shim.apis.describe_transactions import DescribeTransactionsRequest
from kafka_shim.apis.list_transactions import ListTransactionsRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.logs import produce
from kafka_shim.conformance.producer import Producer
from kafka_shim.conformance.record_batch import record_batch
from kafka_shim.conformance.routes import TRANSACTION
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

SOURCE = "semantics 6.3"
USES = ("InitProducerId", "AddPartitionsToTxn", "EndTxn", "FindCoordinator")

describe_case = partial(case, api="DescribeTransactions", source=SOURCE, level=Level.SHOULD, uses=USES)
list_case = partial(case, api="ListTransactions", source=SOURCE, level=Level.SHOULD, uses=USES)
producers_case = partial(case, api="DescribeProducers", source=SOURCE, level=Level.SHOULD, uses=(*USES, "Produce"))


def state(t: Trial, transactional_id: str) -> Any:
    """Return the state that DescribeTransactions answers for one id."""
    (described,) = t.call(DescribeTransactionsRequest([transactional_id])).transaction_states
    return described


@describe_case("txn-describe/state/1", "From Empty to Ongoing to CompleteCommit, with the producer and the partitions")
def states(t: Trial) -> None:
    topic = t.topic(3)
    producer = Producer(t, timeout=40_000)
    name = producer.transactional_id
    fields = {"error_code": 0, "transactional_id": name, "producer_id": producer.id, "transaction_timeout_ms": 40_000}
    t.expect(
        state(t, name),
        transaction_state="Empty",
        producer_epoch=producer.epoch,
        transaction_start_time_ms=-1,
        topics=[],
        **fields,
    )
    producer.add(topic, 0, 2)
    actual = state(t, name)
    t.expect(actual, transaction_state="Ongoing", producer_epoch=producer.epoch, **fields)
    t.equal([(each.topic, sorted(each.partitions)) for each in actual.topics], [(topic, [0, 2])], "partitions")
    began = actual.transaction_start_time_ms
    t.check(abs(began - time.time() * 1000) < 600_000, f"it began at {began}")
    producer.add(topic, 1)
    t.expect(state(t, name), transaction_start_time_ms=began)
    t.expect(producer.end(committed=True), error_code=0)
    ended = t.until(
        lambda: state(t, name), lambda got: got.transaction_state == "CompleteCommit", "the transaction never ended"
    )
    t.expect(ended, transaction_start_time_ms=began, topics=[], **fields)


@describe_case("txn-describe/state/2", "A transaction that was aborted ends in CompleteAbort")
def aborted(t: Trial) -> None:
    producer = Producer(t)
    producer.add(t.topic(3), 0)
    t.expect(producer.end(committed=False), error_code=0)
    t.until(
        lambda: state(t, producer.transactional_id),
        lambda got: got.transaction_state == "CompleteAbort",
        "the transaction never ended",
    )


@describe_case(
    "txn-describe/unknown/1",
    "No such id: TRANSACTIONAL_ID_NOT_FOUND (105); the empty id: INVALID_REQUEST (42)",
)
def unknown(t: Trial) -> None:
    producer = Producer(t)
    missing = t.until(
        lambda: state(t, f"{producer.transactional_id}-none"),
        lambda got: got.error_code not in (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR),
        "there is no coordinator",
    )
    t.expect(missing, error_code=E.TRANSACTIONAL_ID_NOT_FOUND, topics=[])
    t.expect(state(t, ""), error_code=E.INVALID_REQUEST, topics=[])


@describe_case("txn-describe/unknown/2", "Of several ids each is judged by itself, and no id is no answer")
def several(t: Trial) -> None:
    name = Producer(t).transactional_id
    answer = t.call(DescribeTransactionsRequest([name, name]))
    actual = [(each.transactional_id, each.error_code) for each in answer.transaction_states]
    t.equal(actual, [(name, 0), (name, 0)], "ids and errors")
    t.expect(t.call(DescribeTransactionsRequest([])), transaction_states=[])


def listed(t: Trial, producer: Producer, *filters: Any) -> tuple[Any, dict[str, tuple[int, str]]]:
    """List the transactions of the cell; return the answer, and producer id and state by transactional id."""
    endpoint = t.peer.routes.coordinator(producer.transactional_id, TRANSACTION)
    request = ListTransactionsRequest(*(filters or ([], [])))
    wire = t.connect_to(endpoint, "transactions")
    answer = t.until(
        lambda: wire.call(request, t.version),
        lambda got: got.error_code != E.COORDINATOR_LOAD_IN_PROGRESS,
        "transactions are still loaded",
    )
    return answer, {
        each.transactional_id: (each.producer_id, each.transaction_state)
        for each in answer.transaction_states
        if each.transactional_id.startswith(t.group)
    }


@list_case("txn-list/filter/1", "Without filters every id is listed, with the other ones those that fit")
def filters(t: Trial) -> None:
    producer = Producer(t)
    name = producer.transactional_id
    t.equal(listed(t, producer)[1], {name: (producer.id, "Empty")}, "ids listed")
    producer.add(t.topic(3), 0)
    ongoing = {name: (producer.id, "Ongoing")}
    t.equal(listed(t, producer, ["Ongoing", "Empty"], [])[1], ongoing, "ids of a state")
    t.equal(listed(t, producer, ["Empty"], [])[1], {}, "ids of another state")
    t.equal(listed(t, producer, [], [producer.id])[1], ongoing, "ids of the producer")
    t.equal(listed(t, producer, [], [2**40])[1], {}, "ids of another producer")


@list_case("txn-list/filter/2", "Unknown states are in the answer, and states are matched as they are written")
def unknown_states(t: Trial) -> None:
    producer = Producer(t)
    producer.add(t.topic(3), 0)
    answer, actual = listed(t, producer, ["ongoing", "No such state"], [])
    t.equal(sorted(answer.unknown_state_filters), ["No such state", "ongoing"], "unknown states")
    t.equal(actual, {}, "ids listed")


@list_case(
    "txn-list/filter/3", "Only transactions that last longer than a duration, and ids without one", versions=(1, 2)
)
def duration(t: Trial) -> None:
    producer = Producer(t)
    idle = {producer.transactional_id: (producer.id, "Empty")}
    t.equal(listed(t, producer, [], [], 100_000)[1], idle, "ids without a transaction")
    producer.add(t.topic(3), 0)
    t.equal(listed(t, producer, [], [], 100_000)[1], {}, "ids of long transactions")
    t.equal(len(listed(t, producer, [], [], -1)[1]), 1, "number of ids without this filter")


@list_case(
    "txn-list/filter/4",
    "A pattern is matched with the whole id; one that is none: INVALID_REGULAR_EXPRESSION (128)",
    versions=(2, 2),
)
def pattern(t: Trial) -> None:
    producer = Producer(t)
    name = producer.transactional_id
    t.equal(set(listed(t, producer, [], [], -1, f"{name[:-1]}.")[1]), {name}, "ids that match")
    t.equal(set(listed(t, producer, [], [], -1, name[:-1])[1]), set(), "ids that match a part")
    t.equal(set(listed(t, producer, [], [], -1, "")[1]), {name}, "ids without a pattern")
    t.expect(listed(t, producer, [], [], -1, "[")[0], error_code=E.INVALID_REGULAR_EXPRESSION, transaction_states=[])


def producers(t: Trial, topic: str, index: int) -> Any:
    answer = t.call(DescribeProducersRequest([TopicRequest(topic, [index])]))
    t.equal([each.name for each in answer.topics], [topic], "topics answered")
    (partition,) = answer.topics[0].partitions
    t.expect(partition, partition_index=index)
    return partition


@producers_case(
    "producers/open/1", "A producer with its last sequence, and where its open transaction began", is_long=True
)
def open_transaction(t: Trial) -> None:
    topic = t.new_topic(1)
    before = t.until(
        lambda: producers(t, topic, 0), lambda got: got.error_code != E.NOT_LEADER_OR_FOLLOWER, "nobody leads"
    )
    t.expect(before, error_code=0, active_producers=[])
    producer = Producer(t)
    producer.add(topic, 0)
    stamp = int(time.time() * 1000)
    data = record_batch([b"one", b"two"], stamp, (producer.id, producer.epoch, 0), transactional=True)
    produce(t, topic, 0, data, producer.transactional_id)
    actual = producers(t, topic, 0)
    t.expect(actual, error_code=0)
    t.equal(len(actual.active_producers), 1, "number of producers")
    t.expect(
        actual.active_producers[0],
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        last_sequence=1,
        last_timestamp=stamp + 1,
        coordinator_epoch=-1,
        current_txn_start_offset=0,
    )
    t.expect(producer.end(committed=True), error_code=0)
    ended = t.until(
        lambda: producers(t, topic, 0).active_producers[0],
        lambda got: got.current_txn_start_offset == -1,
        "the transaction never ended in the partition",
    )
    t.expect(ended, producer_id=producer.id)
    t.check(ended.coordinator_epoch >= 0, "no coordinator has ended it")


@producers_case(
    "producers/refused/1",
    "No such partition: UNKNOWN_TOPIC_OR_PARTITION (3); an illegal name: INVALID_TOPIC_EXCEPTION (17)",
    uses=(),
)
def no_producers(t: Trial) -> None:
    topic = t.topic(3)
    t.expect(producers(t, topic, 99), error_code=E.UNKNOWN_TOPIC_OR_PARTITION, active_producers=[])
    t.expect(producers(t, f"{topic}-none", 0), error_code=E.UNKNOWN_TOPIC_OR_PARTITION, active_producers=[])
    t.expect(producers(t, "..", 0), error_code=E.INVALID_TOPIC_EXCEPTION, active_producers=[])
