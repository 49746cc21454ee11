"""Provoked cases of lives that no earlier set has, recorded after all rules of the other six sets.

Whole groups that die, lone members, heartbeats that are rare, static members that do not come back, deploys with
SIGKILL, rights on topics, Java 4.4 and kafka-go. Their answers were committed before the first recording; docs/why.md
has their first judgement.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_shim.conformance.clients import builds
from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT, Member
from tests.why.provoked.cases import AIO, CONFLUENT, FRANZ, KIP848, KP2, KP3, SARAMA, Case, collector
from tests.why.provoked.lives import GUARDED, QUICK, RIGHTS
from tests.why.provoked.stage import Stage

UNSEEN: Final[list[Case]] = []
case = collector(UNSEEN)

JAVA44: Final = "java-4.4.0"
JAVA44_KIP848: Final = f"{JAVA44}-consumer"
KAFKA_GO: Final = f"kafka-go-{builds.KAFKA_GO.removeprefix('v')}"
POLLS: Final = ("max.poll.records", "max.poll.interval.ms")
LONG: Final[dict[str, Any]] = {"session_ms": 15_000, "heartbeat_ms": 2_000}
"""A session in which a process can be started again on a busy machine."""
COOPERATIVE: Final[dict[str, Any]] = {"assignors": ["cooperative-sticky"]}


def _admin(stage: Stage) -> Member:
    return stage.processes.start(EVERY_CLIENT[CONFLUENT], client_id="admin")


# Faults


@case(*(KP3, CONFLUENT, JAVA44), causes=("SESSION_EXPIRED",), culprits=("both-1", "both-2"), remedies=("process",))
def all_die_and_nobody_comes(stage: Stage) -> None:
    stage.started("both-1", "both-2")
    stage.kill("both-1")
    stage.kill("both-2")
    stage.rest(10.0)


@case(
    *(KP3, AIO, CONFLUENT, KAFKA_GO),
    causes=("GHOST",),
    culprits=("solo",),
    remedies=("group.instance.id", "process"),
)
def the_only_member_is_killed_and_started(stage: Stage) -> None:
    stage.started("solo", **LONG)
    stage.kill("solo")
    stage.rest(1.0)
    stage.start("solo", **LONG)
    stage.whole()


@case(*(KP3, CONFLUENT, FRANZ), causes=("SESSION_EXPIRED",), culprits=("shard-1",), remedies=("process",))
def a_static_member_dies_for_good(stage: Stage) -> None:
    for name in ("shard-0", "shard-1", "shard-2"):
        stage.start(name, instance=name)
    stage.whole()
    stage.kill("shard-1")
    stage.whole()
    stage.rest(8.0)


@case(
    *(CONFLUENT, JAVA44),
    # A static member sends no LeaveGroup when it closes, so its partitions stand still until its session is over.
    causes=("SESSION_EXPIRED",),
    culprits=("shard-2",),
    remedies=("process", "session.timeout.ms"),
)
def a_static_member_is_closed_for_good(stage: Stage) -> None:
    for name in ("shard-0", "shard-1", "shard-2"):
        stage.start(name, instance=name)
    stage.whole()
    stage.close("shard-2")
    stage.whole()
    stage.rest(8.0)


@case(
    *(KP3, AIO, CONFLUENT, JAVA44),
    causes=("SLOW_MEMBER",),
    culprits=("frozen",),
    remedies=("max.poll.records", "processing", "process"),
)
def a_frozen_member_holds_up_a_rebalance(stage: Stage) -> None:
    # The pause is shorter than the session, so the member is not expelled.
    both: dict[str, Any] = {"session_ms": 25_000, "heartbeat_ms": 1_000, "max_poll_ms": 60_000}
    stage.started("frozen", "lively", **both)
    stage.short["frozen"].stop()
    stage.start("new", **both)
    stage.rest(9.0)
    stage.short["frozen"].wake()
    stage.whole()


@case(
    *(KP3, AIO, CONFLUENT, JAVA44, SARAMA),
    causes=("SELDOM_HEARTBEATS",),
    culprits=("rare",),
    remedies=("heartbeat.interval.ms",),
)
def rare_heartbeats_hold_up_two_rebalances(stage: Stage) -> None:
    stage.start("rare", session_ms=40_000, heartbeat_ms=12_000, max_poll_ms=60_000)
    stage.start("usual", session_ms=40_000, heartbeat_ms=1_000, max_poll_ms=60_000)
    stage.whole()
    for name in ("new-1", "new-2"):
        stage.start(name, session_ms=40_000, heartbeat_ms=1_000, max_poll_ms=60_000)
        stage.whole()


@case(*(KP3, CONFLUENT, JAVA44), causes=("POLL_TIMEOUT_REASON",), culprits=("turn-a", "turn-b"), remedies=POLLS)
def two_members_miss_their_polls_in_turn(stage: Stage) -> None:
    stage.started("turn-a", "turn-b", max_poll_ms=7_500)
    for _ in range(2):
        for slow, other in (("turn-a", "turn-b"), ("turn-b", "turn-a")):
            stage.short[slow].do("hold")
            stage.whole(other)
            stage.rest(1.0)
            stage.short[slow].do("go")
            stage.whole()


@case(
    AIO,
    # Its rebalance timeout is its session timeout.
    causes=("REBALANCE_TIMEOUT", "SLOW_MEMBER"),
    culprits=("tied-up",),
    remedies=("processing",),
)
def a_callback_outlives_the_rebalance_timeout(stage: Stage) -> None:
    stage.start("tied-up", revoke_s=10)
    stage.start("free")
    stage.whole()
    stage.start("new")
    stage.whole("free", "new")
    stage.rest(8.0)


@case(
    *(KP3, AIO, FRANZ, SARAMA, KAFKA_GO),
    causes=("GHOST", "SESSION_EXPIRED"),
    culprits=("old-2",),
    remedies=("process", "group.instance.id"),
)
def one_dies_while_another_joins(stage: Stage) -> None:
    stage.started("old-1", "old-2", **LONG)
    stage.kill("old-2")
    stage.start("fresh", **LONG)
    stage.whole()


@case(*(KP3, CONFLUENT, KAFKA_GO), causes=("CRASH_LOOP",), culprits=("lone",), remedies=("process",))
def the_only_member_crashes_in_a_loop(stage: Stage) -> None:
    stage.started("lone", session_ms=10_000)
    for _ in range(4):
        stage.kill("lone")
        stage.rest(0.5)
        stage.start("lone", session_ms=10_000)
        stage.whole()


@case(KIP848, causes=("JOIN_REFUSED",), culprits=("reader",), remedies=RIGHTS, server=GUARDED)
def may_not_see_its_topic(stage: Stage) -> None:
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    rule = AclBinding(
        ResourceType.TOPIC,
        stage.group,
        ResourcePatternType.LITERAL,
        "User:*",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )
    for future in admin.create_acls([rule]).values():
        future.result(20)
    stage.start("reader")
    stage.rest(6.0)


@case(
    *(CONFLUENT, JAVA44),
    # The second was added after the first judgement, which named no member at all.
    causes=("SLOW_MEMBER", "SLOW_REVOCATION"),
    culprits=("slow",),
    remedies=("processing", "max.poll.records"),
)
def a_cooperative_callback_takes_seven_seconds(stage: Stage) -> None:
    both = {**LONG, **COOPERATIVE, "max_poll_ms": 60_000}
    stage.start("slow", **both, revoke_s=7)
    stage.whole()
    stage.start("new", **both)
    stage.whole()


@case(*(KP3, CONFLUENT), causes=("JOIN_REFUSED",), culprits=("typo",), remedies=("session.timeout.ms",))
def a_refused_pod_is_mended_later(stage: Stage) -> None:
    stage.started("good")
    stage.start("typo", session_ms=2_000_000, max_poll_ms=2_100_000)
    stage.rest(8.0)
    stage.kill("typo")
    stage.start("typo")
    stage.whole()


@case(
    *(KP3, CONFLUENT, SARAMA),
    causes=("JOIN_REFUSED",),
    culprits=("v2-0",),
    remedies=("partition.assignment.strategy",),
)
def a_release_has_another_assignor(stage: Stage) -> None:
    stage.started("v1-0", "v1-1", assignors=["range"])
    stage.close("v1-0")
    stage.start("v2-0", assignors=["roundrobin"])
    stage.rest(9.0)
    stage.close("v1-1")
    if stage.client == SARAMA:
        # It does not try again.
        stage.kill("v2-0")
        stage.start("v2-0", assignors=["roundrobin"])
    stage.whole()


@case(
    *(KIP848, JAVA44_KIP848),
    causes=("SESSION_EXPIRED",),
    culprits=("set-1",),
    remedies=("process",),
    server=QUICK,
)
def a_static_consumer_dies_for_good(stage: Stage) -> None:
    for name in ("set-0", "set-1"):
        stage.start(name, instance=name)
    stage.whole()
    stage.kill("set-1")
    stage.whole()
    stage.rest(6.0)


@case(
    *(KIP848, JAVA44_KIP848),
    causes=("SLOW_REVOCATION",),
    culprits=("busy",),
    remedies=("processing", "max.poll.records"),
    server=QUICK,
)
def a_batch_holds_up_a_revocation(stage: Stage) -> None:
    stage.start("busy", max_poll_ms=60_000)
    stage.whole()
    stage.short["busy"].do("hold")
    stage.start("new", max_poll_ms=60_000)
    stage.rest(8.0)
    stage.short["busy"].do("go")
    stage.whole()


@case(
    *(KP3, FRANZ, JAVA44),
    causes=("GHOST", "ROLLING_RESTART"),
    culprits=("dep-0", "dep-1"),
    remedies=("group.instance.id", "process"),
)
def a_deploy_that_kills(stage: Stage) -> None:
    stage.started("dep-0", "dep-1", **LONG)
    for name in ("dep-0", "dep-1"):
        stage.kill(name)
        stage.rest(0.5)
        stage.start(name, **LONG)
        stage.whole()


@case(
    *(KP3, AIO, CONFLUENT),
    causes=("PAUSED_MEMBER",),
    culprits=("night-1", "night-2"),
    remedies=("session.timeout.ms",),
)
def all_members_sleep(stage: Stage) -> None:
    stage.started("night-1", "night-2", max_poll_ms=60_000)
    for name in ("night-1", "night-2"):
        stage.short[name].stop()
    stage.rest(10.0)
    for name in ("night-1", "night-2"):
        stage.short[name].wake()
    stage.whole()


# Healthy


@case(*(CONFLUENT, JAVA44), causes=("START", "STATIC_REPLACED"), calm=True)
def static_members_are_deployed_in_order(stage: Stage) -> None:
    names = ("db-0", "db-1")
    for name in names:
        stage.start(name, instance=name, session_ms=25_000)
    stage.whole()
    for name in names:
        stage.close(name)
        stage.rest(1.0)
        stage.start(name, instance=name, session_ms=25_000)
        stage.whole()


@case(*(KP3, CONFLUENT, JAVA44, FRANZ), causes=("SCALE_OUT",), calm=True)
def a_cooperative_group_grows(stage: Stage) -> None:
    stage.started("a", "b", **COOPERATIVE)
    stage.rest(13.0)
    stage.start("c", **COOPERATIVE)
    stage.whole()


@case(*(KP3, AIO, KAFKA_GO), causes=("START",), calm=None, remedies=("group.initial.rebalance.delay.ms",))
def five_start_together(stage: Stage) -> None:
    stage.started("p-1", "p-2", "p-3", "p-4", "p-5")


@case(*(KP2, SARAMA, KAFKA_GO), causes=("SCALE_IN",), calm=True)
def three_become_one(stage: Stage) -> None:
    stage.started("a", "b", "c")
    stage.rest(5.0)
    stage.close("c")
    stage.whole()
    stage.close("b")
    stage.whole()
    stage.rest(12.0)


@case(AIO, causes=("TOPICS_CHANGED", "SUBSCRIPTION_CHANGED"), calm=True)
def another_topic_fits_the_pattern(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.start(name, topics=[], pattern=f"{stage.group}(-more)?$", metadata_ms=2_000)
    stage.whole()
    admin = _admin(stage)
    admin.do("create_topic", topic=f"{stage.group}-more", partitions=2)
    stage.whole(topics={stage.group: 6, f"{stage.group}-more": 2})
    admin.kill()


@case(*(KP3, CONFLUENT, KAFKA_GO), causes=("DEPLOY", "RESTART"), calm=None, remedies=("group.instance.id",))
def the_only_member_is_restarted_in_order(stage: Stage) -> None:
    stage.started("single")
    stage.rest(3.0)
    stage.close("single")
    stage.rest(2.0)
    stage.start("single")
    stage.whole()


@case(*(KP3, AIO, CONFLUENT, JAVA44), causes=("START",), calm=True)
def long_batches_in_a_quiet_group(stage: Stage) -> None:
    stage.started("q-1", "q-2", max_poll_ms=20_000)
    for name in ("q-1", "q-2", "q-1"):
        stage.short[name].do("hold")
        stage.rest(6.0)
        stage.short[name].do("go")
        stage.rest(1.5)


@case(*(KP3, CONFLUENT, KIP848), causes=("SCALE_OUT", "SCALE_IN"), calm=True, server=QUICK)
def an_autoscaler_adds_and_removes_one(stage: Stage) -> None:
    stage.started("w-1", "w-2")
    stage.rest(13.0)
    stage.start("w-3")
    stage.whole()
    stage.rest(13.0)
    stage.close("w-3")
    stage.whole()
    stage.rest(8.0)


@case(*(JAVA44, JAVA44_KIP848, KAFKA_GO), causes=("START",), calm=True, server=QUICK)
def nothing_happens(stage: Stage) -> None:
    stage.started("a", "b")
    stage.rest(10.0)
