"""Scenarios of clients in the consumer protocol (KIP-848): those of `cases.py` that fit server-side assignors.

A case has the number of its classic counterpart and tests the same bug under this protocol. R08 and R14 need a leader
that assigns, so they have no counterpart here. The checks are about the group, ids, epochs and ownership.
"""

from __future__ import annotations

import functools
from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.clients.case import consumer_case
from kafka_shim.conformance.clients.client_processes import Member
from kafka_shim.conformance.clients.consumer_scenario import (
    HEARTBEAT,
    INTERVAL_MS,
    MAX_POLL_MS,
    SESSION_MS,
    ConsumerScenario,
    assignment_in,
    count,
)
from kafka_shim.conformance.clients.scenario import PATIENCE, now, refuse_a_joiner
from kafka_shim.conformance.verdict import Level

TIGHT_SESSION_MS: Final = 2_000


def assigned_since(member: Member, number: int) -> bool:
    """Return True if the member reports an assignment, from its event number `number` on."""
    return "assigned" in rebalance_events(member, number)


def rebalance_events(member: Member, number: int) -> list[str]:
    """Return the kinds of the member's rebalance events, from its event number `number` on."""
    return [each["event"] for each in member.events[number:] if each["event"] in ("assigned", "revoked", "lost")]


@consumer_case(
    "R01",
    "A commit refused while a heartbeat is under way does not make the member forget the epoch that it brings",
    source="aiokafka#727; KIP-848",
)
def commit_refused_in_heartbeat(s: ConsumerScenario) -> None:
    (first,) = s.stable()
    hold = s.plan_heartbeat(first, "hold")
    s.frames(lambda: hold.fired, "the first member heartbeats")
    s.relay.plan("OffsetCommit", "error", ErrorCode.STALE_MEMBER_EPOCH, when=lambda each: each.client_id == first.name)
    start = now()
    second = s.start()
    first.ask("commit_async", offsets=[[s.topic, 0, 1]])
    s.await_heartbeat(second, lambda each: each.error == 0, "joins")
    s.relay.release(hold)
    s.share([first, second])
    s.check(not [each for each in s.heartbeats(first, start) if each.request.member_epoch == 0], "it joined again")


@consumer_case(
    "R02",
    "A heartbeat refused between an assignment and its acknowledgement makes the member join again",
    source="KAFKA-8104; KIP-848",
)
def heartbeat_refused_before_acknowledgement(s: ConsumerScenario) -> None:
    refused = s.relay.plan(
        HEARTBEAT, "error", ErrorCode.UNKNOWN_MEMBER_ID, when=lambda each: bool(each.request.topic_partitions)
    )
    member = s.start()
    s.frames(lambda: refused.fired, "the member acknowledges its assignment")
    s.rejoined(member, refused.fired[0].at)
    s.share([member])
    s.await_steady(member, now())


@consumer_case(
    "R03",
    "A heartbeat never answered and a connection then lost cost neither the member nor its consuming",
    source="kafka-python#1985, #1623, #1671",
)
def heartbeat_lost(s: ConsumerScenario) -> None:
    (member,) = s.stable()
    swallowed = s.plan_heartbeat(member, "swallow")
    s.frames(lambda: swallowed.fired, "a heartbeat is sent")
    s.relay.drop_connections(member.name)
    s.await_steady(member, now())
    s.share([member])
    s.produce()
    s.until(lambda: len(member.records(s.topic)) == 40, "all records are consumed")


@consumer_case(
    "R04",
    "Members that come and go do not make one that stays give up its id or join again",
    source="kafka-python#2610, #2614; KIP-1082",
)
def others_come_and_go(s: ConsumerScenario) -> None:
    (first,) = s.stable()
    start = now()
    second = s.start()
    s.share([first, second])
    second.close()
    s.share([first])
    s.share([first, s.start()])
    s.check(
        not [each for each in s.heartbeats(first, start) if each.request.member_epoch <= 0], "it left or joined again"
    )
    s.check(len(s.ids(first)) == 1, f"it changed its id: {sorted(s.ids(first))}")


@consumer_case(
    "R05",
    "A member that gets two assignments late owns only the last one",
    source="KAFKA-13419, KAFKA-13891, KAFKA-14639; KIP-848",
)
def missed_epochs(s: ConsumerScenario) -> None:
    (first,) = s.stable()
    others = [s.start()]
    hold = s.plan_heartbeat(first, "hold")
    s.frames(lambda: hold.fired, "the first member heartbeats")
    others.append(s.start())
    s.await_heartbeat(others[1], lambda each: each.error == 0, "joins")
    s.relay.release(hold)
    members = [first, *others]
    s.share(members)
    for member in members:
        last = [assignment_in(each) for each in s.heartbeats(member) if assignment_in(each) is not None][-1]
        s.check(count(last) == len(member.owns), f"{member.name} owns {member.owns} and was assigned {last}")


@consumer_case(
    "R06",
    "A member that is fenced (110), or unknown (25), tells its listener before the next assignment",
    source="KAFKA-12983; KIP-848",
)
def fenced(s: ConsumerScenario) -> None:
    (member,) = s.stable()
    for code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        events_before = len(member.events)
        s.rejoined(member, s.refuse_heartbeat(member, code).at)
        s.until(functools.partial(assigned_since, member, events_before), "it is assigned again")
        s.share([member])
        kinds = rebalance_events(member, events_before)
        s.check(kinds[0] in ("lost", "revoked"), f"after error {code} its listener's calls were {kinds}")
        s.await_steady(member, now())


@consumer_case(
    "R07",
    "A coordinator that moves is found, and costs the member neither its id nor its epoch",
    source="KAFKA-13214; KIP-848",
)
def coordinator_moves(s: ConsumerScenario) -> None:
    first, second = s.stable(2)
    start = now()
    s.relay.move_coordinator()
    for member in (first, second):
        s.await_heartbeat(member, lambda each: each.error == 0 and each.broker == 2, "goes to the other broker", start)
        s.check(not [each for each in s.heartbeats(member, start) if each.request.member_epoch <= 0], "it joined again")
    s.share([first, second])


@consumer_case(
    "R09",
    "A revocation that takes longer than a session expels no member: heartbeats go on while the listener works",
    source="sarama#2110, librdkafka#598",
    needs=("revoke-pause",),
)
def slow_revocation(s: ConsumerScenario) -> None:
    s.configure(interval_ms=INTERVAL_MS, session_ms=TIGHT_SESSION_MS)
    (first,) = s.stable(revoke_s=2 * TIGHT_SESSION_MS / 1000)
    second = s.start()
    s.share([first, second])
    s.check(not s.expelled({first.name}), "the member was expelled while its listener worked")
    s.check(bool(first.events_of("revoked")), "nothing was revoked")


@consumer_case(
    "R10",
    "A member busy with records heartbeats on, and gives up what it must soon after it is free",
    source="kafkajs#1720, #1527, #1719",
)
def busy_member(s: ConsumerScenario) -> None:
    (first,) = s.stable()
    s.produce()
    s.until(lambda: first.records(s.topic), "records are consumed")
    first.do("hold")
    second = s.start()
    revocation = s.await_heartbeat(
        first, lambda each: assignment_in(each) is not None, "has to give up partitions", now()
    )
    for _ in range(3):
        revocation = s.await_steady(first, revocation.answered or 0.0)
    first.do("go")
    s.share([first, second], SESSION_MS / 1000)


@consumer_case(
    "R11",
    "A commit answered STALE_MEMBER_EPOCH after the epoch has changed does not stop fetching",
    source="librdkafka#2933, #1605; KIP-848",
)
def commit_across_epochs(s: ConsumerScenario) -> None:
    (first,) = s.stable()
    hold = s.relay.plan("OffsetCommit", "hold", when=lambda each: each.client_id == first.name)
    first.ask("commit_async", offsets=[[s.topic, 0, 0]])
    s.frames(lambda: hold.fired, "the commit is sent")
    start = now()
    second = s.start()
    s.await_heartbeat(first, lambda each: assignment_in(each) is not None, "has to give up partitions", start)
    s.relay.release(hold, ErrorCode.STALE_MEMBER_EPOCH)
    s.share([first, second])
    s.produce()
    s.until(lambda: len(first.records(s.topic)) + len(second.records(s.topic)) >= 40, "all records are consumed")


@consumer_case(
    "R12",
    "A commit answered STALE_MEMBER_EPOCH while partitions are revoked does not cost those that stay",
    source="librdkafka#4059, #4908; KIP-848",
)
def commit_in_reconciliation(s: ConsumerScenario) -> None:
    (first,) = s.stable()
    events_before, start = len(first.events), now()
    hold = s.plan_heartbeat(first, "hold", also=lambda each: each.request.topic_partitions is not None)
    refused = s.relay.plan("OffsetCommit", "error", ErrorCode.STALE_MEMBER_EPOCH)
    second = s.start()
    s.frames(lambda: hold.fired, "the first member acknowledges what it gave up")
    first.ask("commit_async", offsets=[[s.topic, 0, 0]])
    s.frames(lambda: refused.fired, "the commit is sent")
    s.relay.release(hold)
    s.share([first, second])
    departure = first.revoked(events_before)
    s.check(len(departure) == 2, f"it lost {sorted(departure)}")
    s.check(not [each for each in s.heartbeats(first, start) if each.request.member_epoch <= 0], "it joined again")


@consumer_case(
    "R13",
    "A member that was not polled for too long loses its partitions, and commits nothing until it has joined again",
    source="librdkafka#5604; KIP-848",
    needs=("max-poll",),
)
def poll_too_late(s: ConsumerScenario) -> None:
    first, second = s.stable(2, max_poll_ms=MAX_POLL_MS)
    first.do("hold")
    s.share([second], PATIENCE + SESSION_MS / 1000)
    passed_on = now()
    first.do("go")
    s.share([first, second])
    again = s.rejoined(first, passed_on)
    late = [
        each for each in s.relay.seen("OffsetCommit", first.name, passed_on) if each.error == 0 and each.at < again.at
    ]
    s.check(not late, "it committed while it was no member")


@consumer_case(
    "R15",
    "From the classic to the consumer protocol by restarts one by one, and back, no partition is left without an owner",
    source="franz-go#686, #366; KIP-848",
    needs=("classic-too",),
)
def migration(s: ConsumerScenario) -> None:
    members = [s.start(protocol="classic") for _ in range(2)]
    s.share(members)
    for protocol in ("consumer", "classic"):
        for number in range(len(members)):
            members[number].close()
            members[number] = s.start(protocol=protocol)
            s.share(members)


@consumer_case(
    "R16",
    "A member closed while its heartbeat is not answered leaves soon, and the others go on without it",
    source="librdkafka#4527, #4528",
)
def closed_in_heartbeat(s: ConsumerScenario) -> None:
    first, second = s.stable(2)
    hold = s.plan_heartbeat(second, "hold")
    s.frames(lambda: hold.fired, "a heartbeat is sent")
    closing = now()
    second.ask("close")
    departure = s.relay.wait(
        lambda: [each for each in s.heartbeats(second, closing) if each.request.member_epoch == -1], 2.0
    )
    s.relay.release(hold)
    if not departure:
        s.await_heartbeat(second, lambda each: each.request.member_epoch == -1, "leaves", closing)
    s.share([first], SESSION_MS / 1000)


@consumer_case(
    "R17",
    "A member that closes says so with epoch -1, and the others have its partitions before its session would end",
    source="librdkafka changelog 1.6; KIP-848",
    level=Level.SHOULD,
)
def leaves(s: ConsumerScenario) -> None:
    s.configure(interval_ms=INTERVAL_MS, session_ms=30_000)
    first, second = s.stable(2)
    closing = now()
    second.close()
    departure = s.await_heartbeat(second, lambda each: each.request.member_epoch == -1, "leaves", closing)
    s.check(departure.error == 0, f"its leaving was answered {departure.error}")
    s.share([first])


@consumer_case(
    "R18",
    "Two members that join at once make ids of their own, keep them and settle",
    source="KIP-394, KIP-1082, kafka-node#1355",
)
def two_join(s: ConsumerScenario) -> None:
    members = s.stable(2)
    ids = s.ids(members[0]) | s.ids(members[1])
    s.check(len(ids) == 2 and all(ids), f"they joined with the ids {ids}")
    for member in members:
        joins = [each for each in s.heartbeats(member) if each.request.member_epoch == 0 and each.error == 0]
        s.check(len(joins) == 1, f"{member.name} joined {len(joins)} times")


@consumer_case(
    "R19",
    "A heartbeat answered COORDINATOR_LOAD_IN_PROGRESS is tried again, and as a rule not at once",
    source="librdkafka changelog; KIP-848",
    level=Level.SHOULD,
)
def loading(s: ConsumerScenario) -> None:
    refuse_a_joiner(s, HEARTBEAT)


@consumer_case(
    "R20",
    "Heartbeats answered 110 and 25 do not make a member look for another coordinator",
    source="kafka-python#3082; KIP-848",
    level=Level.SHOULD,
)
def heartbeat_errors(s: ConsumerScenario) -> None:
    (member,) = s.stable()
    start = now()
    for code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        s.await_steady(member, s.rejoined(member, s.refuse_heartbeat(member, code).at).at)
    s.share([member])
    s.check(not s.relay.seen("FindCoordinator", member.name, start), "it looked for another coordinator")
