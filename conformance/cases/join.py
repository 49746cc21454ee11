"""Cases about JoinGroup: admitted members, their ids, and refused requests."""

from __future__ import annotations

from typing import Any

from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.member import Member, user_metadata
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

ROUND = (("range", user_metadata(b"r")), ("roundrobin", user_metadata(b"rr")))


def ask(member: Member, **changes: Any) -> JoinGroupResponse:
    """Send one JoinGroup; return the answer, success or error."""
    answer: JoinGroupResponse = member.request(member.join_request(**changes))
    return answer


def refused(t: Trial, answer: JoinGroupResponse, code: E, member_id: str) -> None:
    """Check that a JoinGroup error reveals nothing of the group, in the form of its version."""
    t.expect(answer, error_code=code, generation_id=-1, leader="", members=[], member_id=member_id)
    t.expect(answer, protocol_name=None if t.version_of("JoinGroup") >= 7 else "", protocol_type=None)


# -- the first member


@case(
    "join/first/1",
    "Before v4 a member without an id is admitted at once: generation 1, leader, alone in its list",
    source="semantics 7.1 JG1",
    api="JoinGroup",
    versions=(0, 3),
)
def first_admitted(t: Trial) -> None:
    member = t.member()
    answer = ask(member)
    t.expect(answer, error_code=0, generation_id=1, protocol_name="range", leader=answer.member_id)
    t.check(answer.member_id != "", "the member got no id")
    t.equal(
        [(each.member_id, each.metadata) for each in answer.members],
        [(answer.member_id, user_metadata(b"what range needs"))],
        "members",
    )


@case(
    "join/first/2",
    "From v4 a member without an id gets one and has to join again (79), and nothing else",
    source="KIP-394; semantics 2.2, 7.1 JG2",
    api="JoinGroup",
    versions=(4, 9),
)
def member_id_required(t: Trial) -> None:
    answer = ask(t.member())
    t.check(answer.member_id != "", "no member id was handed out")
    refused(t, answer, E.MEMBER_ID_REQUIRED, answer.member_id)


@case(
    "join/first/3",
    "A member that joins again with its new id is admitted: generation 1, leader",
    source="KIP-394; semantics 7.1 JG3",
    api="JoinGroup",
    versions=(4, 9),
)
def comes_again(t: Trial) -> None:
    member = t.member()
    answer = member.join()
    t.expect(answer, generation_id=1, leader=member.id, protocol_name="range")
    t.expect(answer, protocol_type="consumer" if t.version >= 7 else None)
    t.equal([each.member_id for each in answer.members], [member.id], "members")


@case(
    "join/first/4",
    "A member id that was handed out but not used leaves the group Empty and without members",
    source="KIP-394; semantics 2.2",
    api="JoinGroup",
    versions=(4, 9),
    uses=("DescribeGroups",),
)
def pending_is_no_member(t: Trial) -> None:
    ask(t.member())
    t.expect(t.describe(), error_code=0, group_state="Empty", members=[])


@case(
    "join/first/5",
    "A static member need not join twice: it is admitted with its first JoinGroup",
    source="KIP-345; semantics 2.2",
    api="JoinGroup",
    versions=(5, 9),
)
def static_admitted(t: Trial) -> None:
    member = t.member(instance_id="instance-1")
    answer = ask(member)
    t.expect(answer, error_code=0, generation_id=1, leader=answer.member_id)
    t.equal([each.group_instance_id for each in answer.members], ["instance-1"], "instance ids")


@case(
    "join/first/6",
    "Every member without an id gets an id of its own",
    source="KIP-394",
    api="JoinGroup",
    versions=(4, 9),
)
def ids_differ(t: Trial) -> None:
    ids = {ask(t.member()).member_id for _ in range(5)}
    t.equal(len(ids), 5, "number of different ids")


@case(
    "join/first/7",
    "A member id begins with the client id, or the instance id of a static member",
    source="semantics 2.2",
    api="JoinGroup",
    level=Level.MAY,
)
def id_begins_with(t: Trial) -> None:
    member = t.member("some-client")
    member.join()
    t.check(member.id.startswith("some-client-"), f"member id {member.id!r}")
    if t.version >= 5:
        static = t.member("other-client", instance_id="instance-7", group=t.group + "-static")
        static.join()
        t.check(static.id.startswith("instance-7-"), f"member id {static.id!r}")


@case(
    "join/first/8",
    "A member id that is pending is handed out once: it joins once and stays the member's id for ever",
    source="KIP-394",
    api="JoinGroup",
    versions=(4, 9),
)
def id_is_kept(t: Trial) -> None:
    member = t.member()
    member.join()
    first = member.id
    member.join()
    t.equal(member.id, first, "the member id after a second join")


@case("join/first/9", "The reason for joining changes nothing", source="KIP-800", api="JoinGroup", versions=(8, 9))
def reason_is_ignored(t: Trial) -> None:
    t.expect(t.member().join(reason="because"), generation_id=1)


@case(
    "join/first/10",
    "The leader of an ordinary round has to assign: skip_assignment is false",
    source="KIP-814",
    api="JoinGroup",
    versions=(9, 9),
)
def no_skip(t: Trial) -> None:
    t.expect(t.member().join(), skip_assignment=False)


# -- pending member ids


@case(
    "join/pending/1",
    "A member id that was handed out is forgotten after the session timeout of its JoinGroup",
    source="KIP-394; semantics 2.7",
    api="JoinGroup",
    versions=(4, 9),
    needs=("short-sessions",),
)
def pending_expires(t: Trial) -> None:
    member = t.member(session_timeout=t.limits.session)
    response = ask(member).member_id
    t.lapse(t.limits.session * 1.6)
    refused(t, ask(member, member_id=response), E.UNKNOWN_MEMBER_ID, response)


@case(
    "join/pending/2",
    "A round does not end early while a member id that was handed out has not come back",
    source="KIP-394; semantics 2.4",
    api="JoinGroup",
    versions=(4, 9),
)
def pending_holds_round(t: Trial) -> None:
    leader, follower = t.stable(2)
    late = t.member()
    late.id = ask(late).member_id
    leader.send_join()
    t.await_state("PreparingRebalance")
    follower.send_join()
    follower.heartbeat()
    t.equal(t.describe().group_state, "PreparingRebalance", "the state with a member id outstanding")
    t.parked(leader, "a member id is outstanding")
    t.parked(follower, "a member id is outstanding")
    late.send_join()
    answers = [each.receive_join() for each in (leader, follower, late)]
    t.equal({answer.generation_id for answer in answers}, {3}, "generations")
    t.equal(sorted(len(answer.members) for answer in answers), [0, 0, 3], "lengths of the member lists")


@case(
    "join/pending/3",
    "A round that waits for a member id ends when that id leaves",
    source="KIP-394; semantics 2.3",
    api="JoinGroup",
    versions=(4, 9),
)
def pending_leaves(t: Trial) -> None:
    (leader,) = t.stable(1)
    late = t.member()
    late.id = ask(late).member_id
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.parked(leader, "a member id is outstanding")
    t.expect(late.leave(), error_code=0)
    t.expect(leader.receive_join(), error_code=0, generation_id=2)
    refused(t, ask(late), E.UNKNOWN_MEMBER_ID, late.id)


@case(
    "join/pending/4",
    "A round that waits for a member id ends when that id expires",
    source="KIP-394; semantics 2.4",
    api="JoinGroup",
    versions=(4, 9),
    needs=("short-sessions",),
)
def pending_expires_in_round(t: Trial) -> None:
    (leader,) = t.stable(1)
    ask(t.member(session_timeout=t.limits.session))
    leader.send_join()
    t.expect(leader.receive_join(), error_code=0, generation_id=2)


# -- unknown ids


@case(
    "join/unknown/1",
    "A member id in a group that does not exist is unknown (25), and echoed",
    source="semantics 2.2 step 7, 7.1 JG4",
    api="JoinGroup",
)
def unknown_group(t: Trial) -> None:
    refused(t, ask(t.member(), member_id="nobody"), E.UNKNOWN_MEMBER_ID, "nobody")


@case(
    "join/unknown/2",
    "A member id that is in no generation of a Stable group is unknown (25)",
    source="semantics 2.3",
    api="JoinGroup",
)
def unknown_in_stable(t: Trial) -> None:
    t.stable(1)
    refused(t, ask(t.member(), member_id="nobody"), E.UNKNOWN_MEMBER_ID, "nobody")


@case(
    "join/unknown/3",
    "A member id that is not in a group in PreparingRebalance is unknown (25)",
    source="semantics 2.3",
    api="JoinGroup",
)
def unknown_in_preparing(t: Trial) -> None:
    t.stable(2)[0].send_join()
    t.await_state("PreparingRebalance")
    refused(t, ask(t.member(), member_id="nobody"), E.UNKNOWN_MEMBER_ID, "nobody")


@case(
    "join/unknown/4",
    "A member id that is not in a group in CompletingRebalance is unknown (25)",
    source="semantics 2.3",
    api="JoinGroup",
)
def unknown_in_completing(t: Trial) -> None:
    t.joined(1)
    refused(t, ask(t.member(), member_id="nobody"), E.UNKNOWN_MEMBER_ID, "nobody")


@case(
    "join/unknown/5",
    "The id of a member that left is unknown (25) in the Empty group it leaves behind",
    source="semantics 2.3",
    api="JoinGroup",
)
def unknown_in_empty(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    refused(t, ask(member), E.UNKNOWN_MEMBER_ID, member.id)


# -- group id, session timeout


@case("join/group-id/1", "An empty group id is invalid (24)", source="semantics 2.2 step 3", api="JoinGroup")
def empty_group_id(t: Trial) -> None:
    refused(t, ask(t.member(), group_id=""), E.INVALID_GROUP_ID, "")


@case(
    "join/group-id/2",
    "An empty group id (24) comes before a session timeout out of range (26)",
    source="semantics 2.2",
    api="JoinGroup",
    level=Level.SHOULD,
)
def group_id_before_session(t: Trial) -> None:
    t.expect(ask(t.member(), group_id="", session_timeout_ms=0), error_code=E.INVALID_GROUP_ID)


@case(
    "join/session/1",
    "A session timeout below the least allowed is invalid (26)",
    source="semantics 2.2 step 4",
    api="JoinGroup",
)
def session_too_short(t: Trial) -> None:
    too_short = t.limits.min_session_timeout - 1
    refused(t, ask(t.member(session_timeout=too_short)), E.INVALID_SESSION_TIMEOUT, "")


@case(
    "join/session/2",
    "A session timeout above the most allowed is invalid (26)",
    source="semantics 2.2 step 4",
    api="JoinGroup",
)
def session_too_long(t: Trial) -> None:
    refused(t, ask(t.member(session_timeout=t.limits.max_session_timeout + 1)), E.INVALID_SESSION_TIMEOUT, "")


@case(
    "join/session/3",
    "The shortest and the longest session timeout allowed are accepted",
    source="semantics 2.2 step 4",
    api="JoinGroup",
)
def session_bounds(t: Trial) -> None:
    for name, bound in (("least", t.limits.min_session_timeout), ("most", t.limits.max_session_timeout)):
        member = t.member(session_timeout=bound, group=f"{t.group}-{name}")
        code = {0, E.MEMBER_ID_REQUIRED} if t.version >= 4 else 0
        t.expect(ask(member), error_code=code)


@case(
    "join/session/4",
    "A session timeout out of range is answered 26 with the same member id",
    source="semantics 2.2 step 4",
    api="JoinGroup",
    level=Level.SHOULD,
)
def session_echoes_id(t: Trial) -> None:
    refused(t, ask(t.member(session_timeout=-1), member_id="somebody"), E.INVALID_SESSION_TIMEOUT, "somebody")
