"""The same lives for each of eight clients: the set of the table by client in docs/why.md.

They are kafka-python 2.3 and 3.0, aiokafka, librdkafka, Java, franz-go, sarama and kafkajs. The answers were committed
before the first recording; their author had not read the rules of `why`.
"""

from __future__ import annotations

from typing import Any, Final

from tests.why.provoked.cases import AIO, CONFLUENT, FRANZ, JAVA, KAFKAJS, KP2, KP3, SARAMA, Case, collector
from tests.why.provoked.stage import Stage

EIGHT: Final[list[Case]] = []
case = collector(EIGHT)

STATIC: Final = (KP2, KP3, AIO, CONFLUENT, JAVA, FRANZ, SARAMA)
"""The clients with `group.instance.id`."""
ALL: Final = (*STATIC, KAFKAJS)
BRIEF: Final[dict[str, Any]] = {"session_ms": 7_000, "heartbeat_ms": 2_000}
LONG: Final[dict[str, Any]] = {"session_ms": 18_000, "heartbeat_ms": 2_000}
"""A session in which a process of any client can be started again."""


# Faults


@case(*ALL, causes=("SESSION_EXPIRED",), culprits=("lead",), remedies=("process",))
def the_leader_dies(stage: Stage) -> None:
    stage.start("lead", session_ms=9_000, heartbeat_ms=2_500)
    stage.whole()
    stage.started("next-1", "next-2", session_ms=9_000, heartbeat_ms=2_500)
    stage.rest(2.0)
    stage.kill("lead")
    stage.whole()
    stage.rest(4.0)


@case(*ALL, causes=("PAUSED_MEMBER",), culprits=("vm-3",), remedies=("session.timeout.ms",))
def a_machine_freezes_twice(stage: Stage) -> None:
    stage.started("vm-1", "vm-2", "vm-3", **BRIEF)
    for _ in range(2):
        stage.short["vm-3"].stop()
        stage.whole("vm-1", "vm-2")
        stage.rest(2.0)
        stage.short["vm-3"].wake()
        stage.whole()
        stage.rest(1.0)


@case(*ALL, causes=("CRASH_LOOP",), culprits=("parser",), remedies=("process",))
def a_record_ends_the_process_each_time(stage: Stage) -> None:
    stage.started("store", "parser", **BRIEF)
    for _ in range(3):
        stage.rest(1.0)
        stage.kill("parser")
        stage.whole()
        stage.rest(2.0)
        stage.start("parser", **BRIEF)
        stage.whole()


@case(*ALL, causes=("JOIN_REFUSED",), culprits=("hasty",), remedies=("session.timeout.ms",))
def one_asks_for_a_session_of_two_seconds(stage: Stage) -> None:
    stage.started("usual-1", "usual-2")
    stage.start("hasty", session_ms=2_000, heartbeat_ms=500)
    stage.rest(8.0)


def _reschedule(stage: Stage) -> None:
    stage.started("node-a", "node-b", "node-c", **LONG)
    stage.rest(1.0)
    stage.kill("node-b")
    stage.rest(2.0)
    stage.start("node-b", **LONG)
    stage.whole()
    stage.rest(2.0)


@case(*STATIC, causes=("GHOST",), culprits=("node-b",), remedies=("group.instance.id", "process"))
def a_pod_is_rescheduled(stage: Stage) -> None:
    _reschedule(stage)


@case(KAFKAJS, causes=("GHOST",), culprits=("node-b",), remedies=("process", "session.timeout.ms"))
def a_pod_without_static_membership_is_rescheduled(stage: Stage) -> None:
    _reschedule(stage)


def _report(stage: Stage) -> None:
    stage.started("server-1", "server-2", **LONG)
    for _ in range(4):
        stage.rest(2.0)
        stage.start("report", **LONG)
        stage.whole()
        stage.close("report")
        stage.whole()


@case(*STATIC, causes=("FLAPPING", "STORM"), culprits=("report",), remedies=("process", "group.instance.id"))
def a_report_runs_all_the_time(stage: Stage) -> None:
    _report(stage)


@case(KAFKAJS, causes=("FLAPPING", "STORM"), culprits=("report",), remedies=("process",))
def a_report_without_static_membership_runs_all_the_time(stage: Stage) -> None:
    _report(stage)


@case(*STATIC, causes=("DUPLICATE_INSTANCE_ID",), culprits=("replica-0",), remedies=("group.instance.id",))
def a_copied_setting(stage: Stage) -> None:
    stage.start("own", instance="replica-1", **LONG)
    stage.start("first", instance="replica-0", **LONG)
    stage.whole()
    stage.rest(3.0)
    stage.start("copy", instance="replica-0", **LONG)
    stage.rest(10.0)


@case(
    *(KP2, KP3, AIO, CONFLUENT, JAVA),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("export",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
)
def an_export_takes_too_long(stage: Stage) -> None:
    stage.started("light-1", "light-2", **BRIEF, max_poll_ms=120_000)
    stage.start("export", **BRIEF, max_poll_ms=9_000)
    stage.whole()
    for _ in range(2):
        stage.produce()
        stage.short["export"].do("hold")
        stage.whole("light-1", "light-2")
        stage.rest(4.0)
        stage.short["export"].do("go")
        stage.whole()


@case(
    *(KP2, AIO, CONFLUENT, JAVA, FRANZ, SARAMA),
    causes=("SLOW_MEMBER",),
    culprits=("writer",),
    remedies=("processing", "max.poll.records"),
)
def a_callback_writes_for_four_seconds(stage: Stage) -> None:
    both: dict[str, Any] = {**LONG, "assignors": ["range"], "max_poll_ms": 60_000}
    stage.start("writer", **both, revoke_s=4)
    stage.start("reader", **both)
    stage.whole()
    stage.rest(3.0)
    stage.start("another", **both)
    stage.whole()


@case(
    *(KP2, KP3, AIO, CONFLUENT, JAVA, FRANZ, SARAMA),
    causes=("JOIN_REFUSED",),
    culprits=("stray",),
    remedies=("partition.assignment.strategy",),
)
def a_new_version_divides_otherwise(stage: Stage) -> None:
    stage.started("old-1", "old-2", assignors=["range"])
    stage.rest(2.0)
    stage.start("stray", assignors=["roundrobin"])
    stage.rest(8.0)


@case(
    KAFKAJS,
    causes=("JOIN_REFUSED",),
    culprits=("stray",),
    remedies=("partition.assignment.strategy",),
    others={KAFKAJS: CONFLUENT},
)
def a_stray_of_another_library_divides_otherwise(stage: Stage) -> None:
    stage.started("old-1", "old-2")
    stage.rest(2.0)
    stage.start("stray", CONFLUENT, assignors=["range"])
    stage.rest(8.0)


# Healthy, or nearly


@case(*ALL, causes=("SCALE_OUT", "SCALE_IN"), calm=True)
def two_come_and_go_with_the_load(stage: Stage) -> None:
    stage.started("fix-1", "fix-2")
    stage.rest(14.0)
    stage.started("flex-1", "flex-2")
    stage.rest(12.0)
    stage.close("flex-1", "flex-2")
    stage.whole()
    stage.rest(9.0)


def _restart_two(stage: Stage) -> None:
    stage.started("pod-1", "pod-2", "pod-3", **LONG)
    for name in ("pod-1", "pod-2"):
        stage.rest(2.0)
        stage.close(name)
        stage.rest(1.0)
        stage.start(name, **LONG)
        stage.whole()
    stage.rest(6.0)


@case(*STATIC, causes=("ROLLING_RESTART", "STORM"), remedies=("group.instance.id",), calm=None)
def two_of_three_pods_are_restarted(stage: Stage) -> None:
    _restart_two(stage)


@case(KAFKAJS, causes=("ROLLING_RESTART", "STORM"), calm=None)
def two_of_three_pods_without_static_membership_are_restarted(stage: Stage) -> None:
    _restart_two(stage)


@case(*ALL, causes=("START",), calm=True)
def a_lone_member_works(stage: Stage) -> None:
    stage.started("lone")
    stage.produce()
    stage.rest(6.0)


@case(*STATIC, causes=("START", "STATIC_REPLACED"), calm=True)
def static_pods_are_killed_and_back_in_time(stage: Stage) -> None:
    both: dict[str, Any] = {"session_ms": 40_000, "heartbeat_ms": 2_000}
    names = ("set-0", "set-1", "set-2")
    for name in names:
        stage.start(name, instance=name, **both)
    stage.whole()
    for name in names[:2]:
        stage.kill(name)
        stage.rest(1.0)
        stage.start(name, instance=name, **both)
        stage.whole()
    stage.rest(3.0)
