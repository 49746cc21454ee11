"""Provoked cases of the new protocol (KIP-848), recorded after the rules were mended with `unseen.py`.

Their answers were committed before the first recording; docs/why.md has their first judgement.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka.admin import AclOperation, AclPermissionType

from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT
from tests.why.provoked.cases import CONFLUENT, KIP848, Case, collector
from tests.why.provoked.languages import FRANZ_KIP848
from tests.why.provoked.lives import GUARDED, QUICK, RIGHTS, give
from tests.why.provoked.stage import PARTITIONS, Stage
from tests.why.provoked.unseen import JAVA44_KIP848

EPOCHS: Final[list[Case]] = []
case = collector(EPOCHS)

BOTH: Final = (KIP848, JAVA44_KIP848)
ALL: Final = (*BOTH, FRANZ_KIP848)


# Faults


# librdkafka refuses such a pattern itself, and sends nothing.
@case(JAVA44_KIP848, causes=("JOIN_REFUSED",), culprits=("broken",), remedies=("process",), server=QUICK)
def a_pattern_that_is_none(stage: Stage) -> None:
    stage.started("fine")
    stage.start("broken", topics=[], pattern="((orders")
    stage.rest(7.0)


@case(
    *BOTH,
    causes=("GHOST", "SESSION_EXPIRED", "ROLLING_RESTART"),
    culprits=("dep-0", "dep-1"),
    remedies=("process",),
    server=QUICK,
)
def consumers_are_deployed_by_kills(stage: Stage) -> None:
    stage.started("dep-0", "dep-1")
    for name in ("dep-0", "dep-1"):
        stage.kill(name)
        stage.rest(0.5)
        stage.start(name)
        stage.whole()


@case(
    *BOTH,
    causes=("POLL_TIMEOUT_REASON", "PAUSED_MEMBER"),
    culprits=("store-1",),
    remedies=("max.poll.interval.ms",),
    server=QUICK,
)
def a_static_consumer_misses_its_poll(stage: Stage) -> None:
    stage.start("store-0", instance="store-0", max_poll_ms=300_000)
    stage.start("store-1", instance="store-1", max_poll_ms=7_000)
    stage.whole()
    for _ in range(2):
        stage.short["store-1"].do("hold")
        stage.whole("store-0")
        stage.rest(2.0)
        stage.short["store-1"].do("go")
        stage.whole()


@case(*BOTH, causes=("JOIN_REFUSED",), culprits=("a", "b"), remedies=RIGHTS, server=GUARDED)
def consumers_lose_their_rights(stage: Stage) -> None:
    stage.started("a", "b")
    give(stage, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    stage.rest(10.0)


@case(*ALL, causes=("GHOST", "SESSION_EXPIRED"), culprits=("old-2",), remedies=("process",), server=QUICK)
def a_consumer_dies_while_another_joins(stage: Stage) -> None:
    stage.started("old-1", "old-2")
    stage.kill("old-2")
    stage.start("fresh")
    stage.whole()


@case(KIP848, FRANZ_KIP848, causes=("SESSION_EXPIRED",), culprits=("c-1", "c-2"), remedies=("process",), server=QUICK)
def all_consumers_die(stage: Stage) -> None:
    stage.started("c-1", "c-2")
    stage.kill("c-1")
    stage.kill("c-2")
    stage.rest(9.0)


@case(*ALL, causes=("GHOST", "SESSION_EXPIRED"), culprits=("solo",), remedies=("process",), server=QUICK)
def the_only_consumer_is_killed_and_started(stage: Stage) -> None:
    stage.started("solo")
    stage.kill("solo")
    stage.rest(0.5)
    stage.start("solo")
    stage.whole()


@case(
    *BOTH,
    # Its rebalance timeout is its poll interval.
    causes=("REBALANCE_TIMEOUT", "POLL_TIMEOUT_REASON", "SLOW_REVOCATION"),
    culprits=("tied-up",),
    remedies=("processing", "max.poll.interval.ms"),
    server=QUICK,
)
def a_callback_outlives_the_poll_interval(stage: Stage) -> None:
    stage.start("tied-up", revoke_s=11, max_poll_ms=7_000)
    stage.whole()
    stage.start("new")
    stage.rest(14.0)
    stage.whole()


@case(
    KIP848,
    FRANZ_KIP848,
    causes=("PAUSED_MEMBER",),
    culprits=("vm-1", "vm-2"),
    remedies=("consumer.session.timeout.ms",),
    server=QUICK,
)
def two_consumers_are_paused_in_turn(stage: Stage) -> None:
    stage.started("vm-1", "vm-2")
    for asleep, awake in (("vm-1", "vm-2"), ("vm-2", "vm-1")):
        stage.short[asleep].stop()
        stage.whole(awake)
        stage.rest(1.0)
        stage.short[asleep].wake()
        stage.whole()


@case(
    *BOTH,
    # The pause is shorter than the session, 45 s.
    causes=("SLOW_REVOCATION", "SLOW_MEMBER", "SELDOM_HEARTBEATS"),
    culprits=("frozen",),
    remedies=("process", "processing"),
)
def a_frozen_consumer_holds_up_a_new_one(stage: Stage) -> None:
    stage.started("frozen")
    stage.rest(6.0)
    stage.short["frozen"].stop()
    stage.start("new")
    stage.rest(14.0)
    stage.short["frozen"].wake()
    stage.whole()


@case(*BOTH, causes=("CRASH_LOOP",), culprits=("lone",), remedies=("process",), server=QUICK)
def the_only_consumer_crashes_in_a_loop(stage: Stage) -> None:
    stage.started("lone")
    for _ in range(4):
        stage.kill("lone")
        stage.rest(0.5)
        stage.start("lone")
        stage.whole()


# Healthy


@case(*ALL, causes=("START",), calm=True, server=QUICK)
def a_pause_of_a_consumer_shorter_than_its_session(stage: Stage) -> None:
    stage.started("calm-1", "calm-2")
    stage.short["calm-1"].stop()
    stage.rest(2.5)
    stage.short["calm-1"].wake()
    stage.rest(5.0)


@case(*ALL, causes=("DEPLOY",), remedies=("group.instance.id",), calm=None, server=QUICK)
def all_consumers_stop_and_start(stage: Stage) -> None:
    stage.started("d-0", "d-1")
    stage.close("d-0", "d-1")
    stage.rest(2.0)
    stage.started("d-0", "d-1")


@case(*BOTH, causes=("DEPLOY", "RESTART"), remedies=("group.instance.id",), calm=None, server=QUICK)
def the_only_consumer_is_restarted_in_order(stage: Stage) -> None:
    stage.started("single")
    stage.close("single")
    stage.rest(2.0)
    stage.start("single")
    stage.whole()


@case(*BOTH, causes=("START",), calm=True, server=QUICK)
def long_batches_of_consumers_in_a_quiet_group(stage: Stage) -> None:
    stage.started("q-1", "q-2", max_poll_ms=20_000)
    for name in ("q-1", "q-2"):
        stage.short[name].do("hold")
        stage.rest(8.0)
        stage.short[name].do("go")
        stage.rest(2.0)


@case(KIP848, causes=("TOPICS_CHANGED", "SUBSCRIPTION_CHANGED"), calm=True, server=QUICK)
def one_of_two_topics_is_deleted(stage: Stage) -> None:
    admin = stage.processes.start(EVERY_CLIENT[CONFLUENT], client_id="admin")
    admin.do("create_topic", topic=f"{stage.group}-more", partitions=2)
    for name in ("a", "b"):
        stage.start(name, topics=[stage.group, f"{stage.group}-more"], metadata_ms=2_000)
    stage.whole(topics={stage.group: PARTITIONS, f"{stage.group}-more": 2})
    stage.rest(5.0)
    admin.do("delete_topic", topic=f"{stage.group}-more")
    stage.whole()
    admin.kill()


@case(KIP848, FRANZ_KIP848, causes=("SCALE_IN",), calm=True, server=QUICK)
def three_consumers_become_one(stage: Stage) -> None:
    stage.started("a", "b", "c")
    stage.rest(5.0)
    for name in ("c", "b"):
        stage.close(name)
        stage.whole()
    stage.rest(12.0)
