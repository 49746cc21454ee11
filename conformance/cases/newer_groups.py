"""Cases about consumer groups, offsets and transactions with a rule that a release since 4.3 changed."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Final

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    assignment_from_bytes,
    subscription_to_bytes,
)
from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.describe_quorum import DescribeQuorumRequest, PartitionAsked, TopicAsked
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_shim.apis.unregister_controller import UnregisterControllerRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.admin import listed
from kafka_shim.conformance.cases.consumer_admin import classic_consumer, described, live
from kafka_shim.conformance.cases.intervals import LONGEST_MS, set_interval
from kafka_shim.conformance.cases.releases import commit, shrinking
from kafka_shim.conformance.cases.streams import CONFIGURES
from kafka_shim.conformance.member import subscription
from kafka_shim.conformance.producer import Producer
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

consumer_case = partial(case, source="semantics 4.10", api="ConsumerGroupHeartbeat", uses=("ConsumerGroupDescribe",))
BY_ID: Final = 6
"""The version of TxnOffsetCommit that names topics by id, and the first with errors of its own for members."""


# -- first epochs, and assignments without a wait for the interval


@consumer_case(
    "consumer/join/8",
    "A first member without topics makes no epoch beyond 1: the group is Stable at 1, and topics make 2",
)
def without_topics(t: Trial) -> None:
    one = t.consumer()
    t.expect(one.join(), member_epoch=1)
    t.expect(described(t), group_state="Stable", group_epoch=1, assignment_epoch=1)
    t.expect(one.full(subscribed_topic_names=[t.topic(3)]), error_code=0, member_epoch=2)


@consumer_case(
    "consumer/interval/4",
    "The first assignment after a classic group was converted does not wait for the interval",
    uses=("ConsumerGroupDescribe", "JoinGroup", "SyncGroup", *CONFIGURES),
    since="4.3",
)
def converted_group(t: Trial) -> None:
    topic = t.topic(3)
    set_interval(t, "consumer", LONGEST_MS)
    classic_consumer(t, topic)
    newcomer = t.consumer(topic)
    newcomer.join()
    group = described(t)
    t.equal(group.assignment_epoch, group.group_epoch, "the assignment epoch")


@consumer_case(
    "consumer/interval/5",
    "A static member in the place of another does not wait for the interval, and makes no epoch",
    uses=("ConsumerGroupDescribe", *CONFIGURES),
    since="4.3",
)
def replaced_within_interval(t: Trial) -> None:
    topic = t.topic(3)
    set_interval(t, "consumer", LONGEST_MS)
    one, successor = t.consumer(topic, instance_id="i"), t.consumer(topic, instance_id="i")
    one.join()
    t.expect(one.leave(-2), error_code=0)
    t.expect(successor.join(), member_epoch=t.first_epoch)
    t.equal(len(successor.assigned), 3, "partitions of the successor")


@consumer_case(
    "consumer/interval/6",
    "After the interval the JoinGroup of a classic member computes the assignment that waits, as a heartbeat does",
    uses=("ConsumerGroupDescribe", "JoinGroup", *CONFIGURES),
    since="4.3",
)
def classic_member_computes(t: Trial) -> None:
    topic = t.topic(4)
    set_interval(t, "consumer", LONGEST_MS)
    one, other = t.consumer(topic), t.consumer(topic)
    one.join()
    other.join()
    group = t.expect(described(t), group_state="Assigning", assignment_epoch=t.first_epoch)
    set_interval(t, "consumer", 0)
    t.expect(t.member(protocols=(("range", subscription(topic)),)).join(), error_code=0)
    after = described(t)
    t.equal(after.assignment_epoch, after.group_epoch, "the assignment epoch")
    t.equal(after.group_epoch, group.group_epoch + 1, "the group epoch")


# -- full groups


@case(
    "migrate/size/1",
    "JoinGroup into a full consumer group: 81; from 4.4 on a known instance id takes the place of its member",
    source="semantics 4.10",
    api="JoinGroup",
    versions=(5, 9),
    uses=("ConsumerGroupHeartbeat",),
    profile="limits",
    needs=("small-consumer-groups",),
    level=Level.SHOULD,
)
def full_of_static_members(t: Trial) -> None:
    topic = t.topic()
    members = [t.consumer(topic, instance_id=f"i{n}") for n in range(t.limits.max_consumer_group_size)]
    for each in members:
        each.join()
    t.expect(members[1].leave(-2), error_code=0)
    again = E.NONE if t.rules.static_members_fit_full_groups else E.GROUP_MAX_SIZE_REACHED
    for instance_id, error in (("i0", again), ("i1", again), ("new", E.GROUP_MAX_SIZE_REACHED)):
        classic = t.member(instance_id=instance_id, protocols=(("range", subscription(topic)),))
        classic.send_join()
        t.equal(classic.receive_join().error_code, error, f"the error of the instance {instance_id}")


# -- commits at older epochs


@case(
    "consumer-commit/epoch/2",
    "A classic member of a consumer group commits at an older generation from 4.3 on what it has since, else 22",
    source="KIP-1251; semantics 4.10",
    api="OffsetCommit",
    uses=("ConsumerGroupHeartbeat", "JoinGroup", "SyncGroup"),
)
def older_generation(t: Trial) -> None:
    topic = t.topic(4)
    one = t.consumer(topic)
    one.join()
    t.converge(one)
    classic = t.member(protocols=(("range", owning(topic)),))
    classic.join()

    def following() -> list[int]:
        one.reconcile()
        if classic.heartbeat() == E.REBALANCE_IN_PROGRESS:
            classic.join()
        return assigned(classic.sync().assignment)

    has = t.until(following, bool, "it never got a partition")
    generation = classic.generation
    # At the next epoch the classic member keeps its partitions.
    one.full(subscribed_topic_names=[topic, t.topic(1)])
    t.equal(classic.heartbeat(), E.REBALANCE_IN_PROGRESS, "its heartbeat at the next epoch")
    classic.protocols = (("range", owning(topic, *has)),)
    classic.join()
    t.equal(assigned(classic.sync().assignment), has, "its partitions")
    t.check(classic.generation > generation, "it did not come to the new epoch")
    place = has[0]
    t.equal(classic.commit(topic, {place: 1}), {place: E.NONE}, "the error at its generation")
    older = classic.commit(topic, {place: 1}, generation_id_or_member_epoch=generation)
    accepted = E.NONE if t.rules.partition_assignment_epochs else E.ILLEGAL_GENERATION
    t.equal(older, {place: accepted}, "the error at an older generation")
    before = classic.commit(topic, {place: 1}, generation_id_or_member_epoch=generation - 2)
    t.equal(before, {place: E.ILLEGAL_GENERATION}, "the error of a generation at which it had nothing")


def owning(topic: str, *numbers: int) -> bytes:
    """Encode the metadata of a consumer that owns these partitions of its topic."""
    owned = [TopicPartition(topic, list(numbers))] if numbers else []
    return subscription_to_bytes(ConsumerProtocolSubscription([topic], owned_partitions=owned), 1)


def assigned(data: bytes) -> list[int]:
    """Return the partitions of an assignment of one topic."""
    assignment = assignment_from_bytes(data)
    return [] if assignment is None else sorted(n for each in assignment.assigned_partitions for n in each.partitions)


@case(
    "consumer-commit/epoch/3",
    "The epochs of a static member that left with -2 are forgotten: its successor may commit at any older epoch",
    source="KIP-1251; semantics 4.10",
    api="OffsetCommit",
    versions=(9, 10),
    uses=("ConsumerGroupHeartbeat",),
    since="4.3",
)
def inherited_epochs(t: Trial) -> None:
    topic = t.topic(4)
    one, successor = t.consumer(topic, instance_id="i"), t.consumer(topic, instance_id="i")
    one.join()
    t.converge(one)
    t.equal(commit(t, one, 1, {(topic, 0)}), {E.STALE_MEMBER_EPOCH}, "the error before the member left")
    t.expect(one.leave(-2), error_code=0)
    successor.join()
    t.equal(successor.assigned, {(topic, number) for number in range(4)}, "the partitions of the successor")
    t.equal(commit(t, successor, 1, {(topic, 0)}), {E.NONE}, "the error of the successor")


@case(
    "txn-commit/epoch/1",
    "A member's transaction at an older epoch is 22, 113 by version 6; from 4.3 on not for partitions it has since",
    source="KIP-1251; KIP-1319; semantics 4.10",
    api="TxnOffsetCommit",
    versions=(3, 6),
    uses=("ConsumerGroupHeartbeat", "InitProducerId", "AddOffsetsToTxn", "FindCoordinator"),
)
def older_epoch_in_transaction(t: Trial) -> None:
    one = shrinking(t)
    topic, before = t.topic(4), one.epoch
    (mine, *_), (others, *_) = ({number for _, number in each} for each in (one.assigned, one.owned - one.assigned))
    one.reconcile()
    t.check(one.epoch > before, "it did not come to the new epoch")
    producer = Producer(t)
    stale = E.STALE_MEMBER_EPOCH if t.version >= BY_ID else E.ILLEGAL_GENERATION
    for epoch, places, error in (
        (one.epoch, (mine, others), E.NONE),
        (before, (mine,), E.NONE if t.rules.partition_assignment_epochs else stale),
        (before, (mine, others), stale),
        (before - 1, (mine,), stale),
        (one.epoch + 1, (mine,), stale),
    ):
        errors = producer.commit(topic, dict.fromkeys(places, 5), member_id=one.id, generation_id=epoch)
        t.equal(errors, dict.fromkeys(places, error), f"errors at epoch {epoch} of partitions {places}")


# -- topics by id in transactions, and messages of deletions


@case(
    "txn-commit/topic/1",
    "Version 6 names topics by id: an unknown one is 100, a partition that is none 3, the others are committed",
    source="KIP-1319; semantics 4.10",
    api="TxnOffsetCommit",
    versions=(BY_ID, BY_ID),
    uses=("InitProducerId", "FindCoordinator"),
    since="4.4",
)
def topics_by_id(t: Trial) -> None:
    topic, producer = t.topic(3), Producer(t)
    places = [TxnOffsetCommitRequestPartition(number, 7, -1, "") for number in (0, 9)]
    unknown, zero, own_id = uuid.uuid4().bytes, bytes(16), t.topic_id(topic)
    topics = [TxnOffsetCommitRequestTopic("", each, places) for each in (unknown, zero, own_id)]
    request = TxnOffsetCommitRequest(producer.transactional_id, t.group, producer.id, producer.epoch, topics=topics)

    def ask() -> dict[tuple[bytes, int], int]:
        answer = t.call(request)
        return {
            (topic.topic_id, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }

    errors = t.until(ask, lambda got: not set(got.values()) & {14, 15, 16, 51}, "no offset can be committed")
    of_none = {(each, number): E.UNKNOWN_TOPIC_ID for each in (unknown, zero) for number in (0, 9)}
    t.equal(errors, of_none | {(own_id, 0): E.NONE, (own_id, 9): E.UNKNOWN_TOPIC_OR_PARTITION}, "errors")


@case(
    "txn-commit/group/3",
    "With an epoch, a missing group is 69 by version 6, and a member that is none 25",
    source="KIP-1319; semantics 4.10",
    api="TxnOffsetCommit",
    versions=(BY_ID, BY_ID),
    uses=("InitProducerId", "FindCoordinator", "ConsumerGroupHeartbeat"),
    since="4.4",
)
def missing_group_by_id(t: Trial) -> None:
    topic, producer = t.topic(3), Producer(t)
    errors = producer.commit(topic, {0: 1}, member_id="m", generation_id=3)
    t.equal(errors, {0: E.GROUP_ID_NOT_FOUND}, "errors of a missing group")
    live(t)
    errors = producer.commit(topic, {0: 1}, member_id="nobody", generation_id=3)
    t.equal(errors, {0: E.UNKNOWN_MEMBER_ID}, "errors of an unknown member")


@case(
    "delete/message/1",
    "Version 3 has room for a message: a group with members (68) and a missing one (69) have none",
    source="KIP-1331; semantics 4.10",
    api="DeleteGroups",
    versions=(3, 3),
    uses=("ConsumerGroupHeartbeat",),
    since="4.4",
)
def no_message(t: Trial) -> None:
    live(t)
    missing = t.another_group("missing")
    results = t.call(DeleteGroupsRequest([t.group, missing])).results
    got = {each.group_id: (each.error_code, each.error_message) for each in results}
    t.equal(got, {t.group: (E.NON_EMPTY_GROUP, None), missing: (E.GROUP_ID_NOT_FOUND, None)}, "errors and messages")


# -- a downgrade while an assignment waits


@case(
    "migrate/static/1",
    "A classic member takes the place of the last consumer member: from 4.3 on a waiting assignment is a rebalance",
    source="semantics 4.10",
    api="JoinGroup",
    versions=(5, 9),
    uses=("ConsumerGroupHeartbeat", "DescribeGroups", "ListGroups"),
    level=Level.SHOULD,
)
def downgraded_with_waiting_assignment(t: Trial) -> None:
    topic = t.topic(4)
    one, other = t.consumer(topic, instance_id="i"), t.consumer(topic)
    one.join()
    other.join()
    t.converge(one, other)
    t.expect(other.leave(), error_code=0)
    classic = t.member(instance_id="i", protocols=(("range", subscription(topic)),))
    t.expect(classic.join(), error_code=0)
    t.expect(listed(t)[t.group], group_type="classic")
    rebalances = t.rules.downgrade_checks_assignment
    state = t.describe().group_state
    t.equal(state, "PreparingRebalance" if rebalances else "Stable", "the state of the group")


@case(
    "migrate/static/2",
    "A classic member takes the place of the last consumer member: no rebalance if no assignment waits",
    source="semantics 4.10",
    api="JoinGroup",
    versions=(5, 9),
    uses=("ConsumerGroupHeartbeat", "DescribeGroups", "ListGroups"),
    level=Level.SHOULD,
)
def downgraded_at_once(t: Trial) -> None:
    topic = t.topic(3)
    live(t, instance_id="i")
    classic = t.member(instance_id="i", protocols=(("range", subscription(topic)),))
    t.expect(classic.join(), error_code=0)
    t.expect(listed(t)[t.group], group_type="classic")
    t.equal(t.describe().group_state, "Stable", "the state of the group")
    t.equal(classic.heartbeat(), 0, "its heartbeat")


@case(
    "migrate/classic/6",
    "After a downgrade while an assignment waits, a classic member of the epoch before is at another generation (22)",
    source="semantics 4.10",
    api="ConsumerGroupHeartbeat",
    uses=("JoinGroup", "SyncGroup", "Heartbeat", "ListGroups", *CONFIGURES),
    level=Level.SHOULD,
    since="4.3",
)
def older_generation_after_downgrade(t: Trial) -> None:
    topic = t.topic(3)
    (one,) = live(t)
    set_interval(t, "consumer", LONGEST_MS)
    member = t.member(protocols=(("range", subscription(topic)),))
    member.join()
    member.sync()
    t.expect(one.leave(), error_code=0)
    t.expect(listed(t)[t.group], group_type="classic")
    t.equal(member.heartbeat(), E.ILLEGAL_GENERATION, "its heartbeat")


# -- controllers


@case(
    "unregister-controller/refused/1",
    "A controller that is not registered is 136, the active one 42, each with a message",
    source="semantics 4.10",
    api="UnregisterController",
    level=Level.SHOULD,
    since="4.4",
)
def no_controller(t: Trial) -> None:
    answer = t.call(UnregisterControllerRequest(9_999))
    t.expect(answer, error_code=E.CONTROLLER_ID_NOT_REGISTERED)
    t.equal(answer.error_message, "Controller ID 9999 is not currently registered.", "the message")
    quorum = t.call(DescribeQuorumRequest([TopicAsked("__cluster_metadata", [PartitionAsked(0)])]))
    answer = t.call(UnregisterControllerRequest(quorum.topics[0].partitions[0].leader_id))
    t.expect(answer, error_code=E.INVALID_REQUEST)
    t.equal(answer.error_message, "Controller cannot unregister itself while it is active.", "the message")
