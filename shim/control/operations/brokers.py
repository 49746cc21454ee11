"""Brokers and their store over HTTP: stop, kill and restart them, slow their loads, fail their writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.operation import Answer, Body, Operation
from kafka_shim.control.workbench import Workbench
from kafka_shim.server.refusals import Refused

if TYPE_CHECKING:
    from kafka_shim.control.lab_workbench import LabWorkbench
    from kafka_shim.lab.failing_store import BreakableStore


class Broker(Answer, kw_only=True):
    """A broker."""

    broker: Annotated[int, Meta(description="Its id.")]
    host: str
    port: int
    up: bool


class Brokers(Answer, kw_only=True):
    """All brokers."""

    brokers: list[Broker]
    load_seconds: Annotated[float, Meta(description="How much longer than it must every load of partitions takes.")]


class SetBroker(Body, kw_only=True):
    """The change of a broker."""

    do: Literal["stop", "kill", "restart"]


class SetLoading(Body, kw_only=True):
    """Seconds that every load of partitions takes in addition from now on."""

    seconds: Annotated[float, Meta(ge=0, le=3600)]


class LoadingSet(Answer, kw_only=True):
    """Seconds that every load of partitions takes in addition."""

    seconds: float


class FailStore(Body, kw_only=True):
    """The number of writes that fail."""

    times: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        Meta(description="How many; null for all until repaired."),
    ] = 1


class StoreFails(Answer, kw_only=True):
    """The number of writes that fail from now on; null for all."""

    times: int | None


def _brokers(workbench: Workbench) -> Brokers:
    return Brokers(
        brokers=[
            Broker(broker=node.id, host=node.address.host, port=node.address.port, up=node.up)
            for node in workbench.cluster.nodes.values()
        ],
        load_seconds=workbench.cluster.loader.seconds,
    )


def _set(workbench: LabWorkbench, broker: int, body: SetBroker) -> Brokers:
    workbench.check_broker(broker, up=body.do != "restart")
    match body.do:
        case "stop":
            workbench.cluster.stop_broker(broker)
        case "kill":
            workbench.cluster.kill_broker(broker)
        case "restart":
            workbench.cluster.restart_broker(broker)
    workbench.settle()
    return _brokers(workbench)


def _load(workbench: LabWorkbench, body: SetLoading) -> LoadingSet:
    workbench.load_takes(body.seconds)
    return LoadingSet(seconds=body.seconds)


def _fail(workbench: LabWorkbench, body: FailStore) -> StoreFails:
    _breakable(workbench).fail(body.times)
    if workbench.cluster.config.journal is not None:
        workbench.cluster.config.journal.end("the store is made to fail")
    return StoreFails(times=body.times)


def _repair(workbench: LabWorkbench) -> StoreFails:
    _breakable(workbench).repair()
    return StoreFails(times=0)


def _breakable(workbench: LabWorkbench) -> BreakableStore:
    if workbench.store is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "This coordinator's store cannot be made to fail.")
    return workbench.store


OPERATIONS: Final = (
    Operation(method="GET", path="/v1/brokers", summary="All brokers.", do=_brokers, answers=(Brokers,), tag="brokers"),
    Operation(
        method="POST",
        path="/v1/brokers/{broker}",
        summary="Stop, kill or restart a broker.",
        do=_set,
        body=SetBroker,
        answers=(Brokers,),
        problems=(404, 409),
        lab=True,
        tag="brokers",
        example={"do": "kill"},
    ),
    Operation(
        method="POST",
        path="/v1/loading",
        summary="Let every load of partitions take longer.",
        do=_load,
        body=SetLoading,
        answers=(LoadingSet,),
        lab=True,
        tag="brokers",
        example={"seconds": 2},
    ),
    Operation(
        method="POST",
        path="/v1/store/fail",
        summary="Let the next writes to the store fail.",
        do=_fail,
        body=FailStore,
        answers=(StoreFails,),
        problems=(409,),
        lab=True,
        tag="brokers",
        example={"times": 1},
    ),
    Operation(
        method="DELETE",
        path="/v1/store/fail",
        summary="Let the store write again.",
        do=_repair,
        answers=(StoreFails,),
        problems=(409,),
        lab=True,
        tag="brokers",
    ),
)
