"""The checks of a request before any operation: the token of the control server, and the origin of the request.

The token is compared in a time that does not depend on the number of right characters (RFC 6750).

A page of any origin can make a browser on this machine send requests to a server on loopback, and a page under a name
that resolves to loopback can even read the answers (DNS rebinding). So a server without a token answers only to
loopback's own names, and no server answers to pages of other origins. A client that is not a browser sends no Origin,
and names the server as it connected to it.

A browser sends no Origin when a page loads an image or a script, but it names the site of the page in Sec-Fetch-Site
(Fetch Metadata). Any page may link to a page of ours; a browser follows the link, but shows no page of ours in a frame.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from kafka_shim.control import semantics
from kafka_shim.control.problems import Problem
from kafka_shim.server.reachable import is_loopback

OPEN: Final = ("/health",)
"""Paths that need no token: a monitor of the process must not need the keys to it."""
PAGES: Final = frozenset({"/", "/docs", *semantics.pages(), "/openapi.json", "/v1/openapi.json"})
"""Paths that a link on a page of another origin may lead to."""
_OWN: Final = ("same-origin", "none")
"""Sec-Fetch-Site of our own pages, and of addresses that a person types."""


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


class OwnOrigin:
    """Passes to `app` the requests that no page of another origin sent and, with `loopback_only`, that name
    loopback."""

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
        foreign = headers.get(b"sec-fetch-site", "none") not in _OWN and not _is_link(scope, headers)
        if foreign or (origin is not None and _netloc(origin) != host.lower()):
            raise Problem(403, "FORBIDDEN", "Pages of other origins may not ask.")


def _is_link(scope: Scope, headers: dict[bytes, str]) -> bool:
    """Return True if a browser follows a link to one of our pages, to show it in its own window or tab."""
    way = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
    return way == ("navigate", "document") and scope["method"] == "GET" and scope["path"] in PAGES


def _netloc(url: str) -> str:
    """Return host and port of a URL, empty if it is not a URL."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
