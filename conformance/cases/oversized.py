"""Cases about records too large for `__consumer_offsets`: over max.message.bytes, 1,048,588 by default."""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.offsets import commit as commit_offsets
from kafka_shim.conformance.cases.offsets import fetch
from kafka_shim.conformance.producer import Producer
from kafka_shim.conformance.trial import Trial

LARGE: Final = bytes(1_200_000)


@case(
    "oversized/sync/1",
    "Assignments too large to store: -1 to all members that synced, and the group rebalances",
    source="semantics 2.6 step 3; proved on Apache Kafka 4.2.2",
    api="SyncGroup",
)
def assignment(t: Trial) -> None:
    leader, follower = t.joined(2)
    follower.send_sync()
    for _ in range(3):
        t.equal(leader.heartbeat(), 0, "the leader's heartbeat")
        t.equal(t.describe().group_state, "CompletingRebalance", "the state")
    t.parked(follower, "the leader has not synced")
    t.expect(leader.sync({leader: LARGE}), error_code=E.UNKNOWN_SERVER_ERROR, assignment=b"")
    t.expect(follower.receive_sync(), error_code=E.UNKNOWN_SERVER_ERROR, assignment=b"")
    t.equal(leader.heartbeat(), E.REBALANCE_IN_PROGRESS, "the leader's heartbeat")
    t.equal(follower.heartbeat(), E.REBALANCE_IN_PROGRESS, "the follower's heartbeat")
    t.expect(t.describe(), group_state="PreparingRebalance")
    t.settle([leader, follower])
    t.equal(leader.generation, 3, "the generation after it")


@case(
    "oversized/join/1",
    "Metadata too large to store is accepted in a JoinGroup, and refused (-1) when the leader syncs",
    source="semantics 2.6 step 3; proved on Apache Kafka 4.2.2",
    api="JoinGroup",
)
def metadata(t: Trial) -> None:
    member = t.member(protocol_type="connect", protocols=(("range", LARGE),))
    member.join()
    t.expect(member.sync({member: b"small"}), error_code=E.UNKNOWN_SERVER_ERROR, assignment=b"")
    t.equal(member.heartbeat(), E.REBALANCE_IN_PROGRESS, "its heartbeat")


@case(
    "oversized/static/1",
    "A static member with new metadata too large to store does not replace the old one (-1)",
    source="semantics 2.8 step 5; proved on Apache Kafka 4.2.2",
    api="JoinGroup",
    versions=(5, 9),
)
def static(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="instance-1", protocol_type="connect", protocols=(("range", b"small"),))
    again = t.member(instance_id="instance-1", protocol_type="connect", protocols=(("range", LARGE),))
    again.send_join()
    t.expect(again.receive_join(), error_code=E.UNKNOWN_SERVER_ERROR, member_id="")
    t.equal(member.heartbeat(), 0, "the old member's heartbeat")


@case(
    "oversized/commit/1",
    "A commit with too large records: -1 for every partition, and nothing is stored",
    source="semantics 2.10 step 4, 3.1 step 11; proved on Apache Kafka 4.2.2",
    api="OffsetCommit",
)
def commit(t: Trial) -> None:
    topic = t.topic(400)
    codes = commit_offsets(t, topic, dict.fromkeys(range(400), 7), metadata="m" * 4096)
    t.equal(set(codes.values()), {E.UNKNOWN_SERVER_ERROR}, "errors")
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], -1, "the offset")


@case(
    "oversized/transaction/1",
    "Offsets of a transaction that are too large together: -1 for every partition, and none is pending",
    source="semantics 3.2 step 10; proved on Apache Kafka 4.2.2",
    api="TxnOffsetCommit",
    uses=("InitProducerId", "AddOffsetsToTxn", "FindCoordinator"),
)
def transaction(t: Trial) -> None:
    topic, producer = t.topic(400), Producer(t)
    codes = producer.commit(topic, dict.fromkeys(range(400), 7), metadata="m" * 4096)
    t.equal(set(codes.values()), {E.UNKNOWN_SERVER_ERROR}, "errors")
    t.equal(fetch(t, {topic: [0]}, stable=True)[topic, 0][0], -1, "the offset")
