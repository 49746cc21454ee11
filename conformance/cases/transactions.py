"""Cases about transactions in groups: offsets that count after a commit, and the producers that may commit them."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.init_producer_id import InitProducerIdRequest
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.apis.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.offsets import commit, fetch
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.plain import error_name
from kafka_shim.conformance.producer import Producer
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level, Unadvertised

SOURCE = "observed on Kafka 4.2.2"

commit_case = partial(
    case, api="TxnOffsetCommit", uses=("InitProducerId", "AddOffsetsToTxn", "EndTxn", "OffsetFetch", "FindCoordinator")
)
end_case = partial(case, api="EndTxn", uses=("InitProducerId", "AddPartitionsToTxn", "FindCoordinator"))
init_case = partial(
    case, api="InitProducerId", versions=(3, 5), uses=("AddPartitionsToTxn", "EndTxn", "FindCoordinator")
)
add_case = partial(case, api="AddPartitionsToTxn", uses=("InitProducerId", "FindCoordinator"))


def offsets(t: Trial, topic: str, *partitions: int, stable: bool = True) -> list[int]:
    """Return committed offsets of the cell's group; for an error, -100 minus its code."""
    if stable and t.peer.newest("OffsetFetch") < 7:
        raise Unadvertised("the target's OffsetFetch has no require_stable")
    answer = fetch(t, {topic: list(partitions)}, stable=stable)
    return [answer[topic, p][0] if answer[topic, p][3] == 0 else -100 - answer[topic, p][3] for p in partitions]


UNSTABLE = -100 - E.UNSTABLE_OFFSET_COMMIT


def await_offsets(t: Trial, topic: str, partitions: list[int], expected: list[int]) -> None:
    """Wait until the end of a transaction reaches its group, then check the offsets.

    It comes a little after the answer to EndTxn. Without require_stable (OffsetFetch before v7) the end is not visible,
    so the offsets must become the expected ones within 2 s.
    """
    if t.peer.newest("OffsetFetch") < 7:
        plain = partial(offsets, t, topic, *partitions, stable=False)
        t.until(plain, lambda got: got == expected, f"committed offsets never became {expected}", seconds=2)
        return
    got = t.until(
        lambda: offsets(t, topic, *partitions), lambda got: UNSTABLE not in got, "offsets never became stable"
    )
    t.equal(got, expected, "committed offsets")


@commit_case(
    "txn-commit/pending/1",
    "An offset of an open transaction is not fetched, and unstable (88) with require_stable",
    source="KIP-447; semantics 3.3",
)
def pending(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 3})
    producer = Producer(t)
    t.equal(producer.commit(topic, {0: 10, 1: 11}), {0: 0, 1: 0}, "errors")
    t.equal(offsets(t, topic, 0, 1, 2, stable=False), [3, -1, -1], "offsets without insisting")
    t.equal(offsets(t, topic, 0, 1, 2), [UNSTABLE, UNSTABLE, -1], "stable offsets")
    t.equal(sorted(fetch(t, None, stable=True)), [(topic, 0)], "all offsets: those committed before")


@commit_case("txn-commit/commit/1", "A committed transaction's offsets are the group's", source="KIP-98; semantics 3.2")
def committed(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    producer.commit(topic, {0: 10, 2: 12})
    t.expect(producer.end(committed=True), error_code=0)
    await_offsets(t, topic, [0, 1, 2], [10, -1, 12])


@commit_case("txn-commit/abort/1", "An aborted transaction's offsets are nobody's", source="KIP-98; semantics 3.2")
def aborted(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 3})
    producer = Producer(t)
    producer.commit(topic, {0: 10, 1: 11})
    t.expect(producer.end(committed=False), error_code=0)
    await_offsets(t, topic, [0, 1], [3, -1])


@commit_case(
    "txn-commit/order/1",
    "An offset committed plainly after the transaction's one stays when the transaction is committed",
    source="semantics 3.2; observed on Kafka 4.2.2",
    level=Level.SHOULD,
)
def latest_write_wins(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    producer.commit(topic, {0: 10, 1: 11})
    commit(t, topic, {0: 3})
    t.equal(offsets(t, topic, 0, 1), [UNSTABLE, UNSTABLE], "stable offsets")
    t.expect(producer.end(committed=True), error_code=0)
    await_offsets(t, topic, [0, 1], [3, 11])


@commit_case(
    "txn-commit/order/2",
    "Of two transactions the offset written last stays, in either order of commits",
    source="semantics 3.2",
    level=Level.SHOULD,
)
def two_transactions(t: Trial) -> None:
    topic = t.topic()
    first, second = Producer(t, "first"), Producer(t, "second")
    first.commit(topic, {0: 10})
    second.commit(topic, {0: 20})
    t.expect(second.end(committed=True), error_code=0)
    t.equal(offsets(t, topic, 0), [UNSTABLE], "stable offset while the first transaction is open")
    t.expect(first.end(committed=True), error_code=0)
    await_offsets(t, topic, [0], [20])


@commit_case("txn-commit/group/1", "An empty group id is refused (24)", source="semantics 3.2")
def empty_group(t: Trial) -> None:
    t.equal(Producer(t).commit(t.topic(), {0: 1}, announced=False, group_id=""), {0: E.INVALID_GROUP_ID}, "errors")


@commit_case(
    "txn-commit/group/2",
    "With a generation, a group that does not exist is ILLEGAL_GENERATION (22)",
    source="semantics 3.2; KIP-447",
    versions=(3, 5),
)
def unknown_group(t: Trial) -> None:
    codes = Producer(t).commit(t.topic(), {0: 1}, generation_id=3, member_id="nobody")
    t.equal(codes, {0: E.ILLEGAL_GENERATION}, "errors")


@commit_case(
    "txn-commit/member/1",
    "A member's generation and id are checked (22, 25); a commit without both is accepted",
    source="KIP-447; semantics 3.2",
    versions=(3, 5),
    uses=("InitProducerId", "AddOffsetsToTxn", "EndTxn", "JoinGroup", "SyncGroup", "FindCoordinator"),
)
def members(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    (member,) = t.stable(1)
    sender: dict[str, Any] = {"generation_id": member.generation, "member_id": member.id}
    t.equal(producer.commit(topic, {0: 1}, **sender), {0: 0}, "errors of the member")
    wrong = {**sender, "generation_id": member.generation + 1}
    t.equal(producer.commit(topic, {0: 1}, **wrong), {0: E.ILLEGAL_GENERATION}, "errors of another generation")
    wrong = {**sender, "member_id": "nobody"}
    t.equal(producer.commit(topic, {0: 1}, **wrong), {0: E.UNKNOWN_MEMBER_ID}, "errors of another member")
    t.equal(producer.commit(topic, {0: 1}), {0: 0}, "errors without member id and generation")


@commit_case(
    "txn-commit/member/2",
    "A static member's instance id in other hands is FENCED_INSTANCE_ID (82)",
    source="KIP-447; semantics 3.2",
    versions=(3, 5),
    uses=("InitProducerId", "AddOffsetsToTxn", "EndTxn", "JoinGroup", "SyncGroup", "FindCoordinator"),
)
def static_members(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="i")
    codes = Producer(t).commit(
        t.topic(), {0: 1}, generation_id=member.generation, member_id="nobody", group_instance_id="i"
    )
    t.equal(codes, {0: E.FENCED_INSTANCE_ID}, "errors")


@commit_case(
    "txn-commit/partitions/1",
    "Unknown partitions (3) and metadata that is too long (12) are refused alone",
    source="semantics 3.2",
)
def bad_partitions(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    t.equal(producer.commit(topic, {0: 1, 99: 1}), {0: 0, 99: E.UNKNOWN_TOPIC_OR_PARTITION}, "errors")
    long = "x" * (t.limits.offset_metadata_max_bytes + 1)
    t.equal(producer.commit(topic, {1: 1}, metadata=long), {1: E.OFFSET_METADATA_TOO_LARGE}, "errors")
    t.expect(producer.end(committed=True), error_code=0)
    await_offsets(t, topic, [0, 1], [1, -1])


@commit_case(
    "txn-commit/unannounced/1",
    "Offsets not announced by AddOffsetsToTxn are refused, 48 before version 4 and 120 in it, and taken from 5 on",
    source=f"KIP-890; {SOURCE}",
)
def unannounced(t: Trial) -> None:
    version = t.version_of("TxnOffsetCommit")
    expected = 0 if version >= 5 else E.TRANSACTION_ABORTABLE if version == 4 else E.INVALID_TXN_STATE
    topic, producer = t.topic(), Producer(t)
    # Kafka asks the transaction coordinator about several requests at once, and answers all of them with the error of
    # the first one's version. Other cells ask too: the case repeats its request until it was asked about alone.
    other = E.INVALID_TXN_STATE if version == 4 else E.TRANSACTION_ABORTABLE
    codes = t.until(
        lambda: producer.commit(topic, {0: 1}, announced=False),
        lambda got: got != {0: other} or version >= 5,
        f"the error is never {error_name(expected)}",
        seconds=2,
    )
    t.equal(codes, {0: expected}, "errors")


@commit_case(
    "txn-commit/fenced/1",
    "Another epoch is INVALID_PRODUCER_EPOCH (47), another producer id INVALID_PRODUCER_ID_MAPPING (49)",
    source=f"KIP-890; {SOURCE}",
)
def fenced(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    producer.init()
    codes = producer.commit(topic, {0: 1}, announced=False, producer_epoch=producer.epoch - 1)
    t.equal(codes, {0: E.INVALID_PRODUCER_EPOCH}, "errors of the epoch before")
    codes = producer.commit(topic, {0: 1}, announced=False, producer_id=producer.id + 1_000_000)
    t.equal(codes, {0: E.INVALID_PRODUCER_ID_MAPPING}, "errors of another producer id")


@commit_case(
    "txn-commit/delete/1",
    "A pending offset that is deleted does not come back when the transaction is committed",
    source=f"semantics 3.5; {SOURCE}",
    level=Level.SHOULD,
    uses=("InitProducerId", "AddOffsetsToTxn", "EndTxn", "OffsetFetch", "OffsetDelete", "FindCoordinator"),
)
def deleted_offset(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    producer.commit(topic, {0: 10, 1: 11})
    doomed = OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])
    t.expect(t.call(OffsetDeleteRequest(t.group, [doomed])), error_code=0)
    t.equal(offsets(t, topic, 0, 1), [-1, UNSTABLE], "stable offsets")
    t.expect(producer.end(committed=True), error_code=0)
    await_offsets(t, topic, [0, 1], [-1, 11])


@commit_case(
    "txn-commit/delete/2",
    "A group with pending offsets can be deleted, and they with it",
    source=f"semantics 2.11; {SOURCE}",
    level=Level.SHOULD,
    uses=("InitProducerId", "AddOffsetsToTxn", "EndTxn", "OffsetFetch", "DeleteGroups", "FindCoordinator"),
)
def deleted_group(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    producer.commit(topic, {0: 10})
    t.equal(t.call(DeleteGroupsRequest([t.group])).results[0].error_code, 0, "the deletion's error")
    t.expect(producer.end(committed=True), error_code=0)
    await_offsets(t, topic, [0], [-1])


@init_case("txn-init/epoch/1", "Every InitProducerId of a transactional id gives the next epoch", source="KIP-98")
def next_epoch(t: Trial) -> None:
    producer = Producer(t)
    before = (producer.id, producer.epoch)
    producer.init()
    t.equal((producer.id, producer.epoch), (before[0], before[1] + 1), "producer id and epoch")


@init_case(
    "txn-init/epoch/2",
    "A producer that names its epoch gets the next one, the same again if it did not hear, and is fenced if it is old",
    source=f"KIP-360; {SOURCE}",
)
def named_epoch(t: Trial) -> None:
    producer = Producer(t)
    old = (producer.id, producer.epoch)
    producer.init(sender=old)
    t.equal(producer.epoch, old[1] + 1, "epoch")
    producer.init(sender=old)
    t.equal(producer.epoch, old[1] + 1, "epoch of the same question again")
    producer.init(sender=(producer.id, producer.epoch))
    version = t.version_of("InitProducerId")
    code = E.PRODUCER_FENCED if version >= 4 else E.INVALID_PRODUCER_EPOCH
    t.expect(producer.init(sender=old), error_code=code)


@init_case("txn-init/refused/1", "An empty transactional id is 42, an impossible timeout 50", source=SOURCE)
def refused(t: Trial) -> None:
    t.expect(t.call(InitProducerIdRequest("", 1000)), error_code=E.INVALID_REQUEST)
    producer = Producer(t)
    t.expect(producer.init(timeout=10**8), error_code=E.INVALID_TRANSACTION_TIMEOUT)
    t.expect(producer.init(timeout=0), error_code=E.INVALID_TRANSACTION_TIMEOUT)


@init_case(
    "txn-init/fence/1",
    "A new producer ends the open transaction of the one before it, which is fenced",
    source=f"KIP-98; {SOURCE}",
    uses=("AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "OffsetFetch", "FindCoordinator"),
)
def fencing(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    producer.commit(topic, {0: 10})
    old = (producer.id, producer.epoch)
    t.expect(producer.init(), error_code=0)
    await_offsets(t, topic, [0], [-1])
    t.expect(producer.end(committed=True, sender=old), error_code=E.PRODUCER_FENCED)


@init_case(
    "txn-init/return/1",
    "A producer whose transaction the coordinator aborted gets the next epoch by InitProducerId, before 4.0 an error",
    source=f"KIP-890; {SOURCE} and 4.4.0",
    level=Level.SHOULD,
)
def returning(t: Trial) -> None:
    producer = aborted_producer(t)
    old = (producer.id, producer.epoch)
    answer = producer.init(sender=old)
    # With transaction.version 2, which came with EndTxn 5.
    if t.peer.newest("EndTxn") >= 5:
        t.expect(answer, error_code=0, producer_id=old[0], producer_epoch=old[1] + 1)
    else:
        t.expect(answer, error_code=E.PRODUCER_FENCED if t.version >= 4 else E.INVALID_PRODUCER_EPOCH)


def aborted_producer(t: Trial) -> Producer:
    """Return a producer whose transaction another InitProducerId has aborted."""
    producer = Producer(t)
    t.equal(producer.add(t.topic(), 0), [0], "errors")
    other = InitProducerIdRequest(producer.transactional_id, 60_000)
    t.expect(t.call(other, t.version_of(other)), error_code=E.CONCURRENT_TRANSACTIONS)
    return producer


@add_case(
    "txn-add/refused/1", "An unknown transactional id is 49, another epoch 90 (47 before version 2)", source=SOURCE
)
def not_added(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    t.equal(producer.add(topic, 0, id=f"{t.group}-nobody"), [E.INVALID_PRODUCER_ID_MAPPING], "errors")
    fenced = E.PRODUCER_FENCED if t.version_of("AddPartitionsToTxn") >= 2 else E.INVALID_PRODUCER_EPOCH
    t.equal(producer.add(topic, 0, producer_epoch=producer.epoch + 1), [fenced], "errors")


@add_case(
    "txn-add/unknown/1",
    "With a partition that does not exist (3), nothing is added: the others are OPERATION_NOT_ATTEMPTED (55)",
    source=SOURCE,
)
def nothing_added(t: Trial) -> None:
    codes = Producer(t).add(t.topic(), 0, 99)
    t.equal(codes, [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION], "errors")


@add_case(
    "txn-add/verify/1",
    "A request that only verifies gets 120 for partitions that are not part of the transaction",
    source=f"KIP-890; {SOURCE}",
    versions=(4, 5),
    level=Level.SHOULD,
)
def verified(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    t.equal(producer.add(topic, 0), [0], "errors of adding")
    t.equal(producer.add(topic, 0, 1, verify_only=True), [0, E.TRANSACTION_ABORTABLE], "errors of asking")


@end_case("txn-end/empty/1", "Where nothing has begun there is nothing to commit (48)", source=f"KIP-98; {SOURCE}")
def nothing_to_end(t: Trial) -> None:
    t.expect(Producer(t).end(committed=True), error_code=E.INVALID_TXN_STATE)


@end_case(
    "txn-end/twice/1",
    "The same end twice is no error, the other one is (48)",
    source=f"KIP-98, KIP-890; {SOURCE}",
)
def ended_twice(t: Trial) -> None:
    producer = Producer(t)
    producer.add(t.topic(), 0)
    sender = (producer.id, producer.epoch)
    t.expect(producer.end(committed=True, sender=sender), error_code=0)
    t.expect(producer.end(committed=True, sender=sender), error_code=0)
    t.expect(producer.end(committed=False, sender=sender), error_code=E.INVALID_TXN_STATE)


@end_case(
    "txn-end/epoch/1",
    "From version 5 on every end gives the next epoch, also an abort of nothing",
    source=f"KIP-890; {SOURCE}",
    versions=(5, 5),
)
def bumped(t: Trial) -> None:
    producer = Producer(t)
    first = producer.epoch
    producer.add(t.topic(), 0)
    t.expect(producer.end(committed=True), error_code=0, producer_epoch=first + 1)
    t.expect(producer.end(committed=False), error_code=0, producer_epoch=first + 2)


@end_case(
    "txn-end/aborted/1",
    "An abort after the coordinator's own abort is answered with the epoch after it, a commit with 48",
    source=f"KIP-890; {SOURCE} and 4.4.0",
    versions=(5, 5),
    level=Level.SHOULD,
)
def ended_by_coordinator(t: Trial) -> None:
    producer = aborted_producer(t)
    sender = (producer.id, producer.epoch)
    t.expect(producer.end(committed=True, sender=sender), error_code=E.INVALID_TXN_STATE)
    answer = producer.end(committed=False, sender=sender)
    t.expect(answer, error_code=0, producer_id=sender[0], producer_epoch=sender[1] + 1)


@end_case(
    "txn-end/refused/1", "An unknown transactional id is 49, another epoch 90 (47 before version 2)", source=SOURCE
)
def not_ended(t: Trial) -> None:
    producer = Producer(t)
    t.expect(producer.end(committed=True, sender=(producer.id + 1, 0)), error_code=E.INVALID_PRODUCER_ID_MAPPING)
    fenced = E.PRODUCER_FENCED if t.version_of("EndTxn") >= 2 else E.INVALID_PRODUCER_EPOCH
    t.expect(producer.end(committed=True, sender=(producer.id, producer.epoch + 5)), error_code=fenced)


@case(
    "txn-timeout/abort/1",
    "A transaction that is open for longer than its timeout is aborted, and the producer fenced",
    source=f"KIP-98; {SOURCE}",
    uses=("InitProducerId", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "OffsetFetch", "FindCoordinator"),
    is_long=True,
)
def timed_out(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t, timeout=2000)
    producer.commit(topic, {0: 10})
    t.equal(offsets(t, topic, 0), [UNSTABLE], "stable offset")
    # Kafka looks for such transactions every 10 s.
    t.until(lambda: offsets(t, topic, 0), lambda got: got == [-1], "the transaction was never aborted", 15)
    t.equal(producer.commit(topic, {0: 11}, announced=False), {0: E.INVALID_PRODUCER_EPOCH}, "errors")


@case(
    "txn-markers/offsets/1",
    "A marker from outside ends a producer's pending offsets in one partition of the offsets topic",
    source=f"KIP-98; {SOURCE}",
    api="WriteTxnMarkers",
    versions=(1, 2),
    level=Level.SHOULD,
    uses=("InitProducerId", "AddOffsetsToTxn", "TxnOffsetCommit", "OffsetFetch", "Metadata", "FindCoordinator"),
)
def markers(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    producer.commit(topic, {0: 10})
    for endpoint, partitions in led_offsets(t).items():
        topics = [WritableTxnMarkerTopic("__consumer_offsets", partitions), WritableTxnMarkerTopic(topic, [99])]
        marker = WritableTxnMarker(producer.id, producer.epoch, True, topics, 0)
        answer = t.connect_to(endpoint, "markers").call(WriteTxnMarkersRequest([marker]), t.version)
        t.equal([each.producer_id for each in answer.markers], [producer.id], "producer ids")
        results = {
            each.name: {one.partition_index: one.error_code for one in each.partitions}
            for each in answer.markers[0].topics
        }
        t.equal(results[topic], {99: E.UNKNOWN_TOPIC_OR_PARTITION}, "errors of a partition that does not exist")
        t.check(set(results["__consumer_offsets"].values()) <= {0, E.UNKNOWN_TOPIC_OR_PARTITION}, "a marker is refused")
    await_offsets(t, topic, [0], [10])


def led_offsets(t: Trial) -> dict[Endpoint, list[int]]:
    """Return the partitions of the offsets topic by leader; if the topic is not described, partitions 0 to 49."""
    entry = MetadataRequestTopic(name="__consumer_offsets")
    (described,) = t.call(MetadataRequest([entry], allow_auto_topic_creation=False)).topics
    if described.error_code:
        return {t.peer.routes.coordinator(t.group): list(range(50))}
    led: dict[Endpoint, list[int]] = {}
    for each in described.partitions:
        everywhere = t.peer.routes.everywhere()
        endpoint = everywhere[0] if len(everywhere) == 1 else t.peer.routes.brokers[each.leader_id]
        led.setdefault(endpoint, []).append(each.partition_index)
    return led
