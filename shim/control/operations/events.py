"""Events over HTTP as server-sent events: those of docs/trace.md, from now on or from a number on.

A reader is cut off when the history has forgotten its next event; the beginning of the stream may lack requests, and
says how many. All readers read from the history, which has each event once; a reader takes memory for one piece on its
way.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, nullcontext
from math import inf
from typing import Annotated, Final, Literal

import orjson
import trio
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from kafka_shim.control.operation import MAX_TEXT, Answer, Body, Operation
from kafka_shim.control.streamed import Streamed
from kafka_shim.control.workbench import Workbench
from kafka_shim.server.history import EventHistory, Record
from kafka_shim.why.narration import Narrator

log: Final = logging.getLogger("kafka_shim.control")

_BREATH_SECONDS: Final = 15.0
"""Seconds of silence after which the server sends a comment, and so notices that a client has left."""


class Query(Body, kw_only=True):
    """A selection of events, and the length of the stream."""

    group: Annotated[str, Meta(max_length=MAX_TEXT, description="Only those of this group.")] | UnsetType = UNSET
    seconds: (
        Annotated[float, Meta(ge=0, le=86_400, description="End after so many real seconds; never by default.")]
        | UnsetType
    ) = UNSET
    since: (
        Annotated[int, Meta(ge=0, description="Begin with the events kept after this number; 0 is all that are kept.")]
        | UnsetType
    ) = UNSET
    frames: Annotated[bool, Meta(description="Keep the bytes of requests and answers for /v1/frames.")] = False
    form: Annotated[
        Literal["events", "batches", "story"],
        Meta(description="As docs/trace.md has them; several in one message, a line each; or in lines a person reads."),
    ] = "events"


class ServerSentEvent(Answer, kw_only=True):
    """One event of the stream: JSON, or a line of the story."""

    id: Annotated[str, Meta(description="Its number.")] | UnsetType = UNSET
    event: Literal["message"] = "message"
    data: str


def _stream(workbench: Workbench, query: Query) -> Response:
    return Streamed(_events(workbench, query), "text/event-stream", {"cache-control": "no-store"})


async def _events(workbench: Workbench, query: Query) -> AsyncGenerator[bytes, None]:
    history, narrator = workbench.history, Narrator()
    group = None if query.group is UNSET else query.group
    # The number of the last event that was read.
    at = history.seen if query.since is UNSET else min(query.since, history.seen)
    ends = trio.current_time() + (inf if query.seconds is UNSET else query.seconds)
    with (
        history.listening(),
        workbench.frames.watching() if query.frames else nullcontext(),
        _news_of(history) as news,
    ):
        yield b": events of the coordinator\n\n"
        of_groups, of_requests = history.dropped
        if at < history.forgotten:
            yield b": forgotten %d\n\n" % of_groups
            at = history.forgotten
        if at < history.forgotten_request:
            yield b": forgotten requests %d\n\n" % of_requests
        began = history.seen
        last = inf
        while True:
            if trio.current_time() >= ends:
                last = min(last, history.seen)
            if at >= last:
                return
            if at < history.forgotten or began <= at < history.forgotten_request:
                log.warning("a reader of /v1/events is cut off: the next event for it, %d, is forgotten", at + 1)
                yield b": cut off, too far behind\n\n"
                return
            records, at = history.piece(at, group)
            if query.form == "batches":
                piece = _batch(records)
            else:
                piece = b"".join(_texts(records, narrator if query.form == "story" else None))
            if piece:
                yield piece
            elif at < history.seen:
                await trio.lowlevel.checkpoint()
            elif (
                not await _arrives(news, min(ends, trio.current_time() + _BREATH_SECONDS))
                and trio.current_time() < ends
            ):
                yield b": nothing yet\n\n"


def _texts(records: list[Record], narrator: Narrator | None) -> Iterator[bytes]:
    """Yield server-sent events: the records as JSON, or their story."""
    for number, now, _, line in records:
        if narrator is None:
            yield b"id: %d\ndata: %s\n\n" % (number, line)
        else:
            for text in narrator.lines(orjson.loads(line), now):
                yield b"id: %d\ndata: %s\n\n" % (number, str(text).encode())


def _batch(records: list[Record]) -> bytes:
    """Return all records as one server-sent event: a browser takes long for each."""
    if not records:
        return b""
    lines = b"".join(b"data: %s\n" % line for _, _, _, line in records)
    return b"id: %d\n%s\n" % (records[-1][0], lines)


@contextmanager
def _news_of(history: EventHistory) -> Iterator[trio.lowlevel.ParkingLot]:
    """Give a lot in which a task waits for the next events, during a block."""
    lot = trio.lowlevel.ParkingLot()

    def wake() -> None:
        lot.unpark_all()

    history.on_change.append(wake)
    try:
        yield lot
    finally:
        history.on_change.remove(wake)


async def _arrives(news: trio.lowlevel.ParkingLot, deadline: float) -> bool:
    """Wait for events; False if there are none up to the deadline."""
    with trio.move_on_at(deadline) as scope:
        await news.park()
    return not scope.cancelled_caught


class StoryQuery(Body, kw_only=True):
    """The beginning of the story."""

    since: Annotated[int, Meta(ge=0, description="Only what happened after the event of this number.")] = 0


class Story(Answer, kw_only=True):
    """The story: lines for people."""

    story: list[str]


def _story(workbench: Workbench, query: StoryQuery) -> Response:
    return story_of(workbench, since=query.since)


def story_of(workbench: Workbench, group: str | None = None, since: int = 0) -> Response:
    """Answer with the story of a group, or of all, in pieces, so that clients are served in between."""
    return Streamed(_parts(workbench.story_pieces(group, since)), "application/json")


async def _parts(pieces: Iterator[list[str]]) -> AsyncGenerator[bytes, None]:
    yield b'{"story":['
    separator = b""
    for lines in pieces:
        if lines:
            yield separator + orjson.dumps(lines)[1:-1]
            separator = b","
        else:
            await trio.lowlevel.checkpoint()
    yield b"]}"


def _trace(workbench: Workbench) -> Response:
    return Streamed(_lines(workbench), "application/x-ndjson", {"cache-control": "no-store"})


async def _lines(workbench: Workbench) -> AsyncGenerator[bytes, None]:
    history, now = workbench.history, workbench.cluster.clock()
    times = {"seq": 0, "mono": now, "wall": now + workbench.cluster.wall_offset}
    yield orjson.dumps(workbench.trace_header() | times, option=orjson.OPT_APPEND_NEWLINE)
    at, last = 0, history.seen
    while at < last:
        records, at = history.piece(at)
        yield b"".join(line + b"\n" for _, _, _, line in records)


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/story",
        summary="The story: lines for people.",
        do=_story,
        query=StoryQuery,
        answers=(Story,),
        tag="server",
    ),
    Operation(
        method="GET",
        path="/v1/trace",
        summary="The events of the history as a trace file, for `kafka-shim why`.",
        do=_trace,
        media_type="application/x-ndjson",
        tag="server",
    ),
    Operation(
        method="GET",
        path="/v1/events",
        summary="Events as they happen, as server-sent events: from now on, or first those of the history.",
        do=_stream,
        answers=(ServerSentEvent,),
        query=Query,
        media_type="text/event-stream",
        tag="server",
    ),
)
