"""Cases about rules that differ by release of Kafka: each knows the rule of its target's release."""

from __future__ import annotations

import re
from typing import Final

from kafka_shim.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_shim.apis.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, RequestGroup
from kafka_shim.apis.describe_share_group_offsets import RequestTopic as DescribedTopic
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.apis.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStateData
from kafka_shim.apis.initialize_share_group_state import PartitionData as StatePartition
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.streams_group_heartbeat import Endpoint as UserEndpoint
from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatResponse, TaskOffset
from kafka_shim.apis.wire import uuid_text
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.consumer_admin import described
from kafka_shim.conformance.cases.share import prepared
from kafka_shim.conformance.cases.streams import CONFIGURES, at_once, source
from kafka_shim.conformance.cases.streams import described as described_streams
from kafka_shim.conformance.consumer_member import ConsumerMember
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.share_member import ShareMember, acquired, produce
from kafka_shim.conformance.streams_member import StreamsMember, reading, settle
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

ACCEPT: Final = 1
RELEASE: Final = 2
RENEW: Final = 4
FEWEST_LOCKS: Final = 100
"""The least value of share.partition.max.record.locks."""
SHARE_KEY: Final = 2
"""The type of a share group's partition in FindCoordinator."""


def set_value(t: Trial, name: str, value: str) -> None:
    """Set a value of the group, and wait until the broker has it."""
    t.configure(**{name.replace(".", "_"): value})


def shrinking(t: Trial) -> ConsumerMember:
    """Return a member that has to give up two of its four partitions."""
    topic = t.topic(4)
    one, other = t.consumer(topic), t.consumer(topic)
    one.join()
    t.converge(one)
    other.join()
    t.until(lambda: (one.full(), one.assigned)[1], lambda assigned: len(assigned) == 2, "it keeps all partitions")
    return one


def commit(t: Trial, member: ConsumerMember, epoch: int, partitions: set[tuple[str, int]]) -> set[int]:
    """Commit at an epoch, and return the errors."""
    topic = t.topic(4)
    places = [OffsetCommitRequestPartition(number, 9, committed_metadata="") for _, number in sorted(partitions)]
    topics = [OffsetCommitRequestTopic(topic, t.topic_id(topic), places)]
    answer = t.call(OffsetCommitRequest(t.group, epoch, member.id, topics=topics))
    return {each.error_code for each in answer.topics[0].partitions}


@case(
    "consumer-commit/epoch/1",
    "A commit below the member's epoch is stale (113); from 4.3 on not if the member had each partition at that epoch",
    source="KIP-1251; semantics 4.10",
    api="OffsetCommit",
    versions=(9, 10),
    uses=("ConsumerGroupHeartbeat",),
)
def older_epoch(t: Trial) -> None:
    one = shrinking(t)
    before, revoked, retained = one.epoch, one.owned - one.assigned, set(one.assigned)
    t.equal(commit(t, one, before, retained | revoked), {E.NONE}, "errors before the revocation")
    one.reconcile()
    t.check(one.epoch > before, "it did not come to the new epoch")
    accepted = E.NONE if t.rules.partition_assignment_epochs else E.STALE_MEMBER_EPOCH
    t.equal(commit(t, one, before, retained), {accepted}, "errors of partitions that it has since")
    t.equal(commit(t, one, before - 1, retained), {E.STALE_MEMBER_EPOCH}, "errors of an epoch before")
    t.equal(commit(t, one, before, retained | revoked), {E.STALE_MEMBER_EPOCH}, "errors with revoked partitions")
    t.equal(commit(t, one, one.epoch, retained | revoked), {E.NONE}, "errors at its epoch")


@case(
    "consumer-describe/group/5",
    "A member is described with its partitions; from 4.3 on also with those that it has to revoke",
    source="semantics 4.10",
    api="ConsumerGroupDescribe",
    uses=("ConsumerGroupHeartbeat",),
)
def to_be_revoked(t: Trial) -> None:
    one = shrinking(t)
    (member,) = (each for each in described(t).members if each.member_id == one.id)
    numbers = sorted(number for topic in member.assignment.topic_partitions for number in topic.partitions)
    listed = one.owned if t.rules.described_revocations else one.assigned
    t.equal(numbers, sorted(number for _, number in listed), "the described partitions")
    targets = sorted(number for topic in member.target_assignment.topic_partitions for number in topic.partitions)
    t.equal(targets, sorted(number for _, number in one.assigned), "the described target")


@case(
    "consumer/assignor/1",
    "Another preferred assignor is used at the next epoch; from 4.4 on it makes one",
    source="semantics 4.10",
    api="ConsumerGroupHeartbeat",
    uses=("ConsumerGroupDescribe",),
)
def preferred_assignor(t: Trial) -> None:
    one = t.consumer(t.topic(3), assignor="uniform")
    one.join()
    t.converge(one)
    epoch = described(t).group_epoch
    t.expect(one.full(server_assignor="range"), error_code=0)
    t.equal(described(t).group_epoch, epoch + t.rules.assignor_change_rebalances, "the group epoch")
    t.expect(one.full(server_assignor="range"), error_code=0)
    t.equal(described(t).group_epoch, epoch + t.rules.assignor_change_rebalances, "the group epoch of a repetition")


@case(
    "streams/static/1",
    "Static members are refused (42); from 4.4 on an instance id has one member, and its successor gets the tasks",
    source="semantics 4.10",
    api="StreamsGroupHeartbeat",
    uses=("StreamsGroupDescribe", *CONFIGURES),
)
def streams_static(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t))
    one, successor = StreamsMember(t, topology), StreamsMember(t, topology)
    if not t.rules.streams_static_members:
        t.expect(one.join(instance_id="i"), error_code=E.INVALID_REQUEST)
        return
    t.expect(one.join(instance_id="i", process_id="p"), error_code=0)
    t.expect(successor.join(instance_id="i", process_id="p"), error_code=E.UNRELEASED_INSTANCE_ID)
    t.expect(successor.heartbeat(instance_id="i", member_epoch=one.epoch), error_code=E.FENCED_INSTANCE_ID)
    t.expect(one.heartbeat(instance_id="j"), error_code=E.UNKNOWN_MEMBER_ID)
    epoch, tasks = one.epoch, one.active
    t.expect(one.heartbeat(instance_id="i", member_epoch=-2), error_code=0, member_epoch=-2)
    t.expect(successor.join(instance_id="i", process_id="p"), error_code=0, member_epoch=epoch)
    t.equal(successor.active, tasks, "the tasks of the successor")
    t.equal(described_streams(t).group_epoch, epoch, "the group epoch")
    t.expect(successor.heartbeat(instance_id="i", member_epoch=-1), error_code=0, member_epoch=-1)
    t.equal(described_streams(t).group_state, "Empty", "the state after the leave")


@case(
    "streams/offsets/1",
    "Offsets of tasks are refused (42); from 4.4 on the last reports are described, and a task twice is refused",
    source="semantics 4.10",
    api="StreamsGroupHeartbeat",
    uses=("StreamsGroupDescribe", *CONFIGURES),
)
def task_offsets(t: Trial) -> None:
    at_once(t)
    one = StreamsMember(t, reading(source(t)))
    one.join()
    settle(t, one)
    reported = [TaskOffset("0", 1, 5), TaskOffset("0", 0, 4)]
    if not t.rules.task_offsets:
        t.expect(one.report(task_offsets=reported), error_code=E.INVALID_REQUEST)
        return
    t.expect(one.report(task_offsets=reported, task_end_offsets=reported[:1]), error_code=0)
    t.expect(one.report(task_end_offsets=[TaskOffset("0", 0, 7)]), error_code=0)
    (member,) = described_streams(t).members
    t.equal([(each.partition, each.offset) for each in member.task_offsets], [(0, 4), (1, 5)], "task offsets")
    t.equal([(each.partition, each.offset) for each in member.task_end_offsets], [(0, 7)], "end offsets")
    t.expect(one.report(task_offsets=[*reported, *reported]), error_code=E.INVALID_REQUEST)


@case(
    "streams/endpoint/1",
    "A member that joins again without endpoint keeps the old one; from 4.4 on it loses it",
    source="semantics 4.10",
    api="StreamsGroupHeartbeat",
    uses=("StreamsGroupDescribe", *CONFIGURES),
)
def endpoint_goes(t: Trial) -> None:
    at_once(t)
    one = StreamsMember(t, reading(source(t)))
    t.expect(one.join(user_endpoint=UserEndpoint("localhost", 8080)), error_code=0)
    (member,) = described_streams(t).members
    t.check(member.user_endpoint is not None, "its endpoint is not described")
    t.expect(one.join(), error_code=0)
    (member,) = described_streams(t).members
    t.equal(member.user_endpoint is None, t.rules.endpoint_may_go, "whether the endpoint went")


def endpoints(answer: StreamsGroupHeartbeatResponse) -> dict[int, set[int]] | None:
    """Return the active partitions by the port of the endpoint; None if the answer has no endpoints."""
    if answer.partitions_by_user_endpoint is None:
        return None
    return {
        each.user_endpoint.port: {number for topic in each.active_partitions for number in topic.partitions}
        for each in answer.partitions_by_user_endpoint
    }


@case(
    "streams/endpoint/2",
    "Another endpoint, or other tasks of a member with one, make an endpoint epoch; who knows it gets no endpoints",
    source="KIP-1071; semantics 4.10",
    api="StreamsGroupHeartbeat",
    uses=CONFIGURES,
)
def endpoint_epoch(t: Trial) -> None:
    at_once(t)
    topic = source(t)
    one, two = StreamsMember(t, reading(topic)), StreamsMember(t, reading(topic))
    t.expect(one.join(user_endpoint=UserEndpoint("localhost", 8080)), error_code=0)
    settle(t, one)
    before = t.expect(one.heartbeat(), error_code=0).endpoint_information_epoch
    t.equal(endpoints(one.heartbeat(endpoint_information_epoch=before)), None, "endpoints for one that knows them")
    t.expect(two.join(user_endpoint=UserEndpoint("localhost", 8081)), error_code=0)
    settle(t, one, two)
    answer = t.expect(one.heartbeat(endpoint_information_epoch=before), error_code=0)
    newest = answer.endpoint_information_epoch
    t.check(newest > before, "the endpoint epoch did not grow with another endpoint")
    t.equal(endpoints(answer), {8080: one.active, 8081: two.active}, "endpoints after that")
    t.equal(endpoints(two.heartbeat(endpoint_information_epoch=newest)), None, "endpoints for one that knows them")
    three = StreamsMember(t, reading(topic))
    t.expect(three.join(), error_code=0)
    settle(t, one, two, three)
    answer = t.expect(one.heartbeat(endpoint_information_epoch=newest), error_code=0)
    t.check(answer.endpoint_information_epoch > newest, "the endpoint epoch did not grow when a task went elsewhere")
    t.equal(endpoints(answer), {8080: one.active, 8081: two.active}, "endpoints once another has a task")


@case(
    "share/null/1",
    "ShareFetch without group id or member id is an invalid request (42) from 4.3 on",
    source="semantics 4.10",
    api="ShareFetch",
    uses=("ShareGroupHeartbeat",),
    since="4.3",
)
def fetch_of_no_group(t: Trial) -> None:
    member = ShareMember(t, t.topic(1)).joined()
    for absent in ("group_id", "member_id"):
        t.expect(member.fetch(**{absent: None}), error_code=E.INVALID_REQUEST)


@case(
    "share/null/2",
    "ShareAcknowledge without group id or member id is an invalid request (42) from 4.3 on",
    source="semantics 4.10",
    api="ShareAcknowledge",
    uses=("ShareGroupHeartbeat",),
    since="4.3",
)
def acknowledgement_of_no_group(t: Trial) -> None:
    member = ShareMember(t, t.topic(1)).joined()
    for absent in ("group_id", "member_id"):
        t.expect(member.acknowledge((0, 0, [1]), **{absent: None}), error_code=E.INVALID_REQUEST)


@case(
    "share/limit/1",
    "A group's own delivery limit counts from the next delivery on: the last one is not followed by another",
    source="semantics 4.10",
    api="ShareAcknowledge",
    uses=("ShareGroupHeartbeat", "ShareFetch", "Produce", *CONFIGURES),
    since="4.3",
)
def limit_of_group(t: Trial) -> None:
    topic, member = prepared(t, b"first")
    set_value(t, "share.delivery.count.limit", "2")
    for delivery in (1, 2):
        t.equal(member.acquire(), [(0, 0, delivery)], f"delivery {delivery}")
        t.equal(member.said_of((0, 0, [RELEASE])), 0, "the error of the release")
    produce(t, topic, b"second")
    t.equal(member.acquire(), [(1, 1, 1)], "the record after the one at its limit")


@case(
    "share/limit/2",
    "A group may forbid renewals: 121, and the record stays acquired",
    source="KIP-1222; semantics 4.10",
    api="ShareAcknowledge",
    versions=(2, 2),
    uses=("ShareGroupHeartbeat", "ShareFetch", "Produce", *CONFIGURES),
    since="4.3",
)
def no_renewals(t: Trial) -> None:
    _, member = prepared(t, b"first")
    t.equal(member.acquire(), [(0, 0, 1)], "the delivery")
    set_value(t, "share.renew.acknowledge.enable", "false")
    renewed = member.said_of((0, 0, [RENEW]), is_renew_ack=True)
    t.equal(renewed, E.INVALID_RECORD_STATE, "the error of the renewal")
    t.equal(member.said_of((0, 0, [ACCEPT])), 0, "the error of the acceptance after that")


@case(
    "share/limit/3",
    "A group may have fewer records of a partition in flight: the next ones come after an acknowledgement",
    source="semantics 4.10",
    api="ShareFetch",
    uses=("ShareGroupHeartbeat", "ShareAcknowledge", "Produce", *CONFIGURES),
    since="4.3",
)
def locks_of_group(t: Trial) -> None:
    topic, member = prepared(t)
    set_value(t, "share.partition.max.record.locks", str(FEWEST_LOCKS))
    for _ in range(3):
        produce(t, topic, *[b"x"] * (FEWEST_LOCKS // 2))
    half = FEWEST_LOCKS // 2
    t.equal(member.acquire(max_records=half), [(0, half - 1, 1)], "the first half")
    t.equal(member.acquire(max_records=half), [(half, 2 * half - 1, 1)], "the second half")
    t.equal(acquired(t.expect(member.fetch(), error_code=0)), [], "what comes beyond the limit")
    t.equal(member.said_of((0, half - 1, [ACCEPT])), 0, "the error of the acceptance")
    t.equal(member.acquire(), [(2 * half, 3 * half - 1, 1)], "what comes after it")


@case(
    "share/limit/4",
    "Records on the last delivery that the group's own limit allows come one by one",
    source="KIP-1240; semantics 4.10",
    api="ShareFetch",
    uses=("ShareGroupHeartbeat", "ShareAcknowledge", "Produce", *CONFIGURES),
    since="4.3",
)
def last_delivery_of_group(t: Trial) -> None:
    _, member = prepared(t, b"a", b"b")
    set_value(t, "share.delivery.count.limit", "3")
    for expected in [(0, 1, 1), (0, 1, 2), (0, 0, 3), (1, 1, 3)]:
        t.equal(member.acquire(), [expected], "what it acquired")
        first, last, _ = expected
        t.equal(member.said_of((first, last, [RELEASE])), 0, "the error of the release")


@case(
    "share/added/1",
    "Partitions that are added to a topic of a share group start at 0 from 4.4 on, the others where the group says",
    source="semantics 4.10",
    api="ShareGroupHeartbeat",
    uses=("DescribeShareGroupOffsets", "CreatePartitions"),
)
def added_partitions(t: Trial) -> None:
    topic = t.new_topic(2)
    member = ShareMember(t, topic).joined()
    t.until(
        lambda: (t.expect(member.heartbeat(), error_code=0), len(member.assigned))[1], lambda has: has == 2, "not 2"
    )
    t.call(CreatePartitionsRequest([CreatePartitionsTopic(topic, 4, None)], 10_000))
    t.until(
        lambda: (t.expect(member.heartbeat(), error_code=0), len(member.assigned))[1], lambda has: has == 4, "not 4"
    )
    whole = DescribedTopic(topic, list(range(4)))
    group = t.call(DescribeShareGroupOffsetsRequest([RequestGroup(t.group, [whole])])).groups[0]
    offsets = {each.partition_index: each.start_offset for each in group.topics[0].partitions}
    start = 0 if t.rules.added_partitions_from_zero else -1
    t.equal(offsets, {0: -1, 1: -1, 2: start, 3: start}, "the start offsets")


@case(
    "share-state/epoch/1",
    "InitializeShareGroupState refuses a negative state epoch (42) from 4.4 on",
    source="semantics 4.10",
    api="InitializeShareGroupState",
    uses=("FindCoordinator",),
    level=Level.SHOULD,
)
def negative_state_epoch(t: Trial) -> None:
    topic_id = t.topic_id(t.topic(1))
    key = f"{t.group}:{uuid_text(topic_id)}:0"
    state = InitializeStateData(topic_id, [StatePartition(0, -1, 0)])

    def initialize() -> int:
        (place,) = t.call(FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=[key])).coordinators
        # A target that keeps share state without a coordinator answers anywhere.
        wire = t.connect("state") if place.error_code else t.connect_to(Endpoint(place.host, place.port))
        answer = wire.call(InitializeShareGroupStateRequest(t.group, [state]), t.version)
        return int(answer.results[0].partitions[0].error_code)

    error = t.until(initialize, lambda code: code not in (14, 15, 16), "the coordinator never loaded")
    t.equal(error, E.INVALID_REQUEST if t.rules.share_state_epochs_checked else E.NONE, "the error")


@case(
    "incremental-alter-configs/group/3",
    "A refused session of a group names its bounds as numbers from 4.4 on, before by the broker's setting",
    source="semantics 4.10",
    api="IncrementalAlterConfigs",
    level=Level.MAY,
)
def bounds_in_message(t: Trial) -> None:
    name = "consumer.session.timeout.ms"
    config = AlterableConfig(name, 0, "1")
    answer = t.call(IncrementalAlterConfigsRequest([AlterConfigsResource(32, t.group, [config])])).responses[0]
    t.expect(answer, error_code=E.INVALID_CONFIG)
    by_number = rf"{name} must be in the range \d+ to \d+ inclusive\."
    by_name = rf"{name} must be greater than or equal to group\.consumer\.min\.session\.timeout\.ms"
    expected = by_number if t.rules.bounds_by_number else by_name
    t.check(bool(re.fullmatch(expected, answer.error_message or "")), f"the message is {answer.error_message!r}")
