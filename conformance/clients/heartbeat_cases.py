"""Client cases about the heartbeats of the consumer protocol (KIP-848) and the client's reaction to their answers.

`consumer_cases.py` checks outcomes; these cases check frames, because a coordinator relies on them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final

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
    is_full,
    owned,
)
from kafka_shim.conformance.clients.relay import Exchange
from kafka_shim.conformance.clients.scenario import PATIENCE, now
from kafka_shim.conformance.verdict import Level

QUIET_SECONDS: Final = 4 * INTERVAL_MS / 1000


@consumer_case(
    "H01",
    "The first heartbeat says epoch 0, an id that the member made, its subscription, its rebalance timeout, and "
    "that it owns nothing",
    source="KIP-848, KIP-1082; semantics 4.2",
)
def first_heartbeat(s: ConsumerScenario) -> None:
    (member,) = s.stable(max_poll_ms=61_000)
    first = s.heartbeats(member)[0]
    request = first.request
    s.check(first.version >= 1, f"it speaks version {first.version}")
    s.check(
        request.member_epoch == 0 and bool(request.member_id), f"epoch {request.member_epoch}, id {request.member_id!r}"
    )
    s.check(
        request.group_id == s.group and request.subscribed_topic_names == [s.topic], f"it subscribes with {request}"
    )
    s.check(request.rebalance_timeout_ms == 61_000, f"its rebalance timeout is {request.rebalance_timeout_ms}")
    s.check(request.topic_partitions == [], f"it says it owns {request.topic_partitions}")
    s.check(not request.instance_id and not request.subscribed_topic_regex, f"it says {request}")


@consumer_case(
    "H02",
    "A heartbeat does not repeat a field without a change: it has null or -1",
    source="KIP-848",
    level=Level.SHOULD,
)
def deltas(s: ConsumerScenario) -> None:
    (member,) = s.stable()
    settled = s.await_steady(member, now()).at
    for _ in range(3):
        beat = s.await_steady(member, settled + 1e-6)
        settled = beat.at
        silent = (beat.request.subscribed_topic_names, beat.request.topic_partitions, beat.request.server_assignor)
        s.check(silent == (None, None, None), f"it repeats: {beat.request}")
        s.check(beat.request.rebalance_timeout_ms == -1, f"it repeats its timeout: {beat.request}")


@consumer_case(
    "H03",
    "Heartbeats come at the interval the coordinator tells, also when it tells another",
    source="KIP-848",
)
def interval(s: ConsumerScenario) -> None:
    (member,) = s.stable()
    for interval_ms in (INTERVAL_MS, 1_000):
        s.configure(interval_ms=interval_ms, session_ms=SESSION_MS)
        times = [await_interval(s, member, interval_ms).at]
        for _ in range(4):
            times.append(s.await_steady(member, times[-1] + 1e-6).at)
        apart = sorted((later - earlier) * 1000 for earlier, later in pairwise(times))
        # One heartbeat may be late on a busy machine; none may be early.
        is_on_time = apart[0] >= 0.7 * interval_ms and apart[2] <= 2.0 * interval_ms
        s.check(is_on_time, f"the interval is {interval_ms} ms, they are {[round(each) for each in apart]} apart")


def await_interval(s: ConsumerScenario, member: Member, interval_ms: int) -> Exchange:
    """Wait for an answer to the member with this interval."""

    def has_interval(beat: Exchange) -> bool:
        return beat.error == 0 and beat.response.heartbeat_interval_ms == interval_ms

    return s.await_heartbeat(member, has_interval, f"gets {interval_ms} ms", now())


@consumer_case(
    "H04",
    "A member that the coordinator has expelled joins again",
    source="KIP-848; semantics 4.4",
)
def expelled(s: ConsumerScenario) -> None:
    (member,) = s.stable()
    start = now()
    # Only now: a client that joins slowly on a busy machine would be expelled before. The answer with the
    # short interval has given the member the short session too.
    s.configure(interval_ms=INTERVAL_MS // 2, session_ms=1_000)
    await_interval(s, member, INTERVAL_MS // 2)
    # All heartbeats: librdkafka waits for one interval, and then sends another over a new connection.
    withheld = s.plan_heartbeat(member, "withhold", times=math.inf)
    s.frames(lambda: withheld.fired, "a heartbeat is sent")
    s.configure(interval_ms=INTERVAL_MS, session_ms=SESSION_MS)
    # A second member gets all partitions when the first one's session has ended.
    second = s.start()
    s.await_heartbeat(second, lambda each: count(assignment_in(each)) == len(s.partitions), "gets everything")
    s.relay.release(withheld)
    late = s.answered(HEARTBEAT, member, start, ErrorCode.UNKNOWN_MEMBER_ID)
    s.rejoined(member, late.at)
    s.share([member, second])


@consumer_case(
    "H05",
    "Revoked partitions are reported as gone after the listener has returned, not before, and in the old epoch; "
    "no other member gets them sooner",
    source="KIP-848",
    needs=("revoke-pause",),
)
def acknowledged_when_done(s: ConsumerScenario) -> None:
    pause = 4 * INTERVAL_MS / 1000
    (first,) = s.stable(revoke_s=pause)
    epoch, start = s.generation(first), now()
    second = s.start()
    revocation = s.await_heartbeat(
        first, lambda each: count(assignment_in(each)) == 2, "has to give up partitions", start
    )
    acknowledgement = s.await_heartbeat(first, lambda each: count(owned(each)) == 2, "says what it has left", start)
    s.share([first, second])
    revoked = next(each for each in first.events_of("revoked") if each["at"] >= start)
    s.check(
        acknowledgement.request.member_epoch == epoch,
        f"it reported that in epoch {acknowledgement.request.member_epoch}, not {epoch}",
    )
    s.check(
        acknowledgement.at - (revocation.answered or 0) >= 0.9 * pause, "it reported that before its listener was done"
    )
    s.check(acknowledgement.at >= revoked["at"], "it reported that before its listener was called")
    between = [each for each in s.heartbeats(first, start) if revocation.at < each.at < acknowledgement.at]
    s.check(all(count(owned(each)) in (-1, 4) for each in between), "it reported less before its listener was done")
    gain = s.await_heartbeat(second, lambda each: count(assignment_in(each)) > 0, "gets partitions")
    s.check(gain.answered is not None and gain.answered >= acknowledgement.at, "two owners at once")


@consumer_case(
    "H06",
    "An assignment is acknowledged at once, not an interval later",
    source="KIP-848",
    level=Level.SHOULD,
)
def acknowledged_at_once(s: ConsumerScenario) -> None:
    s.configure(interval_ms=3_000, session_ms=20_000)
    (member,) = s.stable()
    assigned = s.await_heartbeat(member, lambda each: count(assignment_in(each)) == 4, "gets its partitions")
    acknowledged = s.await_heartbeat(
        member, lambda each: owned(each) == assignment_in(assigned), "reports that it owns them", assigned.at
    )
    s.check(
        acknowledged.at - (assigned.answered or 0) < 2.0, f"it took {acknowledged.at - (assigned.answered or 0):.1f} s"
    )


@consumer_case(
    "H07",
    "A lost answer that would have brought a new epoch does not fence the member: it reports its partitions again",
    source="KIP-848; semantics 4.4",
)
def lost_answer(s: ConsumerScenario) -> None:
    first, second = s.stable(2)
    start = now()
    hold = s.plan_heartbeat(first, "hold")
    s.frames(lambda: hold.fired, "a heartbeat is sent")
    second.close()
    # The answer to the next heartbeat would bring the epoch that began when the second member left.
    closed = s.plan_heartbeat(first, "close")
    s.relay.release(hold)
    s.frames(lambda: closed.fired, "a heartbeat is sent")
    after = s.await_steady(first, closed.fired[0].at + 1e-6)
    s.share([first])
    fenced = [each for each in s.heartbeats(first, start) if each.error and not each.by_plan]
    s.check(not fenced, f"it was answered {[each.error for each in fenced]}")
    s.check(is_full(after), f"it did not say everything again: {after.request}")


@consumer_case(
    "H08",
    "A static member that closes says epoch -2, and its successor has its partitions and epoch without a rebalance",
    source="KIP-848, KIP-345; semantics 4.7",
    needs=("static",),
)
def static_return(s: ConsumerScenario) -> None:
    first = s.start(instance="writer")
    second = s.start()
    s.share([first, second])
    epoch, previous, events_before = s.generation(second), first.owns, len(second.events)
    first.close()
    departure = s.await_heartbeat(first, lambda each: each.request.member_epoch < 0, "leaves")
    s.check(departure.request.member_epoch == -2, f"it left with epoch {departure.request.member_epoch}")
    s.check(departure.request.instance_id == "writer", f"it left as instance {departure.request.instance_id!r}")
    third = s.start(instance="writer")
    s.share([third, second])
    joined = s.heartbeats(third)[0].request
    s.check(joined.instance_id == "writer", f"it joined as instance {joined.instance_id!r}")
    s.check(third.owns == previous, f"it owns {sorted(third.owns)}, not {sorted(previous)}")
    s.check(s.generation(second) == epoch, "the group rebalanced")
    s.check(not rebalance_events(second.events[events_before:]), "the other member's listener was called")


def rebalance_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in events if each["event"] in ("assigned", "revoked", "lost") and each["partitions"]]


@consumer_case(
    "H09",
    "A static member whose instance id is in use (111) tells the application, and leaves the other alone",
    source="KIP-848; semantics 4.4",
    needs=("static",),
)
def instance_in_use(s: ConsumerScenario) -> None:
    first = s.start(instance="writer")
    s.share([first])
    start = now()
    second = s.start(instance="writer")
    s.await_heartbeat(
        second,
        lambda each: each.error == ErrorCode.UNRELEASED_INSTANCE_ID,
        "is refused, its instance id is in use",
    )
    s.until(lambda: second.events_of("error"), "the application gets the error")
    s.await_steady(first, now())
    s.share([first])
    s.check(not [each for each in s.heartbeats(first, start) if each.error], "the other was disturbed")


@consumer_case(
    "H10",
    "A member that is fenced by its successor (82) tells the application and heartbeats no more",
    source="KIP-848; semantics 4.4",
    needs=("static",),
)
def instance_fenced(s: ConsumerScenario) -> None:
    (member,) = s.stable(instance="writer")
    refused = s.plan_heartbeat(member, "error", ErrorCode.FENCED_INSTANCE_ID)
    s.frames(lambda: refused.fired, "a heartbeat is sent")
    s.until(lambda: member.events_of("error"), "the application gets the error")
    since = now()
    again = s.relay.wait(lambda: s.heartbeats(member, since), QUIET_SECONDS)
    s.check(not again, f"it heartbeats on: {again and again[0].request}")


@consumer_case(
    "H11",
    "Offsets are committed with the member's id and epoch, in version 9 or later",
    source="KIP-848; semantics 3.1",
)
def commits_with_epoch(s: ConsumerScenario) -> None:
    first, second = s.stable(2)
    for member in (first, second):
        topic, partition = sorted(member.owns)[0]
        member.do("commit", offsets=[[topic, partition, 3]])
        commit = s.relay.seen("OffsetCommit", member.name)[-1]
        identity = (commit.request.member_id, commit.request.generation_id_or_member_epoch)
        beat = s.heartbeats(member)[-1]
        s.check(commit.version >= 9, f"it commits in version {commit.version}")
        s.check(identity == (beat.request.member_id, s.generation(member)), f"it commits as {identity}")
        s.check(commit.error == 0, f"its commit was answered {commit.error}")


@consumer_case(
    "H12",
    "A commit answered STALE_MEMBER_EPOCH is sent again with the new epoch, or reported as failed",
    source="KIP-848; semantics 3.1",
)
def stale_commit(s: ConsumerScenario) -> None:
    (first,) = s.stable()
    hold = s.relay.plan("OffsetCommit", "hold", when=lambda each: each.client_id == first.name)
    command = first.ask("commit", offsets=[[s.topic, 0, 3]])
    s.frames(lambda: hold.fired, "the commit is sent")
    second = s.start()
    s.await_heartbeat(second, lambda each: each.error == 0 and each.request.member_epoch > 0, "joins")
    s.relay.release(hold, ErrorCode.STALE_MEMBER_EPOCH)
    reply = first.answer(command)
    s.share([first, second])
    accepted = [each for each in s.relay.seen("OffsetCommit", first.name) if each.error == 0 and not each.by_plan]
    s.check("error" in reply or bool(accepted), "it reported a commit that the coordinator had refused")


@consumer_case(
    "H13",
    "Committed offsets are fetched with the member's id and epoch, and again when the epoch was stale",
    source="KIP-848; semantics 3.3",
    level=Level.MAY,
)
def stale_fetch(s: ConsumerScenario) -> None:
    # Without an epoch in the request it cannot be stale.
    epochs = s.relay.plan(
        "OffsetFetch", "error", ErrorCode.STALE_MEMBER_EPOCH, when=lambda each: each.request.groups[0].member_epoch >= 0
    )
    member = s.start()
    s.share([member])
    s.produce()
    s.until(lambda: len(member.records(s.topic)) == 40, "all records are consumed")
    request = s.relay.seen("OffsetFetch", member.name)[0].request.groups[0]
    s.check(bool(epochs.fired), f"it fetched as {request.member_id!r} with epoch {request.member_epoch}")
    s.check(request.member_id == s.heartbeats(member)[0].request.member_id, f"it fetched as {request.member_id!r}")


@consumer_case(
    "H14",
    "A regular expression is sent to the coordinator, which finds the topics",
    source="KIP-848; semantics 4.7",
    needs=("regex",),
)
def regular_expression(s: ConsumerScenario) -> None:
    s.make_topic()
    pattern = f"{s.topic[:-1]}[{s.topic[-1]}]"
    member = s.start(topics=[], pattern=pattern)
    s.share([member])
    request = s.heartbeats(member)[0].request
    s.check(pattern in (request.subscribed_topic_regex or ""), f"it subscribes with {request}")
    s.check(not request.subscribed_topic_names, f"it subscribes to {request.subscribed_topic_names} by name")


@consumer_case(
    "H15",
    "The application's choice of assignor is in the heartbeat",
    source="KIP-848",
)
def assignor(s: ConsumerScenario) -> None:
    first = s.start(assignors=["range"])
    second = s.start(assignors=["range"])
    s.share([first, second])
    for member in (first, second):
        name = s.heartbeats(member)[0].request.server_assignor
        s.check(name == "range", f"it asks for {name}")
        numbers = sorted(number for _, number in member.owns)
        s.check(numbers in ([0, 1], [2, 3]), f"it owns {numbers}, which is no range")


@consumer_case(
    "H16",
    "A changed subscription goes into a heartbeat of the same epoch, without leaving",
    source="KIP-848",
    needs=("subscribe",),
)
def subscription_changes(s: ConsumerScenario) -> None:
    (member,) = s.stable()
    old, start = s.topic, now()
    s.topic = f"{old}-more"
    s.make_topic(2)
    member.do("subscribe", topics=[old, s.topic])
    topics = [old, s.topic]
    # A heartbeat with all fields may have been on its way.
    s.await_heartbeat(
        member, lambda each: sorted(each.request.subscribed_topic_names or []) == topics, "says it", start
    )
    s.until(lambda: len(member.owns) == 6, "it is assigned both topics")
    departure = [each for each in s.heartbeats(member, start) if each.request.member_epoch <= 0]
    s.check(not departure, f"it left or joined again: {[each.request.member_epoch for each in departure]}")


@consumer_case(
    "H17",
    "A member that no longer subscribes leaves with epoch -1",
    source="KIP-848",
    level=Level.SHOULD,
    needs=("unsubscribe",),
)
def unsubscribes(s: ConsumerScenario) -> None:
    s.configure(interval_ms=INTERVAL_MS, session_ms=30_000)
    first, second = s.stable(2)
    start = now()
    first.do("unsubscribe")
    departure = s.await_heartbeat(first, lambda each: each.request.member_epoch == -1, "leaves", start)
    s.share([second])
    again = s.relay.wait(
        lambda: [each for each in s.heartbeats(first, departure.at) if each is not departure], QUIET_SECONDS
    )
    s.check(not again, "it heartbeats on")


@consumer_case(
    "H18",
    "An error that no retry can change (30, 42, 81, 112) reaches the application, and is not retried in a loop",
    source="KIP-848; semantics 4.2, 4.3",
)
def refused_for_good(s: ConsumerScenario) -> None:
    for code in (
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
    ):
        plan = s.relay.plan(HEARTBEAT, "error", code, times=float("inf"))
        member = s.start()
        since = await_refusal(s, member, code)
        s.relay.wait(lambda: None, QUIET_SECONDS)
        tried = len(s.heartbeats(member, since))
        s.check(tried <= 10, f"error {code} was tried again {tried} times in {QUIET_SECONDS} s")
        plan.times = 0
        member.kill()


def await_refusal(s: ConsumerScenario, member: Member, code: int) -> float:
    """Wait until the application gets the error; return the time."""
    s.until(lambda: member.events_of("error"), f"the application gets error {code}")
    return now()


@consumer_case(
    "H19",
    "A member whose listener takes longer than its rebalance timeout is expelled, and comes back",
    source="KIP-848; semantics 4.6",
    needs=("revoke-pause", "max-poll"),
)
def listener_too_slow(s: ConsumerScenario) -> None:
    first = s.start(max_poll_ms=MAX_POLL_MS, revoke_s=1.5 * MAX_POLL_MS / 1000)
    s.share([first])
    start = now()
    second = s.start()
    s.await_heartbeat(second, lambda each: count(assignment_in(each)) == 4, "gets everything", start, 2 * PATIENCE)
    s.rejoined(first, start)
    s.share([first, second], 2 * PATIENCE)


@consumer_case(
    "H20",
    "Partitions of a topic that is created later are assigned and acknowledged",
    source="KIP-848; semantics 4.6",
)
def topic_made_later(s: ConsumerScenario) -> None:
    topic = s.topic
    s.partitions = [(topic, number) for number in range(4)]
    member = s.start(metadata_ms=500)
    # Some clients join at once, some when the topic exists.
    s.frames(lambda: s.relay.seen("Metadata", member.name), "it asks for the topic")
    s.make_topic()
    s.share([member])
    assigned = s.await_heartbeat(member, lambda each: count(assignment_in(each)) == 4, "gets its partitions")
    s.await_heartbeat(
        member, lambda each: owned(each) == assignment_in(assigned), "reports that it owns them", assigned.at
    )
    s.check(len([each for each in s.heartbeats(member) if each.request.member_epoch == 0]) == 1, "it joined again")


@consumer_case(
    "H21",
    "A member that was not polled for too long leaves (-1), and does not wait for its session to end",
    source="KAFKA-15818; KIP-848",
    level=Level.SHOULD,
    needs=("max-poll",),
)
def leaves_when_not_polled(s: ConsumerScenario) -> None:
    s.configure(interval_ms=INTERVAL_MS, session_ms=30_000)
    first, second = s.stable(2, max_poll_ms=MAX_POLL_MS)
    start = now()
    first.do("hold")
    s.await_heartbeat(first, lambda each: each.request.member_epoch == -1, "leaves", start, 3 * MAX_POLL_MS / 1000)
    s.share([second])


@consumer_case(
    "H22",
    "A member keeps the id it made as long as it lives, also when it is fenced (110) or unknown (25)",
    source="KIP-1082",
    level=Level.SHOULD,
)
def keeps_its_id(s: ConsumerScenario) -> None:
    (member,) = s.stable()
    for code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        s.rejoined(member, s.refuse_heartbeat(member, code).at)
        s.share([member])
    s.check(len(s.ids(member)) == 1, f"its ids were {sorted(s.ids(member))}")
