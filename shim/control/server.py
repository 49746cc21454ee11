"""The control server: the app on hypercorn's trio worker, in the coordinator's own nursery.

Decides how it is started and stopped. Stopping does not wait for clients that linger.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework
from starlette.applications import Starlette

from shim.control.addresses import is_loopback
from shim.control.app import make_app
from shim.control.bench import Bench
from shim.server.reactor import BetweenSteps, Reactor
from shim.server.server import Server

LINGER_SECONDS = 0.2


async def serve_control(
    server: Server,
    host: str,
    port: int,
    token: str | None = None,
    lab: bool = False,
    bench: Bench | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `server`'s cluster over HTTP until it stops; `task_status` gets the URL.

    Who asks must say `token`, which there must be where other machines can ask; `lab` allows what is for tests. `bench`
    is one that is there already. Raises OSError, and ValueError for a token that is missing.
    """
    if not token and not is_loopback(host):
        raise ValueError(f"A control server on {host or 'all addresses'}, which others can reach, needs a token.")
    config = Config()
    config.bind = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    config.accesslog = None
    config.errorlog = logging.getLogger("shim.control")
    config.include_server_header = False
    config.graceful_timeout = LINGER_SECONDS
    config.shutdown_timeout = LINGER_SECONDS
    with _coordinator_first(server):
        async with trio.open_nursery() as nursery:
            bench = bench or Bench(server, nursery, watched=lab)
            app = _asgi(make_app(server.cluster, bench, lab, token or None))
            urls = await nursery.start(partial(serve, app, config, shutdown_trigger=server.stopped, mode="asgi"))
            task_status.started(urls[0])


@contextmanager
def _coordinator_first(server: Server) -> Iterator[None]:
    """Meanwhile the coordinator's clients do not wait for more than one step of a task of ours."""
    if not isinstance(server.network, Reactor):
        yield
        return
    between = BetweenSteps(server.network)
    trio.lowlevel.add_instrument(between)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(between)


def _asgi(app: Starlette) -> ASGIFramework:
    return app  # type: ignore[return-value]
