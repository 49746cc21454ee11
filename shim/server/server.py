"""A server: listeners, the cluster behind them, and how both begin and end.

Decides which addresses nodes have, which kind of connections carries the bytes, and the order of starting and stopping.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from kafka_shim.broker.topics import Node as Address
from kafka_shim.persistence.store import Store
from kafka_shim.server import reactor
from kafka_shim.server.cluster import Cluster, ClusterConfig, make_cluster
from kafka_shim.server.reactor import Reactor
from kafka_shim.server.streams import Streams

BACKLOG: Final = 4096
DRAIN_SECONDS: Final = 5.0
"""How long stopping waits for the store."""


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Where a server listens and what it is.

    With several brokers each has a port of its own: `port` and the ones after it, or any free ones for port 0.
    `advertise` is the host that clients get, by default the one listened on; `advertise_port` the port of the
    first broker, the others having the ports after it. `tls` makes every connection a TLS one.
    """

    host: str = "127.0.0.1"
    port: int = 0
    brokers: int = 1
    node_id: int = 1
    """Of the first broker; the others have the numbers after it."""
    advertise: str | None = None
    advertise_port: int | None = None
    tls: ssl.SSLContext | None = None
    epoll: bool = True
    """Use the reactor where it can be."""
    cluster: ClusterConfig = field(default_factory=ClusterConfig)


class Server:
    """A running server. `bootstrap` is the bootstrap servers of clients."""

    def __init__(self, config: ServerConfig, cluster: Cluster) -> None:
        self.config = config
        self.cluster = cluster
        self.gone = trio.Event()
        """Set when every connection is closed and everything written is durable."""
        self.network: Reactor | Streams | None = None
        self._stop = trio.Event()

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` of every node, with commas between them."""
        return ",".join(
            f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"
            for address in (node.address for node in self.cluster.nodes.values())
        )

    def stop(self) -> None:
        """Accept no more, make durable what was written, then close."""
        self._stop.set()

    async def stopped(self) -> None:
        """`stop` was called."""
        await self._stop.wait()


async def serve(
    config: ServerConfig,
    store: Store | None = None,
    prepare: Callable[[Server], Awaitable[None]] | None = None,
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a server until it is stopped; `task_status` gets it once it answers and all partitions were loaded.

    `store` is open, and is not closed here. Raises OSError if an address cannot be listened on, ValueError for a
    configuration that cannot be.
    """
    sockets = listen(config.host, config.port, config.brokers)
    try:
        host = config.advertise or _reachable(config.host)
        ports = [sock.getsockname()[1] for sock in sockets]
        shown = ports if config.advertise_port is None else range(config.advertise_port, 65536)
        addresses = [Address(config.node_id + number, host, shown[number]) for number in range(config.brokers)]
        peer_tls = unchecked() if config.tls is not None else None
        server = Server(config, make_cluster(addresses, config.cluster, store, peer_tls=peer_tls))
        if prepare is not None:
            await prepare(server)
        await _run(server, sockets, task_status)
    finally:
        for sock in sockets:
            sock.close()


async def serve_made(
    config: ServerConfig, cluster: Cluster, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run a server of a cluster that was made and started already, until it is stopped; see `serve`.

    Clients reach its nodes where `config` says, from now on. A node that is down does not listen.
    """
    sockets = listen(config.host, config.port, len(cluster.nodes))
    try:
        ports = [sock.getsockname()[1] for sock in sockets]
        host = _reachable(config.host)
        cluster.readdress(Address(node_id, host, port) for node_id, port in zip(cluster.nodes, ports, strict=True))
        await _run(Server(config, cluster), sockets, task_status)
    finally:
        for sock in sockets:
            sock.close()


async def _run(server: Server, sockets: Sequence[socket.socket], task_status: trio.TaskStatus[Server]) -> None:
    config, cluster = server.config, server.cluster
    listening = {node_id: sock.getsockname()[1] for node_id, sock in zip(cluster.nodes, sockets, strict=True)}
    listeners = []
    for sock, node in zip(sockets, cluster.nodes.values(), strict=True):
        if node.up:
            listeners.append((sock, node))
        else:
            sock.close()
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        network: Reactor | Streams
        if config.tls is None and config.epoll and reactor.AVAILABLE:
            network = Reactor(cluster, listeners)
        else:
            network = Streams(cluster, listeners, config.tls)
        server.network = network
        cluster.on_broker_down.append(network.stop_accepting)
        cluster.on_broker_up.append(lambda node: network.accept(listen(config.host, listening[node.id], 1)[0], node))
        nursery.start_soon(network.run)
        await cluster.loaded.wait()
        task_status.started(server)
        await server.stopped()
        network.stop_accepting()
        with trio.move_on_after(DRAIN_SECONDS):
            await cluster.durability.flushed()
        nursery.cancel_scope.cancel()
    server.gone.set()


def listen(host: str, port: int, count: int) -> list[socket.socket]:
    """Listening sockets on consecutive ports, or on free ones for port 0. Raises OSError."""
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
    """How a process of a cluster speaks TLS to another, whose certificate is for clients and need not name it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _reachable(host: str) -> str:
    """An address of this machine where all are listened on."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def the_only(error: BaseException) -> BaseException:
    """The exception in groups of one, which is how nurseries raise it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
