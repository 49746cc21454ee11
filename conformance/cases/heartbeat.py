"""Cases about Heartbeat: its errors in each state of the group, and the sessions it keeps alive."""

from __future__ import annotations

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level


@case(
    "heartbeat/unknown/1",
    "In a group that does not exist the member is unknown (25)",
    source="semantics 7.1 HB1; survey rdkafka-mock 15, kfake 7",
    api="Heartbeat",
)
def unknown_group(t: Trial) -> None:
    t.equal(t.member().heartbeat(member_id="nobody", generation_id=1), E.UNKNOWN_MEMBER_ID, "the heartbeat")


@case(
    "heartbeat/unknown/2",
    "A member that is not in the group is unknown (25)",
    source="semantics 7.1 HB2",
    api="Heartbeat",
)
def unknown_member(t: Trial) -> None:
    (member,) = t.stable(1)
    t.equal(member.heartbeat(member_id="nobody"), E.UNKNOWN_MEMBER_ID, "the heartbeat")


@case(
    "heartbeat/unknown/3", "In an Empty group every member is unknown (25)", source="semantics 7.1 HB7", api="Heartbeat"
)
def empty_group(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    t.equal(member.heartbeat(), E.UNKNOWN_MEMBER_ID, "the heartbeat")


@case(
    "heartbeat/unknown/4",
    "A member id that is only handed out is unknown (25)",
    source="KIP-394",
    api="Heartbeat",
    uses=("JoinGroup",),
)
def pending(t: Trial) -> None:
    t.stable(1)
    late = t.member()
    response = late.request(late.join_request())
    t.equal(late.heartbeat(member_id=response.member_id, generation_id=1), E.UNKNOWN_MEMBER_ID, "the heartbeat")


@case(
    "heartbeat/unknown/5",
    "An unknown member (25) comes before a wrong generation (22)",
    source="semantics 2.3",
    api="Heartbeat",
)
def member_before_generation(t: Trial) -> None:
    (member,) = t.stable(1)
    t.equal(member.heartbeat(member_id="nobody", generation_id=9), E.UNKNOWN_MEMBER_ID, "the heartbeat")


@case("heartbeat/unknown/6", "An empty member id is unknown (25)", source="semantics 2.3", api="Heartbeat")
def empty_member(t: Trial) -> None:
    (member,) = t.stable(1)
    t.equal(member.heartbeat(member_id=""), E.UNKNOWN_MEMBER_ID, "the heartbeat")


@case("heartbeat/generation/1", "A wrong generation is refused (22)", source="semantics 7.1 HB3", api="Heartbeat")
def wrong_generation(t: Trial) -> None:
    (member,) = t.stable(1)
    for generation in (member.generation - 1, member.generation + 1, -1):
        t.equal(
            member.heartbeat(generation_id=generation),
            E.ILLEGAL_GENERATION,
            f"the heartbeat with generation {generation}",
        )


@case(
    "heartbeat/generation/2",
    "In PreparingRebalance a wrong generation (22) comes before the rebalance (27)",
    source="semantics 2.3",
    api="Heartbeat",
)
def generation_before_rebalance(t: Trial) -> None:
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.equal(follower.heartbeat(generation_id=99), E.ILLEGAL_GENERATION, "the heartbeat")


@case(
    "heartbeat/generation/3",
    "A member that missed a generation is expelled, in any generation that it sends",
    source="semantics 2.5; invariant I6",
    api="Heartbeat",
)
def missed(t: Trial) -> None:
    leader, follower = t.stable(2, rebalance_timeout=t.limits.session)
    leader.send_join()
    leader.receive_join()
    t.equal(follower.heartbeat(), E.UNKNOWN_MEMBER_ID, "its heartbeat of the old generation")
    t.equal(follower.heartbeat(generation_id=leader.generation), E.UNKNOWN_MEMBER_ID, "its heartbeat of the new one")


@case(
    "heartbeat/state/1",
    "In CompletingRebalance all is well (0)",
    source="semantics 2.3, 7.1 HB4; survey rdkafka-mock 7; client case R08",
    api="Heartbeat",
)
def completing(t: Trial) -> None:
    for member in t.joined(2):
        t.equal(member.heartbeat(), 0, "the heartbeat")


@case("heartbeat/state/2", "In Stable all is well (0)", source="semantics 7.1 HB5", api="Heartbeat")
def stable(t: Trial) -> None:
    for member in t.stable(2):
        t.equal(member.heartbeat(), 0, "the heartbeat")


@case(
    "heartbeat/state/3",
    "In PreparingRebalance a heartbeat is answered 27: join again",
    source="semantics 7.1 HB6",
    api="Heartbeat",
)
def preparing(t: Trial) -> None:
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.equal(follower.heartbeat(), E.REBALANCE_IN_PROGRESS, "the follower's heartbeat")
    t.equal(leader.heartbeat(), E.REBALANCE_IN_PROGRESS, "the heartbeat of a member that has joined again already")


@case(
    "heartbeat/state/4",
    "A member that waits for its assignment may heartbeat on another connection (0)",
    source="semantics 2.7; client case R08",
    api="Heartbeat",
)
def waiting_for_sync(t: Trial) -> None:
    _leader, follower = t.joined(2)
    follower.send_sync()
    t.equal(follower.heartbeat(), 0, "the heartbeat")


@case(
    "heartbeat/group-id/1",
    "An empty group id is invalid (24)",
    source="semantics 7.2",
    api="Heartbeat",
    level=Level.SHOULD,
)
def empty_group_id(t: Trial) -> None:
    t.expect(t.call(HeartbeatRequest("", 1, "somebody")), error_code=E.INVALID_GROUP_ID)


@case(
    "heartbeat/session/1",
    "A member that is silent for its session timeout is out, and the others rebalance",
    source="semantics 2.7",
    api="Heartbeat",
    needs=("short-sessions",),
)
def expires(t: Trial) -> None:
    session = t.limits.session
    leader = t.member()
    silent = t.member(session_timeout=session)
    t.settle([leader, silent])
    t.until(leader.heartbeat, lambda code: code == E.REBALANCE_IN_PROGRESS, "the group never rebalanced")
    t.equal(silent.heartbeat(), E.UNKNOWN_MEMBER_ID, "the silent one's heartbeat")
    t.equal([each.member_id for each in t.describe().members], [leader.id], "members described")


@case(
    "heartbeat/session/2",
    "Heartbeats keep a member in the group beyond its session timeout",
    source="semantics 2.7",
    api="Heartbeat",
    needs=("short-sessions",),
)
def renews(t: Trial) -> None:
    session = t.limits.session * 2
    (member,) = t.stable(1, session_timeout=session)
    t.lapse(session * 2.5, lambda: t.equal(member.heartbeat(), 0, "a heartbeat in time"), every=session / 6)


@case(
    "heartbeat/session/3",
    "Heartbeats answered 27 keep a member in the group too",
    source="semantics 2.3",
    api="Heartbeat",
    needs=("short-sessions",),
)
def renews_in_preparing(t: Trial) -> None:
    session = t.limits.session * 2
    leader = t.member()
    follower = t.member(session_timeout=session)
    t.settle([leader, follower])
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.lapse(
        session * 2.5,
        lambda: t.equal(follower.heartbeat(), E.REBALANCE_IN_PROGRESS, "a heartbeat in time"),
        every=session / 6,
    )
    follower.send_join()
    t.expect(follower.receive_join(), error_code=0, generation_id=3)


@case(
    "heartbeat/session/4",
    "A heartbeat that is refused (22) does not keep the member in the group",
    source="semantics 2.3",
    api="Heartbeat",
    needs=("short-sessions",),
)
def refused_does_not_renew(t: Trial) -> None:
    (member,) = t.stable(1, session_timeout=t.limits.session)
    t.until(
        lambda: member.heartbeat(generation_id=77),
        lambda code: code == E.UNKNOWN_MEMBER_ID,
        "refused heartbeats kept the member",
    )


@case(
    "heartbeat/session/5",
    "A member with a parked JoinGroup does not expire",
    source="semantics 2.7",
    api="Heartbeat",
    needs=("short-sessions",),
)
def parked_join_lives(t: Trial) -> None:
    session = t.limits.session
    leader = t.member(session_timeout=session)
    follower = t.member()
    t.settle([leader, follower])
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.lapse(session * 2.5, follower.heartbeat)
    t.parked(leader, "the follower has not joined again")
    follower.send_join()
    t.expect(leader.receive_join(), error_code=0)


@case(
    "heartbeat/session/6",
    "A member with a parked SyncGroup does not expire",
    source="semantics 2.7",
    api="Heartbeat",
    needs=("short-sessions",),
)
def parked_sync_lives(t: Trial) -> None:
    session = t.limits.session
    patient, waiting = t.member(), t.member(session_timeout=session)
    t.gather([patient, waiting])
    waiting.send_sync()
    t.lapse(session * 2.5, patient.heartbeat)
    t.parked(waiting, "the leader has not sent the assignment")
    t.expect(patient.sync({patient: b"one", waiting: b"two"}), error_code=0)
    t.expect(waiting.receive_sync(), error_code=0, assignment=b"two")


@case(
    "heartbeat/session/7",
    "A silent member that expires ends the round the others wait in",
    source="semantics 2.7",
    api="Heartbeat",
    needs=("short-sessions",),
)
def expiry_ends_round(t: Trial) -> None:
    leader = t.member()
    silent = t.member(session_timeout=t.limits.session)
    t.settle([leader, silent])
    leader.send_join()
    response = leader.receive_join()
    t.expect(response, error_code=0, generation_id=3)
    t.equal([each.member_id for each in response.members], [leader.id], "members in the leader's answer")


@case(
    "heartbeat/session/8",
    "The last member's expiry leaves the group Empty, one generation on",
    source="semantics 2.5",
    api="Heartbeat",
    needs=("short-sessions",),
)
def last_expires(t: Trial) -> None:
    (member,) = t.stable(1, session_timeout=t.limits.session)
    t.await_state("Empty")
    t.equal(member.heartbeat(), E.UNKNOWN_MEMBER_ID, "its heartbeat")
    t.expect(t.member().join(), generation_id=3)


@case(
    "heartbeat/session/9",
    "A member that closes its connection stays until its session times out",
    source="semantics 2.7; survey rdkafka-mock 20",
    api="Heartbeat",
    needs=("short-sessions",),
)
def connection_is_not_membership(t: Trial) -> None:
    leader = t.member()
    disconnected = t.member(session_timeout=t.limits.session * 2)
    t.settle([leader, disconnected])
    disconnected.wire.reset()
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat right after")
    t.until(leader.heartbeat, lambda code: code == E.REBALANCE_IN_PROGRESS, "the lost member never expired")


@case(
    "heartbeat/session/10",
    "A timer of a member that is dropped at the end of a round starts no second round",
    source="KAFKA-7196",
    api="Heartbeat",
    needs=("short-sessions",),
)
def no_phantom_round(t: Trial) -> None:
    session = t.limits.session * 2
    leader = t.member(rebalance_timeout=t.limits.session)
    dropped = t.member(session_timeout=session, rebalance_timeout=t.limits.session)
    t.settle([leader, dropped])
    leader.send_join()
    t.await_state("PreparingRebalance")
    dropped.heartbeat()
    t.expect(leader.receive_join(), generation_id=3)
    t.expect(leader.sync({leader: b"all"}), error_code=0)
    t.lapse(session * 1.5, lambda: t.equal(leader.heartbeat(), 0, "the leader's heartbeat"))


@case(
    "heartbeat/session/11",
    "The session timeout of a member's last JoinGroup is the one that counts",
    source="semantics 2.3; survey rdkafka-mock 5",
    api="Heartbeat",
    needs=("short-sessions",),
)
def own_session(t: Trial) -> None:
    short = t.member(session_timeout=t.limits.session)
    long = t.member(session_timeout=30_000)
    t.settle([short, long])
    t.until(long.heartbeat, lambda code: code == E.REBALANCE_IN_PROGRESS, "the short session never ended")
    t.equal([each.member_id for each in t.describe().members], [long.id], "members described")


@case(
    "heartbeat/session/12",
    "Every member lives by the session timeout of its own, however short the last joiner's is",
    source="semantics 2.7; survey rdkafka-mock 5",
    api="Heartbeat",
    needs=("short-sessions",),
)
def session_of_its_own(t: Trial) -> None:
    patient = t.member()
    hasty = t.member(session_timeout=t.limits.session)
    t.settle([patient, hasty])
    t.lapse(t.limits.session * 2 + 1_500)
    t.check(patient.heartbeat() in (0, E.REBALANCE_IN_PROGRESS), "the patient member is out with the hasty one")
