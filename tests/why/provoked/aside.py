"""Provoked cases that were set aside while the rules of `why` were mended with those of `languages.py`.

Their answers were written down before the first judgement, of which docs/why.md tells.
"""

from __future__ import annotations

from typing import Any, Final

from tests.why.provoked.cases import AIO, CONFLUENT, FRANZ, JAVA, KAFKAJS, KP3, SARAMA, Case, collector
from tests.why.provoked.languages import COOPERATIVE, FRANZ_KIP848, GO, JAVA_KIP848
from tests.why.provoked.stage import Stage

ASIDE: Final[list[Case]] = []
case = collector(ASIDE)

CALM: Final[dict[str, Any]] = {"session_ms": 14_000, "heartbeat_ms": 2_000}
OTHERS: Final = {JAVA: FRANZ, FRANZ: JAVA, SARAMA: KP3}


# Faults


@case(*(JAVA, *GO, KAFKAJS), causes=("SESSION_EXPIRED",), culprits=("w-2",), remedies=("process",))
def one_of_four_is_gone(stage: Stage) -> None:
    stage.started("w-1", "w-2", "w-3", "w-4", session_ms=8_000, heartbeat_ms=2_500)
    stage.rest(3.0)
    stage.kill("w-2")
    stage.whole()


@case(*(JAVA, FRANZ), causes=("GHOST",), culprits=("m-1",), remedies=("group.instance.id",))
def a_cooperative_process_is_killed_and_started(stage: Stage) -> None:
    both = {"session_ms": 18_000, "heartbeat_ms": 2_000, **COOPERATIVE}
    stage.started("m-1", "m-2", **both)
    stage.kill("m-1")
    stage.rest(0.5)
    stage.start("m-1", **both)
    stage.whole()


@case(*(KP3, KAFKAJS), causes=("GHOST",), culprits=("m-1",), remedies=("group.instance.id", "process"), server="kafka")
def a_second_ghost_in_front_of_kafka(stage: Stage) -> None:
    stage.started("m-1", "m-2", "m-3", **CALM)
    stage.kill("m-1")
    stage.rest(3.0)
    stage.start("m-1", **CALM)
    stage.whole()


@case(
    *(JAVA, FRANZ, SARAMA),
    causes=("SLOW_MEMBER",),
    culprits=("sluggish",),
    remedies=("processing", "max.poll.records"),
)
def one_slow_callback_among_clients_of_another_language(stage: Stage) -> None:
    other = OTHERS[stage.client]
    both = {**CALM, "assignors": ["range"], "max_poll_ms": 60_000}
    stage.start("sluggish", **both, revoke_s=7)
    stage.start("brisk", other, **both)
    stage.whole()
    stage.start("fresh", other, **both)
    stage.whole()


@case(
    JAVA,
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("batch",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
)
def a_batch_that_never_ends(stage: Stage) -> None:
    stage.start("steady", **CALM)
    stage.start("batch", **CALM, max_poll_ms=15_000)
    stage.whole()
    stage.short["batch"].do("hold")
    stage.whole("steady")
    stage.rest(4.0)


@case(
    *(CONFLUENT, JAVA),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("batch",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
    server="kafka",
)
def a_long_batch_in_front_of_kafka(stage: Stage) -> None:
    stage.start("steady", **CALM)
    stage.start("batch", **CALM, max_poll_ms=16_000)
    stage.start("other", **CALM)
    stage.whole()
    stage.short["batch"].do("hold")
    stage.whole("steady", "other")
    stage.rest(6.0)
    stage.short["batch"].do("go")
    stage.whole()


@case(*GO, causes=("PAUSED_MEMBER",), culprits=("nap",), remedies=("session.timeout.ms",), server="kafka")
def naps_in_front_of_kafka(stage: Stage) -> None:
    stage.started("nap", "up-1", "up-2", session_ms=8_000, heartbeat_ms=2_000)
    for _ in range(2):
        stage.short["nap"].stop()
        stage.whole("up-1", "up-2")
        stage.rest(1.0)
        stage.short["nap"].wake()
        stage.whole()


@case(KAFKAJS, causes=("PAUSED_MEMBER",), culprits=("deep",), remedies=("session.timeout.ms", "processing"))
def two_long_messages(stage: Stage) -> None:
    stage.started("deep", "flat", "even", session_ms=8_000, heartbeat_ms=1_000)
    for _ in range(2):
        stage.short["deep"].do("hold")
        stage.produce()
        stage.whole("flat", "even")
        stage.rest(4.0)
        stage.short["deep"].do("go")
        stage.whole()


@case(*(JAVA, SARAMA), causes=("JOIN_REFUSED",), culprits=("brief",), remedies=("session.timeout.ms",))
def asks_for_a_second(stage: Stage) -> None:
    stage.started("normal", **CALM)
    stage.start("brief", session_ms=1_500, heartbeat_ms=400)
    stage.rest(7.0)


@case(FRANZ, causes=("JOIN_REFUSED",), culprits=("odd",), remedies=("partition.assignment.strategy",), server="kafka")
def another_assignor_in_front_of_kafka(stage: Stage) -> None:
    stage.started("a", "b", **CALM, assignors=["sticky"])
    stage.start("odd", **CALM, assignors=["range"])
    stage.rest(9.0)


@case(*GO, JAVA, causes=("DUPLICATE_INSTANCE_ID",), culprits=("id-0",), remedies=("group.instance.id",))
def one_identity_for_all(stage: Stage) -> None:
    stage.start("copy-1", instance="id-0", **CALM)
    stage.whole()
    stage.start("copy-2", instance="id-0", **CALM)
    stage.rest(6.0)
    stage.start("copy-3", instance="id-0", **CALM)
    stage.rest(6.0)


@case(*(JAVA_KIP848, FRANZ_KIP848), causes=("SLOW_REVOCATION",), culprits=("keeper",), remedies=("processing",))
def keeps_partitions_for_nine_seconds(stage: Stage) -> None:
    stage.start("keeper", revoke_s=9)
    stage.whole()
    stage.start("giver")
    stage.whole()
    stage.start("taker")
    stage.whole()


@case(*(JAVA, SARAMA), causes=("ROLLING_RESTART", "STORM"), remedies=("group.instance.id",), calm=None, server="kafka")
def a_rolling_restart_in_front_of_kafka(stage: Stage) -> None:
    names = ("r-0", "r-1", "r-2")
    stage.started(*names, session_ms=20_000, heartbeat_ms=2_000)
    for name in reversed(names):
        stage.close(name)
        stage.rest(1.0)
        stage.start(name, session_ms=20_000, heartbeat_ms=2_000)
        stage.whole()


# Healthy


@case(*(FRANZ, KAFKAJS, AIO), causes=("SCALE_IN",), calm=True, server="kafka")
def a_member_retires_in_front_of_kafka(stage: Stage) -> None:
    stage.started("a", "b", "c", **CALM)
    stage.rest(12.0)
    stage.close("a")
    stage.whole()
    stage.rest(12.0)


@case(*(JAVA, *GO, KAFKAJS), causes=("SCALE_OUT",), calm=True)
def two_more_at_once(stage: Stage) -> None:
    stage.started("a", "b", **CALM)
    stage.rest(16.0)
    stage.start("c", **CALM)
    stage.start("d", **CALM)
    stage.whole()


@case(*(JAVA, FRANZ), causes=("START", "STATIC_REPLACED"), calm=True, server="kafka")
def static_pods_restart_in_front_of_kafka(stage: Stage) -> None:
    for name in ("s-0", "s-1"):
        stage.start(name, instance=name, session_ms=25_000, heartbeat_ms=2_000)
    stage.whole()
    for name in ("s-0", "s-1"):
        stage.kill(name)
        stage.rest(1.0)
        stage.start(name, instance=name, session_ms=25_000, heartbeat_ms=2_000)
        stage.whole()


@case(JAVA, causes=("START",), calm=True)
def work_that_fits_the_poll_interval(stage: Stage) -> None:
    stage.started("w-1", "w-2", **CALM, max_poll_ms=20_000)
    stage.short["w-1"].do("hold")
    stage.rest(9.0)
    stage.short["w-1"].do("go")
    stage.rest(3.0)
