"""Provoked cases of clients in Java, Go and JavaScript, recorded after the rules of `why` had been written.

Their answers were written down before the first judgement. Some go through a relay in front of Apache Kafka itself.
"""

from __future__ import annotations

from typing import Any, Final

from tests.why.provoked.cases import (
    CONFLUENT,
    FRANZ,
    JAVA,
    KAFKAJS,
    KP3,
    SARAMA,
    Case,
    collector,
)
from tests.why.provoked.stage import Stage

LANGUAGES: Final[list[Case]] = []
case = collector(LANGUAGES)

USUAL: Final[dict[str, Any]] = {"session_ms": 10_000, "heartbeat_ms": 3_000}
LONGER: Final[dict[str, Any]] = {"session_ms": 20_000, "heartbeat_ms": 3_000}
"""A Java process takes some seconds to start, so a restart within its session needs a longer one."""
GO: Final = (FRANZ, SARAMA)
JAVA_KIP848, FRANZ_KIP848 = f"{JAVA}-consumer", f"{FRANZ}-consumer"
COOPERATIVE: Final = {"assignors": ["cooperative-sticky"]}


def patient(stage: Stage) -> dict[str, Any]:
    """Return settings in which a process can be restarted within its session."""
    return LONGER if stage.client == JAVA else USUAL


# Faults


@case(
    *(JAVA, *GO, KAFKAJS),
    causes=("GHOST", "SESSION_EXPIRED"),
    culprits=("shop-66-x",),
    remedies=("process", "group.instance.id"),
)
def a_killed_pod_has_another_name_afterwards(stage: Stage) -> None:
    stage.started("shop-66-x", "shop-66-y", **patient(stage))
    stage.kill("shop-66-x")
    stage.rest(2.0)
    stage.start("shop-66-z", **patient(stage))
    stage.whole()


@case(*(FRANZ, KAFKAJS), causes=("GHOST",), culprits=("cart-1",), remedies=("group.instance.id", "process"))
def a_killed_process_is_back_in_two_seconds(stage: Stage) -> None:
    stage.started("cart-0", "cart-1", "cart-2", **USUAL)
    stage.kill("cart-1")
    stage.rest(1.0)
    stage.start("cart-1", **USUAL)
    stage.whole()


@case(
    *(JAVA, SARAMA),
    causes=("GHOST",),
    culprits=("cart-1",),
    remedies=("group.instance.id",),
    server="kafka",
)
def a_ghost_in_front_of_kafka(stage: Stage) -> None:
    stage.started("cart-0", "cart-1", **patient(stage))
    stage.kill("cart-1")
    stage.rest(1.0)
    stage.start("cart-1", **patient(stage))
    stage.whole()


@case(
    *(CONFLUENT, KP3, FRANZ),
    causes=("SESSION_EXPIRED",),
    culprits=("app-c",),
    remedies=("process",),
    server="kafka",
)
def killed_in_front_of_kafka(stage: Stage) -> None:
    stage.started("app-a", "app-b", "app-c", **USUAL)
    stage.kill("app-c")
    stage.whole()


@case(*GO, KAFKAJS, causes=("PAUSED_MEMBER",), culprits=("asleep",), remedies=("session.timeout.ms",))
def asleep_for_longer_than_its_session(stage: Stage) -> None:
    stage.started("asleep", "awake", session_ms=7_000, heartbeat_ms=2_000)
    stage.short["asleep"].stop()
    stage.whole("awake")
    stage.rest(3.0)
    stage.short["asleep"].wake()
    stage.whole()


@case(JAVA, causes=("PAUSED_MEMBER",), culprits=("asleep",), remedies=("session.timeout.ms",), server="kafka")
def asleep_in_front_of_kafka(stage: Stage) -> None:
    stage.started("asleep", "awake", session_ms=7_000, heartbeat_ms=2_000)
    stage.short["asleep"].stop()
    stage.whole("awake")
    stage.rest(3.0)
    stage.short["asleep"].wake()
    stage.whole()


@case(KAFKAJS, causes=("PAUSED_MEMBER",), culprits=("busy",), remedies=("session.timeout.ms", "processing"))
def a_message_takes_longer_than_the_session(stage: Stage) -> None:
    # KafkaJS sends heartbeats between two messages.
    stage.started("busy", "idle", session_ms=7_000, heartbeat_ms=2_000)
    stage.short["busy"].do("hold")
    stage.produce()
    stage.whole("idle")
    stage.rest(2.0)
    stage.short["busy"].do("go")
    stage.whole()


@case(*(JAVA, *GO, KAFKAJS), causes=("CRASH_LOOP",), culprits=("flaky",), remedies=("process",))
def dies_again_and_again(stage: Stage) -> None:
    stage.started("solid", session_ms=7_000, heartbeat_ms=2_000)
    for _ in range(4):
        stage.start("flaky", session_ms=7_000, heartbeat_ms=2_000)
        stage.whole()
        stage.kill("flaky")
        stage.whole()


@case(
    *(JAVA, *GO),
    causes=("SLOW_MEMBER",),
    culprits=("slow",),
    remedies=("processing", "max.poll.records"),
)
def a_callback_takes_five_seconds(stage: Stage) -> None:
    both = {**USUAL, "assignors": ["range"]}
    stage.start("slow", **both, revoke_s=5)
    stage.start("fast", **both)
    stage.whole()
    stage.start("new", **both)
    stage.whole()


@case(SARAMA, causes=("SLOW_MEMBER",), culprits=("slow",), remedies=("processing",))
def a_handler_works_on_through_a_rebalance(stage: Stage) -> None:
    stage.started("slow", "fast", **USUAL)
    stage.short["slow"].do("hold")
    stage.produce()
    stage.rest(1.0)
    stage.start("new", **USUAL)
    stage.rest(9.0)
    stage.short["slow"].do("go")
    stage.whole()


@case(
    *(JAVA, CONFLUENT, KP3),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("etl-b",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
    server="kafka",
)
def a_poll_is_missed_in_front_of_kafka(stage: Stage) -> None:
    stage.start("etl-a", **USUAL)
    stage.start("etl-b", **USUAL, max_poll_ms=11_000)
    stage.whole()
    for _ in range(2):
        stage.short["etl-b"].do("hold")
        stage.whole("etl-a")
        stage.rest(3.0)
        stage.short["etl-b"].do("go")
        stage.whole()


@case(
    JAVA,
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("coop-1",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
)
def a_cooperative_member_misses_its_poll(stage: Stage) -> None:
    stage.start("coop-1", **USUAL, **COOPERATIVE, max_poll_ms=12_000)
    stage.start("coop-2", **USUAL, **COOPERATIVE)
    stage.whole()
    stage.short["coop-1"].do("hold")
    stage.whole("coop-2")
    stage.rest(4.0)
    stage.short["coop-1"].do("go")
    stage.whole()


@case(*GO, KAFKAJS, causes=("JOIN_REFUSED",), culprits=("greedy",), remedies=("session.timeout.ms",))
def asks_for_an_hour(stage: Stage) -> None:
    stage.started("modest", **USUAL)
    stage.start("greedy", session_ms=3_600_000, heartbeat_ms=3_000)
    stage.rest(9.0)


@case(*GO, causes=("JOIN_REFUSED",), culprits=("odd",), remedies=("partition.assignment.strategy",))
def divides_in_another_way(stage: Stage) -> None:
    stage.started("even-1", "even-2", **USUAL, assignors=["range"])
    stage.start("odd", **USUAL, assignors=["roundrobin"])
    stage.rest(9.0)


@case(
    *(JAVA, SARAMA),
    causes=("JOIN_REFUSED",),
    culprits=("odd",),
    remedies=("partition.assignment.strategy",),
    server="kafka",
)
def divides_in_another_way_in_front_of_kafka(stage: Stage) -> None:
    stage.started("even-1", "even-2", **USUAL, assignors=["roundrobin"])
    stage.start("odd", **USUAL, assignors=["sticky"])
    stage.rest(12.0)


@case(*(JAVA, *GO), causes=("JOIN_REFUSED",), culprits=("fourth",), remedies=("group.max.size",), server="medium")
def one_member_too_many(stage: Stage) -> None:
    stage.started("first", "second", "third", **USUAL)
    stage.start("fourth", **USUAL)
    stage.rest(9.0)


@case(
    *(SARAMA, JAVA),
    causes=("DUPLICATE_INSTANCE_ID",),
    culprits=("node-7",),
    remedies=("group.instance.id",),
)
def two_pods_have_one_identity(stage: Stage) -> None:
    stage.start("pod-a", instance="node-7", **USUAL)
    stage.start("pod-c", instance="node-8", **USUAL)
    stage.whole()
    stage.start("pod-b", instance="node-7", **USUAL)
    stage.rest(8.0)


@case(FRANZ, causes=("DUPLICATE_INSTANCE_ID",), culprits=("node-7",), remedies=("group.instance.id",), server="kafka")
def two_pods_have_one_identity_in_front_of_kafka(stage: Stage) -> None:
    stage.start("pod-a", instance="node-7", **USUAL)
    stage.start("pod-c", instance="node-8", **USUAL)
    stage.whole()
    stage.start("pod-b", instance="node-7", **USUAL)
    stage.rest(8.0)


@case(*(JAVA_KIP848, FRANZ_KIP848), causes=("SLOW_REVOCATION",), culprits=("slow",), remedies=("processing",))
def takes_six_seconds_to_give_up_partitions(stage: Stage) -> None:
    stage.start("slow", revoke_s=6)
    stage.whole()
    stage.start("new")
    stage.whole()


@case(
    *(SARAMA, FRANZ),
    causes=("ROLLING_RESTART", "STORM"),
    remedies=("group.instance.id",),
    calm=None,
)
def four_pods_restart_in_turn(stage: Stage) -> None:
    names = ("api-0", "api-1", "api-2", "api-3")
    stage.started(*names, **USUAL)
    for name in names:
        stage.close(name)
        stage.rest(2.0)
        stage.start(name, **USUAL)
        stage.whole()


# KafkaJS has no group.instance.id, so no setting spares it the rebalances of a rolling restart.
@case(KAFKAJS, causes=("ROLLING_RESTART", "STORM"), calm=None)
def three_pods_without_static_members_restart_in_turn(stage: Stage) -> None:
    names = ("api-0", "api-1", "api-2")
    stage.started(*names, **USUAL)
    for name in names:
        stage.close(name)
        stage.rest(2.0)
        stage.start(name, **USUAL)
        stage.whole()


# Healthy


@case(*(SARAMA, KAFKAJS), causes=("SCALE_OUT",), calm=True)
def one_member_more(stage: Stage) -> None:
    stage.started("a", "b", **USUAL)
    stage.rest(14.0)
    stage.start("c", **USUAL)
    stage.whole()


@case(*(JAVA, *GO, KAFKAJS), causes=("SCALE_IN",), calm=True)
def three_members_become_two(stage: Stage) -> None:
    stage.started("a", "b", "c", **USUAL)
    stage.rest(6.0)
    stage.close("b")
    stage.whole()
    stage.rest(11.0)


@case(*(JAVA, FRANZ), causes=("SCALE_OUT",), calm=True, server="kafka")
def one_member_more_in_front_of_kafka(stage: Stage) -> None:
    stage.started("a", "b", **USUAL)
    stage.rest(14.0)
    stage.start("c", **USUAL)
    stage.whole()


@case(*(SARAMA, KAFKAJS, CONFLUENT), causes=("START",), calm=True, server="kafka")
def starts_and_stops_in_front_of_kafka(stage: Stage) -> None:
    stage.started("a", "b", **USUAL)
    stage.rest(4.0)


@case(SARAMA, causes=("START", "STATIC_REPLACED"), calm=True)
def static_pods_restart_in_turn(stage: Stage) -> None:
    names = ("db-0", "db-1")
    for name in names:
        stage.start(name, instance=name, **LONGER)
    stage.whole()
    for name in names:
        stage.kill(name)
        stage.rest(1.0)
        stage.start(name, instance=name, **LONGER)
        stage.whole()


@case(*(JAVA, *GO, KAFKAJS), causes=("START",), calm=True)
def a_short_pause(stage: Stage) -> None:
    stage.started("calm-1", "calm-2", **USUAL)
    stage.short["calm-1"].stop()
    stage.rest(4.0)
    stage.short["calm-1"].wake()
    stage.rest(5.0)


@case(*GO, KAFKAJS, causes=("DEPLOY",), remedies=("group.instance.id",), calm=None)
def all_stop_and_all_start(stage: Stage) -> None:
    names = ("d-0", "d-1")
    stage.started(*names, **USUAL)
    stage.close(*names)
    stage.rest(2.0)
    stage.started(*names, **USUAL)
