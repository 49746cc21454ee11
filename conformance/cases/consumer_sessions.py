"""Cases about KIP-848: leaving, static members, session and rebalance timeouts."""

from __future__ import annotations

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.cases.consumer import consumer_case, partitions
from kafka_shim.conformance.consumer_member import ConsumerMember
from kafka_shim.conformance.trial import Trial

# -- leaving, static members


@consumer_case(
    "consumer/leave/1",
    "A former member is unknown (25), and the group Empty",
    source="semantics 4.7",
    uses=("ConsumerGroupDescribe",),
)
def former_member(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.expect(member.leave(), error_code=0, member_epoch=-1)
    t.expect(member.heartbeat(member_epoch=1), error_code=E.UNKNOWN_MEMBER_ID)


@consumer_case(
    "consumer/static/1",
    "A static member that leaves for a while (-2) comes back under another id to its partitions and epoch",
    source="semantics 7.1 CH4",
)
def comes_back(t: Trial) -> None:
    topic = t.topic(3)
    one = t.consumer(topic, instance_id="instance-1")
    other = t.consumer(topic)
    one.join()
    other.join()
    t.converge(one, other)
    had, epoch = set(one.owned), one.epoch
    t.expect(one.leave(-2), error_code=0, member_epoch=-2)
    back = t.consumer(topic, instance_id="instance-1")
    t.expect(back.join(), member_epoch=epoch)
    t.equal(back.assigned, had, "its assignment")
    other.heartbeat()
    t.equal(other.epoch, epoch, "the other's epoch")


@consumer_case(
    "consumer/static/2",
    "An instance id in use cannot be taken (111)",
    source="semantics 7.1 CH5; survey rdkafka-mock 23",
)
def in_use(t: Trial) -> None:
    t.consumer(t.topic(), instance_id="instance-1").join()
    other = t.consumer(t.topic(), instance_id="instance-1")
    t.expect(other.full(), error_code=E.UNRELEASED_INSTANCE_ID)


@consumer_case(
    "consumer/static/3", "The member id that was replaced is fenced (82)", source="semantics 4.4; invariant I8"
)
def replaced(t: Trial) -> None:
    old = t.consumer(t.topic(), instance_id="instance-1")
    old.join()
    epoch = old.epoch
    old.leave(-2)
    t.consumer(t.topic(), instance_id="instance-1").join()
    t.expect(old.heartbeat(member_epoch=epoch), error_code=E.FENCED_INSTANCE_ID)


@consumer_case("consumer/static/4", "An unknown instance id is refused (25) after joining", source="semantics 4.4")
def unknown_instance(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.expect(member.heartbeat(instance_id="nobody's"), error_code=E.UNKNOWN_MEMBER_ID)


@consumer_case(
    "consumer/static/5",
    "A static member that leaves for good (-1) frees its instance id and its partitions",
    source="semantics 4.7",
)
def leaves_for_good(t: Trial) -> None:
    topic = t.topic(3)
    one, other = t.consumer(topic, instance_id="instance-1"), t.consumer(topic)
    one.join()
    other.join()
    t.converge(one, other)
    t.expect(one.leave(), error_code=0, member_epoch=-1)
    t.converge(other)
    t.equal(other.owned, partitions(topic, 3), "the partitions of the other")
    t.consumer(topic, instance_id="instance-1").join()


@consumer_case("consumer/static/6", "While a static member is away its partitions stay its own", source="semantics 4.7")
def reserved(t: Trial) -> None:
    topic = t.topic(3)
    one, other = t.consumer(topic, instance_id="instance-1"), t.consumer(topic)
    one.join()
    other.join()
    t.converge(one, other)
    before = set(other.owned)
    one.leave(-2)
    for _ in range(3):
        other.reconcile()
    t.equal(other.owned, before, "the partitions of the other")


# -- time


def short_sessions(t: Trial, *members: ConsumerMember) -> None:
    """Give the group a session timeout of 500 ms, and wait until it applies to the members."""
    t.configure(consumer_session_timeout_ms=500, consumer_heartbeat_interval_ms=100)
    for each in members:
        t.until(lambda each=each: each.heartbeat().heartbeat_interval_ms, lambda ms: ms == 100, "never configured")  # type: ignore[misc]


@consumer_case(
    "consumer/session/1",
    "A member that is silent for the session timeout is out, its partitions go to others",
    source="semantics 4.6",
    needs=("short-sessions",),
)
def expires(t: Trial) -> None:
    topic = t.topic(3)
    one, silent = t.consumer(topic), t.consumer(topic)
    one.join()
    silent.join()
    # A broker computes assignments in another thread: until then a new member has the epoch of the others, and nothing.
    t.until(lambda: (one.reconcile(), silent.reconcile(), silent.owned)[2], bool, "the silent one never owned anything")
    t.converge(one, silent)
    short_sessions(t, one, silent)
    t.until(
        lambda: (one.reconcile(), one.owned)[1],
        lambda owned: owned == partitions(topic, 3),
        "the silent one never expired",
    )
    t.expect(silent.heartbeat(), error_code=E.UNKNOWN_MEMBER_ID)


@consumer_case(
    "consumer/session/2",
    "A member that does not revoke partitions within the rebalance timeout is expelled",
    source="semantics 4.6; survey rdkafka-mock 23",
    needs=("short-sessions",),
)
def holds_on(t: Trial) -> None:
    topic = t.topic(8)
    stubborn, other = t.consumer(topic, rebalance_timeout=400), t.consumer(topic)
    stubborn.join()
    t.converge(stubborn)
    other.join()
    t.until(
        lambda: stubborn.heartbeat(topic_partitions=stubborn.owned_topic_partitions()).error_code,
        lambda code: code == E.UNKNOWN_MEMBER_ID,
        "the one that held on was never put out",
    )
    t.converge(other)
    t.equal(other.owned, partitions(topic, 8), "the partitions of the other")


@consumer_case(
    "consumer/session/3",
    "A static member that is away too long loses its place",
    source="semantics 4.7; survey kfake 11",
    needs=("short-sessions",),
)
def away_too_long(t: Trial) -> None:
    topic = t.topic(3)
    one, other = t.consumer(topic, instance_id="instance-1"), t.consumer(topic)
    one.join()
    other.join()
    t.converge(one, other)
    short_sessions(t, other, one)
    one.leave(-2)
    t.until(
        lambda: (other.reconcile(), other.owned)[1],
        lambda owned: owned == partitions(topic, 3),
        "its partitions never came free",
    )


@consumer_case(
    "consumer/session/4",
    "An instance id in use is free once its holder's session timed out",
    source="semantics 7.1 CH5",
    needs=("short-sessions",),
)
def taken_after_expiry(t: Trial) -> None:
    holder = t.consumer(t.topic(), instance_id="instance-1")
    holder.join()
    short_sessions(t, holder)
    other = t.consumer(t.topic(), instance_id="instance-1")
    t.until(lambda: other.full(member_epoch=0).error_code, lambda code: code == 0, "the instance id never came free")


@consumer_case(
    "consumer/config/1", "A group's own heartbeat interval is in the next answer", source="semantics 7.1 CH6"
)
def interval(t: Trial) -> None:
    member = t.consumer(t.topic())
    usual = member.join().heartbeat_interval_ms
    t.configure(consumer_heartbeat_interval_ms=usual + 1000)
    interval = t.until(
        lambda: member.heartbeat().heartbeat_interval_ms,
        lambda interval: interval != usual,
        "the interval never changed",
    )
    t.equal(interval, usual + 1000, "the heartbeat interval")


@consumer_case(
    "consumer/connection/1", "A member keeps its partitions without its connection", source="survey rdkafka-mock 20"
)
def connection(t: Trial) -> None:
    topic = t.topic(3)
    one = t.consumer(topic)
    one.join()
    t.converge(one)
    anew = t.consumer(topic)
    other = t.consumer(topic)
    other.join()
    t.equal(other.assigned, set(), "the first assignment of a newcomer")
    request = ConsumerGroupHeartbeatRequest(t.group, one.id, one.epoch)
    t.expect(anew.wire.call(request, t.version), error_code=0, member_id=one.id)
