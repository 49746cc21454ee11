"""The check of the control server's token.

The token is compared in a time that does not depend on the number of right characters (RFC 6750).
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from kafka_shim.control.problems import Problem

OPEN: Final = ("/health",)
"""Paths that need no token: a monitor of the process must not need the keys to it."""


class Bearer:
    """Passes to `app` only requests with `Authorization: Bearer TOKEN`."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self._expected = b"bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN and not self._is_allowed(scope):
            await Problem(401, "UNAUTHORIZED", "This needs the token of the control server.").answer()(
                scope, receive, send
            )
            return
        await self.app(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, space, token = header.partition(b" ")
        return compare_digest(scheme.lower() + space + token.strip(), self._expected)
