"""Provoked cases for which nobody made a trial recording: mixed groups, two deaths, cooperative groups in trouble.

Their answers were committed before the first recording; docs/why.md has their first judgement.
"""

from __future__ import annotations

from typing import Any, Final

from tests.why.provoked.cases import AIO, CONFLUENT, FRANZ, KIP848, KP3, Case, collector
from tests.why.provoked.further import SECOND, SHARING, WEB, one_by_one
from tests.why.provoked.languages import FRANZ_KIP848
from tests.why.provoked.last import STARTING
from tests.why.provoked.lives import QUICK
from tests.why.provoked.stage import SHARE, Stage
from tests.why.provoked.unseen import COOPERATIVE, JAVA44, JAVA44_KIP848, KAFKA_GO, POLLS

BLIND: Final[list[Case]] = []
case = collector(BLIND)


@case(*(CONFLUENT, JAVA44), causes=("PAUSED_MEMBER",), culprits=("stop",), remedies=("session.timeout.ms",))
def a_cooperative_member_stands_still(stage: Stage) -> None:
    both: dict[str, Any] = {"session_ms": 8_000, "heartbeat_ms": 2_000, "max_poll_ms": 60_000, **COOPERATIVE}
    stage.started("stop", "run-1", "run-2", **both)
    stage.rest(3.0)
    stage.short["stop"].stop()
    stage.rest(13.0)
    stage.short["stop"].wake()
    stage.whole()


@case(
    *(KP3, JAVA44),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("guest",),
    remedies=POLLS,
    others={KP3: JAVA44, JAVA44: KP3},
)
def a_guest_of_another_library_misses_polls(stage: Stage) -> None:
    both: dict[str, Any] = {"max_poll_ms": 8_000, "assignors": ["range"]}
    stage.started("host-1", "host-2", **both)
    stage.start("guest", JAVA44 if stage.client == KP3 else KP3, **both)
    stage.whole()
    for _ in range(2):
        stage.short["guest"].do("hold")
        stage.whole("host-1", "host-2")
        stage.rest(1.0)
        stage.short["guest"].do("go")
        stage.whole()


@case(*(KP3, FRANZ), causes=("SESSION_EXPIRED",), culprits=("first", "second"), remedies=("process",))
def two_die_one_after_the_other(stage: Stage) -> None:
    stage.started("first", "second", "survivor")
    stage.kill("first")
    stage.whole()
    stage.rest(3.0)
    stage.kill("second")
    stage.whole()
    stage.rest(7.0)


@case(*(AIO, KAFKA_GO), causes=("SESSION_EXPIRED",), culprits=("brief",), remedies=("process",))
def the_member_with_the_shortest_session_dies(stage: Stage) -> None:
    stage.start("long-1", session_ms=30_000, heartbeat_ms=3_000)
    stage.start("long-2", session_ms=20_000, heartbeat_ms=2_000)
    stage.start("brief", session_ms=7_000, heartbeat_ms=2_000)
    stage.whole()
    stage.kill("brief")
    stage.whole()
    stage.rest(8.0)


@case(
    *(KIP848, JAVA44_KIP848),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=SECOND,
    remedies=("max.poll.interval.ms",),
    server=QUICK,
)
def a_consumer_misses_its_poll_beside_a_namesake(stage: Stage) -> None:
    stage.start("a", **WEB, max_poll_ms=60_000)
    stage.whole()
    stage.start("b", **WEB, max_poll_ms=8_000)
    stage.whole()
    stage.short["b"].do("hold")
    stage.whole("a")
    stage.rest(2.0)
    stage.short["b"].do("go")
    stage.whole()


@case(*(KP3, JAVA44), causes=("POLL_TIMEOUT_REASON",), culprits=("stuck",), remedies=POLLS)
def a_cooperative_member_never_polls_again(stage: Stage) -> None:
    stage.started("stuck", "alive-1", "alive-2", max_poll_ms=8_000, **COOPERATIVE)
    stage.short["stuck"].do("hold")
    stage.whole("alive-1", "alive-2")
    stage.rest(6.0)


@case(SHARE, causes=("FLAPPING",), culprits=("batch-job",), remedies=("process",), server=SHARING)
def a_share_job_comes_and_goes(stage: Stage) -> None:
    stage.started("always")
    for _ in range(4):
        stage.start("batch-job")
        stage.whole()
        stage.close("batch-job")
        stage.rest(2.0)


@case(SHARE, causes=("SESSION_EXPIRED",), culprits=SECOND, remedies=("process",), server=SHARING)
def one_of_two_share_consumers_of_one_name_dies(stage: Stage) -> None:
    one_by_one(stage, "a", "b", **WEB)
    stage.kill("b")
    stage.rest(12.0)


# Healthy, or nearly


@case(
    *(KP3, CONFLUENT),
    causes=("ROLLING_RESTART", "RESTART", "SCALE_IN", "DEPLOY"),
    remedies=("group.instance.id",),
    calm=None,
)
def the_third_pod_of_a_rolling_restart_stays_away(stage: Stage) -> None:
    stage.started("pod-1", "pod-2", "pod-3", session_ms=20_000)
    for name in ("pod-1", "pod-2"):
        stage.close(name)
        stage.rest(1.0)
        stage.start(name, session_ms=20_000)
        stage.whole()
    stage.close("pod-3")
    stage.whole()
    stage.rest(6.0)


@case(*(CONFLUENT, JAVA44), causes=("START", "STATIC_REPLACED"), calm=True)
def cooperative_static_pods_restart_in_turn(stage: Stage) -> None:
    both: dict[str, Any] = {"session_ms": 30_000, "heartbeat_ms": 2_000, **COOPERATIVE}
    for name in ("cs-0", "cs-1"):
        stage.start(name, instance=name, **both)
    stage.whole()
    for name in ("cs-0", "cs-1"):
        stage.close(name)
        stage.rest(1.0)
        stage.start(name, instance=name, **both)
        stage.whole()


@case(KP3, causes=("START",), calm=True)
def java_and_python_work_side_by_side(stage: Stage) -> None:
    both = {"assignors": ["range"]}
    stage.start("python", **both)
    stage.start("java", JAVA44, **both)
    stage.whole()
    stage.produce()
    stage.rest(8.0)


@case(FRANZ_KIP848, causes=("SCALE_OUT",), calm=None, remedies=STARTING, server=QUICK)
def a_go_consumer_group_triples(stage: Stage) -> None:
    stage.start("one")
    stage.whole()
    stage.rest(12.0)
    stage.start("two")
    stage.start("three")
    stage.whole()
