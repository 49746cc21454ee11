"""Lives of the eight clients for the rules that were mended with the three sets before: the set of the table by client.

The answers were committed after those rules and before the first recording; docs/why.md has the first judgement.
"""

from __future__ import annotations

from typing import Any, Final

from tests.why.provoked.cases import AIO, CONFLUENT, JAVA, KP2, KP3, Case, collector
from tests.why.provoked.eight import ALL, LONG, STATIC
from tests.why.provoked.stage import Stage
from tests.why.provoked.unseen import POLLS

EIGHT_FINAL: Final[list[Case]] = []
case = collector(EIGHT_FINAL)

TEN: Final[dict[str, Any]] = {"session_ms": 10_000, "heartbeat_ms": 2_000}


# Faults


@case(*(KP2, KP3, AIO, CONFLUENT, JAVA), causes=("POLL_TIMEOUT_REASON",), culprits=("invoices",), remedies=POLLS)
def invoices_take_too_long(stage: Stage) -> None:
    stage.started("invoices", "orders", **TEN, max_poll_ms=11_000)
    stage.produce()
    stage.rest(4.0)
    stage.short["invoices"].do("hold")
    stage.whole("orders")
    stage.rest(2.0)
    stage.short["invoices"].do("go")
    stage.whole()
    stage.rest(1.0)


@case(*(KP2, KP3, CONFLUENT, JAVA), causes=("POLL_TIMEOUT_REASON",), culprits=("locked",), remedies=POLLS)
def a_lock_is_never_released(stage: Stage) -> None:
    stage.started("locked", "free", **TEN, max_poll_ms=10_500)
    stage.rest(3.0)
    stage.short["locked"].do("hold")
    stage.whole("free")
    stage.rest(7.0)


@case(*STATIC, causes=("DUPLICATE_INSTANCE_ID",), culprits=("cell-1",), remedies=("group.instance.id",))
def a_template_gives_two_pods_one_identity(stage: Stage) -> None:
    stage.start("pod-1", instance="cell-1", **LONG)
    stage.start("pod-2", instance="cell-2", **LONG)
    stage.start("pod-3", instance="cell-1", **LONG)
    stage.rest(15.0)


@case(*ALL, causes=("SESSION_EXPIRED",), culprits=("victim",), remedies=("process",))
def one_of_five_dies_at_work(stage: Stage) -> None:
    stage.started("victim", "w-1", "w-2", "w-3", "w-4", **TEN)
    stage.produce()
    stage.rest(2.0)
    stage.kill("victim")
    stage.whole()
    stage.rest(3.0)


@case(*ALL, causes=("PAUSED_MEMBER",), culprits=("laptop",), remedies=("session.timeout.ms",))
def a_laptop_sleeps(stage: Stage) -> None:
    stage.started("laptop", "desktop", **TEN)
    stage.rest(1.0)
    stage.short["laptop"].stop()
    stage.whole("desktop")
    stage.rest(6.0)
    stage.short["laptop"].wake()
    stage.whole()
    stage.rest(1.0)


@case(*ALL, causes=("JOIN_REFUSED",), culprits=("eager",), remedies=("session.timeout.ms",))
def one_of_four_asks_for_three_seconds(stage: Stage) -> None:
    stage.started("calm-1", "calm-2", "calm-3", **TEN)
    stage.start("eager", session_ms=3_000, heartbeat_ms=700)
    stage.rest(7.0)


# Healthy


@case(*ALL, causes=("SCALE_OUT", "SCALE_IN"), calm=True)
def an_hour_of_load(stage: Stage) -> None:
    stage.started("keep")
    stage.rest(13.0)
    stage.started("add-1", "add-2")
    stage.rest(18.0)
    stage.close("add-2", "add-1")
    stage.whole()
    stage.rest(9.0)


@case(*ALL, causes=("START",), calm=True)
def three_work_in_peace(stage: Stage) -> None:
    stage.started("p-1", "p-2", "p-3", **TEN)
    for _ in range(2):
        stage.produce()
        stage.rest(4.0)
