"""Cases about LeaveGroup: one member or many, dynamic or static, existing or unknown."""

from __future__ import annotations

from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.member import user_metadata
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level


def leave(t: Trial, *members: tuple[str, str | None], group: str | None = None) -> LeaveGroupResponse:
    """Send LeaveGroup for pairs (member id, instance id); one dynamic member before v3."""
    group = t.group if group is None else group
    if t.version <= 2:
        request = LeaveGroupRequest(group, members[0][0])
    else:
        request = LeaveGroupRequest(group, members=[MemberIdentity(member, instance) for member, instance in members])
    answer: LeaveGroupResponse = t.call(request)
    return answer


def codes(answer: LeaveGroupResponse) -> list[int]:
    return [each.error_code for each in answer.members]


def one(t: Trial, answer: LeaveGroupResponse, code: int) -> None:
    """Check the answer for a single member: at the top before v3, with the member from v3."""
    if t.version <= 2:
        t.expect(answer, error_code=code)
    else:
        t.expect(answer, error_code=0)
        t.equal(codes(answer), [code], "the member's error")


@case(
    "leave/group-id/1",
    "An empty group id is invalid (24), for any member",
    source="semantics 7.1 LG1",
    api="LeaveGroup",
)
def empty_group_id(t: Trial) -> None:
    t.expect(leave(t, ("nobody", None), group=""), error_code=E.INVALID_GROUP_ID, members=[])


@case(
    "leave/unknown/1",
    "In a group that does not exist the member is unknown (25): at the top before v3, with the member from v3",
    source="semantics 1, 7.1 LG2; survey rdkafka-mock 15, kfake 7",
    api="LeaveGroup",
)
def unknown_group(t: Trial) -> None:
    one(t, leave(t, ("nobody", None)), E.UNKNOWN_MEMBER_ID)


@case(
    "leave/unknown/2", "A member that is not in the group is unknown (25)", source="semantics 7.1 LG3", api="LeaveGroup"
)
def unknown_member(t: Trial) -> None:
    (member,) = t.stable(1)
    one(t, leave(t, ("nobody", None)), E.UNKNOWN_MEMBER_ID)
    t.equal(member.heartbeat(), 0, "the other member's heartbeat")


@case(
    "leave/unknown/3",
    "An empty member id without an instance id is unknown (25)",
    source="semantics 7.1 LG3",
    api="LeaveGroup",
)
def nobody(t: Trial) -> None:
    t.stable(1)
    one(t, leave(t, ("", None)), E.UNKNOWN_MEMBER_ID)


@case("leave/unknown/4", "A former member cannot leave again (25)", source="semantics 2.3", api="LeaveGroup")
def twice(t: Trial) -> None:
    (member,) = t.stable(1)
    one(t, leave(t, (member.id, None)), 0)
    one(t, leave(t, (member.id, None)), E.UNKNOWN_MEMBER_ID)


@case(
    "leave/member/1", "The last member that leaves leaves the group Empty", source="semantics 7.1 LG4", api="LeaveGroup"
)
def last(t: Trial) -> None:
    (member,) = t.stable(1)
    one(t, leave(t, (member.id, None)), 0)
    t.expect(t.describe(), group_state="Empty", members=[])


@case(
    "leave/member/2",
    "From v3 the answer names each member of the request",
    source="KIP-345",
    api="LeaveGroup",
    versions=(3, 5),
)
def names_members(t: Trial) -> None:
    (member,) = t.stable(1)
    answer = leave(t, (member.id, None), ("nobody", "no-instance"))
    t.equal(
        [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members],
        [(member.id, None, 0), ("nobody", "no-instance", E.UNKNOWN_MEMBER_ID)],
        "members answered",
    )


@case(
    "leave/member/3",
    "A member that leaves a Stable group makes the others rebalance",
    source="semantics 2.3",
    api="LeaveGroup",
)
def others_rebalance(t: Trial) -> None:
    leader, follower = t.stable(2)
    one(t, leave(t, (follower.id, None)), 0)
    t.equal(leader.heartbeat(), E.REBALANCE_IN_PROGRESS, "the other's heartbeat")
    t.expect(leader.join(), generation_id=3)


@case(
    "leave/member/4",
    "Two members that leave in one request make one rebalance",
    source="semantics 2.3",
    api="LeaveGroup",
    versions=(3, 5),
)
def two_at_once(t: Trial) -> None:
    leader, second, third = t.stable(3)
    t.equal(codes(leave(t, (second.id, None), (third.id, None))), [0, 0], "errors")
    t.expect(leader.join(), generation_id=3)
    t.equal([each.member_id for each in t.describe().members], [leader.id], "members described")


@case(
    "leave/member/5",
    "An existing and an unknown member in one request: each has its own error",
    source="semantics 7.2 GM9",
    api="LeaveGroup",
    versions=(3, 5),
)
def mixed(t: Trial) -> None:
    leader, follower = t.stable(2)
    t.equal(codes(leave(t, ("nobody", None), (follower.id, None))), [E.UNKNOWN_MEMBER_ID, 0], "errors")
    t.equal(leader.heartbeat(), E.REBALANCE_IN_PROGRESS, "the other's heartbeat")


@case(
    "leave/member/6",
    "The same member twice in one request is unknown the second time (25)",
    source="semantics 2.3",
    api="LeaveGroup",
    versions=(3, 5),
    level=Level.SHOULD,
)
def same_twice(t: Trial) -> None:
    (member,) = t.stable(1)
    t.equal(codes(leave(t, (member.id, None), (member.id, None))), [0, E.UNKNOWN_MEMBER_ID], "errors")


@case(
    "leave/member/7",
    "A request about no member changes nothing",
    source="semantics 2.3",
    api="LeaveGroup",
    versions=(3, 5),
    level=Level.SHOULD,
)
def nobody_at_all(t: Trial) -> None:
    (member,) = t.stable(1)
    t.expect(leave(t), error_code=0, members=[])
    t.equal(member.heartbeat(), 0, "the member's heartbeat")


@case("leave/member/8", "A reason for leaving changes nothing", source="KIP-800", api="LeaveGroup", versions=(5, 5))
def reason(t: Trial) -> None:
    (member,) = t.stable(1)
    answer = t.call(LeaveGroupRequest(t.group, members=[MemberIdentity(member.id, None, "the consumer is closed")]))
    t.equal(codes(answer), [0], "errors")


@case(
    "leave/round/1",
    "In CompletingRebalance a member that leaves makes the others rebalance",
    source="semantics 2.3",
    api="LeaveGroup",
)
def in_completing(t: Trial) -> None:
    leader, follower = t.joined(2)
    one(t, leave(t, (follower.id, None)), 0)
    t.equal(leader.heartbeat(), E.REBALANCE_IN_PROGRESS, "the other's heartbeat")


@case(
    "leave/round/2",
    "In PreparingRebalance the last one that is waited for ends the round by leaving",
    source="semantics 2.3",
    api="LeaveGroup",
)
def ends_round(t: Trial) -> None:
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    one(t, leave(t, (follower.id, None)), 0)
    response = leader.receive_join()
    t.expect(response, error_code=0, generation_id=3)
    t.equal([each.member_id for each in response.members], [leader.id], "members in the leader's answer")


@case(
    "leave/round/3",
    "A member that leaves during its parked JoinGroup is not in the next generation",
    source="semantics 2.3",
    api="LeaveGroup",
)
def leaves_while_parked(t: Trial) -> None:
    leader, follower = t.stable(2)
    follower.protocols = (("range", user_metadata(b"changed")),)
    follower.send_join()
    t.await_state("PreparingRebalance")
    one(t, leave(t, (follower.id, None)), 0)
    leader.send_join()
    t.equal([each.member_id for each in leader.receive_join().members], [leader.id], "members in the leader's answer")


@case(
    "leave/pending/1",
    "A member id that is only handed out may leave, and is forgotten",
    source="semantics 2.3, 7.2 GM3",
    api="LeaveGroup",
)
def pending(t: Trial) -> None:
    late = t.member()
    response = late.request(late.join_request())
    one(t, leave(t, (response.member_id, None)), 0)
    answer = late.request(late.join_request(member_id=response.member_id))
    t.expect(answer, error_code=E.UNKNOWN_MEMBER_ID)


@case(
    "leave/pending/2",
    "A member id that is only handed out and leaves a Stable group starts a round",
    source="semantics 2.3",
    api="LeaveGroup",
    level=Level.MAY,
)
def pending_leaves_stable(t: Trial) -> None:
    (member,) = t.stable(1)
    late = t.member()
    response = late.request(late.join_request())
    one(t, leave(t, (response.member_id, None)), 0)
    t.equal(member.heartbeat(), E.REBALANCE_IN_PROGRESS, "the member's heartbeat")


@case(
    "leave/pending/3",
    "A member id that was handed out and not used may leave once, with any instance id",
    source="semantics 2.3 step 9; proved on Apache Kafka 4.2.2",
    api="LeaveGroup",
    versions=(3, 5),
    level=Level.SHOULD,
)
def pending_with_instance(t: Trial) -> None:
    late = t.member()
    response = late.request(late.join_request())
    t.equal(codes(leave(t, (response.member_id, "instance-1"))), [0], "errors")
    t.equal(codes(leave(t, (response.member_id, "instance-1"))), [E.UNKNOWN_MEMBER_ID], "errors when repeated")


@case(
    "leave/pending/4",
    "When all members leave a round under way, a member id that was handed out before may still join and leads",
    source="semantics 2.3 step 10; proved on Apache Kafka 4.2.2",
    api="LeaveGroup",
)
def pending_joins_after_all_left(t: Trial) -> None:
    leader, follower = t.stable(2)
    late = t.member()
    response = late.request(late.join_request(4), 4)
    t.expect(response, error_code=E.MEMBER_ID_REQUIRED)
    leader.send_join()
    t.await_state("PreparingRebalance")
    one(t, leave(t, (leader.id, None)), 0)
    one(t, leave(t, (follower.id, None)), 0)
    newcomer = t.member()
    handed_out = t.expect(newcomer.request(newcomer.join_request(4), 4), error_code=E.MEMBER_ID_REQUIRED)
    one(t, leave(t, (handed_out.member_id, None)), 0)
    late.id = response.member_id
    late.send_join()
    answer = late.receive_join()
    t.expect(answer, error_code=0, generation_id=3, leader=late.id)
    t.equal([each.member_id for each in answer.members], [late.id], "members in the leader's answer")


@case(
    "leave/static/1",
    "An empty member id with the instance id of a member removes that member",
    source="KIP-345; semantics 7.1 LG6",
    api="LeaveGroup",
    versions=(3, 5),
)
def by_instance(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="instance-1")
    t.equal(codes(leave(t, ("", "instance-1"))), [0], "errors")
    t.expect(t.describe(), group_state="Empty", members=[])
    t.equal(member.heartbeat(), E.UNKNOWN_MEMBER_ID, "its heartbeat")


@case(
    "leave/static/2",
    "The instance id of a member with another member id is fenced (82)",
    source="KIP-345; semantics 7.1 LG5",
    api="LeaveGroup",
    versions=(3, 5),
)
def fenced(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="instance-1")
    t.equal(codes(leave(t, ("another", "instance-1"))), [E.FENCED_INSTANCE_ID], "errors")
    t.equal(member.heartbeat(), 0, "its heartbeat")


@case(
    "leave/static/3",
    "An unknown instance id is refused (25)",
    source="KIP-345; semantics 2.3",
    api="LeaveGroup",
    versions=(3, 5),
)
def unknown_instance(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="instance-1")
    t.equal(codes(leave(t, ("", "instance-2"))), [E.UNKNOWN_MEMBER_ID], "errors")
    t.equal(codes(leave(t, (member.id, "instance-2"))), [E.UNKNOWN_MEMBER_ID], "errors with the member id too")


@case("leave/static/4", "A static member may leave by its member id alone", source="semantics 2.3", api="LeaveGroup")
def by_member_id(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="instance-1")
    one(t, leave(t, (member.id, None)), 0)
    t.expect(t.describe(), group_state="Empty")


@case(
    "leave/static/5",
    "After a static member was removed, its instance id is free: the next one is new",
    source="KIP-345",
    api="LeaveGroup",
    versions=(3, 5),
)
def instance_is_free(t: Trial) -> None:
    leader, static = t.member(), t.member(instance_id="instance-1")
    t.settle([leader, static])
    t.equal(codes(leave(t, ("", "instance-1"))), [0], "errors")
    again = t.member(instance_id="instance-1")
    again.send_join()
    t.await_members(2)
    t.parked(again, "the leader has not joined again")
    leader.send_join()
    t.expect(again.receive_join(), error_code=0, generation_id=3)


@case(
    "leave/static/6",
    "Several static members are removed by one request, as an admin does",
    source="KIP-345; semantics 7.2 GM9",
    api="LeaveGroup",
    versions=(3, 5),
)
def admin_removal(t: Trial) -> None:
    members = [t.member(instance_id=f"instance-{number}") for number in range(3)]
    t.settle(members)
    answer = leave(t, ("", "instance-0"), ("", "instance-1"), ("", "instance-9"))
    t.equal(codes(answer), [0, 0, E.UNKNOWN_MEMBER_ID], "errors")
    t.equal([each.group_instance_id for each in t.describe().members], ["instance-2"], "instance ids described")
