"""Cases about streams groups (KIP-1071): members, epochs and tasks, topologies and their topics, commits."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from kafka_shim.apis.streams_group_heartbeat import CopartitionGroup, Subtopology, TaskIds, TopicInfo, Topology
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.streams_member import StreamsMember, reading, settle
from kafka_shim.conformance.trial import Trial

CONFIGURES = ("IncrementalAlterConfigs", "DescribeConfigs")
heartbeat_case = partial(case, api="StreamsGroupHeartbeat", uses=CONFIGURES)
describe_case = partial(case, api="StreamsGroupDescribe", uses=("StreamsGroupHeartbeat", *CONFIGURES))

DELAY = "streams.initial.rebalance.delay.ms"
MISSING_SOURCE, WRONG_PARTITIONS, MISSING_INTERNAL, SHUTDOWN, DELAYED = 1, 2, 3, 4, 5


def at_once(t: Trial) -> None:
    """Set the initial delay to 0, and wait until the broker has the setting."""
    t.configure(streams_initial_rebalance_delay_ms=0)


def source(t: Trial, partitions: int = 3) -> str:
    """Return a topic that the coordinator of the group already knows.

    A broker may learn of a new topic later than the one that created it. So a member heartbeats until the topic is not
    missing, and leaves; then the group is deleted.
    """
    topic = t.topic(partitions)
    scout = StreamsMember(t, reading(topic))
    scout.join()
    t.until(
        lambda: (scout.report(), scout.statuses)[1],
        lambda now: MISSING_SOURCE not in now,
        f"{topic} is missing",
    )
    scout.leave()
    t.equal(t.call(DeleteGroupsRequest([t.group])).results[0].error_code, E.NONE, "error of DeleteGroups")
    return topic


def described(t: Trial) -> DescribedGroup:
    group: DescribedGroup = t.call(StreamsGroupDescribeRequest([t.group])).groups[0]
    return group


# -- requests


@heartbeat_case(
    "streams/validate/1",
    "A contradictory request, or one not supported yet, is invalid (42)",
    source="KIP-1071; semantics 4.12 step 1; semantics 4.12 step 2",
)
def invalid(t: Trial) -> None:
    member = StreamsMember(t, reading(source(t)))
    wrong: list[dict[str, Any]] = [
        {"member_id": ""},
        {"group_id": " "},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"active_tasks": None},
        {"standby_tasks": [TaskIds("0", [0])]},
        {"member_epoch": 1},
        {"member_epoch": -2},
        {"member_epoch": -3},
    ]
    if not t.rules.streams_static_members:
        wrong.append({"instance_id": "i"})
    if not t.rules.task_offsets:
        wrong += [{"warmup_tasks": [TaskIds("0", [0])]}, {"task_offsets": []}]
    for changes in wrong:
        t.expect(member.join(**changes), error_code=E.INVALID_REQUEST)


@heartbeat_case(
    "streams/validate/2",
    "A topology with internal topics, illegal names or a changelog with a number of partitions is 130",
    source="KIP-1071; semantics 4.12 step 1; semantics 4.12 step 2",
)
def invalid_topology(t: Trial) -> None:
    topic = source(t)
    counted = Topology(0, [Subtopology("0", [topic], state_changelog_topics=[TopicInfo("c", 2, 0, [])])])
    for topology in (reading("__consumer_offsets"), reading("no topic"), counted, Topology(0, [Subtopology("0")])):
        t.expect(StreamsMember(t, topology).join(), error_code=E.STREAMS_INVALID_TOPOLOGY)


@heartbeat_case(
    "streams/validate/3",
    "An unknown group is 69, an unknown member 25, another epoch 110",
    source="KIP-1071; semantics 4.12 step 3; semantics 4.12 step 13",
)
def unknown(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t))
    member, stranger = StreamsMember(t, topology), StreamsMember(t, topology)
    t.expect(member.heartbeat(member_epoch=1), error_code=E.GROUP_ID_NOT_FOUND)
    t.expect(member.leave(), error_code=E.GROUP_ID_NOT_FOUND)
    t.expect(member.join(), error_code=0)
    t.expect(stranger.heartbeat(member_epoch=1), error_code=E.UNKNOWN_MEMBER_ID)
    t.expect(stranger.leave(), error_code=E.UNKNOWN_MEMBER_ID)
    t.expect(member.heartbeat(member_epoch=99), error_code=E.FENCED_MEMBER_EPOCH)


# -- members and tasks


@heartbeat_case(
    "streams/join/1",
    "The first epoch of a group is 2, and its first member gets every task",
    source="KIP-1071; semantics 4.12 step 7",
)
def first(t: Trial) -> None:
    at_once(t)
    member = StreamsMember(t, reading(source(t, 3)))
    answer = member.join()
    t.expect(answer, error_code=0, member_epoch=2, standby_tasks=[], warmup_tasks=[])
    t.equal(member.active, {0, 1, 2}, "its tasks")
    t.check(answer.heartbeat_interval_ms > 0, "no heartbeat interval is given")
    t.expect(member.reconcile(), member_epoch=2, active_tasks=None)


@heartbeat_case(
    "streams/join/2",
    "Until the initial delay is over a member is at epoch 1, without tasks, and its status says so",
    source="KIP-1071; semantics 4.12 step 8",
)
def delayed(t: Trial) -> None:
    t.configure(streams_initial_rebalance_delay_ms=1000)
    member = StreamsMember(t, reading(source(t, 3)))
    t.expect(member.join(), error_code=0, member_epoch=1, active_tasks=[])
    t.equal(set(member.statuses), {DELAYED}, "statuses")
    t.until(lambda: (member.reconcile(), member.active)[1], lambda tasks: tasks == {0, 1, 2}, "no tasks came")
    t.equal((member.epoch, member.statuses), (2, {}), "epoch and statuses")


@heartbeat_case(
    "streams/share/1",
    "A task goes to another member only after its member has reported that it gave it up",
    source="KIP-1071; semantics 4.12 step 10",
)
def handed_over(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t, 4))
    old, new = StreamsMember(t, topology), StreamsMember(t, topology)
    old.join()
    settle(t, old)
    t.expect(new.join(), error_code=0, member_epoch=3, active_tasks=[])
    t.expect(old.report(), error_code=0, member_epoch=2)
    t.equal(len(old.active), 2, "tasks that the old member keeps")
    t.expect(old.heartbeat(), error_code=0, member_epoch=2)
    t.expect(new.reconcile(), error_code=0)
    t.equal(new.active, set(), "tasks of the new member")
    t.expect(old.reconcile(), error_code=0, member_epoch=3)
    settle(t, old, new)
    t.equal(old.active | new.active, {0, 1, 2, 3}, "all tasks")
    t.equal(old.active & new.active, set(), "tasks that both have")


@heartbeat_case(
    "streams/leave/1",
    "A member that leaves is answered with its epoch; its tasks are others' then",
    source="KIP-1071; semantics 4.12 step 13",
)
def leave(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t, 4))
    stays, goes = StreamsMember(t, topology), StreamsMember(t, topology)
    stays.join()
    goes.join()
    settle(t, stays, goes)
    t.expect(goes.leave(), error_code=0, member_id=goes.id, member_epoch=-1)
    settle(t, stays)
    t.equal(stays.active, {0, 1, 2, 3}, "tasks of the remaining member")


@heartbeat_case(
    "streams/shutdown/1",
    "After the request of one member every answer tells the application to shut down",
    source="KIP-1071; semantics 4.12 step 12",
)
def shutdown(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t, 4))
    one, other = StreamsMember(t, topology), StreamsMember(t, topology)
    one.join()
    other.join()
    settle(t, one, other)
    one.heartbeat(shutdown_application=True)
    other.heartbeat()
    t.equal((set(one.statuses), set(other.statuses)), ({SHUTDOWN}, {SHUTDOWN}), "statuses")


# -- topologies and topics


@heartbeat_case(
    "streams/topology/1",
    "Another topology at the same epoch is 42; a member with one of an older epoch joins with status STALE_TOPOLOGY",
    source="KIP-1071; semantics 4.12 step 4",
)
def another_topology(t: Trial) -> None:
    at_once(t)
    topic = source(t)
    t.expect(StreamsMember(t, reading(topic, epoch=1)).join(), error_code=0)
    other = t.new_topic(1)
    t.expect(StreamsMember(t, reading(topic, other, epoch=1)).join(), error_code=E.INVALID_REQUEST)
    old = StreamsMember(t, reading(topic, epoch=0))
    t.expect(old.join(), error_code=0)
    t.check(0 in old.statuses, f"statuses are {old.statuses}")


@heartbeat_case(
    "streams/topics/1",
    "The status names a missing source topic; once it exists, its tasks are assigned",
    source="KIP-1071; semantics 4.12 step 5",
)
def missing_source(t: Trial) -> None:
    at_once(t)
    name = f"later-{t.group}"
    member = StreamsMember(t, reading(name))
    t.expect(member.join(), error_code=0, active_tasks=[])
    t.equal(member.statuses, {MISSING_SOURCE: f"Source topics {name} are missing."}, "statuses")
    t.new_topic(2, name)
    t.until(lambda: (member.reconcile(), member.active)[1], lambda tasks: tasks == {0, 1}, "the tasks never came")


@heartbeat_case(
    "streams/topics/2",
    "The status names a missing changelog; it is created with as many partitions as there are tasks",
    source="KIP-1071; semantics 4.12 step 5; semantics 4.12 step 6",
)
def changelog(t: Trial) -> None:
    at_once(t)
    name = f"changelog-{t.group}"
    member = StreamsMember(t, reading(source(t, 3), changelog=name))
    t.expect(member.join(), error_code=0, active_tasks=[])
    t.equal(member.statuses, {MISSING_INTERNAL: f"Internal topics are missing: {name}"}, "statuses")
    t.until(lambda: (member.reconcile(), member.active)[1], lambda tasks: tasks == {0, 1, 2}, "the tasks never came")
    t.equal(member.statuses, {}, "statuses")
    metadata = t.call(MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False))
    t.equal(len(metadata.topics[0].partitions), 3, "partitions of the changelog")


@heartbeat_case(
    "streams/topics/3",
    "The status names topics with unequal partition counts that must be equal",
    source="KIP-1071; semantics 4.12 step 5",
)
def copartitioned(t: Trial) -> None:
    at_once(t)
    topics = [source(t, 2), source(t, 3)]
    topology = Topology(
        0, [Subtopology("0", source_topics=topics, copartition_groups=[CopartitionGroup([0, 1], [], [])])]
    )
    member = StreamsMember(t, topology)
    t.expect(member.join(), error_code=0, active_tasks=[])
    # The coordinator may learn of a new topic a moment later.
    t.until(
        lambda: (set(member.statuses), member.reconcile())[0],
        lambda statuses: statuses == {WRONG_PARTITIONS},
        "the status never came",
    )


@heartbeat_case(
    "streams/topics/4",
    "A task that does not exist is 42",
    source="KIP-1071; semantics 4.12 step 3",
)
def no_such_task(t: Trial) -> None:
    at_once(t)
    member = StreamsMember(t, reading(source(t, 3)))
    member.join()
    settle(t, member)
    for task in (TaskIds("0", [3]), TaskIds("1", [0])):
        t.expect(member.report(active_tasks=[task]), error_code=E.INVALID_REQUEST)


# -- offsets


def commit(t: Trial, member: StreamsMember, topic: str, epoch: int, partition: int = 0, version: int = 9) -> int:
    partitions = [OffsetCommitRequestPartition(partition, 1, -1, -1, "")]
    request = OffsetCommitRequest(
        t.group, epoch, member.id, None, -1, [OffsetCommitRequestTopic(topic, bytes(16), partitions)]
    )
    code: int = t.call(request, version).topics[0].partitions[0].error_code
    return code


@case(
    "streams/commit/1",
    "A commit of an older epoch is accepted for a task the member had then; 113 else, and 35 before version 9",
    source="KIP-1071; semantics 4.12 step 14",
    api="OffsetCommit",
    uses=("StreamsGroupHeartbeat", *CONFIGURES),
)
def late_commit(t: Trial) -> None:
    at_once(t)
    topic = source(t, 4)
    topology = reading(topic)
    old, new = StreamsMember(t, topology), StreamsMember(t, topology)
    old.join()
    settle(t, old)
    # A target may need one more epoch to learn of the topic.
    before = old.epoch
    new.join()
    settle(t, old, new)
    now = old.epoch
    mine, others = min(old.active), min(new.active)
    t.equal(new.epoch, now, "the new member's epoch")
    t.equal(now > before, True, f"whether epoch {now} is later than {before}")
    t.equal(commit(t, old, topic, now, mine), E.NONE, "error at the member's epoch")
    t.equal(commit(t, old, topic, before, mine), E.NONE, "error at an epoch before, for a task it had then")
    t.equal(commit(t, new, topic, before, others), E.STALE_MEMBER_EPOCH, "error at an epoch before, for one it had not")
    t.equal(commit(t, old, topic, before, others), E.STALE_MEMBER_EPOCH, "error at an epoch before, for one it gave up")
    t.equal(commit(t, old, topic, now + 1, mine), E.STALE_MEMBER_EPOCH, "error at a later epoch")
    t.equal(commit(t, old, topic, now, mine, version=8), E.UNSUPPORTED_VERSION, "error in version 8")


# -- administration


@describe_case(
    "streams/describe/1",
    "A group is described with its topology, members and tasks, listed, and deleted once it is empty",
    source="KIP-1071; semantics 4.12 step 15",
)
def describe(t: Trial) -> None:
    at_once(t)
    topic = source(t, 3)
    member = StreamsMember(t, reading(topic))
    member.join()
    settle(t, member)
    group = described(t)
    t.expect(group, error_code=0, group_state="Stable", group_epoch=2, assignment_epoch=2)
    subtopologies = [] if group.topology is None else group.topology.subtopologies or []
    t.equal([(each.subtopology_id, each.source_topics) for each in subtopologies], [("0", [topic])], "subtopologies")
    (only,) = group.members
    t.expect(only, member_id=member.id, member_epoch=2, process_id=member.id, is_classic=False)
    t.equal(only.assignment.active_tasks, [TaskIds("0", [0, 1, 2])], "its tasks")
    listed = {each.group_id: each.group_type for each in t.call(ListGroupsRequest([], ["streams"])).groups}
    t.equal(listed.get(t.group), "streams", "the type in ListGroups")
    t.equal(t.call(DeleteGroupsRequest([t.group])).results[0].error_code, E.NON_EMPTY_GROUP, "error of DeleteGroups")
    member.leave()
    t.equal(t.call(DeleteGroupsRequest([t.group])).results[0].error_code, E.NONE, "error of DeleteGroups")
    t.expect(described(t), error_code=E.GROUP_ID_NOT_FOUND)


@describe_case(
    "streams/describe/2",
    "An empty group id is 24, a group that does not exist 69",
    source="KIP-1071; semantics 4.12 step 15",
)
def describe_nothing(t: Trial) -> None:
    answer = t.call(StreamsGroupDescribeRequest([f"none-{t.group}", ""]))
    errors = {each.group_id: each.error_code for each in answer.groups}
    t.equal(errors, {"": E.INVALID_GROUP_ID, f"none-{t.group}": E.GROUP_ID_NOT_FOUND}, "errors")
