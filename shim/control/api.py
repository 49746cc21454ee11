"""The control API: what may be done to a coordinator over HTTP, version 1.

Decides which request does what, and how what cannot be is said: a status, Kafka's name of the error where there is one,
and one sentence. `OPERATIONS` is the whole of it; routes and the OpenAPI document are made from it, so that neither can
say what the other does not. What things do is in `bench.py`.

Reading and changing groups and topics is for everybody who may ask at all. Faults, barriers, time and brokers are for
test coordinators (`lab`): elsewhere they are answered 403.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, Final

import orjson
import trio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from apis.wire.errors import ErrorCode
from shim.broker.topics import TopicError
from shim.control.bench import Bench, Refused
from shim.server.awaiting import NotReached
from shim.server.barriers import Barrier
from shim.server.interception import Unmatchable, error_code, split_match
from shim.server.rewind import CannotRewind
from shim.server.watching import GroupSnapshot

MAX_BODY: Final = 1024 * 1024
MAX_TIMEOUT: Final = 300.0
_EVENTS_BEHIND: Final = 10_000
"""Events that a reader of the stream may be behind before it is cut off."""


class Problem(Exception):
    """A request that cannot be served, in one sentence."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error


Said = dict[str, Any]
Do = Callable[[Bench, Request, Said], Any]


@dataclass(frozen=True)
class Field:
    """A field of a request's body: its JSON type, and what it means."""

    type: str
    meaning: str
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """One operation. `fields` are those of its body; `lab` ones are for test coordinators alone."""

    method: str
    path: str
    summary: str
    do: Do
    fields: dict[str, Field]
    lab: bool = False


def make_routes(bench: Bench, lab: bool) -> list[Route]:
    """The routes of every operation, for Starlette."""

    async def handle(operation: Operation, request: Request) -> Response:
        try:
            if operation.lab and not lab:
                raise Problem(403, "FORBIDDEN", "Only a coordinator for tests does this: start it with --lab.")
            said = await _said(operation, request)
            done = operation.do(bench, request, said)
            if inspect.isawaitable(done):
                done = await done
            return done if isinstance(done, Response) else _json(done if done is not None else {})
        except Problem as problem:
            return _json({"error": problem.error, "message": str(problem)}, problem.status)
        except (Refused, CannotRewind) as refused:
            status = _STATUS.get(refused.error, 409)
            return _json({"error": refused.error.name, "message": str(refused)}, status)
        except (Unmatchable, TopicError, ValueError) as error:
            return _json({"error": "INVALID_REQUEST", "message": f"{str(error).rstrip('.')}."}, 400)
        except NotReached as error:
            return _json({"error": "NOT_REACHED", "message": str(error)}, 408)

    routes = [
        Route(operation.path, partial(_call, handle, operation), methods=[operation.method]) for operation in OPERATIONS
    ]
    document = orjson.dumps(openapi())

    async def show_document(request: Request) -> Response:
        return Response(document, media_type="application/json")

    return [Route("/v1/openapi.json", show_document), *routes]


async def _call(
    handle: Callable[[Operation, Request], Awaitable[Response]], operation: Operation, request: Request
) -> Response:
    return await handle(operation, request)


async def _said(operation: Operation, request: Request) -> Said:
    """The body, checked. Raises Problem."""
    if operation.method in ("GET", "DELETE"):
        return {}
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise Problem(413, "TOO_LARGE", f"A body has {MAX_BODY} bytes at most.")
    except ClientDisconnect:
        raise Problem(400, "INVALID_REQUEST", "The body is not whole.") from None
    try:
        said = orjson.loads(bytes(body)) if body else {}
    except orjson.JSONDecodeError as error:
        raise Problem(400, "INVALID_REQUEST", f"The body is no JSON: {error}.") from None
    if not isinstance(said, dict):
        raise Problem(400, "INVALID_REQUEST", "The body is a JSON object.")
    for name, value in said.items():
        field = operation.fields.get(name)
        if field is None:
            known = ", ".join(operation.fields) or "none"
            raise Problem(400, "INVALID_REQUEST", f"{name!r} is not a field of this request; there are: {known}.")
        if not _IS[field.type](value):
            raise Problem(400, "INVALID_REQUEST", f"{name} must be {_SAID[field.type]}.")
    for name, field in operation.fields.items():
        if field.required and name not in said:
            raise Problem(400, "INVALID_REQUEST", f"{name} is missing.")
    return said


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


# Groups


def _create_group(bench: Bench, request: Request, said: Said) -> Said:
    bench.create_group(said["group"], said.get("ephemeral", False))
    return {"group": said["group"], "ephemeral": said.get("ephemeral", False)}


def _delete_group(bench: Bench, request: Request, said: Said) -> Said:
    bench.delete_group(request.path_params["group"])
    return {"group": request.path_params["group"]}


async def _rewind(bench: Bench, request: Request, said: Said) -> Said:
    offsets = {}
    for each in said["offsets"]:
        topic, partition, offset = (each.get(name) for name in ("topic", "partition", "offset"))
        if not isinstance(topic, str) or not _is_integer(partition) or not _is_integer(offset):
            raise Problem(400, "INVALID_REQUEST", "Each of offsets has topic, partition and offset.")
        offsets[topic, partition] = offset
    rewind = bench.rewind(request.path_params["group"], offsets)
    await rewind.durable()
    over = await rewind.over(_timeout(said, 0.0)) if "timeout" in said else rewind.is_over
    return {"group": request.path_params["group"], "removed": rewind.removed, "over": over}


async def _await(bench: Bench, request: Request, said: Said) -> Said:
    with bench.watch.listening():
        return await _await_group(bench, request, said)


async def _await_group(bench: Bench, request: Request, said: Said) -> Said:
    group = bench.group(request.path_params["group"])
    timeout = _timeout(said, 10.0)
    match said["for"]:
        case "stable":
            found = await group.stable(
                members=said.get("members"),
                generation=said.get("generation"),
                owners=_owners(said.get("owners")),
                timeout=timeout,
            )
            return shown(found)
        case "owns":
            if not {"member", "partitions"} <= said.keys():
                raise Problem(400, "INVALID_REQUEST", "To own is to be a member with partitions.")
            owned = _owners({said["member"]: said["partitions"]})
            return shown(await group.owns(said["member"], owned[said["member"]], timeout=timeout))
        case "empty":
            return shown(await group.empty(timeout=timeout))
        case "committed":
            if not {"topic", "partition"} <= said.keys():
                raise Problem(400, "INVALID_REQUEST", "A committed offset has a topic and a partition.")
            offset = await group.committed(
                said["topic"], said["partition"], at_least=said.get("at_least"), timeout=timeout
            )
            return {"offset": offset}
        case "event":
            fields = said.get("fields", {})
            if fields.keys() & {"event", "timeout", "self"}:
                raise Problem(400, "INVALID_REQUEST", "The fields of an event are not event, timeout or self.")
            return await group.next(said.get("event", ""), timeout=timeout, **fields)
        case "no-rebalance":
            await group.no_rebalance_for(said.get("seconds"), heartbeats=said.get("heartbeats"), timeout=timeout)
            return shown(group.now)
        case other:
            raise Problem(400, "INVALID_REQUEST", f"{other!r} is not awaited: {', '.join(_AWAITED)} are.")


_AWAITED: Final = ("stable", "owns", "empty", "committed", "event", "no-rebalance")


def _owners(owners: Any) -> Any:
    if owners is None:
        return None
    for owned in owners.values():
        if not isinstance(owned, dict) or not all(
            isinstance(numbers, list) and all(_is_integer(number) for number in numbers) for numbers in owned.values()
        ):
            raise Problem(400, "INVALID_REQUEST", "Partitions are said as lists of numbers by topic.")
    return owners


def shown(group: GroupSnapshot) -> Said:
    """A group as an await answers it."""
    return {
        "group": group.group,
        "state": group.state,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "group_instance_id": member.instance_id,
                "assignment": member.owned,
            }
            for member in group.members
        ],
    }


def _story(bench: Bench, request: Request, said: Said) -> Said:
    return {"story": bench.watch.story(request.path_params["group"])}


async def _stream(bench: Bench, request: Request, said: Said) -> Response:
    group = request.query_params.get("group")
    send, receive = trio.open_memory_channel[bytes](_EVENTS_BEHIND)

    def tell(number: int, now: float, event: Said) -> None:
        if group is None or event.get("group") == group:
            stamped = event | {"seq": number, "mono": now, "wall": now + bench.cluster.wall_offset}
            try:
                send.send_nowait(b"id: %d\ndata: %s\n\n" % (number, orjson.dumps(stamped)))
            except trio.WouldBlock:
                send.close()
                end()

    end = bench.watch.follow(tell)
    bench.watch.start()

    async def events() -> AsyncIterator[bytes]:
        try:
            yield b": events of the coordinator\n\n"
            async for event in receive:
                yield event
        finally:
            receive.close()
            send.close()
            end()
            bench.watch.stop()

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})


# Topics


def _topics(bench: Bench, request: Request, said: Said) -> Said:
    topics = sorted(bench.cluster.topics.all(), key=lambda topic: topic.name)
    return {"topics": [{"topic": topic.name, "partitions": len(topic.partitions)} for topic in topics]}


def _create_topic(bench: Bench, request: Request, said: Said) -> Said:
    if bench.cluster.topics.named(said["topic"]) is not None:
        raise Problem(409, "TOPIC_ALREADY_EXISTS", "There is such a topic already.")
    partitions = said.get("partitions", 1)
    if not 1 <= partitions <= 10_000:
        raise Problem(400, "INVALID_PARTITIONS", "A topic has from 1 to 10000 partitions.")
    bench.cluster.topics.check_new(said["topic"])
    bench.cluster.topics.declare(said["topic"], partitions)
    bench.settle()
    return {"topic": said["topic"], "partitions": partitions}


def _delete_topic(bench: Bench, request: Request, said: Said) -> Said:
    topic = bench.cluster.topics.named(request.path_params["topic"])
    if topic is None or topic.is_internal:
        raise Problem(404, "UNKNOWN_TOPIC_OR_PARTITION", "There is no such topic.")
    bench.cluster.topics.delete(topic)
    bench.settle()
    return {"topic": topic.name}


# Faults and barriers


def _faults(bench: Bench, request: Request, said: Said) -> Said:
    return {"faults": [fault.to_json() for fault in bench.faults]}


def _add_fault(bench: Bench, request: Request, said: Said) -> Said:
    return bench.faults.declare(said).to_json()


def _clear_fault(bench: Bench, request: Request, said: Said) -> Said:
    fault = bench.faults.get(_number(request, "fault"))
    if fault is None:
        raise Problem(404, "NOT_FOUND", "There is no such fault.")
    fault.clear()
    return fault.to_json()


def _clear_faults(bench: Bench, request: Request, said: Said) -> Said:
    cleared = [fault.to_json() for fault in bench.faults]
    bench.faults.clear()
    return {"faults": cleared}


def _barriers(bench: Bench, request: Request, said: Said) -> Said:
    return {"barriers": [barrier.to_json() for barrier in bench.barriers.barriers.values()]}


def _add_barrier(bench: Bench, request: Request, said: Said) -> Said:
    if "error" in said:
        said["error"] = int(error_code(said["error"]))
    match, rest = split_match(said)
    point = rest["point"]
    if point in ("request", "answer"):
        return bench.barriers.add(match, point).to_json()
    return bench.barriers.at(point, match).to_json()


async def _reached(bench: Bench, request: Request, said: Said) -> Said:
    barrier = _barrier(bench, request)
    if not await barrier.reached_by(said.get("requests", 1), _timeout(said, 10.0)):
        raise NotReached(f"The {barrier} holds {len(barrier.held)}.")
    return barrier.to_json()


def _release(bench: Bench, request: Request, said: Said) -> Said:
    requests = said.get("requests")
    if requests is not None and requests < 1:
        raise Problem(400, "INVALID_REQUEST", "requests is at least 1.")
    return {"released": _barrier(bench, request).release(requests)}


def _remove_barrier(bench: Bench, request: Request, said: Said) -> Said:
    barrier = _barrier(bench, request)
    barrier.remove()
    return barrier.to_json()


def _barrier(bench: Bench, request: Request) -> Barrier:
    barrier = bench.barriers.barriers.get(_number(request, "barrier"))
    if barrier is None:
        raise Problem(404, "NOT_FOUND", "There is no such barrier.")
    return barrier


# Time and brokers


def _clock(bench: Bench, request: Request, said: Said) -> Said:
    clock = _own_clock(bench)
    return {"now": clock(), "frozen": clock.is_frozen}


def _set_clock(bench: Bench, request: Request, said: Said) -> Said:
    _own_clock(bench)
    if "frozen" in said:
        if said["frozen"]:
            bench.freeze()
        else:
            bench.resume()
    seconds = said.get("advance", 0)
    if not 0 <= seconds <= 366 * 86_400:
        raise Problem(400, "INVALID_REQUEST", "The clock is put forward by a year at most, and not back.")
    if seconds:
        bench.advance(seconds)
    bench.settle()
    return _clock(bench, request, said)


def _own_clock(bench: Bench) -> Any:
    if bench.clock is None:
        raise Problem(403, "FORBIDDEN", "This coordinator's clock is not to be changed.")
    return bench.clock


def _brokers(bench: Bench, request: Request, said: Said) -> Said:
    return {
        "brokers": [
            {"broker": node.id, "host": node.address.host, "port": node.address.port, "up": node.up}
            for node in bench.cluster.nodes.values()
        ],
        "load_seconds": bench.cluster.loader.seconds,
    }


def _set_broker(bench: Bench, request: Request, said: Said) -> Said:
    broker = _number(request, "broker")
    match said["do"]:
        case "stop":
            bench.cluster.stop_broker(broker)
        case "kill":
            bench.cluster.kill_broker(broker)
        case "restart":
            bench.cluster.restart_broker(broker)
        case other:
            raise Problem(400, "INVALID_REQUEST", f"A broker can stop, kill or restart, not {other!r}.")
    bench.settle()
    return _brokers(bench, request, said)


def _move(bench: Bench, request: Request, said: Said) -> Said:
    bench.move(request.path_params["group"], said["broker"])
    bench.settle()
    return {"group": request.path_params["group"], "coordinator": bench.coordinator_of(request.path_params["group"])}


def _set_loading(bench: Bench, request: Request, said: Said) -> Said:
    seconds = said["seconds"]
    if not 0 <= seconds <= 3600:
        raise Problem(400, "INVALID_REQUEST", "A load takes an hour at most.")
    bench.load_takes(seconds)
    return {"seconds": seconds}


def _fail_store(bench: Bench, request: Request, said: Said) -> Said:
    store = getattr(bench, "store", None)
    if store is None:
        raise Problem(403, "FORBIDDEN", "This coordinator's store cannot be made to fail.")
    store.fail(said.get("times", 1))
    return {"times": said.get("times", 1)}


def _number(request: Request, name: str) -> int:
    text = request.path_params[name]
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise Problem(404, "NOT_FOUND", f"There is no such {name}.")
    return int(text)


def _timeout(said: Said, default: float) -> float:
    timeout = float(said.get("timeout", default))
    if not 0 <= timeout <= MAX_TIMEOUT:
        raise Problem(400, "INVALID_REQUEST", f"A timeout is {MAX_TIMEOUT:.0f} seconds at most.")
    return timeout


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


_IS: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str) and len(value.encode("utf-8", "replace")) <= 32767,
    "integer": _is_integer,
    "number": lambda value: _is_integer(value) or (isinstance(value, float) and isfinite(value)),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "objects": lambda value: isinstance(value, list) and all(isinstance(each, dict) for each in value),
    "code": lambda value: _is_integer(value) or isinstance(value, str),
    "members": lambda value: (
        _is_integer(value) or (isinstance(value, list) and all(isinstance(each, str) for each in value))
    ),
    "times": lambda value: value is None or _is_integer(value),
}
_SAID: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "objects": "a list of objects",
    "code": "an error of Kafka's protocol, by number or by name",
    "members": "a number, or a list of names",
    "times": "a whole number, or null for always",
}
_STATUS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.INVALID_GROUP_ID: 400,
    ErrorCode.OFFSET_OUT_OF_RANGE: 400,
}

_MATCH: Final = {
    "api": Field("string", "name of an API, JoinGroup for example"),
    "group": Field("string", "group id; `*` and `?` as in file names, here and in all texts"),
    "member": Field("string", "member id"),
    "instance": Field("string", "group instance id"),
    "client_id": Field("string", "client id"),
    "generation": Field("integer", "generation the request says"),
    "state": Field("string", "state of the group"),
    "role": Field("string", "leader or follower"),
    "broker": Field("integer", "id of the broker asked"),
    "error": Field("code", "error of the answer, where answers are meant; for the action error, the error to answer"),
}
_PLAN: Final = {
    "action": Field("string", "error, delay, drop, swallow, close, duplicate, half-open or slow", True),
    "code": Field("code", "the error to answer"),
    "seconds": Field("number", "how long to delay"),
    "bytes_per_second": Field("number", "how slow"),
    "when": Field("string", "close: before, applied or answered"),
    "applied": Field("boolean", "do it to the answer, when the request has taken effect"),
    "times": Field("times", "how often; once unless said"),
    "nth": Field("integer", "only the n-th time"),
    "probability": Field("number", "by chance"),
    "seed": Field("integer", "what chance is drawn from"),
    "optional": Field("boolean", "whether it need not happen"),
}
_WAIT: Final = {"timeout": Field("number", "real seconds to wait at most")}
_GROUP: Final = "/v1/groups/{group:path}"

OPERATIONS: Final = (
    Operation("GET", "/v1/events", "What happens from now on, as server-sent events.", _stream, {}),
    Operation("GET", "/v1/topics", "All topics.", _topics, {}),
    Operation(
        "POST",
        "/v1/topics",
        "Make a topic.",
        _create_topic,
        {"topic": Field("string", "its name", True), "partitions": Field("integer", "how many")},
    ),
    Operation("DELETE", "/v1/topics/{topic}", "Delete a topic.", _delete_topic, {}),
    Operation(
        "POST",
        "/v1/groups",
        "Make an Empty group before anybody joins it.",
        _create_group,
        {
            "group": Field("string", "group id", True),
            "ephemeral": Field("boolean", "delete it when its last member is gone"),
        },
    ),
    Operation(
        "POST",
        _GROUP + "/rewind",
        "Let a group, alive or not, begin anew from other offsets.",
        _rewind,
        {"offsets": Field("objects", "objects of topic, partition and offset", True), **_WAIT},
    ),
    Operation(
        "POST",
        _GROUP + "/await",
        "Wait for what becomes of a group.",
        _await,
        {
            "for": Field("string", ", ".join(_AWAITED), True),
            "members": Field("members", "stable: how many, or what they are called"),
            "generation": Field("integer", "stable: this generation or a later one"),
            "owners": Field("object", "stable: by member, partitions by topic"),
            "member": Field("string", "owns: member id, client id or group instance id"),
            "partitions": Field("object", "owns: partitions by topic"),
            "topic": Field("string", "committed: the topic"),
            "partition": Field("integer", "committed: the partition"),
            "at_least": Field("integer", "committed: the offset to reach"),
            "event": Field("string", "event: its kind"),
            "fields": Field("object", "event: what its fields must be"),
            "seconds": Field("number", "no-rebalance: how long"),
            "heartbeats": Field("integer", "no-rebalance: until everybody has sent so many"),
            **_WAIT,
        },
    ),
    Operation("GET", _GROUP + "/story", "What happened to a group, in lines a person reads.", _story, {}),
    Operation(
        "POST",
        _GROUP + "/move",
        "Let another broker coordinate a group.",
        _move,
        {"broker": Field("integer", "its id", True)},
        lab=True,
    ),
    Operation("DELETE", _GROUP, "Delete an Empty group and its offsets.", _delete_group, {}),
    Operation("GET", "/v1/faults", "All faults in force.", _faults, {}, lab=True),
    Operation("POST", "/v1/faults", "Put a fault in force.", _add_fault, _MATCH | _PLAN, lab=True),
    Operation("DELETE", "/v1/faults", "Let no fault happen any more.", _clear_faults, {}, lab=True),
    Operation("DELETE", "/v1/faults/{fault}", "Let a fault happen no more.", _clear_fault, {}, lab=True),
    Operation("GET", "/v1/barriers", "All barriers in force.", _barriers, {}, lab=True),
    Operation(
        "POST",
        "/v1/barriers",
        "Hold requests, or answers, until they are let go.",
        _add_barrier,
        {"point": Field("string", "request, answer, a named point, or an API", True), **_MATCH},
        lab=True,
    ),
    Operation(
        "POST",
        "/v1/barriers/{barrier}/await",
        "Wait until a barrier holds so many.",
        _reached,
        {"requests": Field("integer", "how many"), **_WAIT},
        lab=True,
    ),
    Operation(
        "POST",
        "/v1/barriers/{barrier}/release",
        "Let go what a barrier holds.",
        _release,
        {"requests": Field("integer", "how many of them")},
        lab=True,
    ),
    Operation(
        "DELETE", "/v1/barriers/{barrier}", "Let go everything, and hold nothing more.", _remove_barrier, {}, lab=True
    ),
    Operation("GET", "/v1/clock", "The coordinator's time.", _clock, {}, lab=True),
    Operation(
        "POST",
        "/v1/clock",
        "Stop the coordinator's clock, let it go on, put it forward.",
        _set_clock,
        {"frozen": Field("boolean", "whether it stands"), "advance": Field("number", "seconds to put it forward")},
        lab=True,
    ),
    Operation("GET", "/v1/brokers", "All brokers.", _brokers, {}),
    Operation(
        "POST",
        "/v1/brokers/{broker}",
        "Stop, kill or restart a broker.",
        _set_broker,
        {"do": Field("string", "stop, kill or restart", True)},
        lab=True,
    ),
    Operation(
        "POST",
        "/v1/loading",
        "Let every load of partitions take longer.",
        _set_loading,
        {"seconds": Field("number", "how much", True)},
        lab=True,
    ),
    Operation(
        "POST",
        "/v1/store/fail",
        "Let the next writes to the store fail.",
        _fail_store,
        {"times": Field("times", "how many; one unless said")},
        lab=True,
    ),
)
"""Every operation, in the order in which they are tried."""


# The OpenAPI document

_SCHEMAS: Final[dict[str, Said]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "object": {"type": "object"},
    "objects": {"type": "array", "items": {"type": "object"}},
    "code": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    "members": {"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
    "times": {"type": ["integer", "null"]},
}


def openapi() -> Said:
    """The OpenAPI document of the operations."""
    paths: dict[str, Said] = {}
    for operation in OPERATIONS:
        path = operation.path.replace(":path}", "}")
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        described: Said = {
            "summary": operation.summary,
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ],
            "responses": {
                "200": {"description": "Done."},
                "default": {
                    "description": "It cannot be done; `message` says why.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
                },
            },
        }
        if operation.fields:
            schema: Said = {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    name: {**_SCHEMAS[field.type], "description": field.meaning}
                    for name, field in operation.fields.items()
                },
                "required": [name for name, field in operation.fields.items() if field.required],
            }
            if not schema["required"]:
                del schema["required"]
            described["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        paths.setdefault(path, {})[operation.method.lower()] = described
    problem = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "message": {"type": "string"}},
        "required": ["error", "message"],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Control API of the group coordinator", "version": "1"},
        "paths": paths,
        "components": {"schemas": {"Problem": problem}},
    }
