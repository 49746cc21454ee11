"""The control server as an application: the routes of the control API behind the checks of token and origin.

A path is read as it was sent, so that names in it may have slashes. Handlers are short and give way often, since they
share their thread with the coordinator.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kafka_shim.control.access import Bearer, OwnOrigin
from kafka_shim.control.api import make_routes
from kafka_shim.control.problems import Problem
from kafka_shim.control.unread import CloseIfUnread
from kafka_shim.control.workbench import Workbench


def make_app(workbench: Workbench, lab: bool = False, token: str | None = None) -> Starlette:
    """Return the application that controls a coordinator through `workbench`; `lab` adds the operations for tests."""
    middleware = [Middleware(CloseIfUnread), Middleware(OwnOrigin, loopback_only=token is None)]
    if token is not None:
        middleware.append(Middleware(Bearer, token=token))
    app = Starlette(
        routes=make_routes(workbench, lab, with_token=token is not None),
        middleware=[*middleware, Middleware(_PathAsSent)],
        exception_handlers={HTTPException: _refuse},
    )
    app.router.redirect_slashes = False
    return app


class _PathAsSent:
    """Passes the path to `app` with its percent-encoding, so that a slash inside a name does not separate names."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        await self.app(scope, receive, send)


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer a path or method without an operation, in the form of all problems."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        answer = Problem(405, "METHOD_NOT_ALLOWED", "The path does not have this method.").answer()
    else:
        answer = Problem(error.status_code, "NOT_FOUND", "There is nothing here; see /v1/openapi.json.").answer()
    answer.headers.update(error.headers or {})
    return answer
