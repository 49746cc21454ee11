"""An answer that a handler makes while the server sends it, and the pieces of one that is JSON.

Starlette sends the last part of an answer within a cancel scope, and cancels the scope when it hears of a disconnect.
Hypercorn reports the disconnect while it takes the last part, before it closes the connection or makes it ready for the
next request, and the cancellation stops that. So this class sends the last part outside the scope.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec
import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PIECE: Final = 64 * 1024
"""Bytes of JSON to encode before other tasks get a turn."""


async def in_pieces(document: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    """Yield a document as JSON; the items of its lists are encoded one by one."""
    encode = msgspec.json.encode
    piece = bytearray()
    opening = b"{"
    for name, field in document.items():
        piece += opening + encode(name) + b":"
        opening = b","
        if not isinstance(field, list):
            piece += encode(field)
            continue
        separator = b"["
        for item in field:
            piece += separator + encode(item)
            separator = b","
            if len(piece) > PIECE:
                yield bytes(piece)
                piece.clear()
                await trio.lowlevel.checkpoint()
        piece += b"]" if field else b"[]"
    yield bytes(piece + (b"}" if document else b"{}"))


class Streamed(Response):
    """The answer 200 with the body from `parts`."""

    def __init__(
        self, parts: AsyncGenerator[bytes, None], media_type: str, headers: dict[str, str] | None = None
    ) -> None:
        self.parts = parts
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        disconnected = False

        async def listen() -> None:
            nonlocal disconnected
            while (await receive())["type"] != "http.disconnect":
                pass
            disconnected = True
            nursery.cancel_scope.cancel()

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            async with aclosing(self.parts):
                if scope["method"] != "HEAD":
                    async for part in self.parts:
                        await send({"type": "http.response.body", "body": part, "more_body": True})
            nursery.cancel_scope.cancel()
        if not disconnected:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
