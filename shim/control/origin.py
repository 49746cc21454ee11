"""Which web pages may have a browser ask: none but those of the server itself.

Decides whether a request comes from where it may. A page of any origin can have a browser on this machine send requests
to a server on loopback, and one whose name is made to resolve to loopback can even read the answers (DNS rebinding). So
a server that asks for no token answers to loopback's own names alone, and none answers to pages of other origins. Who
is no browser sends no Origin, and names the server as it connected to it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from kafka_shim.control.addresses import is_loopback
from kafka_shim.control.problems import Problem


class OwnOrigin:
    """Lets through to `app` what no page of another origin sent and, with `loopback_only`, what names loopback."""

    def __init__(self, app: ASGIApp, loopback_only: bool) -> None:
        self.app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope)
            except Problem as problem:
                await problem.answer()(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if self._loopback_only and not is_loopback(_host(f"//{host}")):
            raise Problem(421, "MISDIRECTED", "Without a token this server answers to localhost, 127.0.0.1 or [::1].")
        origin = headers.get(b"origin")
        if origin is not None and _netloc(origin) != host.lower():
            raise Problem(403, "FORBIDDEN", "Pages of other origins may not ask.")


def _netloc(url: str) -> str:
    """Host and port of a URL, empty for what is none."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
