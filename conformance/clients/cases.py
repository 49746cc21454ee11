"""The client cases of the classic protocol: past rebalance bugs of clients, each as a fault and a requirement.

They do not prescribe single frames: clients differ in their requests and retries. They check the group as a whole, ids
and generations, and forbidden actions.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.consumer_protocol import ConsumerProtocolAssignment
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.clients.case import client_case
from kafka_shim.conformance.clients.relay import Exchange
from kafka_shim.conformance.clients.scenario import (
    HEARTBEAT_MS,
    PATIENCE,
    SESSION_MS,
    Scenario,
    now,
    refuse_a_joiner,
)
from kafka_shim.conformance.verdict import Level

SESSION: Final = SESSION_MS / 1000
TIGHT_SESSION_MS: Final = 1_200
CLOSING: Final = 15.0
COOPERATIVE: Final = ("cooperative-sticky",)


@client_case(
    "R01",
    "A commit refused while the member's JoinGroup is parked does not make it forget the generation that follows",
    source="aiokafka#727, #747",
)
def commit_refused_in_join(s: Scenario) -> None:
    (first,) = s.stable()
    hold = s.relay.plan("JoinGroup", "hold", when=lambda each: each.client_id == first.name)
    s.relay.plan("OffsetCommit", "error", ErrorCode.UNKNOWN_MEMBER_ID, when=lambda each: each.client_id == first.name)
    start = now()
    second = s.start()
    s.frames(lambda: hold.fired, "the first member joins again")
    first.ask("commit_async", offsets=[[s.topic, 0, 1]])
    s.frames(lambda: s.relay.seen("JoinGroup", second.name), "the second member joins")
    s.relay.release(hold)
    s.share([first, second])
    s.check(s.rounds(start) <= 4, f"it took {s.rounds(start)} rounds")


@client_case(
    "R02",
    "A heartbeat refused between the answer to JoinGroup and the end of SyncGroup makes the member join again",
    source="KAFKA-8104",
)
def heartbeat_refused_in_sync(s: Scenario) -> None:
    hold = s.relay.plan("SyncGroup", "hold")
    refused = s.relay.plan("Heartbeat", "error", ErrorCode.ILLEGAL_GENERATION)
    member = s.start()
    s.frames(lambda: hold.fired, "the member syncs")
    # Clients whose heartbeats wait behind the parked SyncGroup send the first one when it is answered.
    s.relay.wait(lambda: refused.fired, 3 * HEARTBEAT_MS / 1000)
    s.relay.release(hold)
    s.share([member])
    s.frames(lambda: refused.fired, "a heartbeat is sent")
    s.answered("Heartbeat", member, now())
    s.share([member])


@client_case(
    "R03",
    "A heartbeat never answered and a connection then lost cost neither the member nor its consuming",
    source="kafka-python#1985, #1623, #1671",
)
def heartbeat_lost(s: Scenario) -> None:
    (member,) = s.stable()
    swallowed = s.relay.plan("Heartbeat", "swallow")
    s.frames(lambda: swallowed.fired, "a heartbeat is sent")
    s.relay.drop_connections(member.name)
    start = now()
    s.answered("Heartbeat", member, start)
    s.share([member])
    s.produce()
    s.until(lambda: len(member.records(s.topic)) == 40, "all records are consumed")


@client_case(
    "R04",
    "REBALANCE_IN_PROGRESS to a heartbeat and to a commit does not make a member give up its id",
    source="kafka-python#2610, #2614",
)
def rebalance_keeps_id(s: Scenario) -> None:
    (member,) = s.stable()
    before, start = s.member_id(member), now()
    refused = s.relay.plan("OffsetCommit", "error", ErrorCode.REBALANCE_IN_PROGRESS)
    member.ask("commit_async", offsets=[[s.topic, 0, 1]])
    s.frames(lambda: refused.fired, "the commit is sent")
    s.relay.plan("Heartbeat", "error", ErrorCode.REBALANCE_IN_PROGRESS)
    s.answered("JoinGroup", member, s.answered("Heartbeat", member, start, ErrorCode.REBALANCE_IN_PROGRESS).at)
    s.share([member])
    ids = {each.request.member_id for each in s.relay.seen("JoinGroup", member.name, start)}
    s.check(ids == {before}, f"it joined as {ids}, its id was {before!r}")


@client_case(
    "R05",
    "A cooperative member that misses a generation does not claim partitions that others own by then",
    source="KAFKA-13419, KAFKA-13891, KAFKA-14639",
    needs=("cooperative",),
)
def missed_generation(s: Scenario) -> None:
    first, second = s.stable(2, assignors=COOPERATIVE)
    hold = s.relay.plan("SyncGroup", "hold", when=lambda each: each.client_id == first.name)
    third = s.start(assignors=COOPERATIVE)
    s.frames(lambda: hold.fired, "the first member syncs")
    s.relay.release(hold, ErrorCode.REBALANCE_IN_PROGRESS)
    s.share([first, second, third])


@client_case(
    "R06",
    "A member that loses its id while it joins tells its listener before the next assignment",
    source="KAFKA-12983",
)
def id_lost_in_join(s: Scenario) -> None:
    (member,) = s.stable()
    events_before = len(member.events)
    refused = s.relay.plan("JoinGroup", "error", ErrorCode.UNKNOWN_MEMBER_ID)
    s.relay.plan("Heartbeat", "error", ErrorCode.REBALANCE_IN_PROGRESS)
    s.frames(lambda: refused.fired, "the member joins again")
    s.until(
        lambda: [each for each in member.events[events_before:] if each["event"] == "assigned"], "it is assigned again"
    )
    s.share([member])
    kinds = [each["event"] for each in member.events[events_before:]]
    assigned = kinds.index("assigned")
    s.check(bool({"revoked", "lost"} & set(kinds[:assigned])), f"its listener's calls were {kinds}")


@client_case(
    "R07",
    "A coordinator that moves during a rebalance does not cost the member its id",
    source="KAFKA-13214",
)
def coordinator_moves(s: Scenario) -> None:
    # Some clients wait for seconds before they try again.
    first, second = s.stable(2, session_ms=2 * SESSION_MS)
    before = {s.member_id(first)}
    refusal = s.relay.plan(
        "JoinGroup", "error", ErrorCode.NOT_COORDINATOR, when=lambda each: each.client_id == first.name
    )
    s.relay.plan("Heartbeat", "error", ErrorCode.REBALANCE_IN_PROGRESS, when=lambda each: each.client_id == first.name)
    start = now()
    s.frames(lambda: refusal.fired, "the member joins again")
    s.relay.move_coordinator()
    joined = s.answered("JoinGroup", first, start)
    s.check(joined.request.member_id in before, f"it joined as {joined.request.member_id!r}, it was {before}")
    s.share([first, second])


@client_case(
    "R08",
    "A follower is not expelled while the leader takes longer to assign than a session lasts",
    source="KAFKA-10134",
)
def slow_leader(s: Scenario) -> None:
    members = s.stable(2, session_ms=TIGHT_SESSION_MS)
    withheld = s.relay.plan("SyncGroup", "withhold", when=lambda each: bool(each.request.assignments))
    members.append(s.start(session_ms=TIGHT_SESSION_MS))
    s.frames(lambda: withheld.fired, "the leader syncs")
    followers = {member.name for member in members} - {withheld.fired[0].client_id}
    s.relay.wait(lambda: s.expelled(followers), 1.5 * TIGHT_SESSION_MS / 1000)
    s.relay.release(withheld)
    s.share(members)
    s.check(not s.expelled(followers), "a follower was expelled")


@client_case(
    "R09",
    "A revocation that takes longer than a session, and shorter than the rebalance timeout, expels no member",
    source="sarama#2110, librdkafka#598",
    needs=("revoke-pause",),
)
def slow_revocation(s: Scenario) -> None:
    first = s.start(session_ms=TIGHT_SESSION_MS, revoke_s=2 * TIGHT_SESSION_MS / 1000)
    s.share([first])
    before = s.member_id(first)
    second = s.start(session_ms=TIGHT_SESSION_MS)
    s.share([first, second])
    s.check(s.member_id(first) == before, "the member was expelled while its listener worked")


@client_case(
    "R10",
    "A member busy with records joins again soon after it is free",
    source="kafkajs#1720, #1527, #1719",
)
def busy_member(s: Scenario) -> None:
    (first,) = s.stable()
    s.produce()
    s.until(lambda: first.records(s.topic), "records are consumed")
    first.do("hold")
    start = now()
    second = s.start()
    s.answered("Heartbeat", first, start, ErrorCode.REBALANCE_IN_PROGRESS)
    first.do("go")
    s.request("JoinGroup", first, start)
    s.share([first, second])


@client_case(
    "R11",
    "A commit answered ILLEGAL_GENERATION after the generation has changed does not stop fetching",
    source="librdkafka#2933, #1605",
)
def commit_across_generations(s: Scenario) -> None:
    (first,) = s.stable()
    hold = s.relay.plan("OffsetCommit", "hold", when=lambda each: each.client_id == first.name)
    first.ask("commit_async", offsets=[[s.topic, 0, 0]])
    s.frames(lambda: hold.fired, "the commit is sent")
    second = s.start()
    s.frames(lambda: s.relay.seen("JoinGroup", second.name), "the second member joins")
    s.relay.release(hold, ErrorCode.ILLEGAL_GENERATION)
    s.share([first, second])
    s.produce()
    s.until(lambda: len(first.records(s.topic)) + len(second.records(s.topic)) >= 40, "all records are consumed")


@client_case(
    "R12",
    "A commit answered ILLEGAL_GENERATION in a cooperative rebalance does not cost the partitions that stay",
    source="librdkafka#4059, #4908",
    needs=("cooperative",),
)
def commit_in_cooperative_rebalance(s: Scenario) -> None:
    (first,) = s.stable(assignors=COOPERATIVE)
    hold = s.relay.plan("JoinGroup", "hold", when=lambda each: each.client_id == first.name)
    refused = s.relay.plan("OffsetCommit", "error", ErrorCode.ILLEGAL_GENERATION, times=1)
    second = s.start(assignors=COOPERATIVE)
    s.frames(lambda: hold.fired, "the first member joins again")
    first.ask("commit_async", offsets=[[s.topic, 0, 0]])
    s.relay.wait(lambda: refused.fired, 1.0)
    s.relay.release(hold)
    s.share([first, second])


@client_case(
    "R13",
    "A member that was not polled for too long commits nothing for partitions that have another owner by then",
    source="librdkafka#5604",
    needs=("max-poll",),
)
def poll_too_late(s: Scenario) -> None:
    first, second = s.stable(2, max_poll_ms=SESSION_MS)
    first.do("hold")
    s.share([second], PATIENCE + SESSION)
    passed_on = now()
    first.do("go")
    s.share([first, second], PATIENCE + SESSION)
    late = [
        each
        for each in s.relay.seen("OffsetCommit", first.name, passed_on)
        if each.error == 0 and each.request.generation_id_or_member_epoch < s.generation(second) - 1
    ]
    s.check(not late, "it committed for a generation that was over")


@client_case(
    "R14",
    "A leader with the cooperative-sticky assignor assigns every partition once, soon, as members join and leave",
    source="librdkafka#4783, #4800",
    needs=("cooperative",),
)
def sticky_leader(s: Scenario) -> None:
    s.make_topic(7)
    members = [s.start(assignors=COOPERATIVE) for _ in range(3)]
    s.share(members)
    members.pop(0).close()
    s.share(members)
    members.append(s.start(assignors=COOPERATIVE))
    s.share(members)
    for each in s.relay.seen("SyncGroup"):
        assigned = [
            (topic.topic, partition)
            for member in each.request.assignments
            if member.assignment
            for topic in ConsumerProtocolAssignment.decode(member.assignment[2:], 0).assigned_partitions
            for partition in topic.partitions
        ]
        s.check(len(assigned) == len(set(assigned)), f"one generation has a partition twice: {sorted(assigned)}")


@client_case(
    "R15",
    "From an eager to a cooperative assignor in two rolling restarts, no partition is left without an owner",
    source="franz-go#686, #366",
    needs=("mixed-assignors",),
)
def double_bounce(s: Scenario) -> None:
    members = s.stable(2, assignors=("range",))
    for assignors in (("cooperative-sticky", "range"), COOPERATIVE):
        for number in range(len(members)):
            members[number].close()
            members[number] = s.start(assignors=assignors)
            s.share(members)


@client_case(
    "R16",
    "A member closed while its SyncGroup is parked leaves soon, and the others go on without it",
    source="librdkafka#4527, #4528",
)
def closed_in_sync(s: Scenario) -> None:
    (first,) = s.stable(session_ms=6_000)
    second_held = s.relay.plan("SyncGroup", "hold", when=lambda each: each.client_id != first.name)
    second = s.start(session_ms=6_000)
    s.frames(lambda: second_held.fired, "the second member syncs")
    closing = now()
    second.ask("close")
    departures = s.relay.wait(lambda: s.relay.seen("LeaveGroup", second.name, closing), 2.0)
    s.relay.release(second_held)
    s.share([first])
    departures = departures or s.relay.seen("LeaveGroup", second.name, closing)
    s.check(bool(departures) or now() - closing < PATIENCE, "it neither left nor closed its connection")


@client_case(
    "R16b",
    "A cooperative member closed as soon as it is in the group, with nothing assigned yet, leaves soon",
    source="librdkafka#4527, #3375; found by R17",
    level=Level.SHOULD,
    needs=("cooperative",),
)
def closed_with_nothing_assigned(s: Scenario) -> None:
    (first,) = s.stable(assignors=COOPERATIVE, session_ms=30_000)
    start = now()

    def gives_up(join: Exchange) -> bool:
        return join.client_id == first.name and bool(s.relay.seen("SyncGroup", first.name, start))

    # The rebalance that would give the newcomer the first member's partitions does not begin yet.
    withheld = s.relay.plan("JoinGroup", "withhold", when=gives_up)
    second = s.start(assignors=COOPERATIVE, session_ms=30_000)
    s.answered("SyncGroup", second, start)
    s.frames(lambda: withheld.fired, "the first joins again without the partitions it gives up")
    # A close before the listener has returned is not tested here: Confluent's client for JavaScript then forgets
    # to leave, depending on the speed of its application.
    s.until(lambda: second.events_of("assigned") or second.events_of("owns"), "the second gets its empty assignment")
    second.ask("close")
    s.frames(lambda: s.relay.seen("LeaveGroup", second.name, start), "LeaveGroup is sent", CLOSING)
    s.relay.release(withheld)
    s.share([first])


@client_case(
    "R17",
    "A cooperative member that closes says so with LeaveGroup",
    source="librdkafka changelog 1.6",
    level=Level.SHOULD,
    needs=("cooperative",),
)
def cooperative_leave(s: Scenario) -> None:
    first, second = s.stable(2, assignors=COOPERATIVE, session_ms=30_000)
    second.close()
    s.frames(lambda: s.relay.seen("LeaveGroup", second.name), "LeaveGroup is sent", SESSION)
    s.share([first])


@client_case(
    "R18",
    "Two members that join at once take their new ids and settle",
    source="KIP-394, kafka-node#1355",
)
def two_join(s: Scenario) -> None:
    first, second = s.stable(2)
    for member in (first, second):
        s.check(len(s.ids(member)) <= 1, f"{member.name} joined with the ids {s.ids(member)}")
    s.check(s.rounds() <= 4, f"it took {s.rounds()} rounds")


@client_case(
    "R19",
    "JoinGroup answered COORDINATOR_LOAD_IN_PROGRESS is tried again, and as a rule not at once",
    source="librdkafka changelog",
    level=Level.SHOULD,
)
def loading(s: Scenario) -> None:
    refuse_a_joiner(s, "JoinGroup")


@client_case(
    "R20",
    "Heartbeats answered 27, 22 and 25 do not make a member look for another coordinator",
    source="kafka-python#3082",
    level=Level.SHOULD,
)
def heartbeat_errors(s: Scenario) -> None:
    (member,) = s.stable()
    start, refusals = now(), []
    for code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
        s.relay.plan("Heartbeat", "error", code)
        refusals.append(s.answered("Heartbeat", member, start, code).at)
        s.answered("Heartbeat", member, s.answered("JoinGroup", member, refusals[-1]).at)
    s.share([member])
    # A search right after its start does not count.
    searches = s.relay.seen("FindCoordinator", member.name, refusals[0])
    s.check(not searches, "it looked for another coordinator")
