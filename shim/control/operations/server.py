"""The server as a whole over HTTP: health, and metrics.

A server is healthy when it serves every partition of `__consumer_offsets` that it has, and the store has taken the last
batch, or a probe after it. The exceptions that its guards have caught are only counted: one client that makes a rule
fail must not make the server unhealthy for all others.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import orjson
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from kafka_shim.control.operation import Answer, Operation
from kafka_shim.control.workbench import Workbench


class Health(Answer, kw_only=True):
    """The health of the server."""

    status: Literal["ok", "degraded"]
    partitions: (
        Annotated[
            dict[Literal["loading", "failed"], int],
            Meta(description="How many partitions of __consumer_offsets are not served, and why."),
        ]
        | UnsetType
    ) = UNSET
    store: (
        Annotated[Literal["failed"], Meta(description="The store takes no batches; the log says why.")] | UnsetType
    ) = UNSET
    failures: (
        Annotated[
            dict[str, int],
            Meta(description="The exceptions that guards have caught, by border (docs/architecture.md)."),
        ]
        | UnsetType
    ) = UNSET


class ServerShown(Answer, kw_only=True):
    """The address for clients, and the events that the server remembers."""

    bootstrap: Annotated[str, Meta(description="The bootstrap servers for clients.")]
    newest: Annotated[int, Meta(description="The number of the newest event.")]
    forgotten: Annotated[int, Meta(description="How many events of groups and members are forgotten.")]
    forgotten_requests: Annotated[int, Meta(description="How many events of requests are forgotten.")]


def _server(workbench: Workbench) -> ServerShown:
    forgotten, forgotten_requests = workbench.history.dropped
    return ServerShown(
        bootstrap=workbench.bootstrap,
        newest=workbench.history.seen,
        forgotten=forgotten,
        forgotten_requests=forgotten_requests,
    )


def _health(workbench: Workbench) -> Response:
    states = [state for node in workbench.cluster.nodes.values() for state in node.groups.partitions().values()]
    waiting = {state: states.count(state) for state in ("loading", "failed") if state in states}
    degraded: dict[str, Any] = {"partitions": waiting} if waiting else {}
    if workbench.cluster.durability.failing:
        degraded["store"] = "failed"
    body = {"status": "degraded" if degraded else "ok"} | degraded
    if failures := workbench.cluster.failures.by_border:
        body["failures"] = failures
    return Response(orjson.dumps(body), 503 if degraded else 200, media_type="application/json")


async def _metrics(workbench: Workbench) -> Response:
    return Response(await workbench.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/server",
        summary="The address for clients, and the number of remembered and of forgotten events.",
        do=_server,
        answers=(ServerShown,),
        tag="server",
    ),
    Operation(
        method="GET",
        path="/health",
        summary="Whether every partition of __consumer_offsets is served, and written.",
        do=_health,
        answers=(Health,),
        degraded=True,
        tag="server",
    ),
    Operation(
        method="GET",
        path="/metrics",
        summary="Metrics under Kafka's names, in Prometheus' text format.",
        do=_metrics,
        media_type="text/plain",
        tag="server",
    ),
)
