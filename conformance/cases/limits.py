"""Cases that need low limits: initial delay, group size, the clean-up of offsets."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.join import ask, refused
from kafka_shim.conformance.cases.offsets import commit, fetch
from kafka_shim.conformance.member import subscription
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

delayed_case = partial(case, api="JoinGroup", profile="limits", needs=("initial-delay",))
SLACK = 0.08
"""Seconds a timer may fire early, or an answer may travel."""


def seconds_since(start: float) -> float:
    return time.monotonic() - start


@delayed_case(
    "delay/initial/1",
    "The first member of an Empty group is kept for the initial rebalance delay",
    source="KIP-134; semantics 2.4, GM1; survey kfake 2",
)
def waits(t: Trial) -> None:
    delay = t.limits.initial_rebalance_delay / 1000
    member = t.member()
    member.send_join()
    start = time.monotonic()
    t.expect(member.receive_join(), error_code=0, generation_id=1)
    t.check(
        delay - SLACK <= seconds_since(start) <= delay * 2,
        f"answered after {seconds_since(start):.3f} s, delay {delay} s",
    )


@delayed_case(
    "delay/initial/2",
    "A member that joins during the delay is in the first generation",
    source="KIP-134; semantics 2.4",
)
def together(t: Trial) -> None:
    members = [t.member(), t.member()]
    for each in members:
        each.send_join()
    answers = [each.receive_join() for each in members]
    t.equal({answer.generation_id for answer in answers}, {1}, "generations")
    t.equal(sorted(len(answer.members) for answer in answers), [0, 2], "lengths of the member lists")


@delayed_case("delay/initial/3", "A newcomer during the delay starts it once more", source="KIP-134; semantics 2.4")
def extends(t: Trial) -> None:
    delay = t.limits.initial_rebalance_delay / 1000
    first, second = t.member(), t.member()
    first.send_join()
    start = time.monotonic()
    t.lapse(delay * 500)
    second.send_join()
    first.receive_join()
    t.check(seconds_since(start) >= delay * 2 - SLACK, f"answered after {seconds_since(start):.3f} s, delay {delay} s")
    t.expect(second.receive_join(), error_code=0, generation_id=1)


@case(
    "delay/initial/4",
    "The delay never passes the rebalance timeout",
    source="KIP-134; semantics 2.4",
    api="JoinGroup",
    versions=(1, 9),
    profile="limits",
    needs=("initial-delay",),
)
def capped(t: Trial) -> None:
    delay = t.limits.initial_rebalance_delay
    first, second = t.member(rebalance_timeout=delay + 200), t.member(rebalance_timeout=delay + 200)
    first.send_join()
    start = time.monotonic()
    t.lapse(delay / 2)
    second.send_join()
    first.receive_join()
    waited = seconds_since(start)
    t.check((delay + 200) / 1000 - SLACK <= waited < delay * 1.9 / 1000, f"answered after {waited:.3f} s")


@delayed_case(
    "delay/initial/5",
    "In an initial round that has not ended a member that joins and all others waiting does not end it early",
    source="semantics 2.4",
)
def not_early(t: Trial) -> None:
    delay = t.limits.initial_rebalance_delay / 1000
    first, second = t.member(), t.member()
    first.send_join()
    start = time.monotonic()
    second.send_join()
    first.receive_join()
    t.check(seconds_since(start) >= delay - SLACK, f"answered after {seconds_since(start):.3f} s")


@delayed_case("delay/initial/6", "A round of a group with members is not delayed", source="semantics 2.4")
def later_rounds(t: Trial) -> None:
    delay = t.limits.initial_rebalance_delay / 1000
    (member,) = t.stable(1)
    start = time.monotonic()
    t.expect(member.join(), generation_id=2)
    t.check(seconds_since(start) < delay * 0.8, f"answered after {seconds_since(start):.3f} s")


@delayed_case("delay/initial/7", "A group that all members left is delayed like a new one", source="semantics 2.4")
def empty_again(t: Trial) -> None:
    delay = t.limits.initial_rebalance_delay / 1000
    (member,) = t.stable(1)
    member.leave()
    next_one = t.member()
    next_one.send_join()
    start = time.monotonic()
    t.expect(next_one.receive_join(), error_code=0)
    t.check(seconds_since(start) >= delay - SLACK, f"answered after {seconds_since(start):.3f} s")


@case(
    "delay/initial/8",
    "A member that leaves during the delay is not in the first generation, which still waits",
    source="semantics 2.3",
    api="JoinGroup",
    versions=(4, 9),
    profile="limits",
    needs=("initial-delay",),
)
def leaves_in_delay(t: Trial) -> None:
    first, second = t.member(), t.member()
    first.send_join()
    second.send_join()
    t.await_members(2)
    t.expect(second.leave(), error_code=0)
    t.parked(first, "the initial delay is not over")
    response = first.receive_join()
    t.equal([each.member_id for each in response.members], [first.id], "members in the leader's answer")


size_case = partial(case, api="JoinGroup", profile="limits", needs=("small-groups",))


@size_case(
    "size/full/1", "A full group refuses a newcomer (81)", source="KIP-389; semantics 2.9, GM2; survey rdkafka-mock 10"
)
def full(t: Trial) -> None:
    t.settle([t.member() for _ in range(t.limits.max_group_size)])
    refused(t, ask(t.member()), E.GROUP_MAX_SIZE_REACHED, "")


@case(
    "size/full/2",
    "A full group refuses a static newcomer too (81)",
    source="KIP-389; semantics 2.9",
    api="JoinGroup",
    versions=(5, 9),
    profile="limits",
    needs=("small-groups",),
)
def full_static(t: Trial) -> None:
    t.settle([t.member() for _ in range(t.limits.max_group_size)])
    refused(t, ask(t.member(instance_id="one-too-many")), E.GROUP_MAX_SIZE_REACHED, "")


@size_case("size/full/3", "The members of a full group may join again", source="KIP-389; semantics 2.9")
def members_stay(t: Trial) -> None:
    members = t.settle([t.member() for _ in range(t.limits.max_group_size)])
    t.settle(members)
    t.equal(members[0].generation, members[1].generation, "generations")


@size_case("size/full/4", "When one has left, another may come", source="KIP-389; semantics 2.9")
def room_again(t: Trial) -> None:
    members = t.settle([t.member() for _ in range(t.limits.max_group_size)])
    members[-1].leave()
    newcomer = t.member()
    newcomer.send_join()
    t.await_members(t.limits.max_group_size)
    members[0].send_join()
    t.expect(newcomer.receive_join(), error_code=0)


@case(
    "size/full/5",
    "A restarted static member is refused in a full group (81): it sends no member id",
    source="KIP-389; semantics 2.9",
    api="JoinGroup",
    versions=(5, 9),
    level=Level.SHOULD,
    profile="limits",
    needs=("small-groups",),
)
def static_replaced(t: Trial) -> None:
    members = [t.member(instance_id=f"instance-{n}") for n in range(t.limits.max_group_size)]
    t.settle(members)
    refused(t, ask(t.member(instance_id="instance-1")), E.GROUP_MAX_SIZE_REACHED, "")


@case(
    "size/pending/1",
    "Member ids that are only handed out do not count",
    source="KIP-389; semantics 2.9",
    api="JoinGroup",
    versions=(4, 9),
    profile="limits",
    needs=("small-groups",),
)
def pending(t: Trial) -> None:
    for _ in range(t.limits.max_group_size + 1):
        t.expect(ask(t.member()), error_code=E.MEMBER_ID_REQUIRED)


@case(
    "size/session/1",
    "A session timeout above group.max.session.timeout.ms is refused (26)",
    source="semantics 2.2",
    api="JoinGroup",
    profile="limits",
)
def session_bound(t: Trial) -> None:
    refused(t, ask(t.member(session_timeout=t.limits.max_session_timeout + 1)), E.INVALID_SESSION_TIMEOUT, "")


retention_case = partial(case, api="OffsetCommit", profile="retention")


@case(
    "expiry/time/1",
    "An offset committed with a retention time is gone when it is over",
    source="semantics 3.1, 3.4",
    api="OffsetCommit",
    versions=(2, 4),
    profile="retention",
    needs=("frequent-expiry",),
)
def expires(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 7}, retention_time_ms=1)
    t.until(lambda: fetch(t, {topic: [0]})[topic, 0][0], lambda offset: offset == -1, "the offset never expired")


@retention_case(
    "expiry/time/2",
    "An offset without a retention time outlives the clean-up",
    source="semantics 3.4",
    needs=("frequent-expiry",),
)
def stays(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 7})
    t.lapse(t.limits.retention_check_interval * 2.5)
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 7, "the offset")


@case(
    "expiry/group/1",
    "An Empty group that never had offsets is gone at the next clean-up",
    source="semantics 3.4",
    api="JoinGroup",
    versions=(5, 9),
    profile="retention",
    needs=("frequent-expiry",),
)
def empty_group_goes(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="instance-1")
    member.leave()
    t.await_state("Dead")


@case(
    "expiry/group/2",
    "A group with members outlives the clean-up",
    source="semantics 3.4",
    api="JoinGroup",
    versions=(5, 9),
    profile="retention",
    needs=("frequent-expiry",),
)
def members_keep_group(t: Trial) -> None:
    (member,) = t.stable(1, instance_id="instance-1")
    t.lapse(t.limits.retention_check_interval * 2.5, member.heartbeat)
    t.equal(member.heartbeat(), 0, "a heartbeat")


@case(
    "expiry/group/3",
    "An Empty group ends when its last offset expires",
    source="semantics 3.4",
    api="OffsetCommit",
    versions=(2, 4),
    profile="retention",
    needs=("frequent-expiry",),
)
def last_offset_takes_group(t: Trial) -> None:
    commit(t, t.topic(), {0: 7}, retention_time_ms=1)
    t.await_state("Dead")


@case(
    "expiry/subscribed/1",
    "Offsets of topics that the members subscribe to do not expire; those of other topics do",
    source="KIP-211; semantics 3.4; found by a mutant",
    api="OffsetCommit",
    versions=(2, 4),
    profile="retention",
    needs=("frequent-expiry",),
)
def subscribed_topics_stay(t: Trial) -> None:
    subscribed, other = t.topic(3), t.topic(1)
    (member,) = t.stable(1, instance_id="instance-1", protocols=(("range", subscription(subscribed)),))
    fields: dict[str, Any] = {"member_id": member.id, "generation": member.generation, "retention_time_ms": 1}
    for topic in (subscribed, other):
        t.equal(commit(t, topic, {0: 7}, **fields), {0: 0}, "errors")

    def committed(topic: str) -> int:
        member.heartbeat()
        return fetch(t, {topic: [0]})[topic, 0][0]

    t.until(lambda: committed(other), lambda offset: offset == -1, "the offset of the other topic never expired")
    t.equal(committed(subscribed), 7, "the offset of the subscribed topic")
