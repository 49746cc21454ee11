"""The control API, version 1: finds the operation of a request, checks the request, and writes the answer.

The operations are in `operations/`, a module for each subject; the OpenAPI document is made of them too.

Every client may read and change groups and topics. Faults, barriers, puppets, time and brokers are for test
coordinators (`lab`): elsewhere they are answered 403.

A name in a path is one percent-encoded segment: the group `team/billing` is `/v1/groups/team%2Fbilling`.
"""

from __future__ import annotations

import inspect
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
import orjson
import trio
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kafka_shim.control.documentation import STYLE, documentation, policy
from kafka_shim.control.openapi import openapi
from kafka_shim.control.operation import NUMBERED, PATH_TYPES, Operation
from kafka_shim.control.operations import (
    assignments,
    brokers,
    clients,
    events,
    frames,
    groups,
    lessons,
    records,
    topics,
    waits,
)
from kafka_shim.control.operations import server as of_server
from kafka_shim.control.page import page_routes
from kafka_shim.control.problems import Problem, invalid, problem_of
from kafka_shim.control.semantics import semantics_routes
from kafka_shim.control.workbench import Workbench

MAX_BODY: Final = 1024 * 1024
BODY_SECONDS: Final = 10.0
"""Seconds within which a body must arrive."""

LAB_PATHS: Final = ("/v1/faults", "/v1/barriers", "/v1/puppets", "/v1/simulations", "/v1/clock", "/v1/sandboxes")
"""The paths of operations that are imported only if the coordinator is for tests."""


def operations(lab: bool) -> tuple[Operation, ...]:
    """Return the operations of a coordinator; with `lab` all of them."""
    served = (
        *of_server.OPERATIONS,
        *events.OPERATIONS,
        *frames.OPERATIONS,
        *groups.OPERATIONS,
        *waits.OPERATIONS,
        *topics.OPERATIONS,
        *records.OPERATIONS,
        *brokers.OPERATIONS,
        *clients.OPERATIONS,
        *assignments.OPERATIONS,
        *lessons.OPERATIONS,
    )
    if not lab:
        return served
    # Imported here because a server that is not a laboratory does not need them.
    from kafka_shim.control.operations import barriers, faults, puppets, sandboxes, simulations, time

    of_lab = (faults, barriers, puppets, simulations, time, sandboxes)
    return (*served, *(operation for module in of_lab for operation in module.OPERATIONS))


def make_routes(workbench: Workbench, lab: bool, with_token: bool) -> list[Route]:
    """Return the routes of every operation, for Starlette."""
    by_path: dict[str, dict[str, Operation]] = {}
    for each in operations(lab):
        by_path.setdefault(each.path, {})[each.method] = each
    described = openapi(operations(lab), with_token)
    document, page = orjson.dumps(described), documentation(described)

    async def show_document(request: Request) -> Response:
        return Response(document, media_type="application/json")

    async def show_page(request: Request) -> Response:
        return Response(page, headers=policy(STYLE), media_type="text/html; charset=utf-8")

    async def refuse(request: Request) -> Response:
        return _ONLY_FOR_TESTS.answer()

    refused = [] if lab else [path + rest for path in LAB_PATHS for rest in ("", "/{rest:path}")]
    return [
        Route("/v1/openapi.json", show_document),
        Route("/openapi.json", show_document),
        Route("/docs", show_page),
        *page_routes(lab=lab),
        *semantics_routes(workbench),
        *(Route(path, refuse, methods=["GET", "POST", "DELETE"]) for path in refused),
        *(_route(path, of_path, workbench, lab) for path, of_path in by_path.items()),
    ]


_ONLY_FOR_TESTS: Final = Problem(403, "FORBIDDEN", "Only a coordinator for tests does this: start it with --lab.")


def _route(path: str, by_method: dict[str, Operation], workbench: Workbench, lab: bool) -> Route:
    async def serve(request: Request) -> Response:
        operation = by_method["GET" if request.method == "HEAD" else request.method]
        try:
            if operation.lab and not lab:
                raise _ONLY_FOR_TESTS
            return await _serve(operation, workbench, request)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            return problem.answer()

    return Route(path, serve, methods=list(by_method))


async def _serve(operation: Operation, workbench: Workbench, request: Request) -> Response:
    arguments: list[Any] = [_segment(name, request.path_params[name]) for name in operation.names]
    if operation.body is not None:
        arguments.append(await _body(operation, request))
    if operation.query is not None:
        arguments.append(_query(operation, request.query_params))
    done = operation.do(workbench, *arguments)
    if inspect.isawaitable(done):
        done = await done
    if isinstance(done, Response):
        return done
    return Response(msgspec.json.encode(done), media_type="application/json")


def _segment(name: str, text: str) -> Any:
    """Convert a segment of the path to the type of its name. Raises Problem."""
    try:
        segment = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise Problem(400, "INVALID_REQUEST", "The path is no UTF-8.") from None
    try:
        return msgspec.convert(segment, PATH_TYPES[name], strict=False)
    except msgspec.ValidationError as error:
        if name in NUMBERED:
            raise Problem(404, "NOT_FOUND", f"There is no such {name}.") from None
        raise invalid(error) from None


async def _body(operation: Operation, request: Request) -> Any:
    """Read and check the body. Raises Problem."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = bytearray()
    try:
        with trio.fail_after(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY:
                    raise Problem(413, "TOO_LARGE", f"A body has {MAX_BODY} bytes at most.")
    except ClientDisconnect:
        raise Problem(400, "INVALID_REQUEST", "The body is not whole.") from None
    except trio.TooSlowError:
        raise Problem(408, "TOO_SLOW", f"A body comes within {BODY_SECONDS:.0f} seconds.") from None
    if kind != "application/json" and (body or kind):
        # Without this check any web page could make a browser send a body as plain text.
        raise Problem(415, "NOT_JSON", "A body is sent with the header Content-Type: application/json.")
    decoded = None
    try:
        decoded = _DECODER.decode(bytes(body) or b"{}")
        if operation.choice is not None:
            operation.choice.fill(decoded)
        return msgspec.convert(decoded, operation.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(error, operation.body, decoded) from None


def _number(text: str) -> int | float:
    """Convert a number with a point or an exponent, to int if it is whole, as in JSON Schema."""
    number = float(text)
    return int(number) if number.is_integer() else number


_DECODER: Final = msgspec.json.Decoder(float_hook=_number)


def _query(operation: Operation, query: QueryParams) -> Any:
    try:
        return msgspec.convert(dict(query), operation.query, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error, operation.query) from None
