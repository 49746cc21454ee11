"""The control server's routes: health, metrics, groups, and those of the control API (`api.py`) beside them.

Decides which path shows what, and who may ask: with a `token`, only who says it as a bearer token. Everything here only
looks. Handlers are short and give way often, since they share their thread with the coordinator.

    GET /health              200 and {"status": "ok"}, or 503 while partitions are loading or after one has failed
    GET /metrics             Prometheus' text format
    GET /v1/groups           {"groups": [...]}
    GET /v1/groups/{id}      one group with members, subscriptions, assignments and offsets; 404 if there is none
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from shim.control.api import make_routes
from shim.control.bearer import Bearer
from shim.control.bench import Bench
from shim.control.groups import described, each_group, summary
from shim.control.metrics import Metrics
from shim.server.cluster import Cluster


def make_app(cluster: Cluster, bench: Bench | None = None, lab: bool = False, token: str | None = None) -> Starlette:
    """The application that shows `cluster` and does with it what `bench` can; what is `lab` only for tests."""
    metrics = Metrics(cluster)

    async def health(request: Request) -> Response:
        states = [state for node in cluster.nodes.values() for state in node.groups.partitions().values()]
        waiting = {state: states.count(state) for state in ("loading", "failed") if state in states}
        if waiting:
            return _json({"status": "degraded", "partitions": waiting}, 503)
        return _json({"status": "ok"})

    async def show_metrics(request: Request) -> Response:
        return Response(await metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def groups(request: Request) -> Response:
        return StreamingResponse(_list(cluster), media_type="application/json")

    async def group(request: Request) -> Response:
        found = await described(cluster, request.path_params["group_id"])
        if found is None:
            return _json({"error": "GROUP_ID_NOT_FOUND", "message": "There is no such group."}, 404)
        return _json(found)

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/metrics", show_metrics),
            *([] if bench is None else make_routes(bench, lab)),
            Route("/v1/groups", groups),
            Route("/v1/groups/{group_id:path}", group),
        ],
        middleware=[] if token is None else [Middleware(Bearer, token=token)],
    )


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


async def _list(cluster: Cluster) -> AsyncIterator[bytes]:
    """The list of groups as it is found, piece by piece."""
    piece = [b'{"groups":[']
    separator = b""
    async for node, group in each_group(cluster):
        piece += [separator, orjson.dumps(summary(node, group))]
        separator = b","
        if len(piece) > 400:
            yield b"".join(piece)
            piece.clear()
    yield b"".join([*piece, b"]}"])
