"""Cases about administration of groups: DescribeGroups, ListGroups, DeleteGroups."""

from __future__ import annotations

from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.list_groups import ListedGroup, ListGroupsRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.member import user_metadata
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

NO_OPERATIONS = -(2**31)


@case(
    "describe/stable/1",
    "A Stable group is described with the metadata and assignment of its members",
    source="semantics 7.1 DG1",
    api="DescribeGroups",
)
def stable(t: Trial) -> None:
    (member,) = t.stable(1)
    group = t.describe()
    t.expect(
        group, error_code=0, group_id=t.group, group_state="Stable", protocol_type="consumer", protocol_data="range"
    )
    t.equal(len(group.members), 1, "number of members")
    t.expect(
        group.members[0],
        member_id=member.id,
        client_id=member.name,
        member_metadata=user_metadata(b"what range needs"),
        member_assignment=f"assignment of {member.name}".encode(),
        group_instance_id=None,
    )


@case(
    "describe/stable/2",
    "A member's host is its address after a slash",
    source="semantics 1, 7.1 DG1",
    api="DescribeGroups",
    level=Level.SHOULD,
)
def host(t: Trial) -> None:
    t.stable(1)
    text = t.describe().members[0].client_host
    t.check(text.startswith("/"), f"the host is {text!r}")


@case("describe/stable/3", "Instance ids are described from v4", source="KIP-345", api="DescribeGroups")
def instance(t: Trial) -> None:
    t.stable(1, instance_id="instance-1")
    t.expect(t.describe().members[0], group_instance_id="instance-1" if t.version >= 4 else None)


@case(
    "describe/completing/1",
    "In CompletingRebalance protocol and metadata are withheld",
    source="semantics 2.11, 7.1 DG2",
    api="DescribeGroups",
)
def completing(t: Trial) -> None:
    (member,) = t.joined(1)
    group = t.describe()
    t.expect(group, error_code=0, group_state="CompletingRebalance", protocol_type="consumer", protocol_data="")
    t.expect(group.members[0], member_id=member.id, member_metadata=b"", member_assignment=b"")


@case(
    "describe/preparing/1",
    "In PreparingRebalance protocol and metadata are withheld, the last assignment is shown",
    source="semantics 2.11",
    api="DescribeGroups",
)
def preparing(t: Trial) -> None:
    leader, follower = t.stable(2)
    leader.send_join()
    group = t.await_state("PreparingRebalance")
    t.expect(group, protocol_type="consumer", protocol_data="")
    t.equal({each.member_metadata for each in group.members}, {b""}, "metadata")
    t.equal(
        {each.member_assignment for each in group.members},
        {f"assignment of {each.name}".encode() for each in (leader, follower)},
        "assignments",
    )


@case(
    "describe/empty/1",
    "A group that all members left is Empty and keeps its protocol type",
    source="semantics 2.3",
    api="DescribeGroups",
)
def empty(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    t.expect(t.describe(), error_code=0, group_state="Empty", protocol_type="consumer", protocol_data="", members=[])


@case(
    "describe/unknown/1",
    "A group that does not exist is Dead; from v6 with error 69 and a message",
    source="KIP-1043; semantics 7.1 DG3",
    api="DescribeGroups",
)
def unknown(t: Trial) -> None:
    group = t.describe("no-such-group")
    t.expect(group, group_state="Dead", protocol_type="", protocol_data="", members=[])
    t.expect(group, error_code=E.GROUP_ID_NOT_FOUND if t.version >= 6 else 0)
    t.check((t.version >= 6) == bool(group.error_message), f"the message is {group.error_message!r}")


@case(
    "describe/many/1",
    "Several groups are described in one answer, each by itself",
    source="semantics 2.11, 8.0",
    api="DescribeGroups",
)
def many(t: Trial) -> None:
    t.stable(1)
    groups = [t.another_group("none"), t.group, t.another_group("nor-this")]
    answer = t.call(DescribeGroupsRequest(groups))
    t.equal(sorted(each.group_id for each in answer.groups), sorted(groups), "groups")
    t.equal({each.group_id: each.group_state for each in answer.groups}[t.group], "Stable", "the state")


@case(
    "describe/many/2",
    "A request for no group describes none",
    source="semantics 2.11",
    api="DescribeGroups",
    level=Level.SHOULD,
)
def none(t: Trial) -> None:
    t.expect(t.call(DescribeGroupsRequest([])), groups=[])


@case(
    "describe/operations/1",
    "Authorized operations are left out unless the request includes them",
    source="KIP-430",
    api="DescribeGroups",
    versions=(3, 6),
)
def no_operations(t: Trial) -> None:
    t.stable(1)
    t.expect(t.describe(), authorized_operations=NO_OPERATIONS)


@case(
    "describe/operations/2",
    "Authorized operations are in the answer when the request includes them",
    source="KIP-430",
    api="DescribeGroups",
    versions=(3, 6),
)
def operations(t: Trial) -> None:
    t.stable(1)
    group = t.call(DescribeGroupsRequest([t.group], True)).groups[0]
    read, delete, describe = 1 << 3, 1 << 6, 1 << 8
    t.equal(group.authorized_operations & (read | delete | describe), read | delete | describe, "operations")


@case(
    "describe/operations/3",
    "Authorized operations of a group that does not exist are those of any other",
    source="KIP-430; semantics 1.7 step 2; proved on Apache Kafka 4.2.2",
    api="DescribeGroups",
    versions=(3, 5),
    level=Level.SHOULD,
)
def operations_of_unknown(t: Trial) -> None:
    t.stable(1)
    groups = [t.group, t.another_group("unknown")]
    existing, unknown = t.call(DescribeGroupsRequest(groups, True)).groups
    t.equal(unknown.authorized_operations, existing.authorized_operations, "operations")


@case(
    "describe/group-id/1",
    "The empty group id is a name like another",
    source="semantics 2.11",
    api="DescribeGroups",
    level=Level.SHOULD,
)
def empty_id(t: Trial) -> None:
    group = t.call(DescribeGroupsRequest([""])).groups[0]
    t.expect(group, group_id="", error_code={0, E.GROUP_ID_NOT_FOUND})


def listed(t: Trial, states: list[str] | None = None, types: list[str] | None = None) -> dict[str, ListedGroup]:
    answer = t.call(ListGroupsRequest(states or [], types or []))
    t.expect(answer, error_code=0)
    return {each.group_id: each for each in answer.groups}


@case(
    "list/all/1",
    "Groups are listed with their protocol type; states from v4, types from v5",
    source="KIP-518, KIP-848; semantics 7.1 LI1-2",
    api="ListGroups",
)
def lists(t: Trial) -> None:
    t.stable(1)
    group = listed(t)[t.group]
    t.expect(group, protocol_type="consumer", group_state="Stable" if t.version >= 4 else "")
    t.expect(group, group_type="classic" if t.version >= 5 else "")


@case(
    "list/all/2",
    "Completing and Empty groups are listed as such",
    source="semantics 7.1 LI1",
    api="ListGroups",
    versions=(4, 5),
)
def lists_states(t: Trial) -> None:
    t.joined(1)
    empty = t.another_group("empty")
    (former,) = t.stable(1, group=empty)
    former.leave()
    groups = listed(t)
    t.equal(groups[t.group].group_state, "CompletingRebalance", "the state")
    t.equal(groups[empty].group_state, "Empty", "the state")


@case(
    "list/filter/1",
    "A state filter leaves only groups in that state",
    source="KIP-518; semantics 7.1 LI3",
    api="ListGroups",
    versions=(4, 5),
)
def filter_state(t: Trial) -> None:
    t.stable(1)
    t.joined(1, group=t.another_group("completing"))
    groups = listed(t, ["Stable"])
    t.check(t.group in groups, "the Stable group is missing")
    t.equal({each.group_state for each in groups.values()}, {"Stable"}, "states listed")


@case("list/filter/2", "Several states are joined by or", source="semantics 7.1 LI4", api="ListGroups", versions=(4, 5))
def filter_states(t: Trial) -> None:
    t.stable(1)
    completing = t.another_group("completing")
    t.joined(1, group=completing)
    groups = listed(t, ["Stable", "CompletingRebalance"])
    t.check({t.group, completing} <= groups.keys(), "a group is missing")


@case(
    "list/filter/3",
    "A state that does not exist matches nothing",
    source="semantics 2.11, 7.1 LI5",
    api="ListGroups",
    versions=(4, 5),
)
def filter_nothing(t: Trial) -> None:
    t.stable(1)
    t.equal(listed(t, ["Sleeping"]), {}, "groups")


@case(
    "list/filter/4",
    "States are compared without regard to case",
    source="semantics 2.11",
    api="ListGroups",
    versions=(4, 5),
    level=Level.SHOULD,
)
def filter_case(t: Trial) -> None:
    t.stable(1)
    t.check(t.group in listed(t, ["sTaBlE"]), "the group is missing")


@case(
    "list/filter/5",
    "A type filter leaves only groups of that type",
    source="KIP-848; semantics 7.1 LI6",
    api="ListGroups",
    versions=(5, 5),
)
def filter_type(t: Trial) -> None:
    t.stable(1)
    groups = listed(t, types=["classic"])
    t.check(t.group in groups, "the classic group is missing")
    t.equal({each.group_type for each in groups.values()}, {"classic"}, "types listed")
    t.check(t.group not in listed(t, types=["consumer"]), "the classic group is listed as a consumer group")


@case(
    "list/filter/6",
    "A state and a type are joined by and",
    source="semantics 7.1 LI7",
    api="ListGroups",
    versions=(5, 5),
)
def filter_both(t: Trial) -> None:
    t.stable(1)
    t.check(t.group in listed(t, ["Stable"], ["classic"]), "the group is missing")
    t.check(t.group not in listed(t, ["Empty"], ["classic"]), "the group is listed as Empty")


@case(
    "list/filter/7",
    "The answer for an unknown type",
    source="semantics 2.11",
    api="ListGroups",
    versions=(5, 5),
    level=Level.SHOULD,
)
def filter_unknown_type(t: Trial) -> None:
    t.stable(1)
    t.equal(listed(t, types=["sleeping"]), {}, "groups")


@case(
    "list/filter/8",
    "States are trimmed of blanks, types are not",
    source="semantics 2.11 step 5; proved on Apache Kafka 4.2.2",
    api="ListGroups",
    versions=(5, 5),
    level=Level.MAY,
)
def filter_blanks(t: Trial) -> None:
    t.stable(1)
    t.check(t.group in listed(t, [" Stable "]), "the group is missing")
    t.check(t.group in listed(t, types=["CLASSIC"]), "the group is missing")
    t.equal(listed(t, types=[" classic "]), {}, "groups")


@case(
    "list/deleted/1",
    "A deleted group is no longer listed",
    source="semantics 7.1 LI8",
    api="ListGroups",
    uses=("DeleteGroups",),
)
def deleted(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    t.check(t.group in listed(t), "the Empty group is missing")
    t.equal(t.call(DeleteGroupsRequest([t.group])).results[0].error_code, 0, "the deletion's error")
    t.check(t.group not in listed(t), "the deleted group is still listed")


def delete(t: Trial, *groups: str) -> dict[str, int]:
    answer = t.call(DeleteGroupsRequest(list(groups)))
    return {each.group_id: each.error_code for each in answer.results}


@case(
    "delete/batch/1",
    "An Empty group is deleted, one with members stays (68), an unknown one is 69",
    source="semantics 7.1 DE1",
    api="DeleteGroups",
)
def batch(t: Trial) -> None:
    (member,) = t.stable(1)
    empty, missing = t.another_group("empty"), t.another_group("missing")
    (former,) = t.stable(1, group=empty)
    former.leave()
    expected = {t.group: E.NON_EMPTY_GROUP, empty: 0, missing: E.GROUP_ID_NOT_FOUND}
    t.equal(delete(t, *expected), expected, "errors")
    t.equal(member.heartbeat(), 0, "the member's heartbeat")


@case(
    "delete/after/1",
    "A deleted group is described as Dead, and its members are unknown",
    source="semantics 7.1 DE2",
    api="DeleteGroups",
)
def after(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    t.equal(delete(t, t.group), {t.group: 0}, "errors")
    t.expect(t.describe(), group_state="Dead")
    t.equal(member.heartbeat(), E.UNKNOWN_MEMBER_ID, "a member's heartbeat")
    t.equal(delete(t, t.group), {t.group: E.GROUP_ID_NOT_FOUND}, "errors of a second deletion")


@case(
    "delete/after/2",
    "A group that was deleted begins again at generation 1",
    source="semantics 2.1",
    api="DeleteGroups",
)
def begins_again(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    delete(t, t.group)
    t.expect(t.member().join(), generation_id=1)


@case(
    "delete/after/3",
    "A commit of a member to a deleted group is refused",
    source="semantics 7.1 DE2",
    api="DeleteGroups",
    uses=("OffsetCommit",),
)
def commit_after(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    member.leave()
    delete(t, t.group)
    code = E.GROUP_ID_NOT_FOUND if t.version_of("OffsetCommit") >= 9 else E.ILLEGAL_GENERATION
    t.equal(member.commit(topic, {0: 1}), {0: code}, "errors of the commit")


@case(
    "delete/state/1",
    "A group in PreparingRebalance or CompletingRebalance is not deleted (68)",
    source="semantics 2.3",
    api="DeleteGroups",
)
def in_a_round(t: Trial) -> None:
    t.joined(1)
    t.equal(delete(t, t.group), {t.group: E.NON_EMPTY_GROUP}, "errors in CompletingRebalance")
    other = t.another_group("preparing")
    first, _second = t.stable(2, group=other)
    first.send_join()
    t.await_state("PreparingRebalance", other)
    t.equal(delete(t, other), {other: E.NON_EMPTY_GROUP}, "errors in PreparingRebalance")


@case(
    "delete/state/2",
    "A member id that is only handed out does not keep a group",
    source="semantics 2.11",
    api="DeleteGroups",
    uses=("JoinGroup",),
)
def pending(t: Trial) -> None:
    late = t.member()
    response = late.request(late.join_request())
    t.equal(delete(t, t.group), {t.group: 0}, "errors")
    t.expect(late.request(late.join_request(member_id=response.member_id)), error_code=E.UNKNOWN_MEMBER_ID)


@case(
    "delete/batch/2",
    "A group named twice in one request is deleted once",
    source="semantics 2.11",
    api="DeleteGroups",
    level=Level.SHOULD,
)
def twice(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    answer = t.call(DeleteGroupsRequest([t.group, t.group]))
    t.equal([(each.group_id, each.error_code) for each in answer.results], [(t.group, 0)], "results")


@case(
    "delete/expired/1",
    "A group is deleted right after the session of its last member: the timer comes before the request",
    source="semantics 2.7",
    api="DeleteGroups",
    needs=("short-sessions",),
)
def delete_after_the_session(t: Trial) -> None:
    member = t.member(session_timeout=t.limits.session)
    t.settle([member])
    t.lapse(t.limits.session)
    t.equal(t.call(DeleteGroupsRequest([t.group])).results[0].error_code, 0, "the deletion's error")


@case(
    "delete/batch/3", "No group named, none answered", source="semantics 2.11", api="DeleteGroups", level=Level.SHOULD
)
def nothing(t: Trial) -> None:
    t.expect(t.call(DeleteGroupsRequest([])), results=[])


@case(
    "delete/state/3",
    "A group that was only ever tried to be joined wrongly is there and can be deleted",
    source="semantics 2.2, 8.0",
    api="DeleteGroups",
    level=Level.MAY,
)
def left_behind(t: Trial) -> None:
    t.expect(
        t.member(protocols=()).request(t.member(protocols=()).join_request()), error_code=E.INCONSISTENT_GROUP_PROTOCOL
    )
    t.expect(t.describe(), group_state="Empty")
    t.equal(delete(t, t.group), {t.group: 0}, "errors")
