"""Further lives of the eight clients, for the rules that were mended with `eight.py`.

The answers were committed after those rules and before the first recording; docs/why.md has the first judgement.
"""

from __future__ import annotations

from typing import Any, Final

from tests.why.provoked.cases import AIO, CONFLUENT, JAVA, KAFKAJS, KP2, KP3, SARAMA, Case, collector
from tests.why.provoked.eight import ALL, LONG, STATIC
from tests.why.provoked.stage import Stage

EIGHT_AGAIN: Final[list[Case]] = []
case = collector(EIGHT_AGAIN)

USUAL: Final[dict[str, Any]] = {"session_ms": 8_000, "heartbeat_ms": 2_000}


# Faults


@case(*ALL, causes=("JOIN_REFUSED",), culprits=("fourth", "fifth"), remedies=("group.max.size",), server="medium")
def the_last_two_find_no_place(stage: Stage) -> None:
    stage.started("first", "second", "third", **USUAL)
    stage.rest(2.0)
    stage.start("fourth", **USUAL)
    stage.start("fifth", **USUAL)
    stage.rest(8.0)


@case(*ALL, causes=("SESSION_EXPIRED",), culprits=("rack-2-a", "rack-2-b"), remedies=("process",))
def a_rack_loses_its_power(stage: Stage) -> None:
    stage.started("rack-1-a", "rack-1-b", "rack-2-a", "rack-2-b", **USUAL)
    stage.rest(3.0)
    stage.kill("rack-2-a")
    stage.kill("rack-2-b")
    stage.whole()
    stage.rest(4.0)


@case(*ALL, causes=("SESSION_EXPIRED",), culprits=("spot",), remedies=("process",))
def a_killed_process_is_back_much_later(stage: Stage) -> None:
    stage.started("firm", "spot", **USUAL)
    stage.rest(2.0)
    stage.kill("spot")
    stage.whole()
    stage.rest(7.0)
    stage.start("spot", **USUAL)
    stage.whole()
    stage.rest(3.0)


@case(*STATIC, causes=("DUPLICATE_INSTANCE_ID",), culprits=("shard",), remedies=("group.instance.id",))
def two_of_three_have_one_identity_from_the_start(stage: Stage) -> None:
    stage.start("left", instance="shard", **LONG)
    stage.start("right", instance="shard", **LONG)
    stage.start("other", instance="another", **LONG)
    stage.rest(16.0)


@case(
    *(KP2, KP3, AIO, CONFLUENT, JAVA),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("nightly",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
)
def a_job_works_for_longer_than_it_may(stage: Stage) -> None:
    stage.started("daily", "nightly", **USUAL, max_poll_ms=10_000)
    stage.produce()
    stage.rest(1.0)
    stage.short["nightly"].do("hold")
    stage.whole("daily")
    stage.rest(3.0)
    stage.short["nightly"].do("go")
    stage.whole()
    stage.rest(2.0)


@case(
    *(KP2, KP3, CONFLUENT, JAVA, SARAMA),
    causes=("SLOW_MEMBER",),
    culprits=("thorough",),
    remedies=("processing", "max.poll.records"),
)
def all_wait_for_a_thorough_member(stage: Stage) -> None:
    both: dict[str, Any] = {**LONG, "assignors": ["range"], "max_poll_ms": 50_000}
    stage.started("thorough", "quick", **both)
    stage.rest(1.0)
    stage.short["thorough"].do("hold")
    stage.produce()
    stage.rest(1.0)
    stage.start("late", **both)
    stage.rest(8.0)
    stage.short["thorough"].do("go")
    stage.whole()


@case(*STATIC, causes=("JOIN_REFUSED",), culprits=("wrong",), remedies=("partition.assignment.strategy",))
def a_second_pod_divides_otherwise(stage: Stage) -> None:
    stage.started("only", assignors=["roundrobin"])
    stage.rest(3.0)
    stage.start("wrong", assignors=["range"])
    stage.rest(9.0)


# Healthy, or nearly


@case(*ALL, causes=("SCALE_OUT", "SCALE_IN"), calm=True)
def three_come_for_the_evening(stage: Stage) -> None:
    stage.started("base-1", "base-2")
    stage.rest(13.0)
    stage.started("more-1", "more-2", "more-3")
    stage.rest(15.0)
    for name in ("more-2", "more-1", "more-3"):
        stage.close(name)
        stage.whole()
        stage.rest(3.0)
    stage.rest(6.0)


@case(*ALL, causes=("START",), calm=True)
def a_freeze_of_three_seconds(stage: Stage) -> None:
    both: dict[str, Any] = {"session_ms": 12_000, "heartbeat_ms": 2_000}
    stage.started("ice", "fire", **both)
    stage.rest(2.0)
    stage.short["ice"].stop()
    stage.rest(3.0)
    stage.short["ice"].wake()
    stage.rest(5.0)


def _deploy(stage: Stage) -> None:
    stage.started("v-1", "v-2", "v-3", **LONG)
    stage.rest(4.0)
    stage.close("v-1", "v-2", "v-3")
    stage.rest(2.0)
    stage.started("v-1", "v-2", "v-3", **LONG)
    stage.rest(12.0)


@case(*STATIC, causes=("DEPLOY",), remedies=("group.instance.id",), calm=None)
def three_are_stopped_and_started(stage: Stage) -> None:
    _deploy(stage)


@case(KAFKAJS, causes=("DEPLOY",), calm=None)
def three_without_static_membership_are_stopped_and_started(stage: Stage) -> None:
    _deploy(stage)
