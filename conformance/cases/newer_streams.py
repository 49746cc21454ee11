"""Cases about streams groups with a rule that Kafka 4.4 changed: roles, offsets, full groups, topology descriptions."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.streams_group_describe import StreamsGroupDescribeRequest
from kafka_shim.apis.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset
from kafka_shim.apis.streams_group_topology_description_update import (
    GlobalStore,
    Node,
    StreamsGroupTopologyDescriptionUpdateRequest,
    Subtopology,
    TopologyDescription,
)
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.configs import BROKER, a_broker
from kafka_shim.conformance.cases.configs import described as broker_values
from kafka_shim.conformance.cases.releases import set_value
from kafka_shim.conformance.cases.streams import CONFIGURES, at_once, described, source
from kafka_shim.conformance.streams_member import StreamsMember, reading, settle
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level, Skipped

streams_case = partial(
    case, source="semantics 4.10", api="StreamsGroupHeartbeat", uses=("StreamsGroupDescribe", *CONFIGURES)
)


def with_standby(t: Trial) -> tuple[StreamsMember, StreamsMember]:
    """Return two members of one task: the first runs it, the second has the standby."""
    at_once(t)
    topology = reading(source(t, 1), changelog=f"changelog-{t.group}")
    set_value(t, "streams.num.standby.replicas", "1")
    one, other = StreamsMember(t, topology), StreamsMember(t, topology)
    one.join()
    other.join()

    def shared() -> bool:
        for each in (one, other):
            t.expect(each.reconcile(), error_code=0)
        return sorted((len(each.active), len(each.standby)) for each in (one, other)) == [(0, 1), (1, 0)]

    t.until(shared, bool, "the task never had a standby")
    return (one, other) if one.active else (other, one)


@streams_case(
    "streams/roles/1",
    "A standby becomes active by one answer from 4.4 on; before, its member gives the standby up first",
)
def promotion(t: Trial) -> None:
    owner, follower = with_standby(t)
    t.expect(owner.leave(), error_code=0)
    t.expect(follower.reconcile(), error_code=0)
    at_once_active = t.rules.roles_change_in_place
    t.equal(follower.active, {0} if at_once_active else set(), "active tasks of the first answer")
    t.equal(follower.standby, set(), "standbys of the first answer")
    t.until(lambda: (follower.reconcile(), follower.active)[1], lambda has: has == {0}, "it never got the task")


@streams_case(
    "streams/offsets/3",
    "A warm-up task that does not exist is 42, offsets of an unknown subtopology are kept, those at a join are not",
    since="4.4",
)
def reports_outside_topology(t: Trial) -> None:
    at_once(t)
    one = StreamsMember(t, reading(source(t)))
    t.expect(one.join(task_offsets=[TaskOffset("0", 0, 3)]), error_code=0)
    t.equal(described(t).members[0].task_offsets, [], "offsets that came with the join")
    settle(t, one)
    t.expect(one.report(warmup_tasks=[TaskIds("zz", [0])]), error_code=E.INVALID_REQUEST)
    t.expect(one.report(task_offsets=[TaskOffset("zz", 0, 3)]), error_code=0)
    t.equal([each.subtopology_id for each in described(t).members[0].task_offsets], ["zz"], "subtopologies described")


@streams_case(
    "streams/offsets/4",
    "A task whose member left goes to one that reported an offset of it, the larger one first",
    since="4.4",
)
def offsets_decide(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t, 1))
    owner, *others = (StreamsMember(t, topology) for _ in range(4))
    # Each heir is the last by name, since without offsets the first one gets the task.
    others.sort(key=lambda each: each.id, reverse=True)
    owner.join()
    settle(t, owner)
    for each in others:
        t.expect(each.join(), error_code=0)
    t.until(
        lambda: [t.expect(each.reconcile(), error_code=0).member_epoch for each in (owner, *others)],
        lambda epochs: len(set(epochs)) == 1,
        "the members never came to one epoch",
    )
    t.equal(owner.active, {0}, "tasks of the first member")
    for heir, behind in ((others[0], others[1]), (others[1], others[2])):
        t.expect(behind.report(task_offsets=[TaskOffset("0", 0, 10)]), error_code=0)
        t.expect(heir.report(task_offsets=[TaskOffset("0", 0, 20)]), error_code=0)
        t.expect(owner.leave(), error_code=0)
        t.until(lambda heir=heir: (heir.reconcile(), heir.active)[1], lambda has: has == {0}, "the heir has no task")  # type: ignore[misc]
        owner = heir


@streams_case(
    "streams/size/1",
    "A full group refuses a newcomer (81); a member that joins again is let in from 4.4 on only",
    profile="limits",
    needs=("small-streams-groups",),
)
def full(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t))
    members = [StreamsMember(t, topology) for _ in range(t.limits.max_streams_group_size)]
    for each in members:
        t.expect(each.join(), error_code=0)
    t.expect(StreamsMember(t, topology).join(), error_code=E.GROUP_MAX_SIZE_REACHED)
    again = E.NONE if t.rules.static_members_fit_full_groups else E.GROUP_MAX_SIZE_REACHED
    t.expect(members[0].join(), error_code=again)


@streams_case(
    "streams/static/2",
    "A refused static member gets a sentence: -2 without instance id (42), an instance of another member (111, 82)",
    level=Level.SHOULD,
    since="4.4",
)
def refused_static_members(t: Trial) -> None:
    at_once(t)
    one, other = (StreamsMember(t, reading(source(t))) for _ in range(2))
    t.expect(one.join(instance_id="i"), error_code=0)
    owned = f"Static member {other.id} with instance id i cannot join the group because the instance id is owned by "
    for answer, error, message in (
        (one.heartbeat(member_epoch=-2), E.INVALID_REQUEST, "InstanceId can't be null."),
        (other.join(instance_id="i"), E.UNRELEASED_INSTANCE_ID, f"{owned}{one.id} member."),
        (
            other.heartbeat(instance_id="i", member_epoch=one.epoch),
            E.FENCED_INSTANCE_ID,
            f"Static member {other.id} with instance id i was fenced by member {one.id}.",
        ),
        (one.heartbeat(instance_id="j"), E.UNKNOWN_MEMBER_ID, "Instance id j is unknown."),
    ):
        t.equal((answer.error_code, answer.error_message), (error, message), "the refusal")


@streams_case(
    "streams/static/3",
    "The successor of a static member makes an epoch if its rack, process or client tags are others, not by the rest",
    since="4.4",
)
def other_successor(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t))
    before = StreamsMember(t, topology)
    t.expect(before.join(instance_id="i", process_id="p"), error_code=0)
    settle(t, before)
    changes: dict[str, Any] = {"process_id": "p"}
    for change, makes_epoch in (
        ({}, False),
        ({"rebalance_timeout_ms": 40_000}, False),
        ({"user_endpoint": Endpoint("localhost", 8080)}, False),
        ({"rack_id": "r"}, True),
        ({"process_id": "q"}, True),
        ({"client_tags": [KeyValue("zone", "1")]}, True),
    ):
        epoch = described(t).group_epoch
        t.expect(before.heartbeat(instance_id="i", member_epoch=-2), error_code=0, member_epoch=-2)
        t.expect(described(t), group_state="Reconciling", group_epoch=epoch)
        changes |= change
        successor = StreamsMember(t, topology)
        t.expect(successor.join(instance_id="i", **changes), error_code=0)
        t.equal(described(t).group_epoch, epoch + makes_epoch, f"the group epoch after {change}")
        settle(t, successor)
        before = successor


@streams_case(
    "streams/join/3",
    "During the initial delay a group is described with its first epoch, 2, and the assignment epoch 1, before 4.3 0",
)
def described_delay(t: Trial) -> None:
    one = StreamsMember(t, reading(source(t)))
    t.configure(streams_initial_rebalance_delay_ms=15_000)
    t.expect(one.join(), error_code=0, member_epoch=1)
    group = t.expect(described(t), error_code=0, group_state="Assigning", group_epoch=2)
    t.equal(group.assignment_epoch, int(t.rules.first_epoch_two), "the assignment epoch")


# -- topology descriptions, by a broker without the plugin


@streams_case(
    "streams/describe/3",
    "A group is described with its assignor; without a plugin no topology description is stored (1) or required",
    api="StreamsGroupDescribe",
    uses=("StreamsGroupHeartbeat", *CONFIGURES),
    versions=(1, 1),
    since="4.4",
)
def without_description(t: Trial) -> None:
    at_once(t)
    one = StreamsMember(t, reading(source(t)))
    t.expect(one.join(), error_code=0, topology_description_required=False)
    settle(t, one)
    for includes, status in ((False, 0), (True, 1)):
        (group,) = t.call(StreamsGroupDescribeRequest([t.group], include_topology_description=includes)).groups
        t.expect(group, error_code=0, topology_description=None, topology_description_status=status)
        t.expect(group, assignor_name="sticky")
    missing = t.another_group("missing")
    (group,) = t.call(StreamsGroupDescribeRequest([missing], include_topology_description=True)).groups
    t.expect(group, error_code=E.GROUP_ID_NOT_FOUND, topology_description_status=0, assignor_name=None)


@case(
    "topology-description/plugin/1",
    "A broker without plugin refuses a topology description (35) with a message, whoever sends it",
    source="KIP-1331; semantics 4.10",
    api="StreamsGroupTopologyDescriptionUpdate",
    uses=("StreamsGroupHeartbeat", *CONFIGURES),
    since="4.4",
    level=Level.SHOULD,
)
def no_plugin(t: Trial) -> None:
    at_once(t)
    topic = source(t)
    one = StreamsMember(t, reading(topic))
    one.join()
    nodes = [Node("in", 1, [topic], None, [], ["count"]), Node("count", 2, [], None, ["store"], [])]
    description = TopologyDescription([Subtopology("0", nodes)], [])
    sentence = "The broker has no streams group topology description plugin configured."
    for member_id in (one.id, "nobody", ""):
        request = StreamsGroupTopologyDescriptionUpdateRequest(t.group, member_id, 0, description)
        answer = t.call(request)
        t.equal(
            (answer.error_code, answer.error_message), (E.UNSUPPORTED_VERSION, sentence), f"answer to {member_id!r}"
        )


# -- topology descriptions, by a broker with the plugin that keeps them in memory

described_case = partial(
    case,
    source="KIP-1331; semantics 4.10",
    api="StreamsGroupTopologyDescriptionUpdate",
    uses=("StreamsGroupHeartbeat", "StreamsGroupDescribe", *CONFIGURES),
    profile="limits",
    since="4.4",
)


def description_of(topic: str, node_type: int = 1) -> TopologyDescription:
    """Return the description of a topology that reads a topic; the first node has this type."""
    nodes = [
        Node("in", node_type, [topic], None, [], ["count"]),
        Node("count", 2, [], None, ["store"], ["out"]),
        Node("out", 3, [], "sink", [], []),
    ]
    return TopologyDescription([Subtopology("0", nodes)], [GlobalStore(Node("g", 1, ["g"]), Node("p", 2, []))])


def source_of_described(t: Trial) -> str:
    """Return a topic for a group of a broker with the plugin; skip the case on a broker without it."""
    setting = "group.streams.topology.description.plugin.class"
    if not broker_values(t, BROKER, a_broker(t), setting)[setting].value:
        raise Skipped("the broker has no plugin for topology descriptions")
    at_once(t)
    return source(t)


def describe(
    t: Trial, member: StreamsMember, description: TopologyDescription, **changes: Any
) -> tuple[int, str | None]:
    """Send a description of the topology at epoch 0; return error and message."""
    request = StreamsGroupTopologyDescriptionUpdateRequest(t.group, member.id, 0, description)
    for name, value in changes.items():
        setattr(request, name, value)
    answer = t.call(request)
    return answer.error_code, answer.error_message


def description_status(t: Trial) -> tuple[int, TopologyDescription | None]:
    (group,) = t.call(StreamsGroupDescribeRequest([t.group], include_topology_description=True)).groups
    t.expect(group, error_code=0)
    return group.topology_description_status, group.topology_description


@described_case(
    "topology-description/store/1",
    "One member is told to describe its topology; the description is kept, also once the group is Empty",
)
def kept_description(t: Trial) -> None:
    source_of_described(t)
    # Kafka remembers its question beyond the end of a group, so this group has a name of its own.
    t.group = t.another_group("asked")
    at_once(t)
    topic = t.topic(3)
    one, other = StreamsMember(t, reading(topic)), StreamsMember(t, reading(topic))
    t.expect(one.join(), error_code=0, topology_description_required=True)
    t.expect(other.join(), error_code=0, topology_description_required=False)
    t.expect(one.report(), error_code=0, topology_description_required=False)
    t.equal(description_status(t), (1, None), "the status before")
    description = description_of(topic)
    t.equal(describe(t, other, description), (E.NONE, None), "the answer")
    t.equal(description_status(t), (3, description), "the description")
    t.equal(described(t).topology_description_status, 0, "the status without request")
    t.equal(describe(t, one, description_of("elsewhere")), (E.NONE, None), "the answer to another description")
    for each in (one, other):
        t.expect(each.leave(), error_code=0)
    t.equal(description_status(t), (3, description_of("elsewhere")), "the description of the Empty group")


@described_case(
    "topology-description/refused/1",
    "A description is refused by member id and group id (42), group (69), member (25), epoch (42), type of a node (42)",
)
def refused_descriptions(t: Trial) -> None:
    topic = source_of_described(t)
    one = StreamsMember(t, reading(topic))
    one.join()
    description, missing = description_of(topic), t.another_group("missing")
    wrong = "Topology epoch 7 does not match the group's current topology epoch 0."
    strange = "Unknown topology node type: 9"
    for changes, error in (
        ({"member_id": "", "group_id": ""}, (E.INVALID_REQUEST, "MemberId can't be empty.")),
        ({"member_id": "m", "group_id": missing}, (E.GROUP_ID_NOT_FOUND, f"Group {missing} not found.")),
        (
            {"member_id": "m", "topology_epoch": 7},
            (E.UNKNOWN_MEMBER_ID, f"Member m is not a member of group {t.group}."),
        ),
        ({"topology_epoch": 7, "topology_description": description_of(topic, 9)}, (E.INVALID_REQUEST, wrong)),
        ({"topology_description": description_of(topic, 9)}, (E.INVALID_REQUEST, strange)),
    ):
        t.equal(describe(t, one, description, **changes), error, f"the answer to {changes}")
    t.equal(description_status(t), (1, None), "the status after that")


@described_case(
    "topology-description/end/1",
    "A description goes with its group: DeleteGroups deletes both, and a new group of the name has none",
    uses=("StreamsGroupHeartbeat", "StreamsGroupDescribe", "DeleteGroups", *CONFIGURES),
)
def deleted_description(t: Trial) -> None:
    topic = source_of_described(t)
    one = StreamsMember(t, reading(topic))
    one.join()
    t.equal(describe(t, one, description_of(topic)), (E.NONE, None), "the answer")
    one.leave()
    t.equal(t.call(DeleteGroupsRequest([t.group])).results[0].error_code, E.NONE, "the error of DeleteGroups")
    t.expect(StreamsMember(t, reading(topic)).join(), error_code=0, topology_description_required=True)
    t.equal(description_status(t), (1, None), "the status of the new group")


@described_case(
    "topology-description/end/2",
    "A classic member may join an Empty group with a description: the streams group after it has none",
    uses=("StreamsGroupHeartbeat", "StreamsGroupDescribe", "JoinGroup", "LeaveGroup", *CONFIGURES),
)
def converted_description(t: Trial) -> None:
    topic = source_of_described(t)
    one = StreamsMember(t, reading(topic))
    one.join()
    t.equal(describe(t, one, description_of(topic)), (E.NONE, None), "the answer")
    one.leave()
    (classic,) = t.stable(1)
    classic.leave()
    t.expect(one.join(), error_code=0, topology_description_required=True)
    t.equal(description_status(t), (1, None), "the status of the streams group")
