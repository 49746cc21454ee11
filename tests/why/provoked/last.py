"""Provoked cases of all clients, recorded after the rules were mended with `unseen.py` and `epochs.py`.

Their answers were committed before the first recording, and docs/why.md has their first judgement. Since then
they are used: rules for members that are all slow, and for franz-go in the new protocol, were mended with them.
"""

from __future__ import annotations

from typing import Any, Final

from tests.why.provoked.cases import AIO, CONFLUENT, FRANZ, KIP848, KP2, KP3, SARAMA, Case, collector
from tests.why.provoked.languages import FRANZ_KIP848
from tests.why.provoked.lives import QUICK
from tests.why.provoked.stage import Stage
from tests.why.provoked.unseen import COOPERATIVE, JAVA44, JAVA44_KIP848, KAFKA_GO, LONG, POLLS

LAST: Final[list[Case]] = []
case = collector(LAST)

STARTING: Final = ("consumer.assignment.interval.ms", "consumer.heartbeat.interval.ms")
"""The second was added after the judgement: the replay proves it."""
STICKY: Final[dict[str, Any]] = {"assignors": ["sticky"]}


# Faults


@case(*(KP3, CONFLUENT), causes=("POLL_TIMEOUT_REASON",), culprits=("sync-3",), remedies=POLLS)
def one_of_three_misses_a_poll_while_another_joins(stage: Stage) -> None:
    stage.started("sync-1", "sync-2", "sync-3", max_poll_ms=9_000)
    stage.short["sync-3"].do("hold")
    stage.rest(3.0)
    stage.start("sync-4", max_poll_ms=9_000)
    stage.rest(14.0)
    stage.short["sync-3"].do("go")
    stage.whole()


@case(
    *(AIO, CONFLUENT, FRANZ),
    causes=("SLOW_MEMBER",),
    culprits=("flush-1", "flush-2"),
    remedies=("processing", "max.poll.records"),
)
def all_callbacks_are_slow(stage: Stage) -> None:
    both = {**LONG, "revoke_s": 6, "assignors": ["range"]}
    stage.started("flush-1", "flush-2", **both)
    stage.start("flush-3", **both)
    stage.whole()


@case(*(KP3, KAFKA_GO), causes=("SESSION_EXPIRED",), culprits=("zone-b-1", "zone-b-2"), remedies=("process",))
def half_of_the_group_dies(stage: Stage) -> None:
    names = ("zone-a-1", "zone-a-2", "zone-b-1", "zone-b-2")
    stage.started(*names)
    stage.rest(4.0)
    for name in names[2:]:
        stage.kill(name)
    stage.whole()
    stage.rest(8.0)


@case(
    *(KP2, SARAMA),
    causes=("CRASH_LOOP",),
    culprits=("oom",),
    remedies=("process",),
)
def one_of_three_crashes_in_a_loop(stage: Stage) -> None:
    stage.started("well-1", "well-2", "oom", session_ms=8_000)
    for _ in range(3):
        stage.kill("oom")
        stage.rest(1.0)
        stage.start("oom", session_ms=8_000)
        stage.whole()


@case(
    *(AIO, JAVA44, KAFKA_GO),
    causes=("PAUSED_MEMBER",),
    culprits=("gc",),
    remedies=("session.timeout.ms",),
)
def a_pause_just_longer_than_the_session(stage: Stage) -> None:
    stage.started("gc", "no-gc", session_ms=8_000, heartbeat_ms=2_000)
    stage.short["gc"].stop()
    stage.rest(10.0)
    stage.short["gc"].wake()
    stage.whole()


@case(
    *(KP3, CONFLUENT, JAVA44), causes=("JOIN_REFUSED",), culprits=("odd",), remedies=("partition.assignment.strategy",)
)
def a_lone_pod_has_another_assignor_than_three(stage: Stage) -> None:
    stage.started("even-1", "even-2", "even-3", assignors=["roundrobin"])
    stage.start("odd", assignors=["range"])
    stage.rest(10.0)


@case(
    *(CONFLUENT, JAVA44),
    causes=("SLOW_REVOCATION", "SLOW_MEMBER"),
    culprits=("keeper",),
    remedies=("processing", "max.poll.records"),
)
def a_cooperative_callback_holds_up_two_new_members(stage: Stage) -> None:
    both = {**LONG, **COOPERATIVE, "max_poll_ms": 60_000}
    stage.start("keeper", **both, revoke_s=4)
    stage.whole()
    for name in ("new-1", "new-2"):
        stage.start(name, **both)
        stage.whole()


@case(
    *(KIP848, FRANZ_KIP848, JAVA44_KIP848),
    causes=("SLOW_REVOCATION",),
    culprits=("frozen",),
    remedies=("process", "processing"),
)
def a_consumer_freezes_in_a_scale_out(stage: Stage) -> None:
    stage.started("frozen", "lively")
    stage.rest(6.0)
    stage.short["frozen"].stop()
    stage.start("new")
    stage.rest(12.0)
    stage.short["frozen"].wake()
    stage.whole()


@case(
    *(KIP848, JAVA44_KIP848),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("slow",),
    remedies=("max.poll.interval.ms",),
    server=QUICK,
)
def a_consumer_misses_its_poll_once(stage: Stage) -> None:
    stage.start("slow", max_poll_ms=8_000)
    stage.start("quick", max_poll_ms=60_000)
    stage.whole()
    stage.short["slow"].do("hold")
    stage.whole("quick")
    stage.rest(2.0)
    stage.short["slow"].do("go")
    stage.whole()


@case(
    *(KIP848, JAVA44_KIP848),
    causes=("DUPLICATE_INSTANCE_ID",),
    culprits=("db-0",),
    remedies=("group.instance.id",),
    server=QUICK,
)
def a_third_consumer_has_the_instance_id_of_the_first(stage: Stage) -> None:
    stage.start("pod-a", instance="db-0")
    stage.start("pod-b", instance="db-1")
    stage.whole()
    stage.start("pod-c", instance="db-0")
    stage.rest(9.0)


@case(
    *(FRANZ_KIP848, KIP848),
    causes=("FLAPPING",),
    culprits=("job",),
    remedies=("group.instance.id", "process"),
    server=QUICK,
)
def a_consumer_comes_and_goes(stage: Stage) -> None:
    stage.started("base")
    for _ in range(4):
        stage.start("job")
        stage.whole()
        stage.close("job")
        stage.whole()


# Healthy


@case(*(KP3, CONFLUENT, SARAMA), causes=("START",), calm=True)
def a_pause_of_three_seconds(stage: Stage) -> None:
    stage.started("x", "y", **LONG)
    stage.short["x"].stop()
    stage.rest(3.0)
    stage.short["x"].wake()
    stage.rest(6.0)


@case(*(KP3, AIO, JAVA44), causes=("SCALE_OUT",), calm=True)
def a_sticky_group_grows_by_one(stage: Stage) -> None:
    stage.started("a", "b", **STICKY)
    stage.rest(13.0)
    stage.start("c", **STICKY)
    stage.whole()


@case(*(CONFLUENT, FRANZ), causes=("SCALE_IN",), calm=True)
def a_cooperative_group_shrinks_by_one(stage: Stage) -> None:
    stage.started("a", "b", "c", **COOPERATIVE)
    stage.rest(5.0)
    stage.close("b")
    stage.whole()
    stage.rest(12.0)


@case(*(KIP848, JAVA44_KIP848, FRANZ_KIP848), causes=("START",), calm=None, remedies=STARTING)
def four_consumers_start(stage: Stage) -> None:
    stage.started("p-1", "p-2", "p-3", "p-4")


@case(*(AIO, KAFKA_GO, KIP848), causes=("START",), calm=True, server=QUICK)
def two_members_work_quietly(stage: Stage) -> None:
    stage.started("m", "n")
    stage.produce()
    stage.rest(8.0)
