"""The bytes of a request and its answer over HTTP, field by field, with the row of the table that answered it.

`shim/server/frames.py` keeps the frames while a client reads `/v1/events?frames=true`.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from kafka_shim.control.operation import LARGEST, Answer, Body, Operation
from kafka_shim.control.problems import Problem
from kafka_shim.control.workbench import Workbench
from kafka_shim.server.frames import FramePair


class Query(Body, kw_only=True):
    """A request, by the numbers in its `exchange` event."""

    connection: Annotated[int, Meta(ge=0, le=LARGEST, description="`conn` of the event.")]
    correlation_id: Annotated[int, Meta(ge=-LARGEST - 1, le=LARGEST)]
    arrived: (
        Annotated[float, Meta(description="`arrived` of the event, if a client gives a correlation id twice.")]
        | UnsetType
    ) = UNSET


class FramePiece(Answer, kw_only=True):
    """Some bytes of a frame: the field `path`, within `depth` structs, with this value."""

    start: int
    end: int
    depth: int
    path: Annotated[str, Meta(examples=["topics[0].name"])]
    text: str


class FrameShown(Answer, kw_only=True):
    """A frame with its size. Every byte is in one piece."""

    hex: str
    pieces: list[FramePiece]


class RowCell(Answer, kw_only=True):
    """The rule for one state or situation; `here` if the request met it."""

    column: str
    does: str
    here: bool


class TableRow(Answer, kw_only=True):
    """The row of the table of rules for the request. `does` and `error` are those of the rule in its state."""

    table: str
    name: str
    cells: list[RowCell]
    does: str
    error: int


class ExchangeFrames(Answer, kw_only=True):
    """A request and its answer."""

    connection: int
    correlation_id: int
    node: int
    client_id: str
    api: str
    version: int
    arrived: Annotated[float | None, Meta(description="When it met its rule; null while it has not.")]
    request: FrameShown
    answer: Annotated[FrameShown | None, Meta(description="null while there is none.")]
    row: Annotated[TableRow | None, Meta(description="null where no table of states decides.")]
    concerns: Annotated[
        list[str], Meta(description="The permissions that the request needs.", examples=[["READ of group billing"]])
    ]


async def _find(workbench: Workbench, query: Query) -> Response:
    arrived = None if query.arrived is UNSET else query.arrived
    exchange = workbench.frames.find(query.connection, query.correlation_id, arrived)
    if exchange is None:
        raise Problem(404, "NOT_FOUND", "Its bytes are not kept: it came before the first reader, or long ago.")
    # In a thread: a frame may have a hundred thousand fields.
    return Response(await workbench.elsewhere(_encoded, exchange), media_type="application/json")


def _encoded(exchange: FramePair) -> bytes:
    return msgspec.json.encode(msgspec.convert(exchange.as_dict(), ExchangeFrames))


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/frames",
        summary="The bytes of a request and its answer, field by field.",
        do=_find,
        answers=(ExchangeFrames,),
        query=Query,
        problems=(404,),
        tag="server",
    ),
)
