"""Adds `Connection: close` to answers that are sent before the request body was read.

Without it a client would send its next request on a connection that is about to close, as RFC 9112, 9.3 and 9.6 warn.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HAS_BODY: Final = frozenset({b"content-length", b"transfer-encoding"})


class CloseIfUnread:
    """Adds `Connection: close` to the answers of `app` to requests with unread bytes of a body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["http_version"].startswith("1"):
            await self.app(scope, receive, send)
            return
        unread = any(name in _HAS_BODY and value != b"0" for name, value in scope["headers"])

        async def receive_noted() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and bool(message.get("more_body"))
            return message

        async def send_noted(message: Message) -> None:
            if unread and message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        await self.app(scope, receive_noted, send_noted)
