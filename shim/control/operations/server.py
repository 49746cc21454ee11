"""The server as a whole over HTTP: health, and metrics.

Decides when a server counts as healthy: when every partition of `__consumer_offsets` that it has is served.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import orjson
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from kafka_shim.control.operation import Answer, Operation
from kafka_shim.control.workbench import Workbench


class Health(Answer, kw_only=True):
    """Whether everything is served."""

    status: Literal["ok", "degraded"]
    partitions: (
        Annotated[
            dict[Literal["loading", "failed"], int],
            Meta(description="How many partitions of __consumer_offsets are not served, and why."),
        ]
        | UnsetType
    ) = UNSET


def _health(workbench: Workbench) -> Response:
    states = [state for node in workbench.cluster.nodes.values() for state in node.groups.partitions().values()]
    waiting = {state: states.count(state) for state in ("loading", "failed") if state in states}
    if waiting:
        return Response(orjson.dumps({"status": "degraded", "partitions": waiting}), 503, media_type="application/json")
    return Response(b'{"status":"ok"}', media_type="application/json")


async def _metrics(workbench: Workbench) -> Response:
    return Response(await workbench.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/health",
        summary="Whether every partition of __consumer_offsets is served.",
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
