"""What happens, as server-sent events over HTTP: the events of docs/trace.md, from now on or from a number on.

Decides how far a reader may be behind before it is cut off. Who reads slowly costs its own memory only, and bounded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import nullcontext
from math import inf
from typing import Annotated, Any, Final, Literal

import orjson
import trio
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response, StreamingResponse

from kafka_shim.control.operation import MAX_TEXT, Answer, Body, Operation
from kafka_shim.control.workbench import Workbench
from kafka_shim.why.narration import Narrator

_BEHIND: Final = 10_000
"""Events that a reader of the stream may be behind before it is cut off."""
_BREATH_SECONDS: Final = 15.0
"""After so much silence a comment is sent, so that it shows when nobody is there any more."""


class Query(Body, kw_only=True):
    """Which events, and for how long."""

    group: Annotated[str, Meta(max_length=MAX_TEXT, description="Only those of this group.")] | UnsetType = UNSET
    seconds: (
        Annotated[float, Meta(ge=0, le=86_400, description="End after so many real seconds; never by default.")]
        | UnsetType
    ) = UNSET
    since: (
        Annotated[int, Meta(ge=0, description="Begin with the events kept after this number; 0 is all that are kept.")]
        | UnsetType
    ) = UNSET
    frames: Annotated[bool, Meta(description="Keep the bytes of requests and answers meanwhile, for /v1/frames.")] = (
        False
    )
    form: Annotated[
        Literal["events", "story"], Meta(description="As docs/trace.md has them, or in lines a person reads.")
    ] = "events"


class ServerSentEvent(Answer, kw_only=True):
    """One event of the stream: JSON, or a line of the story."""

    id: Annotated[str, Meta(description="Its number.")] | UnsetType = UNSET
    event: Literal["message"] = "message"
    data: str


def _stream(workbench: Workbench, query: Query) -> Response:
    return StreamingResponse(
        _events(workbench, query), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _events(workbench: Workbench, query: Query) -> AsyncIterator[bytes]:
    send, receive = trio.open_memory_channel[bytes](_BEHIND)

    narrator = Narrator()

    def lines(number: int, now: float, event: dict[str, Any]) -> list[bytes]:
        if query.form == "story":
            return [str(line).encode() for line in narrator.lines(event, now)]
        return [orjson.dumps(event | {"seq": number, "mono": now, "wall": now + workbench.cluster.wall_offset})]

    def tell(number: int, now: float, event: dict[str, Any]) -> None:
        if query.group is UNSET or event.get("group") == query.group:
            try:
                for line in lines(number, now, event):
                    send.send_nowait(b"id: %d\ndata: %s\n\n" % (number, line))
            except trio.WouldBlock:
                send.close()
                end()

    kept = () if query.since is UNSET else workbench.history.since(query.since)
    end = workbench.history.follow(tell)
    ends = trio.current_time() + (inf if query.seconds is UNSET else query.seconds)
    with workbench.history.listening(), workbench.frames.watching() if query.frames else nullcontext():
        try:
            yield b": events of the coordinator\n\n"
            for entry in kept:
                if query.group is UNSET or entry.event.get("group") == query.group:
                    for line in lines(*entry):
                        yield b"id: %d\ndata: %s\n\n" % (entry.number, line)
            while trio.current_time() < ends:
                event = None
                with trio.move_on_at(min(ends, trio.current_time() + _BREATH_SECONDS)):
                    event = await receive.receive()
                if event is not None:
                    yield event
                elif trio.current_time() < ends:
                    yield b": nothing yet\n\n"
        except trio.EndOfChannel:
            yield b": cut off, too far behind\n\n"
        finally:
            receive.close()
            send.close()
            end()


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/events",
        summary="What happens, as server-sent events: from now on, or first what is kept.",
        do=_stream,
        answers=(ServerSentEvent,),
        query=Query,
        media_type="text/event-stream",
        tag="server",
    ),
)
