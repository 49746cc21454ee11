"""A server: its listeners and cluster, and the order of start and stop."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from kafka_shim.broker.topics import Node as Address
from kafka_shim.persistence.store import SharedStore, Store
from kafka_shim.security.tls import Certified, Tls, peer_tls_of
from kafka_shim.server import reactor
from kafka_shim.server.cluster import Cluster, ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.encrypted import TlsConnection
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.node import Node
from kafka_shim.server.process import host_and_port
from kafka_shim.server.reactor import Reactor
from kafka_shim.server.streams import Streams

if TYPE_CHECKING:
    from kafka_shim.security.config import SecurityConfig
    from kafka_shim.security.jwks import Jwks
    from kafka_shim.server.secured import Door

log: Final = logging.getLogger("kafka_shim.server")

BACKLOG: Final = 4096
MAX_PORT: Final = 65535
RENEWAL_SECONDS: Final = 1.0
"""Seconds between two looks for changed files of a certificate."""
DRAIN_SECONDS: Final = 5.0
"""Seconds to wait for the store at the end."""


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """The configuration of a server.

    With several brokers each has a port: `port` and the ones after it, or any free ones for port 0. `advertise` is the
    host for clients, by default the one listened on; `advertise_port` the port of the first broker, the others having
    the ports after it. `tls` makes every connection a TLS one.
    """

    host: str = "127.0.0.1"
    port: int = 0
    brokers: int = 1
    node_id: int = 1
    """Of the first broker; the others have the numbers after it."""
    advertise: str | None = None
    advertise_port: int | None = None
    tls: Tls | None = None
    peer_tls: Tls | None = None
    """The certificates of other processes that share the store, if they are checked; with `tls` alone."""
    security: SecurityConfig | None = None
    """The listeners by Kafka's settings, in place of `host`, `port`, `advertise` and `tls`. Other brokers and the
    bootstrap servers have the first of them."""
    epoll: bool = True
    """Use the reactor where the platform allows it."""
    cluster: ClusterConfig = field(default_factory=ClusterConfig)


class Server:
    """A running server. `bootstrap` is the bootstrap servers of clients."""

    def __init__(self, config: ServerConfig, cluster: Cluster) -> None:
        self.config = config
        self.cluster = cluster
        self.gone = trio.Event()
        """Set when every connection is closed and every record is durable."""
        self.network: Reactor | Streams | None = None
        """The network of the first listener."""
        self.addresses: dict[str, list[Address]] = {}
        """By the name of a listener, the addresses of the brokers; empty without listeners by name."""
        self.certificates: dict[str, Tls] = {}
        """By the name of a listener, its TLS settings."""
        self.peer_tls: Tls | None = None
        """The TLS settings of connections to other processes, where they share a store and have listeners by name."""
        self.doors: list[Door] = []
        """The doors of the listeners by name."""
        self._stop = trio.Event()

    @property
    def bootstrap(self) -> str:
        """Return `HOST:PORT` of every node, with commas between them."""
        first = next(iter(self.addresses.values()), None)
        return _joined(first or [node.address for node in self.cluster.nodes.values()])

    def bootstrap_of(self, listener: str) -> str:
        """Return `HOST:PORT` of every node on a listener. Raises KeyError."""
        return _joined(self.addresses[listener])

    @property
    def listeners(self) -> str:
        """Return `NAME://HOST:PORT` of every listener of every node, with commas between them; empty without names."""
        return ",".join(
            f"{name}://{_joined([address])}" for name, addresses in self.addresses.items() for address in addresses
        )

    def stop(self) -> None:
        """Accept no more, make all records durable, then close."""
        self._stop.set()

    async def stopped(self) -> None:
        """Return True after `stop`."""
        await self._stop.wait()


async def serve(
    config: ServerConfig,
    store: Store | None = None,
    prepare: Callable[[Server], Awaitable[None]] | None = None,
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a server until it is stopped. Report it to `task_status` once it answers and all partitions are loaded.

    `store` is open, and is not closed here. Raises OSError if it cannot listen on an address, ValueError for an invalid
    configuration.
    """
    if config.security is not None:
        await _serve_secured(config, config.security, store, prepare, task_status)
        return
    if config.advertise_port:
        check_ports(config.advertise_port, config.brokers)
    sockets = listen(config.host, config.port, config.brokers)
    try:
        host = config.advertise or _reachable(config.host)
        ports = [sock.getsockname()[1] for sock in sockets]
        shown = ports if config.advertise_port is None else range(config.advertise_port, MAX_PORT + 1)
        addresses = [Address(config.node_id + number, host, shown[number]) for number in range(config.brokers)]
        peer_tls = None if config.tls is None else config.peer_tls or Tls(unchecked)
        server = Server(config, make_cluster(addresses, config.cluster, store, peer_tls=peer_tls))
        if prepare is not None:
            await prepare(server)
        await _run(server, [_Entrance(config.host, sockets, config.tls)], task_status)
    finally:
        for sock in sockets:
            sock.close()


async def _serve_secured(
    config: ServerConfig,
    security: SecurityConfig,
    store: Store | None,
    prepare: Callable[[Server], Awaitable[None]] | None,
    task_status: trio.TaskStatus[Server],
) -> None:
    # Imported here: most tests have no security.
    from kafka_shim.server import delegation_tokens, scram_users, secured
    from kafka_shim.server.caller import DescribedTopics

    own = security.listeners[0]
    peer_tls = None
    if isinstance(store, SharedStore):
        own = security.between_brokers
        if own.protocol.has_tls:
            peer_tls = peer_tls_of(security.settings_of(own))
    if config.cluster.journal is not None:
        raise ValueError("A journal would hold passwords: it cannot be kept with listeners by name.")
    certificates = secured.certificates_of(security)
    if security.jwks is not None:
        await trio.to_thread.run_sync(security.jwks.load)
    with ExitStack() as stack:
        sockets: dict[str, list[socket.socket]] = {}
        addresses: dict[str, list[Address]] = {}
        by_id: dict[str, dict[int, Address]] = {}
        for listener in security.listeners:
            of_brokers = listen(listener.host, listener.port, config.brokers)
            for sock in of_brokers:
                stack.callback(sock.close)
            sockets[listener.name] = of_brokers
            ports = [sock.getsockname()[1] for sock in of_brokers]
            host = _reachable(listener.host)
            if listener.advertised is not None:
                host, first = listener.advertised
                check_ports(first, config.brokers)
                ports = [first + number for number in range(config.brokers)] if first else ports
            addresses[listener.name] = [
                Address(config.node_id + number, host, port) for number, port in enumerate(ports)
            ]
            by_id[listener.name] = {address.id: address for address in addresses[listener.name]}
        extension = delegation_tokens.requests_about(security.tokens)
        if security.has_scram:
            extension = extension.beside(scram_users.requests_about(security.users))
        cluster_config = replace(config.cluster, extension=extension)
        cluster = make_cluster(addresses[own.name], cluster_config, store, peer_tls=peer_tls, listeners=by_id)
        server = Server(config, cluster)
        security.users.place = server.cluster.topics.settings
        delegation_tokens.keep(security.tokens, cluster)
        server.addresses, server.certificates, server.peer_tls = addresses, certificates, peer_tls
        if prepare is not None:
            await prepare(server)
        authorizer = security.authorizer(server.cluster.topics.settings)
        if authorizer is not None:
            rights = DescribedTopics(authorizer, of_members=security.members_see_their_own)
            for node in server.cluster.nodes.values():
                node.groups.obey(rights)
        delays, wall_offset = server.cluster.delays, server.cluster.wall_offset
        entrances = [
            _Entrance(
                listener.host,
                sockets[listener.name],
                certificates.get(listener.name),
                secured.Door(security, listener, by_id[listener.name], delays, wall_offset, authorizer),
                secured.principals_of(security, listener),
            )
            for listener in security.listeners
        ]
        server.doors = [entrance.door for entrance in entrances if entrance.door is not None]
        await _run(server, entrances, task_status)


async def serve_made(
    config: ServerConfig, cluster: Cluster, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run a server of a cluster that was created and started already, until it is stopped; see `serve`.

    Clients reach its nodes where `config` says, from now on. A node that is down does not listen.
    """
    sockets = listen(config.host, config.port, len(cluster.nodes))
    try:
        ports = [sock.getsockname()[1] for sock in sockets]
        host = _reachable(config.host)
        cluster.readdress(Address(node_id, host, port) for node_id, port in zip(cluster.nodes, ports, strict=True))
        await _run(Server(config, cluster), [_Entrance(config.host, sockets, config.tls)], task_status)
    finally:
        for sock in sockets:
            sock.close()


class _Entrance(NamedTuple):
    """One listener of all brokers, with an open socket for each. `principal_of` is that of a client's certificate."""

    host: str
    sockets: Sequence[socket.socket]
    tls: Tls | None
    door: Door | None = None
    principal_of: Callable[[Certified], str | None] = lambda connection: None

    def accept(self, network: Reactor | Streams, sock: socket.socket, node: Node) -> None:
        """Accept the connections of a socket for `node`."""
        if self.tls is not None and isinstance(network, Reactor):
            opens = partial(TlsConnection, tls=self.tls, principal_of=self.principal_of)
            network.accept(sock, node, self.door, opens)
        else:
            network.accept(sock, node, self.door)


async def _run(server: Server, entrances: Sequence[_Entrance], task_status: trio.TaskStatus[Server]) -> None:
    config, cluster = server.config, server.cluster
    nodes = list(cluster.nodes.values())
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        networks: list[Reactor | Streams] = []
        ports: list[dict[int, int]] = []
        of_all: Reactor | None = None
        for entrance in entrances:
            if config.epoll and reactor.AVAILABLE:
                networks.append(of_all := of_all or Reactor(cluster))
            else:
                networks.append(Streams(cluster, entrance.tls, entrance.principal_of))
            ports.append({})
            for sock, node in zip(entrance.sockets, nodes, strict=True):
                ports[-1][node.id] = sock.getsockname()[1]
                if node.up:
                    entrance.accept(networks[-1], sock, node)
                else:
                    sock.close()
        server.network = networks[0]
        if config.security is not None and config.security.jwks is not None:
            nursery.start_soon(_refresh, config.security.jwks, cluster.failures)
        for tls in {server.peer_tls, *(entrance.tls for entrance in entrances)}:
            if tls is not None and tls.is_watched:
                nursery.start_soon(renew, tls, cluster.failures)

        def accept_again(node: Node) -> None:
            for entrance, network, port in zip(entrances, networks, ports, strict=True):
                (sock,) = listen(entrance.host, port[node.id], 1)
                entrance.accept(network, sock, node)

        for network in set(networks):
            cluster.on_broker_down.append(network.stop_accepting)
            nursery.start_soon(network.run)
        cluster.on_broker_up.append(accept_again)
        await cluster.loaded.wait()
        task_status.started(server)
        await server.stopped()
        for network in set(networks):
            network.stop_accepting()
        with trio.move_on_after(DRAIN_SECONDS):
            await cluster.durability.flushed()
        nursery.cancel_scope.cancel()
    server.gone.set()


async def renew(tls: Tls, failures: Failures) -> None:
    """Give new connections a certificate after a change of its files, until cancelled."""
    while True:
        await trio.sleep(RENEWAL_SECONDS)
        try:
            if await trio.to_thread.run_sync(tls.look):
                log.info("new connections get the certificate that has replaced the one before")
        except ValueError as error:
            log.error("The certificate before stays: %s", error)
        except Exception as error:
            failures.note(Border.SECURITY, "a look at a certificate", error)


async def _refresh(jwks: Jwks, failures: Failures) -> None:
    """Read the keys of tokens again, regularly and for an unknown key id, until cancelled."""
    while True:
        question = trio.Event()
        jwks.wanted = question.set
        with trio.move_on_after(jwks.refresh_s):
            await question.wait()
        try:
            await trio.to_thread.run_sync(jwks.load, abandon_on_cancel=True)
        except Exception as error:
            if isinstance(error, ValueError):
                log.error("The keys before stay: %s", error)
            else:
                failures.note(Border.SECURITY, "a look at the keys of tokens", error)
            await trio.sleep(RENEWAL_SECONDS)


def check_ports(first: int, count: int) -> None:
    """Raise ValueError, in one sentence, if brokers on ports from `first` on would need impossible ones."""
    if first + count - 1 > MAX_PORT:
        raise ValueError(f"{count} brokers from port {first} on would need ports above {MAX_PORT}.")


def listen(host: str, port: int, count: int) -> list[socket.socket]:
    """Open listening sockets on consecutive ports, or on free ones for port 0. Raises OSError, ValueError."""
    check_ports(port, count)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sockets: list[socket.socket] = []
    try:
        for number in range(count):
            sock = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port + number if port else 0))
            sock.listen(BACKLOG)
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def unchecked() -> ssl.SSLContext:
    """Return the TLS settings for connections to other processes. Their certificates are for clients and need not name
    them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _joined(addresses: Sequence[Address]) -> str:
    return ",".join(host_and_port(address.host, address.port) for address in addresses)


def _reachable(host: str) -> str:
    """Return an address of this machine to connect to when a listener is on all addresses."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def the_only(error: BaseException) -> BaseException:
    """Return the exception inside groups of one, which nurseries raise."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
