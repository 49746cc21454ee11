"""One serving process, from ready line to signal: the coordinator, its store, its trace and its control server.

Options that do not fit raise `Unusable`, with a plain sentence.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

import trio

from kafka_shim.broker.settings import BROKER_SETTINGS, unknown_setting
from kafka_shim.broker.topics import TopicError
from kafka_shim.groups.config import NAMES, GroupConfig
from kafka_shim.persistence.store import Store, StoreError
from kafka_shim.persistence.stores import open_store
from kafka_shim.security.config import is_security_setting, public_settings, security_of
from kafka_shim.security.tls import Tls
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.group_log import GroupLog
from kafka_shim.server.journal import Journal
from kafka_shim.server.process import log_to_stderr, not_listening, raise_file_limit
from kafka_shim.server.reachable import is_loopback, warning_about
from kafka_shim.server.server import Server, ServerConfig, serve, the_only
from kafka_shim.server.trace_file import TraceFile

if TYPE_CHECKING:
    from kafka_shim.control.workbench import Workbench

MIB: Final = 1024 * 1024
log: Final = logging.getLogger("kafka_shim.server")

GARBAGE: Final = 50_000
"""Number of new objects, less the freed ones, that starts a garbage collection."""


class Unusable(Exception):
    """Options that do not fit; the message is one plain sentence."""


class Laboratory(Protocol):
    """The additions of a server for tests; `shim/testing/lab.py` has them."""

    def store(self, store: Store) -> Store:
        """Return the store to serve from."""

    def config(self, config: ClusterConfig) -> ClusterConfig:
        """Return the same configuration with a clock that can be moved."""

    def workbench(self, server: Server, nursery: trio.Nursery) -> Workbench:
        """Return the workbench of a server that has started."""


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
    control_tls: str | None = None
    tls_ca: str | None = None
    lab: bool = False


def run(options: Options, laboratory: Laboratory | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. With `laboratory` the server is for tests. Raises Unusable.

    Options and the store can be unusable only before the ready line. Any other exception is a defect of the server: it
    is logged with its traceback, and the exit code is 1.
    """
    log_to_stderr(options.log_level)
    raise_file_limit()
    config = _config(options)
    if laboratory is not None and options.control is None:
        raise Unusable("A laboratory (--lab) needs a control server (--control HOST:PORT).")
    if options.control is not None and not options.control_token and not is_loopback(options.control[0]):
        raise Unusable("A control server that other machines can reach needs a token (--control-token).")
    # The exceptions that are the fault of the options or of the store, at this stage of the process.
    expected: tuple[type[Exception], ...] = (Unusable, StoreError, TopicError, ValueError, OSError)

    def reach(stage: _Stage) -> None:
        nonlocal expected
        expected = (Unusable, StoreError, TopicError) if stage == "composed" else ()

    try:
        with contextlib.closing(open_store(options.store, _partitions(options), lease_s=options.lease)) as store:
            trio.run(_serve, options, config, store, laboratory, reach)
    except Exception as group:
        error = the_only(group)
        if isinstance(error, expected):
            raise Unusable(_sentence(error, options)) from group
        log.critical("the server ends because of a defect of its own, %r", error, exc_info=error)
        return 1
    return 0


def _warn(options: Options, config: ServerConfig) -> None:
    """Log the addresses that other machines can reach, and their protection."""
    guards = []
    if config.security is None:
        guards.append((options.listen, "no authentication"))
    else:
        for listener in config.security.listeners:
            if not config.security.has_authorizer:
                guard = "SASL but no ACLs" if listener.protocol.has_sasl else "neither SASL nor ACLs"
                guards.append(((listener.host or "0.0.0.0", listener.port), guard))
    guards.append((options.control or _LOCAL, "its token alone"))
    for (host, port), guard in guards:
        if warning := warning_about(host, port, guard):
            log.warning(warning)


async def _resolve(server: Server) -> None:
    """Log the hosts in the addresses for clients that have no address on this machine."""
    for host in sorted({address.rpartition(":")[0].strip("[]") for address in server.bootstrap.split(",")}):
        try:
            await trio.socket.getaddrinfo(host, None)
        except OSError as error:
            reason = error.strerror or error
            log.warning("clients are sent to %s, which this machine cannot resolve: %s (--advertise)", host, reason)


_LOCAL: Final = ("localhost", 0)

_Stage = Literal["composed", "ready"]
"""Composed: the options are valid and the sockets are open."""


def _sentence(error: BaseException, options: Options) -> str:
    return not_listening(options.listen, error) if isinstance(error, OSError) else str(error)


def _tls(certificate: str, key: str) -> Tls:
    def make() -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            # An empty password: without one, OpenSSL would ask the terminal.
            context.load_cert_chain(certificate, key, password="")
        except (ssl.SSLError, OSError) as error:
            advice = "both files must be PEM, and the key that of the certificate"
            reason = advice if isinstance(error, ssl.SSLError) else error.strerror
            raise ValueError(f"The TLS certificate and key cannot be used: {reason}.") from None
        return context

    try:
        return Tls(make, (certificate, key))
    except ValueError as error:
        raise Unusable(str(error)) from None


def _config(options: Options) -> ServerConfig:
    for name, _ in options.settings:
        if name not in NAMES and name not in BROKER_SETTINGS and not is_security_setting(name):
            raise Unusable(unknown_setting(name))
    if bool(options.tls_cert) != bool(options.tls_key):
        raise Unusable("TLS needs both a certificate (--tls-cert) and its key (--tls-key).")
    tls = _tls(options.tls_cert, options.tls_key) if options.tls_cert and options.tls_key else None
    if options.tls_ca and tls is None:
        raise Unusable("--tls-ca is about the certificates of other processes: it needs --tls-cert and --tls-key.")
    try:
        authority = options.tls_ca
        peer_tls = Tls(lambda: ssl.create_default_context(cafile=authority), [authority]) if authority else None
    except (ssl.SSLError, OSError):
        raise Unusable(f"{options.tls_ca} (--tls-ca) is no PEM file with a certificate.") from None
    security = security_of({name: value for name, value in options.settings if is_security_setting(name)})
    if security is not None and (tls is not None or options.advertise is not None):
        raise Unusable("The setting listeners takes the place of --listen, --advertise, --tls-cert and --tls-key.")
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
        peer_tls=peer_tls,
        security=security,
        cluster=ClusterConfig(
            settings=public_settings(dict(options.settings)),
            topics=dict(options.topics),
            release=options.release,
            load_seconds=options.load_seconds,
            experimental=options.experimental,
        ),
    )


def _partitions(options: Options) -> int:
    """Return the number of partitions that the store must have."""
    settings = [f"{name}={value}" for name, value in options.settings if name in NAMES]
    return GroupConfig().with_settings(settings).offsets_topic_num_partitions


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Collect no garbage during the start, and never the objects from it: a million offsets read at start would be
    visited in vain at each collection. Afterwards collect seldom: a tick in which a hundred clients commit makes
    thousands of objects without circles, which would start a collection each time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE)
        gc.enable()


async def _serve(
    options: Options,
    config: ServerConfig,
    store: Store,
    laboratory: Laboratory | None,
    reach: Callable[[_Stage], None],
) -> None:
    if laboratory is not None:
        store = laboratory.store(store)
        config = replace(config, cluster=laboratory.config(config.cluster))
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery, contextlib.AsyncExitStack() as stack:
            if options.journal is not None:
                journal = _open_journal(stack, options.journal, options.journal_limit * MIB, config.cluster)
                config = replace(config, cluster=replace(config.cluster, journal=journal))
                nursery.start_soon(journal.run)

            async def prepare(server: Server) -> None:
                reach("composed")
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
            _warn(options, config)
            nursery.start_soon(_resolve, server)
            ready = f"ready kafka={server.bootstrap}"
            if options.control is not None:
                ready += f" control={await _control(options, options.control, server, nursery, laboratory)}"
            if len(server.addresses) > 1:
                ready += f" listeners={server.listeners}"
            print(ready, flush=True)
            reach("ready")
            async for _ in signals:
                break
            log.info("stopping")
            server.stop()
            await server.gone.wait()
            nursery.cancel_scope.cancel()


def _open_journal(stack: contextlib.AsyncExitStack, path: Path, limit: int, config: ClusterConfig) -> Journal:
    try:
        return stack.enter_context(Journal(path, limit, config.clock, config.clock_ahead))
    except OSError as error:
        raise Unusable(f"The journal {path} cannot be written: {error.strerror or error}.") from error


async def _control(
    options: Options, address: tuple[str, int], server: Server, nursery: trio.Nursery, laboratory: Laboratory | None
) -> str:
    """Start the control server; return its URL."""
    # Imported here because it takes long, and most servers do not need it.
    from kafka_shim.control.server import serve_control
    from kafka_shim.control.workbench import Workbench

    # One file has both, as `kafka-shim certificates` makes it.
    tls = _tls(options.control_tls, options.control_tls) if options.control_tls else None
    workbench = Workbench(server, nursery) if laboratory is None else laboratory.workbench(server, nursery)
    try:
        url: str = await nursery.start(
            partial(serve_control, server, *address, options.control_token, laboratory is not None, workbench, tls)
        )
    except OSError as error:
        raise Unusable(not_listening(address, error)) from error
    return url
