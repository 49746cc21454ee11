"""One process that serves: the coordinator, its store, its trace and its control server, from ready line to signal.

Decides the order in which they start and stop, and the message for options that cannot be: `Unusable`, one plain
sentence. It does not know command lines.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import ssl
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import trio

from kafka_shim.broker.settings import BROKER_SETTINGS, unknown_setting
from kafka_shim.broker.topics import TopicError
from kafka_shim.control.addresses import is_loopback
from kafka_shim.groups.config import NAMES, GroupConfig
from kafka_shim.persistence.store import Store, StoreError
from kafka_shim.persistence.stores import open_store
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.group_log import GroupLog
from kafka_shim.server.journal import Journal
from kafka_shim.server.limits import raise_file_limit
from kafka_shim.server.server import Server, ServerConfig, serve, the_only
from kafka_shim.server.trace_file import TraceFile

if TYPE_CHECKING:
    from kafka_shim.control.workbench import Workbench

MIB: Final = 1024 * 1024
log: Final = logging.getLogger("kafka_shim.server")

GARBAGE: Final = 50_000
"""How many objects more than are freed may be made before garbage is looked for."""


class Unusable(Exception):
    """Options that cannot be; the message is one plain sentence."""


class Laboratory(Protocol):
    """What a server for tests has beyond others; `shim/testing/lab.py` has it."""

    def store(self, store: Store) -> Store:
        """The store to serve from."""

    def config(self, config: ClusterConfig) -> ClusterConfig:
        """The same configuration with a clock that can be moved."""

    def workbench(self, server: Server, nursery: trio.Nursery) -> Workbench:
        """The workbench of a server that has started."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `kafka-shim serve`; see its help."""

    listen: tuple[str, int]
    control: tuple[str, int] | None
    store: str
    brokers: int
    node_id: int
    lease: float
    load_seconds: float
    topics: Sequence[tuple[str, int]]
    settings: Sequence[tuple[str, str]]
    release: str
    advertise: tuple[str, int | None] | None
    trace: Path | None
    journal: Path | None
    journal_limit: int
    tls_cert: str | None
    tls_key: str | None
    log_level: str
    experimental: Sequence[str] = ()
    control_token: str | None = None
    lab: bool = False


def run(options: Options, laboratory: Laboratory | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. With `lab` there is a laboratory. Raises Unusable."""
    logging.basicConfig(
        level=options.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    raise_file_limit()
    config = _config(options)
    if laboratory is not None and options.control is None:
        raise Unusable("A laboratory (--lab) needs a control server (--control HOST:PORT).")
    if options.control is not None and not options.control_token and not is_loopback(options.control[0]):
        raise Unusable("A control server that other machines can reach needs a token (--control-token).")
    try:
        with contextlib.closing(open_store(options.store, _partitions(options), lease_s=options.lease)) as store:
            trio.run(_serve, options, config, store, laboratory)
    except Exception as group:
        error = the_only(group)
        if isinstance(error, (Unusable, StoreError, ValueError, TopicError, OSError)):
            raise Unusable(_sentence(error, options)) from group
        raise
    return 0


def _sentence(error: BaseException, options: Options) -> str:
    return _not_listening(options.listen, error) if isinstance(error, OSError) else str(error)


def _not_listening(address: tuple[str, int], error: OSError) -> str:
    host, port = address
    return f"{host}:{port} cannot be listened on: {error.strerror or error}."


def _config(options: Options) -> ServerConfig:
    for name, _ in options.settings:
        if name not in NAMES and name not in BROKER_SETTINGS:
            raise Unusable(unknown_setting(name))
    if bool(options.tls_cert) != bool(options.tls_key):
        raise Unusable("TLS needs both a certificate (--tls-cert) and its key (--tls-key).")
    tls = None
    if options.tls_cert and options.tls_key:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            tls.load_cert_chain(options.tls_cert, options.tls_key)
        except (ssl.SSLError, OSError) as error:
            raise Unusable(f"The TLS certificate and key cannot be used: {error}.") from None
    host, port = options.listen
    advertised_host, advertised_port = options.advertise or (None, None)
    return ServerConfig(
        host=host,
        port=port,
        brokers=options.brokers,
        node_id=options.node_id,
        advertise=advertised_host,
        advertise_port=advertised_port,
        tls=tls,
        cluster=ClusterConfig(
            settings=dict(options.settings),
            topics=dict(options.topics),
            release=options.release,
            load_seconds=options.load_seconds,
            experimental=options.experimental,
        ),
    )


def _partitions(options: Options) -> int:
    """How many partitions the store must have."""
    named = [f"{name}={value}" for name, value in options.settings if name in NAMES]
    return GroupConfig().with_settings(named).offsets_topic_num_partitions


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Collect no garbage meanwhile, nor ever what is left: a million offsets read at start would be walked through for
    nothing, while they are read and again and again later. And seldom from then on: a tick in which a hundred clients
    commit makes thousands of objects, none of them in a circle, for which there would be a collection each time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE)
        gc.enable()


async def _serve(options: Options, config: ServerConfig, store: Store, laboratory: Laboratory | None = None) -> None:
    if laboratory is not None:
        store = laboratory.store(store)
        config = replace(config, cluster=laboratory.config(config.cluster))
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery, contextlib.AsyncExitStack() as stack:
            if options.journal is not None:
                journal = _begun(stack, options.journal, options.journal_limit * MIB, config.cluster)
                config = replace(config, cluster=replace(config.cluster, journal=journal))
                nursery.start_soon(journal.run)

            async def prepare(server: Server) -> None:
                if log.isEnabledFor(logging.INFO):
                    server.cluster.events.listen(GroupLog().hear, requests=False)
                if options.trace is not None:
                    try:
                        trace = stack.enter_context(TraceFile(options.trace, server.cluster))
                    except OSError as error:
                        reason = error.strerror or error
                        raise Unusable(f"The trace {options.trace} cannot be written: {reason}.") from error
                    nursery.start_soon(trace.run)

            with _without_collecting():
                server = await nursery.start(serve, config, store, prepare)
            ready = f"ready kafka={server.bootstrap}"
            if options.control is not None:
                ready += f" control={await _control(options, options.control, server, nursery, laboratory)}"
            print(ready, flush=True)
            async for _ in signals:
                break
            log.info("stopping")
            server.stop()
            await server.gone.wait()
            nursery.cancel_scope.cancel()


def _begun(stack: contextlib.AsyncExitStack, path: Path, limit: int, config: ClusterConfig) -> Journal:
    try:
        return stack.enter_context(Journal(path, limit, config.clock, config.clock_ahead))
    except OSError as error:
        raise Unusable(f"The journal {path} cannot be written: {error.strerror or error}.") from error


async def _control(
    options: Options, address: tuple[str, int], server: Server, nursery: trio.Nursery, laboratory: Laboratory | None
) -> str:
    """Start the control server; its URL."""
    # Imported here because it takes long, and most do without.
    from kafka_shim.control.server import serve_control
    from kafka_shim.control.workbench import Workbench

    workbench = Workbench(server, nursery) if laboratory is None else laboratory.workbench(server, nursery)
    try:
        url: str = await nursery.start(
            partial(serve_control, server, *address, options.control_token, laboratory is not None, workbench)
        )
    except OSError as error:
        raise Unusable(_not_listening(address, error)) from error
    return url
