"""One run of the relay, from the ready line to a signal: opens its trace and its ports, and checks its options."""

from __future__ import annotations

import logging
import signal
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from kafka_shim.relay.record import Record
from kafka_shim.relay.relay import Relay
from kafka_shim.server.process import host_and_port, log_to_stderr, not_listening, raise_file_limit
from kafka_shim.server.reachable import warning_about
from kafka_shim.server.server import the_only
from kafka_shim.server.trace_file import TraceLog

log: Final = logging.getLogger("kafka_shim.relay")

_ANY: Final = frozenset({"", "0.0.0.0", "::"})


class Unusable(Exception):
    """An option cannot be used; the message is one plain sentence."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `kafka-shim trace record`; see its help. `tls` is the context of connections to the brokers."""

    upstream: tuple[str, int]
    listen: tuple[str, int]
    advertise: tuple[str, int | None] | None
    trace: Path
    log_level: str = "info"
    tls: ssl.SSLContext | None = None


def run(options: Options) -> None:
    """Relay until SIGTERM or SIGINT. Raises Unusable."""
    log_to_stderr(options.log_level)
    raise_file_limit()
    host, port = options.listen
    advertise, advertised_port = options.advertise or (host, None)
    if advertised_port is not None:
        raise Unusable("Give --advertise a host alone: each broker of the cluster gets a port of its own.")
    if advertise in _ANY:
        raise Unusable("Name a host that clients can reach with --advertise.")
    try:
        with socket.create_connection(options.upstream, timeout=5) as connection:
            if options.tls is not None:
                options.tls.wrap_socket(connection, server_hostname=options.upstream[0]).close()
    except OSError as error:
        raise Unusable(f"{host_and_port(*options.upstream)} cannot be reached: {error.strerror or error}.") from error
    relays: list[Relay] = []
    clock = time.monotonic

    def header() -> dict[str, Any]:
        return {"release": "", "nodes": relays[0].nodes() if relays else [], "limits": {}}

    try:
        trace = TraceLog(options.trace, clock, time.time() - clock(), header)
    except OSError as error:
        raise Unusable(f"{options.trace} cannot be written: {error.strerror or error}.") from error
    with trace:
        record = Record(trace.tell, clock)
        relays.append(Relay(options.upstream, host, port, advertise, record, clock, options.tls))
        try:
            trio.run(_run, relays[0], trace)
        except Exception as group:
            failure = the_only(group)
            if isinstance(failure, OSError):
                raise Unusable(not_listening((host, port), failure)) from group
            raise
        record.finish()


async def _run(relay: Relay, trace: TraceLog) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            await nursery.start(relay.run)
            if warning := warning_about(relay.host, relay.port, "no authentication of its own"):
                log.warning(warning)
            nursery.start_soon(trace.run)
            print(f"ready kafka={host_and_port(relay.advertise, relay.port)} trace={trace.path}", flush=True)
            async for _ in signals:
                break
            log.info("stopping")
            nursery.cancel_scope.cancel()
