"""Cases about rounds of JoinGroup: their start, end and length, and the leader."""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.join import ROUND, ask
from kafka_shim.conformance.member import user_metadata
from kafka_shim.conformance.trial import Trial


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
    "When the leader joins again the round ends: one more generation, only the leader gets the members",
    source="semantics 7.1 JG7; invariant I7",
    api="JoinGroup",
)
def leader_ends_round(t: Trial) -> None:
    (leader,) = t.stable(1)
    instance = "instance-2" if t.version >= 5 else None
    second = t.member(instance_id=instance)
    second.send_join()
    t.await_members(2)
    leader.send_join()
    response, other = leader.receive_join(), second.receive_join()
    t.expect(response, error_code=0, generation_id=2, leader=leader.id, member_id=leader.id)
    t.expect(other, error_code=0, generation_id=2, leader=leader.id, member_id=second.id, members=[])
    instances = {each.member_id: each.group_instance_id for each in response.members}
    t.equal(instances, {leader.id: None, second.id: instance}, "members in the leader's answer")


@case(
    "join/round/3",
    "A follower that joins again unchanged in Stable gets the current generation, without a rebalance",
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
    follower.protocols = (("range", user_metadata(b"changed")),)
    follower.send_join()
    t.await_state("PreparingRebalance")
    leader.send_join()
    response = leader.receive_join()
    t.expect(follower.receive_join(), generation_id=3)
    t.equal(
        {each.metadata for each in response.members},
        {user_metadata(b"what range needs"), user_metadata(b"changed")},
        "metadata in the leader's answer",
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
    "In CompletingRebalance a member that joins again unchanged gets its generation again",
    source="semantics 2.3",
    api="JoinGroup",
)
def completing_same(t: Trial) -> None:
    leader, follower = t.joined(2)
    response = ask(leader)
    t.expect(response, error_code=0, generation_id=leader.generation, leader=leader.id)
    t.equal({each.member_id for each in response.members}, {leader.id, follower.id}, "members in the leader's answer")
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
    follower.protocols = (("range", user_metadata(b"changed")),)
    follower.send_join()
    t.await_state("PreparingRebalance")
    leader.send_join()
    t.expect(leader.receive_join(), generation_id=3)
    t.expect(follower.receive_join(), generation_id=3)


@case(
    "join/round/9",
    "A new member in CompletingRebalance starts a round: parked SyncGroups are answered 27",
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
    source="semantics 2.5; invariant I2",
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
    source="semantics 2.5; survey rdkafka-mock 1",
    api="JoinGroup",
)
def generation_after_empty(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    t.expect(t.member().join(), generation_id=3)


@case(
    "join/round/12",
    "When the leader left, exactly one of the others leads the next generation",
    source="semantics 2.5; survey kfake 1; invariant I7",
    api="JoinGroup",
)
def new_leader(t: Trial) -> None:
    leader, second, third = t.stable(3)
    leader.leave()
    second.send_join()
    third.send_join()
    answers = [second.receive_join(), third.receive_join()]
    t.equal(len({answer.leader for answer in answers}), 1, "number of leaders in the answers")
    t.equal(sorted(len(answer.members) for answer in answers), [0, 2], "lengths of the member lists")
    t.check(answers[0].leader in (second.id, third.id), "the leader is none of the members")


@case(
    "join/round/13",
    "A round ends as soon as the last member has joined again",
    source="semantics 2.4; survey rdkafka-mock 3",
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
    response = leader.receive_join()
    t.expect(response, error_code=0, generation_id=3)
    t.equal([each.member_id for each in response.members], [leader.id], "members in the leader's answer")
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
    "A member with a parked JoinGroup may send it again; the later one is answered",
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
    source="invariant I1; invariant I7",
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
    response = leader.receive_join()
    t.equal({each.member_id for each in response.members}, {leader.id, follower.id}, "members in the leader's answer")
