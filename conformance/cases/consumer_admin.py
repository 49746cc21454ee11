"""Cases about consumer groups (KIP-848) from outside: describe, list, delete, offsets, and migration."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    assignment_from_bytes,
    assignment_to_bytes,
)
from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.admin import delete, listed
from kafka_shim.conformance.cases.offset_delete import codes
from kafka_shim.conformance.cases.offset_delete import delete as delete_offsets
from kafka_shim.conformance.cases.offsets import commit, fetch
from kafka_shim.conformance.consumer_member import ConsumerMember
from kafka_shim.conformance.member import Member, subscription
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

describe_case = partial(case, api="ConsumerGroupDescribe", uses=("ConsumerGroupHeartbeat",))


def live(t: Trial, count: int = 1, **options: Any) -> list[ConsumerMember]:
    """Return the members of a settled consumer group that share a topic of 3 partitions."""
    members = [t.consumer(t.topic(3), **options) for _ in range(count)]
    for each in members:
        each.join()
    t.converge(*members)
    return members


def described(t: Trial, group: str | None = None) -> DescribedGroup:
    groups: list[DescribedGroup] = t.call(ConsumerGroupDescribeRequest([group or t.group])).groups
    t.equal(len(groups), 1, "number of groups described")
    return groups[0]


@describe_case(
    "consumer-describe/group/1",
    "A settled group: Stable, its epochs, its assignor, the partitions of each member",
    source="semantics 7.1 CD2",
)
def stable(t: Trial) -> None:
    one, other = live(t, 2)
    group = described(t)
    t.expect(group, error_code=0, group_state="Stable", assignor_name="uniform")
    t.equal((group.group_epoch, group.assignment_epoch), (one.epoch, one.epoch), "group and assignment epoch")
    owners = {
        each.member_id: {(p.topic_name, n) for p in each.assignment.topic_partitions for n in p.partitions}
        for each in group.members
    }
    t.equal(owners, {one.id: one.owned, other.id: other.owned}, "assignments")
    t.equal({each.member_epoch for each in group.members}, {one.epoch}, "member epochs")


@describe_case(
    "consumer-describe/group/2", "A member is described by the fields of its heartbeats", source="semantics 7.1 CD2"
)
def member(t: Trial) -> None:
    (one,) = live(t, instance_id="instance-1")
    (description,) = described(t).members
    t.expect(description, member_id=one.id, instance_id="instance-1", rack_id=None, client_id=one.name)
    t.expect(description, subscribed_topic_names=[t.topic(3)], member_type=1 if t.version >= 1 else -1)
    t.check(description.client_host.startswith("/"), f"the host is {description.client_host!r}")
    t.check(not description.subscribed_topic_regex, f"the pattern is {description.subscribed_topic_regex!r}")


@describe_case(
    "consumer-describe/group/3", "While partitions change hands the group is Reconciling", source="semantics 7.1 CD2"
)
def reconciling(t: Trial) -> None:
    (one,) = live(t)
    other = t.consumer(t.topic(3))
    other.join()
    group = described(t)
    t.expect(group, group_state="Reconciling", group_epoch=t.first_epoch + 1, assignment_epoch=t.first_epoch + 1)
    targets = {
        each.member_id: sum(len(p.partitions) for p in each.target_assignment.topic_partitions)
        for each in group.members
    }
    t.equal(sorted(targets.values()), [1, 2], "sizes of the target assignments")
    t.equal(
        {each.member_id: each.member_epoch for each in group.members}[one.id], t.first_epoch, "the first one's epoch"
    )


@describe_case("consumer-describe/group/4", "A group that all members left is Empty", source="semantics 4.1")
def empty(t: Trial) -> None:
    (one,) = live(t)
    one.leave()
    t.expect(described(t), error_code=0, group_state="Empty", group_epoch=t.first_epoch + 1, members=[])


@describe_case("consumer-describe/unknown/1", "An unknown group is answered 69", source="KIP-848")
def unknown(t: Trial) -> None:
    t.expect(described(t, "no-such-group"), error_code=E.GROUP_ID_NOT_FOUND, members=[])


@describe_case("consumer-describe/unknown/2", "A classic group is none (69)", source="semantics 2.11")
def classic(t: Trial) -> None:
    t.stable(1)
    t.expect(described(t), error_code=E.GROUP_ID_NOT_FOUND)


@describe_case("consumer-describe/unknown/3", "Of several groups each is judged by itself", source="semantics 8.0")
def several(t: Trial) -> None:
    live(t)
    missing = t.another_group("missing")
    answer = t.call(ConsumerGroupDescribeRequest([missing, t.group]))
    t.equal({each.group_id: each.error_code for each in answer.groups}, {missing: 69, t.group: 0}, "errors")


@describe_case(
    "consumer-describe/unknown/4",
    "An empty group id is 24, before all other groups",
    source="semantics 4.1 step 5",
    uses=(),
)
def nameless(t: Trial) -> None:
    answer = t.call(ConsumerGroupDescribeRequest([f"none-{t.group}", ""]))
    t.equal(
        [(each.group_id, each.error_code) for each in answer.groups],
        [("", E.INVALID_GROUP_ID), (f"none-{t.group}", E.GROUP_ID_NOT_FOUND)],
        "groups and their errors",
    )


@case(
    "consumer-describe/classic/1",
    "DescribeGroups does not see a consumer group: Dead, from v6 error 69",
    source="semantics 2.11",
    api="DescribeGroups",
    uses=("ConsumerGroupHeartbeat",),
)
def not_for_classic(t: Trial) -> None:
    live(t)
    group = t.call(DescribeGroupsRequest([t.group])).groups[0]
    t.expect(group, group_state="Dead", error_code=E.GROUP_ID_NOT_FOUND if t.version >= 6 else 0)


@case(
    "consumer-list/group/1",
    "A consumer group is listed with type and state",
    source="semantics 7.1 LI1",
    api="ListGroups",
    uses=("ConsumerGroupHeartbeat",),
)
def lists(t: Trial) -> None:
    live(t)
    t.expect(
        listed(t)[t.group],
        protocol_type="consumer",
        group_state="Stable" if t.version >= 4 else "",
        group_type="consumer" if t.version >= 5 else "",
    )


@case(
    "consumer-list/group/2",
    "The type filter finds it, in any case",
    source="semantics 7.1 LI6",
    api="ListGroups",
    versions=(5, 5),
    uses=("ConsumerGroupHeartbeat",),
)
def filters(t: Trial) -> None:
    live(t)
    t.check(t.group in listed(t, types=["Consumer"]), "the group is missing")
    t.check(t.group not in listed(t, types=["classic"]), "the group is listed as classic")
    t.check(t.group in listed(t, ["stable"], ["consumer"]), "the group is missing with its state")


@case(
    "consumer-delete/group/1",
    "A consumer group with members stays (68), an Empty one goes",
    source="semantics 2.11",
    api="DeleteGroups",
    uses=("ConsumerGroupHeartbeat",),
)
def deletes(t: Trial) -> None:
    (one,) = live(t)
    t.equal(delete(t, t.group), {t.group: E.NON_EMPTY_GROUP}, "errors")
    one.leave()
    t.equal(delete(t, t.group), {t.group: 0}, "errors of the Empty group")
    t.expect(described(t), error_code=E.GROUP_ID_NOT_FOUND)


commit_case = partial(case, api="OffsetCommit", uses=("ConsumerGroupHeartbeat",))


@commit_case(
    "consumer-commit/member/1",
    "A member commits with its epoch from v9; before it cannot (35)",
    source="semantics 3.1, 7.1 OC1",
)
def commits(t: Trial) -> None:
    (one,) = live(t)
    request = commit_request(t, one)
    code = t.call(request).topics[0].partitions[0].error_code
    t.equal(code, 0 if t.version >= 9 else E.UNSUPPORTED_VERSION, "the error")


def commit_request(t: Trial, member: ConsumerMember, epoch: int | None = None) -> OffsetCommitRequest:
    """Return a member's commit of offset 9 in partition 0."""
    topic = t.topic(3)
    partition = OffsetCommitRequestPartition(0, 9, committed_metadata="")
    topics = [OffsetCommitRequestTopic(topic, t.topic_id(topic), [partition])]
    return OffsetCommitRequest(t.group, member.epoch if epoch is None else epoch, member.id, topics=topics)


@case(
    "consumer-commit/member/2",
    "An epoch that is not the member's is stale (113)",
    source="semantics 3.1, 7.1 OC5",
    api="OffsetCommit",
    versions=(9, 10),
    uses=("ConsumerGroupHeartbeat",),
)
def stale(t: Trial) -> None:
    (one,) = live(t)
    for epoch in (one.epoch - 1, one.epoch + 1):
        code = t.call(commit_request(t, one, epoch)).topics[0].partitions[0].error_code
        t.equal(code, E.STALE_MEMBER_EPOCH, f"the error of epoch {epoch}")


@case(
    "consumer-commit/member/3",
    "A client outside the group is unknown (25), also an administrator",
    source="semantics 3.1",
    api="OffsetCommit",
    uses=("ConsumerGroupHeartbeat",),
)
def strangers(t: Trial) -> None:
    live(t)
    topic = t.topic(3)
    t.equal(commit(t, topic, {0: 1}, generation=1, member_id="nobody"), {0: E.UNKNOWN_MEMBER_ID}, "errors")
    t.equal(commit(t, topic, {0: 1}), {0: E.UNKNOWN_MEMBER_ID}, "errors of an administrator")


@commit_case(
    "consumer-commit/member/4", "In an Empty consumer group an administrator may commit", source="semantics 3.1"
)
def admin(t: Trial) -> None:
    (one,) = live(t)
    one.leave()
    t.equal(commit(t, t.topic(3), {0: 1}), {0: 0}, "errors")


fetch_case = partial(case, api="OffsetFetch", versions=(9, 10), uses=("ConsumerGroupHeartbeat",))


@fetch_case(
    "consumer-fetch/member/1",
    "A member fetches with its id and epoch, other clients without either",
    source="semantics 3.3",
)
def fetches(t: Trial) -> None:
    (one,) = live(t)
    t.call(commit_request(t, one))
    topic = t.topic(3)
    t.equal(fetch(t, {topic: [0]}, member_id=one.id, member_epoch=one.epoch)[topic, 0][0], 9, "the offset")
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 9, "the offset without member id")


@fetch_case(
    "consumer-fetch/member/2",
    "An unknown member is answered 25, and so is an empty id",
    source="semantics 3.3, 7.1 OF4",
)
def unknown_fetches(t: Trial) -> None:
    live(t)
    for name in ("nobody", ""):
        t.equal(
            fetch(t, {t.topic(3): [0]}, member_id=name, member_epoch=1, code=E.UNKNOWN_MEMBER_ID),
            {},
            "the answer to OffsetFetch",
        )


@fetch_case(
    "consumer-fetch/member/3", "An epoch that is not the member's is stale (113)", source="semantics 3.3, 7.1 OF5"
)
def stale_fetch(t: Trial) -> None:
    (one,) = live(t)
    answer = fetch(t, {t.topic(3): [0]}, member_id=one.id, member_epoch=one.epoch + 1, code=E.STALE_MEMBER_EPOCH)
    t.equal(answer, {}, "the answer to OffsetFetch")


@case(
    "consumer-offset-delete/subscribed/1",
    "Offsets of a topic a consumer group is subscribed to stay (86)",
    source="semantics 3.5",
    api="OffsetDelete",
    uses=("ConsumerGroupHeartbeat",),
)
def subscribed(t: Trial) -> None:
    (one,) = live(t)
    topic, other = t.topic(3), t.topic(1)
    t.call(commit_request(t, one))
    answer = delete_offsets(t, {topic: [0], other: [0]})
    t.equal(codes(answer), {(topic, 0): E.GROUP_SUBSCRIBED_TO_TOPIC, (other, 0): 0}, "errors")


# -- the two protocols side by side

migrate_case = partial(case, api="ConsumerGroupHeartbeat")


@migrate_case(
    "migrate/empty/1",
    "An Empty classic group becomes a consumer group when such a member joins, offsets kept",
    source="semantics 7.1 MG1-4",
)
def empty_upgrade(t: Trial) -> None:
    topic = t.topic(3)
    (member,) = t.stable(1, protocols=(("range", subscription(topic)),))
    member.commit(topic, {0: 5})
    member.leave()
    t.consumer(topic).join()
    t.expect(listed(t)[t.group], group_type="consumer")
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 5, "the offset")


@migrate_case(
    "migrate/empty/2",
    "An Empty consumer group becomes classic when such a member joins, offsets kept",
    source="semantics 7.1 MG5-8",
)
def empty_downgrade(t: Trial) -> None:
    topic = t.topic(3)
    (one,) = live(t)
    t.call(commit_request(t, one))
    one.leave()
    (member,) = t.stable(1, protocols=(("range", subscription(topic)),))
    t.equal(member.heartbeat(), 0, "the classic member's heartbeat")
    t.expect(listed(t)[t.group], group_type="classic")
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 9, "the offset")


@migrate_case(
    "migrate/empty/3",
    "A group made by a commit becomes a consumer group when such a member joins",
    source="semantics 7.1 MG9-12",
)
def simple_upgrade(t: Trial) -> None:
    topic = t.topic(3)
    commit(t, topic, {0: 5})
    t.consumer(topic).join()
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 5, "the offset")


def classic_consumer(t: Trial, topic: str, user_data: bytes | None = None) -> Member:
    """Return the one member of a Stable classic group, with an assignment of all 3 partitions of a topic."""
    member = t.member(protocols=(("range", subscription(topic, user_data=user_data)),))
    member.join()
    assignment = ConsumerProtocolAssignment([TopicPartition(topic, [0, 1, 2])])
    t.expect(member.sync({member: assignment_to_bytes(assignment, 0)}), error_code=0)
    return member


@migrate_case(
    "migrate/online/1",
    "A consumer member that joins a live classic group converts it: the classic member has to join again",
    source="semantics 4.8, 7.1 MG13",
)
def online(t: Trial) -> None:
    topic = t.topic(3)
    member = classic_consumer(t, topic)
    newcomer = t.consumer(topic)
    t.expect(newcomer.full(), error_code=0, member_epoch=2)
    t.expect(listed(t)[t.group], group_type="consumer")
    t.equal(member.heartbeat(), E.REBALANCE_IN_PROGRESS, "the classic member's heartbeat")
    t.equal(newcomer.assigned, set(), "the first assignment of the newcomer")


@migrate_case(
    "migrate/online/3",
    "A classic group with an unreadable assignment is not converted (69)",
    source="proved on Apache Kafka 4.2",
    level=Level.SHOULD,
)
def unreadable(t: Trial) -> None:
    topic = t.topic(3)
    t.stable(1, protocols=(("range", subscription(topic)),))
    t.expect(t.consumer(topic).full(), error_code=E.GROUP_ID_NOT_FOUND)


@migrate_case(
    "migrate/online/4",
    "The classic member of a group that was turned gives up, syncs and goes on at the epoch of the group",
    source="semantics 4.8, 7.1 MG13",
)
def goes_on(t: Trial) -> None:
    topic = t.topic(3)
    member = classic_consumer(t, topic)
    newcomer = t.consumer(topic)
    newcomer.join()
    for _ in range(20):
        if member.heartbeat() == E.REBALANCE_IN_PROGRESS:
            member.join()
            t.expect(member.sync(), error_code={0, E.REBALANCE_IN_PROGRESS})
        newcomer.reconcile()
        if newcomer.owned and member.heartbeat() == 0:
            break
    t.equal(member.heartbeat(), 0, "the classic member's heartbeat")
    t.equal(member.generation, newcomer.epoch, "the classic member's generation")
    assignment = assignment_from_bytes(member.sync().assignment)
    assert assignment is not None
    retained = {(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions}
    t.equal(retained | newcomer.owned, {(topic, n) for n in range(3)}, "the set of their partitions")
    t.equal(retained & newcomer.owned, set(), "the partitions of both at once")


@migrate_case(
    "migrate/online/5",
    "A live classic group is converted with any user data of its assignor",
    source="semantics 4.8",
    level=Level.MAY,
)
def user_data(t: Trial) -> None:
    topic = t.topic(3)
    classic_consumer(t, topic, b"custom")
    t.expect(t.consumer(topic).full(), error_code=0)


@migrate_case("migrate/online/2", "A classic group of another protocol type is not turned (69)", source="semantics 4.8")
def other_type(t: Trial) -> None:
    t.stable(1, protocol_type="connect")
    t.expect(t.consumer(t.topic()).full(), error_code=E.GROUP_ID_NOT_FOUND)


@migrate_case(
    "migrate/classic/1",
    "A classic member may join a live consumer group, at once and with its epoch as generation",
    source="semantics 4.8",
)
def classic_joins(t: Trial) -> None:
    topic = t.topic(3)
    live(t)
    member = t.member(protocols=(("range", subscription(topic)),))
    answer = member.join()
    t.expect(answer, error_code=0, leader="", members=[], protocol_name="range")
    t.expect(member.sync(), error_code=0)


@migrate_case(
    "migrate/classic/2",
    "A classic member of another protocol type may not join a consumer group (23)",
    source="semantics 4.8; survey kfake 9",
)
def classic_other_type(t: Trial) -> None:
    live(t)
    member = t.member(protocol_type="connect")
    t.expect(member.request(member.join_request()), error_code=E.INCONSISTENT_GROUP_PROTOCOL)


@migrate_case(
    "migrate/classic/3",
    "Heartbeat and SyncGroup of a stranger to a consumer group are unknown (25)",
    source="semantics 4.8",
)
def classic_strangers(t: Trial) -> None:
    (one,) = live(t)
    stranger = t.member()
    t.equal(stranger.heartbeat(member_id="nobody", generation_id=1), E.UNKNOWN_MEMBER_ID, "a heartbeat")
    t.expect(stranger.sync(member_id="nobody", generation_id=1), error_code=E.UNKNOWN_MEMBER_ID)
    t.equal(
        stranger.heartbeat(member_id=one.id, generation_id=one.epoch),
        E.UNKNOWN_MEMBER_ID,
        "a classic heartbeat of a consumer member",
    )


@migrate_case(
    "migrate/classic/4",
    "When the last consumer member leaves, the group is classic again and rebalances",
    source="semantics 4.8",
    level=Level.SHOULD,
)
def downgrade(t: Trial) -> None:
    topic = t.topic(3)
    (one,) = live(t)
    member = t.member(protocols=(("range", subscription(topic)),))
    member.join()
    member.sync()
    t.expect(one.leave(), error_code=0)
    t.expect(listed(t)[t.group], group_type="classic")
    t.equal(member.heartbeat(), E.REBALANCE_IN_PROGRESS, "the classic member's heartbeat")
    t.expect(member.join(), leader=member.id)


@migrate_case(
    "migrate/classic/5",
    "A group that becomes classic and is converted again assigns partitions that its classic member has not given up",
    source="proved on Apache Kafka 4.2; semantics 4.8",
    level=Level.MAY,
)
def twice(t: Trial) -> None:
    topic = t.topic(3)
    member = classic_consumer(t, topic)
    one, other = t.consumer(topic), t.consumer(topic)
    t.expect(one.full(), error_code=0, member_epoch=2)
    t.expect(one.leave(), error_code=0)
    t.expect(listed(t)[t.group], group_type="classic")
    t.expect(other.full(), error_code=0)
    t.equal(len(other.assigned), 1, "number of partitions that the second newcomer is assigned at once")
    t.equal(member.heartbeat(), E.ILLEGAL_GENERATION, "the classic member's heartbeat")


@case(
    "migrate/classic/7",
    "A classic member whose metadata cannot be read may not join a consumer group (23), which stays as it is",
    source="semantics 4.8",
    api="JoinGroup",
    uses=("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
)
def classic_unreadable(t: Trial) -> None:
    (one,) = live(t)
    for data in (b"", b"\0", b"what is this", b"\0\0\x7f\xff\xff\xff"):
        member = t.member(protocols=(("range", data),))
        member.send_join()
        t.expect(member.receive_join(), error_code=E.INCONSISTENT_GROUP_PROTOCOL, member_id="")
    group = t.expect(described(t), group_state="Stable", group_epoch=one.epoch)
    t.equal([each.member_id for each in group.members], [one.id], "the members")


@migrate_case(
    "migrate/delete/1", "A deletion of a consumer group leaves room for a classic one", source="semantics 4.3"
)
def after_delete(t: Trial) -> None:
    (one,) = live(t)
    one.leave()
    t.call(DeleteGroupsRequest([t.group]))
    t.equal(t.stable(1)[0].generation, 1, "the first generation")
