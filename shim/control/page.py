"""The page at `/`: live groups, drawn from the stream of events.

Routes and headers of its files; `why/page.py` makes their content. The page loads nothing from another host.
"""

from __future__ import annotations

import hashlib
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kafka_shim.control.problems import Problem
from kafka_shim.why.page import MEDIA_TYPES, asset

_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; img-src data:; object-src 'none'; base-uri 'none';"
    " form-action 'none'",
    "cache-control": "no-cache",
}


def page_routes(*, lab: bool) -> list[Route]:
    """Return the routes of `/` and its files. With `lab` the page also shows the controls of the laboratory."""
    index = asset("index.html")
    if lab:
        index = index.replace(b"<html ", b"<html data-lab ", 1)

    async def show(request: Request) -> Response:
        return _answer(request, index, "text/html")

    return [Route("/", show), Route("/page/{name}", _file)]


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in MEDIA_TYPES:
        return Problem(404, "NOT_FOUND", "There is no such file.").answer()
    return _answer(request, asset(name), MEDIA_TYPES[name])


def _answer(request: Request, body: bytes, media_type: str) -> Response:
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = _HEADERS | {"etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=f"{media_type}; charset=utf-8", headers=headers)
