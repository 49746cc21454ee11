"""Cases about static membership (KIP-345): an instance id that survives its member ids."""

from __future__ import annotations

from functools import partial

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.member import Member, user_metadata
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

join_case = partial(case, api="JoinGroup", versions=(5, 9))


def successor(t: Trial, of: Member) -> Member:
    """Return a restart of the same instance: it has the instance id and no member id."""
    return t.member(
        f"{of.name}-again",
        instance_id=of.instance_id,
        protocols=of.protocols,
        session_timeout=of.session_timeout,
        rebalance_timeout=of.rebalance_timeout,
    )


def leader_and_static(t: Trial, session_timeout: int = 30_000) -> tuple[Member, Member]:
    """Return a Stable group of a dynamic leader and a static follower."""
    leader, static = t.member(), t.member(instance_id="instance-1", session_timeout=session_timeout)
    leader.join()
    t.settle([leader, static])
    t.check(leader.is_leader, "the first member is not the leader")
    return leader, static


@join_case(
    "static/replace/1",
    "A restarted static follower takes its place back without a rebalance: same generation, new member id",
    source="KIP-345; semantics 2.8",
)
def follower_replaced(t: Trial) -> None:
    leader, old = leader_and_static(t)
    new = successor(t, old)
    answer = new.join()
    t.expect(answer, generation_id=2, members=[])
    t.check(new.id != old.id, "the new one got the old one's member id")
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")
    t.expect(new.sync(), error_code=0, assignment=f"assignment of {old.name}".encode())


@join_case(
    "static/replace/2",
    "The member id that was replaced is fenced (82) for ever",
    source="KIP-345; invariant I8; survey rdkafka-mock 11",
)
def old_is_fenced(t: Trial) -> None:
    _leader, old = leader_and_static(t)
    successor(t, old).join()
    t.equal(old.heartbeat(), E.FENCED_INSTANCE_ID, "its heartbeat")
    t.expect(old.sync(), error_code=E.FENCED_INSTANCE_ID, assignment=b"")
    t.expect(old.request(old.join_request()), error_code=E.FENCED_INSTANCE_ID, generation_id=-1)
    t.expect(old.leave().members[0], error_code=E.FENCED_INSTANCE_ID)


@join_case(
    "static/replace/3",
    "A commit of the member id that was replaced is fenced (82)",
    source="KIP-345; invariant I8",
    uses=("OffsetCommit",),
)
def old_commit_is_fenced(t: Trial) -> None:
    topic = t.topic()
    _leader, old = leader_and_static(t)
    successor(t, old).join()
    t.equal(old.commit(topic, {0: 1}), {0: E.FENCED_INSTANCE_ID}, "errors of the commit")


@case(
    "static/replace/4",
    "A restarted static leader before v9 gets its old id as the leader, so that it acts as a follower",
    source="KIP-345; semantics 2.8; survey kfake 4",
    api="JoinGroup",
    versions=(5, 8),
)
def leader_replaced_before_skip(t: Trial) -> None:
    leader, follower = t.member(instance_id="instance-1"), t.member()
    leader.join()
    t.settle([leader, follower])
    new = successor(t, leader)
    t.expect(new.join(), generation_id=2, leader=leader.id, members=[])
    t.equal(follower.heartbeat(), 0, "the follower's heartbeat")


@case(
    "static/replace/5",
    "A restarted static leader from v9 is the leader, gets the members, and skips the assignment",
    source="KIP-814; semantics 2.8",
    api="JoinGroup",
    versions=(9, 9),
)
def leader_replaced(t: Trial) -> None:
    leader, follower = t.member(instance_id="instance-1"), t.member()
    leader.join()
    t.settle([leader, follower])
    new = successor(t, leader)
    answer = new.join()
    t.expect(answer, generation_id=2, leader=new.id, skip_assignment=True)
    t.equal({each.member_id for each in answer.members}, {new.id, follower.id}, "members in the leader's answer")
    t.expect(new.sync(), error_code=0, assignment=f"assignment of {leader.name}".encode())


@case(
    "static/replace/6",
    "A restarted static follower gets skip_assignment false",
    source="KIP-814",
    api="JoinGroup",
    versions=(9, 9),
)
def follower_does_not_skip(t: Trial) -> None:
    leader, old = leader_and_static(t)
    t.expect(successor(t, old).join(), skip_assignment=False, leader=leader.id)


@join_case(
    "static/replace/7",
    "A restart with metadata that leaves the chosen protocol the same makes no rebalance",
    source="semantics 2.8; survey kfake 4",
)
def metadata_may_differ(t: Trial) -> None:
    leader, old = leader_and_static(t)
    new = successor(t, old)
    new.protocols = (("range", user_metadata(b"other metadata")),)
    t.expect(new.join(), generation_id=2)
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")


@join_case(
    "static/replace/8",
    "A restart with protocols that change the choice makes a rebalance",
    source="semantics 2.8",
)
def choice_changes(t: Trial) -> None:
    both = (("range", user_metadata(b"r")), ("roundrobin", user_metadata(b"rr")))
    leader, old = t.member(protocols=both), t.member(instance_id="instance-1", protocols=both)
    leader.join()
    t.settle([leader, old])
    new = successor(t, old)
    new.protocols = (("roundrobin", user_metadata(b"rr")),)
    new.send_join()
    t.await_state("PreparingRebalance")
    leader.send_join()
    t.expect(leader.receive_join(), generation_id=3, protocol_name="roundrobin")
    t.expect(new.receive_join(), generation_id=3, protocol_name="roundrobin")


@join_case(
    "static/replace/9",
    "A restart in CompletingRebalance makes a rebalance, so that the member gets an assignment",
    source="KAFKA-9801; semantics 2.8",
)
def in_completing(t: Trial) -> None:
    leader, old = t.member(), t.member(instance_id="instance-1")
    leader.join()
    t.gather([leader, old])
    new = successor(t, old)
    new.send_join()
    t.await_state("PreparingRebalance")
    t.equal(leader.heartbeat(), E.REBALANCE_IN_PROGRESS, "the leader's heartbeat")
    leader.send_join()
    t.expect(leader.receive_join(), generation_id=3)
    t.expect(new.receive_join(), generation_id=3)
    t.expect(leader.sync({leader: b"one", new: b"two"}), error_code=0)
    t.expect(new.sync(), error_code=0, assignment=b"two")


@join_case(
    "static/replace/10",
    "A restart in PreparingRebalance takes the place of the old member, and its parked JoinGroup is answered 82",
    source="KIP-345; semantics 2.8, 7.1 JG9",
)
def in_preparing(t: Trial) -> None:
    leader, old = leader_and_static(t)
    old.protocols = (("range", user_metadata(b"changed")),)
    old.send_join()
    t.await_state("PreparingRebalance")
    new = successor(t, old)
    new.send_join()
    t.expect(old.receive_join(), error_code=E.FENCED_INSTANCE_ID, generation_id=-1)
    t.parked(new, "the leader has not joined again")
    leader.send_join()
    response = leader.receive_join()
    t.expect(new.receive_join(), error_code=0, generation_id=3)
    t.equal({each.member_id for each in response.members}, {leader.id, new.id}, "members in the leader's answer")


@join_case(
    "static/replace/11",
    "The SyncGroup that waits is answered 82 when another takes the instance id",
    source="semantics 2.8",
)
def parked_sync_fenced(t: Trial) -> None:
    leader, old = t.member(), t.member(instance_id="instance-1")
    leader.join()
    t.gather([leader, old])
    old.send_sync()
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")
    successor(t, old).send_join()
    t.expect(old.receive_sync(), error_code=E.FENCED_INSTANCE_ID, assignment=b"")


@join_case("static/replace/12", "A lone static member keeps its generation over a restart", source="KIP-345")
def alone(t: Trial) -> None:
    (old,) = t.stable(1, instance_id="instance-1")
    new = successor(t, old)
    t.expect(new.join(), generation_id=1)
    t.equal(new.heartbeat(), 0, "the new one's heartbeat")
    t.equal(old.heartbeat(), E.FENCED_INSTANCE_ID, "the old one's heartbeat")


@join_case(
    "static/replace/13",
    "Each restart gets another member id, and only the last one is a member",
    source="KIP-345; semantics 7.2 GM7",
)
def again_and_again(t: Trial) -> None:
    (first,) = t.stable(1, instance_id="instance-1")
    second, third = successor(t, first), successor(t, first)
    second.join()
    third.join()
    t.equal(len({first.id, second.id, third.id}), 3, "number of member ids")
    t.equal((first.heartbeat(), second.heartbeat(), third.heartbeat()), (82, 82, 0), "heartbeats")


@join_case("static/unknown/1", "A member id with an unknown instance id is refused (25)", source="semantics 2.2")
def unknown_instance(t: Trial) -> None:
    (member,) = t.stable(1)
    t.expect(member.request(member.join_request(group_instance_id="nobody's")), error_code=E.UNKNOWN_MEMBER_ID)
    t.equal(member.heartbeat(group_instance_id="nobody's"), E.UNKNOWN_MEMBER_ID, "a heartbeat")
    t.expect(member.sync(group_instance_id="nobody's"), error_code=E.UNKNOWN_MEMBER_ID)


@join_case(
    "static/unknown/2",
    "An unknown member id with the instance id of a member is fenced (82), not unknown",
    source="semantics 2.2",
)
def mismatch(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="instance-1")
    t.expect(member.request(member.join_request(member_id="another")), error_code=E.FENCED_INSTANCE_ID)
    t.equal(member.heartbeat(member_id="another"), E.FENCED_INSTANCE_ID, "a heartbeat")
    t.expect(member.sync(member_id="another"), error_code=E.FENCED_INSTANCE_ID)


@join_case(
    "static/unknown/3", "A dynamic member that sends a static one's instance id is fenced (82)", source="semantics 2.3"
)
def borrowed_instance(t: Trial) -> None:
    leader, _static = leader_and_static(t)
    t.equal(leader.heartbeat(group_instance_id="instance-1"), E.FENCED_INSTANCE_ID, "its heartbeat")
    t.equal(leader.heartbeat(), 0, "its heartbeat without")


@join_case(
    "static/unknown/4",
    "A static member that does not say its instance id is taken by its member id",
    source="semantics 2.3",
)
def instance_unsaid(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="instance-1")
    t.equal(member.heartbeat(group_instance_id=None), 0, "its heartbeat")
    t.expect(member.sync(group_instance_id=None), error_code=0)


@join_case(
    "static/rejoin/1",
    "A static follower that joins again with its member id and unchanged makes no rebalance",
    source="semantics 2.3",
)
def rejoins_with_id(t: Trial) -> None:
    leader, static = leader_and_static(t)
    t.expect(static.join(), generation_id=2, member_id=static.id)
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")


@join_case(
    "static/rejoin/2",
    "A static member that does not join again in time stays in the generation",
    source="KIP-345; semantics 2.5; survey kfake 3",
)
def stays(t: Trial) -> None:
    leader = t.member(rebalance_timeout=t.limits.session)
    static = t.member(instance_id="instance-1", rebalance_timeout=t.limits.session)
    leader.join()
    t.settle([leader, static])
    leader.send_join()
    response = leader.receive_join()
    t.expect(response, error_code=0, generation_id=3)
    t.equal({each.member_id for each in response.members}, {leader.id, static.id}, "members in the leader's answer")
    t.equal(static.heartbeat(), E.ILLEGAL_GENERATION, "its heartbeat of the generation it missed the end of")


@join_case(
    "static/rejoin/3",
    "A group of absent static members stays as it is when a round runs out of time",
    source="semantics 2.5 step 2; survey kfake 3",
    needs=("short-sessions",),
)
def all_absent(t: Trial) -> None:
    timeout = t.limits.session
    members = [t.member(instance_id=f"instance-{n}", rebalance_timeout=timeout) for n in range(3)]
    t.settle(members)
    members[2].leave()
    t.await_state("PreparingRebalance")
    t.lapse(timeout * 1.6)
    t.equal(t.describe().group_state, "PreparingRebalance", "the state after the rebalance timeout")
    members[0].send_join()
    members[1].send_join()
    t.expect(members[0].receive_join(), error_code=0, generation_id=members[0].generation)
    t.expect(members[1].receive_join(), error_code=0)


@join_case(
    "static/session/1",
    "A static member that is silent for its session timeout is out, and its instance id is free",
    source="KIP-345; semantics 2.7",
    needs=("short-sessions",),
)
def expires(t: Trial) -> None:
    leader, static = leader_and_static(t, session_timeout=t.limits.session)
    t.until(leader.heartbeat, lambda code: code == E.REBALANCE_IN_PROGRESS, "the static member never expired")
    t.equal(static.heartbeat(), E.UNKNOWN_MEMBER_ID, "its heartbeat")


@join_case(
    "static/session/2",
    "The timer of a replaced member id expels no member: its successor has its own session",
    source="semantics 2.8",
    needs=("short-sessions",),
)
def old_timer_is_harmless(t: Trial) -> None:
    session = t.limits.session * 2
    leader, old = leader_and_static(t, session_timeout=session)
    new = successor(t, old)
    new.session_timeout = 30_000
    new.join()
    t.equal(new.heartbeat(), 0, "the new one's first heartbeat")
    t.lapse(session * 1.6, leader.heartbeat)
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")
    t.equal(new.heartbeat(), 0, "the new one's heartbeat")


@join_case(
    "static/session/3",
    "Until its first heartbeat the one that took the place lives by the session timeout of the one it replaced",
    source="proved on Apache Kafka 4.2: the timer is armed before the request's timeouts are applied",
    needs=("short-sessions",),
    level=Level.MAY,
)
def first_session_is_the_old(t: Trial) -> None:
    leader, old = leader_and_static(t, session_timeout=t.limits.session)
    new = successor(t, old)
    new.session_timeout = 30_000
    new.join()
    t.until(leader.heartbeat, lambda code: code == E.REBALANCE_IN_PROGRESS, "the new member id did not expire")
    t.equal(new.heartbeat(), E.UNKNOWN_MEMBER_ID, "the new one's heartbeat")


@join_case(
    "static/two/1",
    "Two instances with instance ids of their own are two members",
    source="KIP-345; survey rdkafka-mock 11",
)
def two_instances(t: Trial) -> None:
    members = t.settle([t.member(instance_id="instance-1"), t.member(instance_id="instance-2")])
    described = {each.group_instance_id: each.member_id for each in t.describe().members}
    t.equal(described, {each.instance_id: each.id for each in members}, "members described")


@join_case("static/two/2", "The same instance id in two groups is two members", source="KIP-345")
def two_groups(t: Trial) -> None:
    (one,) = t.stable(1, instance_id="instance-1")
    (other,) = t.stable(1, instance_id="instance-1", group=t.group + "-other")
    t.equal((one.heartbeat(), other.heartbeat()), (0, 0), "heartbeats")
