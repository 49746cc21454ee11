"""JoinGroup: who is admitted, when a round ends, and what each member is told."""

from __future__ import annotations

from typing import Any

from apis.join_group import JoinGroupResponse
from apis.wire.errors import ErrorCode as E
from conformance.case import Level, case
from conformance.member import Member, said
from conformance.trial import Trial

ROUND = (("range", said(b"r")), ("roundrobin", said(b"rr")))


def ask(member: Member, **changes: Any) -> JoinGroupResponse:
    """One JoinGroup as it is, whatever it is answered."""
    answer: JoinGroupResponse = member.request(member.join_request(**changes))
    return answer


def refused(t: Trial, answer: JoinGroupResponse, code: E, member_id: str) -> None:
    """A JoinGroup error says nothing of the group, in the shape of its version."""
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
    t.check(answer.member_id != "", "the member was given no id")
    t.equal(
        [(each.member_id, each.metadata) for each in answer.members],
        [(answer.member_id, said(b"what range needs"))],
        "members",
    )


@case(
    "join/first/2",
    "From v4 a member without an id is told one and asked to come again (79), and nothing else",
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
    "A member that comes again with the id it was told is admitted: generation 1, leader",
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
    "A static member is never asked to come again: it is admitted with its first JoinGroup",
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
    "Every member without an id is told an id of its own",
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
    "The leader of an ordinary round is not told to skip the assignment",
    source="KIP-814",
    api="JoinGroup",
    versions=(9, 9),
)
def no_skip(t: Trial) -> None:
    t.expect(t.member().join(), skip_assignment=False)


# -- pending member ids


@case(
    "join/pending/1",
    "A member id that was handed out is forgotten when the session timeout asked for is over",
    source="KIP-394; semantics 2.7",
    api="JoinGroup",
    versions=(4, 9),
    needs=("short-sessions",),
)
def pending_expires(t: Trial) -> None:
    member = t.member(session_timeout=t.limits.session)
    told = ask(member).member_id
    t.lapse(t.limits.session * 1.6)
    refused(t, ask(member, member_id=told), E.UNKNOWN_MEMBER_ID, told)


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


# -- protocols


@case(
    "join/protocol/1",
    "Another protocol type than the group's is refused (23)",
    source="semantics 2.2 step 10, 7.1 JG5",
    api="JoinGroup",
)
def other_type(t: Trial) -> None:
    t.stable(1)
    refused(t, ask(t.member(protocol_type="connect")), E.INCONSISTENT_GROUP_PROTOCOL, "")


@case(
    "join/protocol/2",
    "A member without any protocol that all others support is refused (23)",
    source="semantics 2.2 step 10",
    api="JoinGroup",
)
def no_common_protocol(t: Trial) -> None:
    t.stable(1)
    refused(t, ask(t.member(protocols=(("sticky", said(b"")),))), E.INCONSISTENT_GROUP_PROTOCOL, "")


@case(
    "join/protocol/3", "A first member that offers no protocol is refused (23)", source="semantics 2.2", api="JoinGroup"
)
def no_protocols(t: Trial) -> None:
    refused(t, ask(t.member(protocols=())), E.INCONSISTENT_GROUP_PROTOCOL, "")


@case(
    "join/protocol/4",
    "A first member with an empty protocol type is refused (23)",
    source="semantics 2.2",
    api="JoinGroup",
)
def no_type(t: Trial) -> None:
    refused(t, ask(t.member(protocol_type="")), E.INCONSISTENT_GROUP_PROTOCOL, "")


@case(
    "join/protocol/5",
    "A group that everybody left accepts a member of another protocol type",
    source="semantics 2.2; peers 3.5",
    api="JoinGroup",
)
def empty_takes_any_type(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    other = t.member(protocol_type="connect", protocols=(("sessioned", b"x"),))
    t.expect(other.join(), protocol_name="sessioned", protocol_type="connect" if t.version >= 7 else None)


@case(
    "join/protocol/6", "The protocol chosen is one that every member supports", source="semantics 2.5", api="JoinGroup"
)
def common_protocol(t: Trial) -> None:
    first = t.member(protocols=ROUND)
    second = t.member(protocols=(("roundrobin", said(b"only")),))
    members = t.gather([first, second])
    t.equal({each.protocol for each in members}, {"roundrobin"}, "protocols told")


@case(
    "join/protocol/7",
    "Of the protocols all support, the one most members put first is chosen",
    source="semantics 2.5",
    api="JoinGroup",
)
def vote(t: Trial) -> None:
    backwards = tuple(reversed(ROUND))
    members = t.gather([t.member(protocols=ROUND), t.member(protocols=backwards), t.member(protocols=backwards)])
    t.equal({each.protocol for each in members}, {"roundrobin"}, "protocols told")


@case(
    "join/protocol/8",
    "The leader is given every member's metadata of the chosen protocol",
    source="semantics 2.5",
    api="JoinGroup",
)
def metadata_of_chosen(t: Trial) -> None:
    first = t.member(protocols=(("range", said(b"r1")), ("roundrobin", said(b"rr1"))))
    first.join()
    second = t.member(protocols=(("roundrobin", said(b"rr2")),))
    second.send_join()
    t.await_members(2)
    first.send_join()
    answers = {each: each.receive_join() for each in (first, second)}
    leader = next(each for each in answers if each.is_leader)
    given = {each.member_id: each.metadata for each in answers[leader].members}
    t.equal(given, {first.id: said(b"rr1"), second.id: said(b"rr2")}, "metadata given to the leader")


@case(
    "join/protocol/9",
    "A known member that no longer supports the others' protocols is refused (23) and stays what it was",
    source="semantics 2.3",
    api="JoinGroup",
)
def known_member_turns_away(t: Trial) -> None:
    leader, follower = t.stable(2)
    follower.protocols = (("sticky", said(b"")),)
    refused(t, ask(follower), E.INCONSISTENT_GROUP_PROTOCOL, follower.id)
    t.equal(follower.heartbeat(), 0, "its heartbeat afterwards")
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")


@case(
    "join/protocol/10",
    "Two members that list the same protocols in opposite order form a group",
    source="peers 2.9",
    api="JoinGroup",
)
def opposite_order(t: Trial) -> None:
    members = t.gather([t.member(protocols=ROUND), t.member(protocols=tuple(reversed(ROUND)))])
    t.equal(len({each.protocol for each in members}), 1, "number of protocols told in one generation")


# -- group id, session timeout


@case("join/group-id/1", "An empty group id is invalid (24)", source="semantics 2.2 step 3", api="JoinGroup")
def empty_group_id(t: Trial) -> None:
    refused(t, ask(t.member(), group_id=""), E.INVALID_GROUP_ID, "")


@case(
    "join/group-id/2",
    "An empty group id is told before a session timeout out of range",
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
    "A session timeout out of range is told with the member id echoed",
    source="semantics 2.2 step 4",
    api="JoinGroup",
    level=Level.SHOULD,
)
def session_echoes_id(t: Trial) -> None:
    refused(t, ask(t.member(session_timeout=-1), member_id="somebody"), E.INVALID_SESSION_TIMEOUT, "somebody")


# -- rounds


@case(
    "join/round/1",
    "A second member makes the group PreparingRebalance and waits for the first",
    source="semantics 7.1 JG6",
    api="JoinGroup",
)
def second_waits(t: Trial) -> None:
    t.stable(1)
    second = t.member()
    second.send_join()
    t.await_members(2)
    t.equal(t.describe().group_state, "PreparingRebalance", "the state")
    t.parked(second, "the first member has not joined again")


@case(
    "join/round/2",
    "When the leader joins again the round ends: one more generation, the leader alone is given the members",
    source="semantics 7.1 JG7; I7",
    api="JoinGroup",
)
def leader_ends_round(t: Trial) -> None:
    (leader,) = t.stable(1)
    instance = "instance-2" if t.version >= 5 else None
    second = t.member(instance_id=instance)
    second.send_join()
    t.await_members(2)
    leader.send_join()
    told, other = leader.receive_join(), second.receive_join()
    t.expect(told, error_code=0, generation_id=2, leader=leader.id, member_id=leader.id)
    t.expect(other, error_code=0, generation_id=2, leader=leader.id, member_id=second.id, members=[])
    given = {each.member_id: each.group_instance_id for each in told.members}
    t.equal(given, {leader.id: None, second.id: instance}, "members given to the leader")


@case(
    "join/round/3",
    "A follower that joins again unchanged in Stable is told the generation as it is, and nobody rebalances",
    source="semantics 2.3, 7.1 JG8",
    api="JoinGroup",
)
def follower_rejoins(t: Trial) -> None:
    leader, follower = t.stable(2)
    t.expect(ask(follower), error_code=0, generation_id=leader.generation, leader=leader.id, members=[])
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")
    t.equal(t.describe().group_state, "Stable", "the state")


@case(
    "join/round/4",
    "A leader that joins again unchanged in Stable starts a round",
    source="semantics 2.3",
    api="JoinGroup",
)
def leader_rejoins(t: Trial) -> None:
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.parked(leader, "the follower has not joined again")
    t.equal(follower.heartbeat(), E.REBALANCE_IN_PROGRESS, "the follower's heartbeat")
    follower.send_join()
    t.expect(leader.receive_join(), error_code=0, generation_id=3, leader=leader.id)
    t.expect(follower.receive_join(), error_code=0, generation_id=3, members=[])


@case(
    "join/round/5",
    "A follower that joins with other metadata in Stable starts a round",
    source="semantics 2.3",
    api="JoinGroup",
)
def follower_changes(t: Trial) -> None:
    leader, follower = t.stable(2)
    follower.protocols = (("range", said(b"changed")),)
    follower.send_join()
    t.await_state("PreparingRebalance")
    leader.send_join()
    told = leader.receive_join()
    t.expect(follower.receive_join(), generation_id=3)
    t.equal(
        {each.metadata for each in told.members},
        {said(b"what range needs"), said(b"changed")},
        "metadata given to the leader",
    )


@case(
    "join/round/6",
    "A follower that lists the same protocols in another order has changed",
    source="semantics 2.3",
    api="JoinGroup",
)
def order_is_change(t: Trial) -> None:
    _leader, follower = t.stable(2, protocols=ROUND)
    follower.protocols = tuple(reversed(ROUND))
    follower.send_join()
    t.await_state("PreparingRebalance")
    t.parked(follower, "the leader has not joined again")


@case(
    "join/round/7",
    "In CompletingRebalance a member that joins again unchanged is told its generation again",
    source="semantics 2.3",
    api="JoinGroup",
)
def completing_same(t: Trial) -> None:
    leader, follower = t.joined(2)
    told = ask(leader)
    t.expect(told, error_code=0, generation_id=leader.generation, leader=leader.id)
    t.equal({each.member_id for each in told.members}, {leader.id, follower.id}, "members given to the leader")
    t.expect(ask(follower), error_code=0, generation_id=leader.generation, leader=leader.id, members=[])
    t.equal(t.describe().group_state, "CompletingRebalance", "the state")


@case(
    "join/round/8",
    "In CompletingRebalance a member that joins changed starts a round",
    source="semantics 2.3",
    api="JoinGroup",
)
def completing_changed(t: Trial) -> None:
    leader, follower = t.joined(2)
    follower.protocols = (("range", said(b"changed")),)
    follower.send_join()
    t.await_state("PreparingRebalance")
    leader.send_join()
    t.expect(leader.receive_join(), generation_id=3)
    t.expect(follower.receive_join(), generation_id=3)


@case(
    "join/round/9",
    "A new member in CompletingRebalance starts a round: those who wait for the assignment are told 27",
    source="semantics 2.4",
    api="JoinGroup",
)
def completing_new(t: Trial) -> None:
    leader, follower = t.joined(2)
    follower.send_sync()
    third = t.member()
    third.send_join()
    t.expect(follower.receive_sync(), error_code=E.REBALANCE_IN_PROGRESS, assignment=b"")
    t.equal(leader.sync().error_code, E.REBALANCE_IN_PROGRESS, "the leader's SyncGroup")


@case(
    "join/round/10",
    "A generation is one more than the one before, round after round",
    source="semantics 2.5; I2",
    api="JoinGroup",
)
def generations_count(t: Trial) -> None:
    member = t.member()
    generations = []
    for _ in range(4):
        generations.append(member.join().generation_id)
        member.sync({member: b"all"})
    t.equal(generations, [1, 2, 3, 4], "generations")


@case(
    "join/round/11",
    "The generation counts on when the last member left: the next one to join is two further",
    source="semantics 2.5; peers 2.1",
    api="JoinGroup",
)
def generation_after_empty(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    t.expect(t.member().join(), generation_id=3)


@case(
    "join/round/12",
    "When the leader left, exactly one of the others leads the next generation",
    source="semantics 2.5; peers 3.1; I7",
    api="JoinGroup",
)
def new_leader(t: Trial) -> None:
    leader, second, third = t.stable(3)
    leader.leave()
    second.send_join()
    third.send_join()
    answers = [second.receive_join(), third.receive_join()]
    t.equal(len({answer.leader for answer in answers}), 1, "number of leaders told")
    t.equal(sorted(len(answer.members) for answer in answers), [0, 2], "lengths of the member lists")
    t.check(answers[0].leader in (second.id, third.id), "the leader is none of the members")


@case(
    "join/round/13",
    "A round ends as soon as the last known member has joined again",
    source="semantics 2.4; peers 2.3",
    api="JoinGroup",
)
def ends_early(t: Trial) -> None:
    members = t.stable(3)
    for each in members:
        each.send_join()
        if each is members[0]:
            t.await_state("PreparingRebalance")
    for each in members:
        t.expect(each.receive_join(within=5.0), error_code=0, generation_id=members[0].generation)


@case(
    "join/round/14",
    "A dynamic member that does not join again before the rebalance timeout is out of the group",
    source="semantics 2.5",
    api="JoinGroup",
)
def rebalance_timeout(t: Trial) -> None:
    timeout = t.limits.session
    leader, follower = t.stable(2, rebalance_timeout=timeout, session_timeout=timeout if t.version == 0 else 30_000)
    leader.send_join()
    t.await_state("PreparingRebalance")
    told = leader.receive_join()
    t.expect(told, error_code=0, generation_id=3)
    t.equal([each.member_id for each in told.members], [leader.id], "members given to the leader")
    t.equal(follower.heartbeat(), E.UNKNOWN_MEMBER_ID, "the late member's heartbeat")


@case(
    "join/round/15",
    "The rebalance timeout is the longest of all members'",
    source="semantics 2.4",
    api="JoinGroup",
    versions=(1, 9),
)
def longest_timeout_counts(t: Trial) -> None:
    short, long = t.limits.session, t.limits.session * 4
    leader = t.member(rebalance_timeout=short)
    follower = t.member(rebalance_timeout=long)
    t.settle([leader, follower])
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.lapse(short * 1.7, follower.heartbeat)
    t.parked(leader, "the follower may take longer")
    follower.send_join()
    t.expect(leader.receive_join(), error_code=0, generation_id=3)
    t.expect(follower.receive_join(), error_code=0, generation_id=3)


@case(
    "join/round/16",
    "A member whose JoinGroup waits may send it again; the later one is answered",
    source="semantics 2.3",
    api="JoinGroup",
)
def join_again_while_parked(t: Trial) -> None:
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    again = t.connect("again", client_id=leader.name)
    again.send(leader.join_request(), t.version)
    t.describe()
    t.parked(again, "the follower has not joined again")
    follower.send_join()
    t.expect(again.receive(), error_code=0, generation_id=3, member_id=leader.id)
    t.expect(follower.receive_join(), error_code=0, generation_id=3)


@case(
    "join/round/17",
    "The group survives when every one of its connections closes: a member may go on from another",
    source="semantics 2.7",
    api="JoinGroup",
)
def other_connection(t: Trial) -> None:
    (member,) = t.stable(1)
    member.wire.reset()
    member.wire = t.connect("anew")
    t.equal(member.heartbeat(), 0, "its heartbeat from another connection")
    t.expect(member.join(), generation_id=2)


@case(
    "join/round/18",
    "A group of five: one generation, one leader, every member listed once",
    source="I1; I7",
    api="JoinGroup",
)
def five(t: Trial) -> None:
    members = t.stable(5)
    described = t.describe()
    t.equal({each.member_id for each in described.members}, {each.id for each in members}, "members described")


@case(
    "join/round/19",
    "A member that joins and leaves before the round ends is not in the generation",
    source="semantics 2.3",
    api="JoinGroup",
)
def leaves_in_round(t: Trial) -> None:
    leader, follower = t.stable(2)
    third = t.member()
    third.send_join()
    described = t.await_members(3)
    third.id = next(iter({each.member_id for each in described.members} - {leader.id, follower.id}))
    t.expect(third.leave(), error_code=0)
    leader.send_join()
    follower.send_join()
    told = leader.receive_join()
    t.equal({each.member_id for each in told.members}, {leader.id, follower.id}, "members given to the leader")


@case(
    "join/metadata/1",
    "Metadata a consumer group's coordinator cannot read is the members' business: the round ends all the same",
    source="semantics 3.4; Kafka 4.2.0 never ends such a round, 4.2.2 does",
    api="JoinGroup",
)
def unreadable_metadata(t: Trial) -> None:
    for number, data in enumerate((b"", b"\0", b"what is this", b"\0\0\x7f\xff\xff\xff")):
        member = t.member(protocols=(("range", data),), group=f"{t.group}-{number}")
        answer = member.join()
        t.equal([each.metadata for each in answer.members], [data], "metadata given to the leader")


@case(
    "join/metadata/2", "Groups of another protocol type may say any metadata", source="semantics 3.4", api="JoinGroup"
)
def other_metadata(t: Trial) -> None:
    member = t.member(protocol_type="single-writer", protocols=(("lowest-id", b"\xff\0 not a subscription"),))
    t.equal(member.join().members[0].metadata, b"\xff\0 not a subscription", "metadata given to the leader")
