"""Cases about permissions on groups: refusals of each API in its place, and parts that an answer leaves out."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_shim.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
)
from kafka_shim.apis.alter_share_group_offsets import RequestPartition as AlteredPartition
from kafka_shim.apis.alter_share_group_offsets import RequestTopic as AlteredTopic
from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafka_shim.apis.delete_share_group_offsets import RequestTopic as DeletedTopic
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_shim.apis.sync_group import SyncGroupRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.consumer_topics import REFRESH
from kafka_shim.conformance.cases.discovery import find
from kafka_shim.conformance.cases.offsets import NO_OFFSET, commit, fetch
from kafka_shim.conformance.consumer_member import ConsumerMember
from kafka_shim.conformance.share_member import ShareMember
from kafka_shim.conformance.targets.secured import SECURITY
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.user import User

DENIED, DENIED_TOPIC = E.GROUP_AUTHORIZATION_FAILED, E.TOPIC_AUTHORIZATION_FAILED
NOT_SEEN = -(2**31)
HIDDEN = "The group has described topic(s) that the client is not authorized to describe."

access_case = partial(case, source="semantics 6.5", profile=SECURITY)


def bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


@access_case("access/join/1", "JoinGroup needs READ on the group, else 30, and no group begins", api="JoinGroup")
def join(t: Trial) -> None:
    alice = User(t)
    alice.allow("DESCRIBE", group=t.group)
    request = JoinGroupRequest(t.group, 30_000, 30_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    t.expect(alice.call(request), error_code=DENIED, member_id="", members=[])
    t.equal(t.describe().group_state, "Dead", "the state of the group")


@access_case("access/join/2", "With READ alone a member joins, syncs, sends heartbeats, commits and leaves")
def life(t: Trial) -> None:
    topic = t.topic()
    alice = User(t)
    alice.allow("READ", group=t.group)
    alice.allow("READ", topic=topic)
    (member,) = t.settle([alice.trial.member()])
    member.wire = alice.wire
    t.equal(member.heartbeat(), 0, "the heartbeat")
    t.equal(member.commit(topic, {0: 5}), {0: 0}, "the commit")
    t.expect(member.leave(), error_code=0)


@access_case("access/sync/1", "SyncGroup needs READ on the group, else 30", api="SyncGroup")
def sync(t: Trial) -> None:
    (leader,) = t.joined(1)
    alice = User(t)
    request = SyncGroupRequest(t.group, leader.generation, leader.id, None, "consumer", "range", [])
    t.expect(alice.call(request), error_code=DENIED, assignment=b"")
    t.expect(leader.sync({leader: b"mine"}), error_code=0, assignment=b"mine")


@access_case("access/heartbeat/1", "Heartbeat needs READ on the group, else 30", api="Heartbeat")
def heartbeat(t: Trial) -> None:
    (leader,) = t.stable(1)
    t.expect(User(t).call(HeartbeatRequest(t.group, leader.generation, leader.id)), error_code=DENIED)
    t.equal(leader.heartbeat(), 0, "the heartbeat of the member")


@access_case("access/heartbeat/2", "A change of ACLs counts for the next heartbeat of an open connection, both ways")
def revoked(t: Trial) -> None:
    alice = User(t)
    alice.allow("READ", group=t.group)
    (member,) = t.stable(1)
    member.wire = alice.wire
    for _ in range(2):
        t.equal(member.heartbeat(), 0, "the heartbeat with READ")
    alice.revoke()
    for _ in range(2):
        t.equal(member.heartbeat(), DENIED, "the heartbeat after the ACL was deleted")
    alice.allow("READ", group=t.group)
    t.equal(member.heartbeat(), 0, "the heartbeat with READ again")


@access_case("access/leave/1", "LeaveGroup needs READ on the group, else 30 alone", api="LeaveGroup")
def leave(t: Trial) -> None:
    (leader,) = t.stable(1)
    of_member = {"members": [MemberIdentity(leader.id, None)]} if t.version >= 3 else {"member_id": leader.id}
    t.expect(User(t).call(LeaveGroupRequest(t.group, **of_member)), error_code=DENIED, members=[])
    t.equal(leader.heartbeat(), 0, "the heartbeat of the member")


@access_case("access/empty/1", "An empty group id is a name like others: 30 without an ACL, 24 with one for all names")
def empty_group(t: Trial) -> None:
    alice = User(t)
    request = HeartbeatRequest("", 1, "nobody")
    t.expect(alice.call(request), error_code=DENIED)
    alice.allow("READ", group="*")
    t.expect(alice.call(request), error_code=E.INVALID_GROUP_ID)


@access_case("access/commit/1", "OffsetCommit needs READ on the group, else every partition is 30", api="OffsetCommit")
def commit_group(t: Trial) -> None:
    topic = t.topic()
    alice = User(t)
    alice.allow("READ", topic=topic)
    t.equal(commit(alice.trial, topic, {0: 1, 1: 2}), {0: DENIED, 1: DENIED}, "errors")
    t.equal(fetch(t, {topic: [0]}), {(topic, 0): NO_OFFSET}, "the offset")


@access_case("access/commit/2", "OffsetCommit needs READ on each topic: that of others is stored", api="OffsetCommit")
def commit_topics(t: Trial) -> None:
    first, second = t.topic(1), t.topic(3)
    alice = User(t)
    alice.allow("READ", group=t.group)
    alice.allow("READ", topic=second)
    codes = commit_both(alice.trial, first, second)
    t.equal(codes, {first: DENIED_TOPIC, second: 0}, "errors")
    offsets = {name: offset for (name, _), (offset, *_) in fetch(t, {first: [0], second: [0]}).items()}
    t.equal(offsets, {first: -1, second: 7}, "the offsets")


def commit_both(t: Trial, *topics: str, **changes: Any) -> dict[str, int]:
    """Commit offset 7 of partition 0 of each topic; return the error of each."""
    ids = t.peer.topic_ids
    request = OffsetCommitRequest(
        t.group,
        topics=[
            OffsetCommitRequestTopic(name, ids[name], [OffsetCommitRequestPartition(0, 7, committed_metadata="")])
            for name in topics
        ],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    names = t.peer.topic_names()
    return {
        names[topic.topic_id] if t.version_of("OffsetCommit") >= 10 else topic.name: topic.partitions[0].error_code
        for topic in t.call(request).topics
    }


@access_case(
    "access/commit/3",
    "With all topics denied the group is not asked: an unknown member and a wrong generation go unnoticed",
    api="OffsetCommit",
)
def commit_nothing(t: Trial) -> None:
    t.stable(1)
    topic = t.topic()
    alice = User(t)
    alice.allow("READ", group=t.group)
    codes = commit_both(alice.trial, topic, generation_id_or_member_epoch=99, member_id="nobody")
    t.equal(codes, {topic: DENIED_TOPIC}, "errors")


@access_case("access/fetch-offsets/1", "OffsetFetch needs DESCRIBE on the group, else 30", api="OffsetFetch")
def fetch_group(t: Trial) -> None:
    topic = t.topic()
    alice = User(t)
    alice.allow("DESCRIBE", topic=topic)
    answer = fetch(alice.trial, {topic: [0]}, code=DENIED)
    if t.version <= 1:
        t.equal({code for *_, code in answer.values()}, {DENIED}, "errors of the partitions")


@access_case("access/fetch-offsets/2", "A denied topic of OffsetFetch is 29 with offset -1", api="OffsetFetch")
def fetch_topics(t: Trial) -> None:
    first, second = t.topic(1), t.topic(3)
    commit_both(t, first, second)
    alice = User(t)
    alice.allow("DESCRIBE", group=t.group)
    alice.allow("DESCRIBE", topic=second)
    answer = fetch(alice.trial, {first: [0], second: [0]})
    errors = {name: (offset, code) for (name, _), (offset, _, _, code) in answer.items()}
    t.equal(errors, {first: (-1, DENIED_TOPIC), second: (7, 0)}, "offsets and errors")


@access_case(
    "access/fetch-offsets/3",
    "All offsets of a group are those of topics that the client may describe",
    api="OffsetFetch",
    versions=(2, 10),
)
def fetch_all(t: Trial) -> None:
    first, second = t.topic(1), t.topic(3)
    commit_both(t, first, second)
    alice = User(t)
    alice.allow("DESCRIBE", group=t.group)
    alice.allow("DESCRIBE", topic=second)
    t.equal(sorted(name for name, _ in fetch(alice.trial, None)), [second], "the topics")


@access_case("access/offset-delete/1", "OffsetDelete needs DELETE on the group, else 30 at the top", api="OffsetDelete")
def delete_group_offsets(t: Trial) -> None:
    topic = t.topic()
    commit_both(t, topic)
    alice = User(t)
    alice.allow("READ", group=t.group)
    alice.allow("READ", topic=topic)
    t.expect(alice.call(delete_offsets(t, topic)), error_code=DENIED, topics=[])


def delete_offsets(t: Trial, *topics: str) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        t.group, [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in topics]
    )


@access_case(
    "access/offset-delete/2",
    "OffsetDelete needs READ on each topic, else 29, for no topic too",
    api="OffsetDelete",
)
def delete_topic_offsets(t: Trial) -> None:
    first, second, missing = t.topic(1), t.topic(3), f"{t.group}-missing"
    commit_both(t, first, second)
    alice = User(t)
    alice.allow("DELETE", group=t.group)
    alice.allow("READ", topic=second)
    answer = t.expect(alice.call(delete_offsets(t, first, second, missing)), error_code=0)
    codes = {each.name: each.partitions[0].error_code for each in answer.topics}
    t.equal(codes, {first: DENIED_TOPIC, second: 0, missing: DENIED_TOPIC}, "errors")


@access_case(
    "access/describe/1", "DescribeGroups needs DESCRIBE: denied groups are 30, and first", api="DescribeGroups"
)
def describe(t: Trial) -> None:
    t.stable(1)
    other = t.another_group("other")
    alice = User(t)
    alice.allow("DESCRIBE", group=t.group)
    groups = alice.call(DescribeGroupsRequest([t.group, other])).groups
    t.equal([(each.group_id, each.error_code) for each in groups], [(other, DENIED), (t.group, 0)], "groups and errors")
    t.expect(groups[0], group_state="", members=[])
    t.equal(len(groups[1].members), 1, "members of the other group")


@access_case("access/describe/2", "READ and DELETE on a group include DESCRIBE, WRITE of another group does not")
def implied(t: Trial) -> None:
    t.stable(1)
    alice, bob = User(t), User(t, "bob")
    alice.allow("READ", group=t.group)
    bob.allow("DELETE", group=t.group)
    for user, expected in ((alice, 0), (bob, 0), (User(t, "carol"), DENIED)):
        t.equal(user.call(DescribeGroupsRequest([t.group])).groups[0].error_code, expected, "the error")


@access_case(
    "access/describe/3",
    "The operations of a group are those that the client may do",
    api="DescribeGroups",
    versions=(3, 6),
)
def operations(t: Trial) -> None:
    t.stable(1)
    alice, bob = User(t), User(t, "bob")
    alice.allow("READ", group=t.group)
    bob.allow("ALL", group=t.group)
    bob.deny("DELETE", group=t.group)
    request = DescribeGroupsRequest([t.group], include_authorized_operations=True)
    errors = [each.call(request).groups[0].authorized_operations for each in (alice, bob)]
    newer = bits(10, 11) if t.rules.group_configurations else 0
    t.equal(errors, [bits(3, 8), bits(3, 8) | newer], "operations of alice and bob")
    t.equal(User(t, "carol").call(request).groups[0].authorized_operations, NOT_SEEN, "the operations beside an error")


@access_case("access/list/1", "ListGroups leaves out groups that the client may not describe", api="ListGroups")
def list_groups(t: Trial) -> None:
    t.stable(1)
    other = t.another_group("other")
    t.settle([t.member(group=other)])
    alice = User(t)
    t.equal(alice.call(ListGroupsRequest()).groups, [], "groups without an ACL")
    alice.allow("READ", group=t.group)
    t.equal([each.group_id for each in alice.call(ListGroupsRequest()).groups], [t.group], "groups with one ACL")


@access_case("access/list/2", "DESCRIBE on the cluster shows every group in ListGroups", api="ListGroups")
def list_all_groups(t: Trial) -> None:
    t.stable(1)
    alice = User(t)
    alice.allow("DESCRIBE")
    t.check(t.group in [each.group_id for each in alice.call(ListGroupsRequest()).groups], "the group is not listed")


@access_case("access/delete/1", "DeleteGroups needs DELETE: denied groups are 30, others go", api="DeleteGroups")
def delete_groups(t: Trial) -> None:
    other = t.another_group("other")
    for group in (t.group, other):
        commit(t, t.topic(), {0: 1}, group=group)
    alice = User(t)
    alice.allow("READ", group=other)
    alice.allow("DELETE", group=t.group)
    results = alice.call(DeleteGroupsRequest([other, t.group])).results
    t.equal({each.group_id: each.error_code for each in results}, {t.group: 0, other: DENIED}, "groups and errors")
    t.equal(fetch(t, {t.topic(): [0]}, group=other)[t.topic(), 0][0], 1, "the offset of the denied group")


@access_case("access/find/1", "FindCoordinator needs DESCRIBE on a group, else 30", api="FindCoordinator")
def find_group(t: Trial) -> None:
    alice = User(t)
    t.equal([each[1:4] for each in find(alice.trial, t.group)], [(DENIED, -1, "")], "the answer without an ACL")
    alice.allow("READ", group=t.group)
    t.equal([each[1] for each in find(alice.trial, t.group)], [0], "the error with READ")


@access_case(
    "access/find/2",
    "FindCoordinator needs DESCRIBE on an id, else 53",
    api="FindCoordinator",
    versions=(1, 6),
)
def find_transaction(t: Trial) -> None:
    alice = User(t)
    key = f"{t.group}-txn"
    errors = [each[1:4] for each in find(alice.trial, key, key_type=1)]
    t.equal(errors, [(E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, "")], "the answer without an ACL")


consumer_case = partial(access_case, api="ConsumerGroupHeartbeat")


def consumer(user: User, *topics: str) -> ConsumerMember:
    member = user.real_trial.consumer(*topics)
    member.wire = user.wire
    return member


@consumer_case("access/consumer/1", "ConsumerGroupHeartbeat needs READ on the group, also to leave, else 30")
def consumer_group(t: Trial) -> None:
    alice = User(t)
    topic = t.topic()
    alice.allow("DESCRIBE", topic=topic)
    member = consumer(alice, topic)
    t.expect(member.full(), error_code=DENIED, member_epoch=0)
    t.expect(member.leave(), error_code=DENIED)
    alice.allow("READ", group=t.group)
    t.expect(member.full(), error_code=0)


@consumer_case("access/consumer/2", "One topic that a member may not describe: 29, no member, no epoch")
def consumer_topics(t: Trial) -> None:
    alice = User(t)
    first, second = t.topic(1), t.topic(3)
    alice.allow("READ", group=t.group)
    alice.allow("DESCRIBE", topic=first)
    member = consumer(alice, first, second)
    answer = member.full()
    t.expect(answer, error_code=DENIED_TOPIC, error_message=None, member_epoch=0, assignment=None)
    described = t.call(ConsumerGroupDescribeRequest([t.group])).groups[0]
    t.equal(described.error_code, E.GROUP_ID_NOT_FOUND, "the error of the group")
    alice.allow("READ", topic=second)
    t.expect(member.full(), error_code=0)


@consumer_case("access/consumer/3", "Bare heartbeats go on without DESCRIBE of the topic, one with names is 29")
def consumer_bare(t: Trial) -> None:
    alice = User(t)
    topic = t.topic()
    alice.allow("READ", group=t.group)
    other = User(t, "other")
    alice.allow("READ", topic=topic)
    member = consumer(alice, topic)
    t.expect(member.join(), error_code=0)
    alice.deny("DESCRIBE", topic=topic)
    t.expect(member.heartbeat(), error_code=0)
    t.expect(member.full(), error_code=DENIED_TOPIC)
    t.expect(member.heartbeat(), error_code=0)
    other.allow("READ", group=t.group)
    t.expect(other.call(member_request(member)), error_code=0)


def member_request(member: ConsumerMember) -> Any:
    return ConsumerGroupHeartbeatRequest(member.group, member.id, member.epoch)


@access_case(
    "access/consumer/4",
    "ConsumerGroupDescribe hides a group with an assigned topic that the client may not describe",
    api="ConsumerGroupDescribe",
)
def consumer_describe(t: Trial) -> None:
    topic = t.topic()
    member = t.consumer(topic)
    member.join()
    t.converge(member)
    alice = User(t)
    request = ConsumerGroupDescribeRequest([t.group], include_authorized_operations=True)
    t.expect(alice.call(request).groups[0], error_code=DENIED, members=[], authorized_operations=NOT_SEEN)
    alice.allow("DESCRIBE", group=t.group)
    group = alice.call(request).groups[0]
    t.expect(group, error_code=DENIED_TOPIC, error_message=HIDDEN, members=[])
    alice.allow("READ", topic=topic)
    t.equal(len(t.expect(alice.call(request).groups[0], error_code=0).members), 1, "members")


pattern_case = partial(consumer_case, versions=(1, 1), is_long=True)


def reader(t: Trial, name: str, *topics: str) -> User:
    """Return a user with READ on the group and DESCRIBE on topics."""
    user = User(t, name)
    user.allow("READ", group=t.group)
    for topic in topics:
        user.allow("DESCRIBE", topic=topic)
    return user


def pattern_of(user: User) -> ConsumerMember:
    """Let a member of the user join with a pattern of all topics of the cell."""
    trial = user.real_trial
    member = trial.consumer(regex=f"{trial.group}-.*")
    member.wire = user.wire
    member.join(subscribed_topic_names=[])
    return member


def until_owned(t: Trial, member: ConsumerMember, *topics: str) -> None:
    """Wait until the member owns partition 0 of each topic, and no other."""
    expected = {(topic, 0) for topic in topics}
    t.until(lambda: (member.reconcile(), member.owned)[1], lambda owned: owned == expected, "it owns others", REFRESH)


@pattern_case("access/pattern/1", "A pattern leaves out topics that its member may not describe, without an error")
def pattern(t: Trial) -> None:
    seen, _hidden = t.new_topic(1, f"{t.group}-seen"), t.new_topic(1, f"{t.group}-hidden")
    until_owned(t, pattern_of(reader(t, "alice", seen)), seen)


@pattern_case("access/pattern/2", "A grant shows when the pattern is resolved again, as after a new topic")
def pattern_granted(t: Trial) -> None:
    first, second = t.new_topic(1, f"{t.group}-first"), t.new_topic(1, f"{t.group}-second")
    alice = reader(t, "alice", first)
    member = pattern_of(alice)
    until_owned(t, member, first)
    alice.allow("DESCRIBE", topic=f"{t.group}-", prefixed=True)
    t.expect(member.reconcile(), error_code=0)
    t.equal(member.owned, {(first, 0)}, "its partitions before the next resolution")
    third = t.new_topic(1, f"{t.group}-third")
    until_owned(t, member, first, second, third)


@pattern_case("access/pattern/3", "A pattern shows nobody a topic that no member of the group may describe")
def pattern_shared(t: Trial) -> None:
    names = [t.new_topic(1, f"{t.group}-{name}") for name in ("first", "second", "both", "hidden")]
    first, second, both, _hidden = names
    members = [pattern_of(reader(t, user, topic, both)) for user, topic in (("alice", first), ("bob", second))]

    def owned() -> set[str]:
        for member in members:
            member.reconcile()
        return {topic for member in members for topic, _ in member.owned}

    t.until(owned, lambda topics: both in topics, "it never came", REFRESH)
    later = f"{t.group}-later"
    for name in ("alice", "bob"):
        User(t, name).allow("DESCRIBE", topic=later)
    t.new_topic(1, later)
    topics = t.until(owned, lambda topics: later in topics, "it never came", 2 * REFRESH)
    t.equal(topics <= {first, second, both, later}, True, f"all of {topics} are topics of a member")


@access_case(
    "access/share-offsets/1",
    "AlterShareGroupOffsets needs READ on each topic, else its partitions are 29",
    api="AlterShareGroupOffsets",
)
def alter_share_offsets(t: Trial) -> None:
    topic = t.topic(1)
    alice = User(t)
    alice.allow("READ", group=t.group)
    request = AlterShareGroupOffsetsRequest(t.group, [AlteredTopic(topic, [AlteredPartition(0, 0)])])
    answer = t.expect(alice.call(request), error_code=0)
    errors = [(each.topic_name, each.partitions[0].error_code) for each in answer.responses]
    t.equal(errors, [(topic, DENIED_TOPIC)], "the topic and its error")


@access_case(
    "access/share-offsets/2",
    "DeleteShareGroupOffsets needs DELETE on the group and READ on each topic, else the topic is 29",
    api="DeleteShareGroupOffsets",
)
def delete_share_offsets(t: Trial) -> None:
    first, second = t.new_topic(1), t.new_topic(1)
    for topic in (first, second):
        t.expect(ShareMember(t, topic).joined().leave(), error_code=0)
    alice = User(t)
    alice.allow("READ", group=t.group)
    request = DeleteShareGroupOffsetsRequest(t.group, [DeletedTopic(first), DeletedTopic(second)])
    t.expect(alice.call(request), error_code=DENIED, responses=[])
    alice.allow("DELETE", group=t.group)
    alice.allow("READ", topic=second)
    answer = t.expect(alice.call(request), error_code=0)
    errors = {each.topic_name: each.error_code for each in answer.responses}
    t.equal(errors, {first: DENIED_TOPIC, second: 0}, "errors")
