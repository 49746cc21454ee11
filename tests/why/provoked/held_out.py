"""Provoked cases that were recorded after the rules of `why` were written, to judge the rules.

Their answers were written down before the first judgement. They have other clients, mixtures of clients, settings and
timings than `cases.py`: sessions of 10 s, heartbeats of 3 s, assignors that move partitions without a stop.
"""

from __future__ import annotations

from typing import Any, Final

from tests.why.provoked.cases import AIO, CONFLUENT, KP2, KP3, PYTHON, Case, collector
from tests.why.provoked.stage import Stage

HELD_OUT: Final[list[Case]] = []
case = collector(HELD_OUT)

USUAL: Final[dict[str, Any]] = {"session_ms": 10_000, "heartbeat_ms": 3_000}
OTHERS: Final = {KP3: CONFLUENT, CONFLUENT: KP3}
COOPERATIVE: Final[dict[str, Any]] = {**USUAL, "assignors": ["cooperative-sticky"]}


# Faults


@case(
    *(KP2, KP3, AIO, CONFLUENT),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("etl-2",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
)
def one_batch_outlives_the_poll_interval(stage: Stage) -> None:
    stage.start("etl-1", **USUAL)
    stage.start("etl-2", **USUAL, max_poll_ms=12_000)
    stage.start("etl-3", **USUAL)
    stage.whole()
    stage.short["etl-2"].do("hold")
    stage.whole("etl-1", "etl-3")
    stage.rest(4.0)
    stage.short["etl-2"].do("go")
    stage.whole()


@case(
    CONFLUENT,
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("coop-1",),
    remedies=("max.poll.interval.ms",),
)
def a_cooperative_member_misses_its_poll_twice(stage: Stage) -> None:
    stage.start("coop-1", **COOPERATIVE, max_poll_ms=11_000)
    stage.start("coop-2", **COOPERATIVE)
    stage.whole()
    for pause in (1.0, 7.0):
        stage.short["coop-1"].do("hold")
        stage.whole("coop-2")
        stage.rest(pause)
        stage.short["coop-1"].do("go")
        stage.whole()


@case(
    *PYTHON,
    causes=("GHOST", "SESSION_EXPIRED"),
    culprits=("web-7f9c-x",),
    remedies=("process", "group.instance.id"),
)
def a_killed_pod_is_replaced_under_another_name(stage: Stage) -> None:
    stage.started("web-7f9c-x", "web-7f9c-y", "web-7f9c-z", **USUAL)
    stage.kill("web-7f9c-x")
    stage.rest(2.5)
    stage.start("web-7f9c-q", **USUAL)
    stage.whole()


@case(*PYTHON, causes=("SESSION_EXPIRED",), culprits=("late",), remedies=("process",))
def killed_and_back_after_its_session(stage: Stage) -> None:
    stage.started("late", "early", session_ms=7_000, heartbeat_ms=2_000)
    stage.kill("late")
    stage.whole("early")
    stage.rest(9.0)
    stage.start("late", session_ms=7_000, heartbeat_ms=2_000)
    stage.whole()


@case(CONFLUENT, causes=("GHOST",), culprits=("coop-2",), remedies=("group.instance.id",))
def a_cooperative_pod_is_killed_and_restarted(stage: Stage) -> None:
    stage.started("coop-1", "coop-2", "coop-3", **COOPERATIVE)
    stage.rest(4.0)
    stage.kill("coop-2")
    stage.rest(1.0)
    stage.start("coop-2", **COOPERATIVE)
    stage.whole()


@case(KP3, causes=("GHOST",), culprits=("app-b",), remedies=("group.instance.id",), server="relay")
def a_ghost_behind_a_relay(stage: Stage) -> None:
    stage.started("app-a", "app-b", **USUAL)
    stage.kill("app-b")
    stage.rest(2.0)
    stage.start("app-b", **USUAL)
    stage.whole()


@case(*PYTHON, KP2, causes=("JOIN_REFUSED",), culprits=("hasty",), remedies=("session.timeout.ms",))
def session_timeout_too_short_and_alone(stage: Stage) -> None:
    stage.start("hasty", session_ms=2_000, heartbeat_ms=500, max_poll_ms=30_000)
    stage.rest(7.0)


@case(
    *(KP3, CONFLUENT),
    causes=("JOIN_REFUSED",),
    culprits=("stranger",),
    remedies=("partition.assignment.strategy",),
    others=OTHERS,
)
def a_client_of_another_library_has_another_assignor(stage: Stage) -> None:
    stage.started("home-1", "home-2", **USUAL, assignors=["roundrobin"])
    stage.start("stranger", OTHERS[stage.client], **USUAL, assignors=["range"])
    stage.rest(9.0)


@case(
    *(KP2, AIO, CONFLUENT),
    causes=("JOIN_REFUSED",),
    culprits=("fourth", "fifth"),
    remedies=("group.max.size",),
    server="medium",
)
def two_members_too_many(stage: Stage) -> None:
    stage.started("first", "second", "third", **USUAL)
    stage.start("fourth", **USUAL)
    stage.start("fifth", **USUAL)
    stage.rest(8.0)


@case(*PYTHON, causes=("DUPLICATE_INSTANCE_ID",), culprits=("web",), remedies=("group.instance.id",))
def two_pods_with_one_identity_take_turns(stage: Stage) -> None:
    stage.start("pod-a", instance="web", **USUAL)
    stage.whole()
    for name in ("pod-b", "pod-a", "pod-b"):
        # A supervisor starts the fenced process again.
        if name in stage.short:
            stage.kill(name)
        stage.start(name, instance="web", **USUAL)
        stage.rest(7.0)


@case(
    *(KP2, AIO, CONFLUENT),
    causes=("ROLLING_RESTART", "STORM"),
    remedies=("group.instance.id",),
    calm=None,
)
def rolling_restart_of_four(stage: Stage) -> None:
    names = ("srv-0", "srv-1", "srv-2", "srv-3")
    stage.started(*names, **USUAL)
    for name in reversed(names):
        stage.close(name)
        stage.rest(3.0)
        stage.start(name, **USUAL)
        stage.whole()


@case(*PYTHON, causes=("CRASH_LOOP",), culprits=("flaky",), remedies=("process",))
def crashes_and_restarts_at_once(stage: Stage) -> None:
    stage.started("solid", "flaky", session_ms=7_000, heartbeat_ms=2_000)
    for _ in range(4):
        stage.kill("flaky")
        stage.rest(0.5)
        stage.start("flaky", session_ms=7_000, heartbeat_ms=2_000)
        stage.whole()


@case(
    *(KP3, CONFLUENT),
    causes=("SLOW_MEMBER",),
    culprits=("sluggish",),
    remedies=("max.poll.records", "processing"),
)
def one_slow_member_among_clients_of_another_library(stage: Stage) -> None:
    other = OTHERS[stage.client]
    both = {**USUAL, "assignors": ["range"], "max_poll_ms": 60_000}
    stage.start("sluggish", **both)
    stage.start("brisk", other, **both)
    stage.whole()
    stage.short["sluggish"].do("hold")
    stage.start("fresh", other, **both)
    stage.rest(13.0)
    stage.short["sluggish"].do("go")
    stage.whole()


@case(*PYTHON, causes=("PAUSED_MEMBER",), culprits=("frozen",), remedies=("session.timeout.ms",))
def one_long_pause(stage: Stage) -> None:
    stage.started("frozen", "lively", session_ms=8_000, heartbeat_ms=2_500)
    stage.short["frozen"].stop()
    stage.whole("lively")
    stage.rest(5.0)
    stage.short["frozen"].wake()
    stage.whole()


# Healthy


@case(*PYTHON, causes=("SCALE_OUT",), calm=True)
def three_members_are_added_at_once(stage: Stage) -> None:
    stage.started("n-1", "n-2", **USUAL)
    stage.rest(15.0)
    for name in ("n-3", "n-4", "n-5"):
        stage.start(name, **USUAL)
    stage.whole()


@case(*(KP2, CONFLUENT), causes=("SCALE_IN",), calm=True)
def four_members_become_two(stage: Stage) -> None:
    stage.started("m-1", "m-2", "m-3", "m-4", **USUAL)
    stage.rest(5.0)
    stage.close("m-1")
    stage.whole()
    stage.close("m-4")
    stage.whole()
    stage.rest(11.0)


@case(*(KP3, CONFLUENT), causes=("DEPLOY", "ROLLING_RESTART"), remedies=("group.instance.id",), calm=None)
def new_pods_start_before_the_old_ones_end(stage: Stage) -> None:
    stage.started("v1-a", "v1-b", **USUAL)
    stage.rest(12.0)
    for old, new in (("v1-a", "v2-c"), ("v1-b", "v2-d")):
        stage.start(new, **USUAL)
        stage.whole()
        stage.close(old)
        stage.whole()


@case(*(AIO, CONFLUENT), causes=("DEPLOY",), remedies=("group.instance.id",), calm=None)
def all_pods_are_replaced_under_new_names(stage: Stage) -> None:
    stage.started("r1-a", "r1-b", **USUAL)
    stage.close("r1-a", "r1-b")
    stage.rest(4.0)
    stage.started("r2-c", "r2-d", **USUAL)


@case(*(KP3, CONFLUENT), causes=("START", "STATIC_REPLACED"), calm=True)
def a_static_pod_starts_before_the_old_one_has_ended(stage: Stage) -> None:
    stage.start("s-0", instance="s-0", **USUAL)
    stage.start("s-1", instance="s-1", **USUAL)
    stage.whole()
    old = stage.short.pop("s-1")
    stage.start("s-1", instance="s-1", **USUAL)
    stage.rest(5.0)
    old.kill()
    stage.whole()


@case(*PYTHON, causes=("START",), calm=True)
def a_pause_shorter_than_the_session(stage: Stage) -> None:
    stage.started("calm-1", "calm-2", **USUAL)
    stage.short["calm-2"].stop()
    stage.rest(4.0)
    stage.short["calm-2"].wake()
    stage.rest(6.0)


@case(*PYTHON, causes=("START",), calm=True)
def batches_that_fit_the_poll_interval(stage: Stage) -> None:
    stage.started("w-1", "w-2", **USUAL, max_poll_ms=20_000)
    for _ in range(2):
        stage.short["w-1"].do("hold")
        stage.rest(8.0)
        stage.short["w-1"].do("go")
        stage.rest(2.0)
