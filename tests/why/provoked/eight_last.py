"""Lives of the eight clients for the rules that were mended with `eight.py` and `eight_again.py`.

The answers were committed after those rules and before the first recording; docs/why.md has the first judgement.
"""

from __future__ import annotations

from typing import Any, Final

from tests.why.provoked.cases import AIO, CONFLUENT, FRANZ, JAVA, KAFKAJS, KP2, KP3, SARAMA, Case, collector
from tests.why.provoked.eight import ALL, LONG, STATIC
from tests.why.provoked.stage import Stage

EIGHT_LAST: Final[list[Case]] = []
case = collector(EIGHT_LAST)

SHORT: Final[dict[str, Any]] = {"session_ms": 7_500, "heartbeat_ms": 1_500}


# Faults


@case(*STATIC, causes=("DUPLICATE_INSTANCE_ID",), culprits=("ledger",), remedies=("group.instance.id",))
def a_copy_comes_later(stage: Stage) -> None:
    stage.start("ledger-pod", instance="ledger", **LONG)
    stage.whole()
    stage.rest(9.0)
    stage.start("copied-pod", instance="ledger", **LONG)
    stage.rest(11.0)


@case(
    *ALL,
    causes=("GHOST", "SESSION_EXPIRED"),
    culprits=("gone",),
    remedies=("process", "group.instance.id"),
)
def one_dies_and_another_joins(stage: Stage) -> None:
    stage.started("gone", "here", session_ms=12_000, heartbeat_ms=2_000)
    stage.rest(2.0)
    stage.kill("gone")
    stage.rest(2.0)
    stage.start("new", session_ms=12_000, heartbeat_ms=2_000)
    stage.whole()
    stage.rest(3.0)


@case(*ALL, causes=("PAUSED_MEMBER",), culprits=("host-1-a", "host-1-b"), remedies=("session.timeout.ms",))
def a_host_stands_still_with_two_members(stage: Stage) -> None:
    stage.started("host-1-a", "host-1-b", "host-2", **SHORT)
    stage.rest(1.0)
    for name in ("host-1-a", "host-1-b"):
        stage.short[name].stop()
    stage.whole("host-2")
    stage.rest(3.0)
    for name in ("host-1-a", "host-1-b"):
        stage.short[name].wake()
    stage.whole()
    stage.rest(2.0)


def _probe(stage: Stage) -> None:
    stage.started("main", **LONG)
    for _ in range(5):
        stage.start("probe", **LONG)
        stage.whole()
        stage.close("probe")
        stage.whole()
        stage.rest(1.0)


@case(*STATIC, causes=("FLAPPING", "STORM"), culprits=("probe",), remedies=("process", "group.instance.id"))
def a_probe_comes_and_goes(stage: Stage) -> None:
    _probe(stage)


@case(KAFKAJS, causes=("FLAPPING", "STORM"), culprits=("probe",), remedies=("process",))
def a_probe_without_static_membership_comes_and_goes(stage: Stage) -> None:
    _probe(stage)


@case(*ALL, causes=("JOIN_REFUSED",), culprits=("hot-1", "hot-2"), remedies=("session.timeout.ms",))
def two_ask_for_sessions_of_five_seconds(stage: Stage) -> None:
    stage.started("cool", **LONG)
    stage.rest(2.0)
    stage.start("hot-1", session_ms=5_000, heartbeat_ms=1_000)
    stage.start("hot-2", session_ms=5_000, heartbeat_ms=1_000)
    stage.rest(7.0)


@case(
    *(KP2, KP3, CONFLUENT, JAVA),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("import",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
)
def an_import_never_ends(stage: Stage) -> None:
    stage.started("import", "export-1", "export-2", **SHORT, max_poll_ms=9_500)
    stage.rest(1.0)
    stage.short["import"].do("hold")
    stage.whole("export-1", "export-2")
    stage.rest(6.0)


@case(
    *(KP2, AIO, CONFLUENT, JAVA, FRANZ, SARAMA),
    causes=("SLOW_MEMBER",),
    culprits=("slowpoke",),
    remedies=("processing", "max.poll.records"),
)
def a_callback_holds_up_a_departure(stage: Stage) -> None:
    both: dict[str, Any] = {**LONG, "assignors": ["range"], "max_poll_ms": 60_000}
    stage.start("slowpoke", **both, revoke_s=5)
    stage.whole()
    stage.started("swift", "leaving", **both)
    stage.rest(4.0)
    stage.close("leaving")
    stage.whole()
    stage.rest(2.0)


def _crash(stage: Stage) -> None:
    stage.started("sound-1", "sound-2", "broken", **SHORT)
    for _ in range(3):
        stage.rest(1.0)
        stage.kill("broken")
        stage.rest(1.0)
        stage.start("broken", **SHORT)
        stage.whole()


@case(*STATIC, causes=("CRASH_LOOP",), culprits=("broken",), remedies=("process", "group.instance.id"))
def a_process_crashes_and_is_started_at_once(stage: Stage) -> None:
    _crash(stage)


@case(KAFKAJS, causes=("CRASH_LOOP",), culprits=("broken",), remedies=("process",))
def a_process_without_static_membership_crashes(stage: Stage) -> None:
    _crash(stage)


# Healthy


@case(*ALL, causes=("SCALE_OUT",), calm=True)
def the_group_grows_in_two_steps(stage: Stage) -> None:
    stage.started("g-1")
    stage.rest(14.0)
    stage.start("g-2")
    stage.whole()
    stage.rest(13.0)
    stage.start("g-3")
    stage.whole()
    stage.rest(3.0)


@case(*ALL, causes=("SCALE_IN",), calm=True)
def the_group_shrinks_in_two_steps(stage: Stage) -> None:
    stage.started("s-1", "s-2", "s-3")
    stage.rest(8.0)
    stage.close("s-3")
    stage.whole()
    stage.rest(9.0)
    stage.close("s-2")
    stage.whole()
    stage.rest(11.0)
