"""The reactor: every plain connection of a process on one epoll object, in one trio task.

Decides when a socket is read and written, and when trio gets its turn. A task per connection would cost trio two or
three times what a heartbeat needs; here the task waits, in `trio.lowlevel.wait_readable`, for the epoll object that has
all sockets, and then serves whichever are ready without waiting for any. It knows no request: `session.py` does.

Sockets are served in the order in which they became ready. That is why the epoll object reports edges: of levels, it
would put each socket it has reported at the end of its queue at once, and a client that is quick to send its next
request would find a place there, before others that have been waiting for longer. An edge comes once, so a socket that
may have more to read than was read is queued again (`Connection.look_again`).
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import time
from typing import Any, Final

import trio

from kafka_shim.server.cluster import Cluster
from kafka_shim.server.idle import Idle
from kafka_shim.server.node import Node
from kafka_shim.server.session import client_host

log: Final = logging.getLogger("kafka_shim.server")

AVAILABLE: Final = hasattr(select, "epoll")
"""Whether this platform has what the reactor needs."""

RECEIVE_BYTES: Final = 16 * 1024
EVENTS: Final = 128
TURN: Final = 0.002
"""Seconds after which the rest of trio gets a turn."""
STALLED: Final = 30.0
"""Seconds that a client may leave an answer unread."""
_NOTHING: Final = memoryview(b"")
_READABLE: Final = select.EPOLLIN


class Connection:
    """One socket, and the `events` it is watched for. What could not be sent yet is `unsent`, since `stalled_since`."""

    __slots__ = (
        "_reactor",
        "_send",
        "events",
        "fd",
        "idle_since",
        "peer",
        "receive",
        "recv",
        "session",
        "sock",
        "stalled_since",
        "unsent",
        "used",
    )

    def __init__(self, reactor: Reactor, node: Node, sock: socket.socket, address: Any) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = f"{address[0]}:{address[1]}"
        self.recv = sock.recv
        self.unsent = _NOTHING
        self.stalled_since = 0.0
        self.used = True
        self.idle_since = 0.0
        self._send = sock.send
        self._reactor = reactor
        self.events = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
        self.session = reactor.cluster.open(node, self, client_host(address))
        self.receive = reactor.cluster.receiver(self.session)

    def send(self, data: bytes) -> bool:
        """See `Transport.send`."""
        if self.unsent:
            self.unsent = memoryview(bytes(self.unsent) + data)
            return False
        try:
            sent = self._send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return True
        self.used = True
        if sent == len(data):
            return True
        self.unsent = memoryview(data)[sent:]
        self.stalled_since = time.monotonic()
        self._reactor.stalled.add(self)
        self._watch(self.events | select.EPOLLOUT)
        return False

    def flush(self, now: float) -> None:
        """The socket takes more."""
        try:
            sent = self._send(self.unsent)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self.unsent = self.unsent[sent:]
        self.used = True
        self.stalled_since = time.monotonic()
        if not self.unsent:
            self.unsent = _NOTHING
            self._reactor.stalled.discard(self)
            self._watch(self.events & ~select.EPOLLOUT)
            self.session.drained(now)

    @property
    def paused(self) -> bool:
        """See `Transport`."""
        return not self.events & select.EPOLLIN

    def pause(self) -> None:
        """See `Transport.pause`."""
        self._watch(self.events & ~select.EPOLLIN)

    def resume(self) -> None:
        """See `Transport.resume`."""
        self._watch(self.events | select.EPOLLIN)

    def look_again(self) -> None:
        """Let the socket be reported once more if it is ready, after all others that are."""
        if self._reactor.connections.get(self.fd) is self:
            self._reactor.epoll.modify(self.fd, self.events)

    def close(self) -> None:
        """See `Transport.close`."""
        if self._reactor.connections.pop(self.fd, None) is not None:
            self._reactor.stalled.discard(self)
            self.unsent = _NOTHING
            # Closing a socket takes it out of the epoll object.
            self.sock.close()
            self.session.lost()

    def _watch(self, events: int) -> None:
        if events != self.events:
            self.events = events
            self._reactor.epoll.modify(self.fd, events)


class Reactor:
    """Serves the plain connections of `cluster` that come in on `listeners`."""

    def __init__(self, cluster: Cluster, listeners: list[tuple[socket.socket, Node]]) -> None:
        self.cluster = cluster
        self.epoll = select.epoll()
        self.connections: dict[int, Connection] = {}
        self.task: trio.lowlevel.Task | None = None
        self._poll = self.epoll.poll
        self._clock = cluster.clock
        self._settle = cluster.settle
        self._failure: Exception | None = None
        self._failed = trio.Event()
        self.stalled: set[Connection] = set()
        self.idle = Idle(cluster.topics.settings.number("connections.max.idle.ms"))
        self._listeners: dict[int, tuple[socket.socket, Node]] = {}
        # Given up for a moment when descriptors run out, so that a connection can be accepted and refused.
        self._spare = os.open(os.devnull, os.O_RDONLY)
        for sock, node in listeners:
            self.accept(sock, node)

    async def run(self) -> None:
        """Serve until cancelled; then close everything."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._raise_failure)
                nursery.start_soon(self._close_stalled)
                nursery.start_soon(self.idle.run, self.connections.values)
                await self._serve()
        finally:
            self.close()

    def close(self) -> None:
        """Close every connection and listener."""
        for connection in list(self.connections.values()):
            connection.close()
        for sock, _ in self._listeners.values():
            sock.close()
        self.epoll.close()
        os.close(self._spare)

    def stop_accepting(self, only: Node | None = None) -> None:
        """New connections, to one node or to all, are refused; those that exist go on."""
        for fd, (sock, node) in list(self._listeners.items()):
            if only in (None, node):
                del self._listeners[fd]
                self.epoll.unregister(fd)
                sock.close()

    def accept(self, sock: socket.socket, node: Node) -> None:
        """Connections that come in on this listening socket are to `node`."""
        sock.setblocking(False)
        self._listeners[sock.fileno()] = (sock, node)
        self.epoll.register(sock.fileno(), select.EPOLLIN)

    def fail(self, error: Exception) -> None:
        """Raise this in the reactor's task: an exception in an instrument would only uninstall it."""
        self._failure = error
        self._failed.set()

    async def _raise_failure(self) -> None:
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    async def _serve(self) -> None:
        self.task = trio.lowlevel.current_task()
        # Not the coordinator's clock, which a test may have stopped.
        elapsed = time.monotonic
        turn_ends = elapsed() + TURN
        while True:
            if not self.drain():
                await trio.lowlevel.wait_readable(self.epoll.fileno())
                turn_ends = elapsed() + TURN
            elif elapsed() > turn_ends:
                await trio.lowlevel.checkpoint()
                turn_ends = elapsed() + TURN

    def drain(self) -> bool:
        """Serve the connections that are ready, each once; False if none is."""
        events = self._poll(0, EVENTS)
        if not events:
            return False
        now = self._clock()
        find = self.connections.get
        for fd, mask in events:
            connection = find(fd)
            if connection is None:
                self._accept(fd)
                continue
            is_only_readable = mask == _READABLE
            if not is_only_readable and mask & select.EPOLLOUT:
                connection.flush(now)
                if mask == select.EPOLLOUT:
                    continue
            try:
                data = connection.recv(RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                connection.close()
                continue
            if data:
                connection.used = True
                try:
                    connection.receive(data, now)
                except Exception:
                    connection.session.failed()
                if not is_only_readable or len(data) == RECEIVE_BYTES:
                    connection.look_again()
            else:
                connection.close()
        self._settle(now)
        return True

    def _accept(self, listener: int) -> None:
        if listener not in self._listeners:
            return
        listening, node = self._listeners[listener]
        for _ in range(EVENTS):
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._turn_away(listening)
                    return
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(self, node, sock, address)
            self.connections[connection.fd] = connection
            self.epoll.register(connection.fd, connection.events)

    def _turn_away(self, listening: socket.socket) -> None:
        os.close(self._spare)
        try:
            listening.accept()[0].close()
        except OSError:
            pass
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        log.error("a connection was refused: no more than %d files may be open", len(self.connections))

    async def _close_stalled(self) -> None:
        while True:
            await trio.sleep(STALLED / 10)
            too_long = time.monotonic() - STALLED
            for connection in [each for each in self.stalled if each.stalled_since < too_long]:
                connection.session.refuse(f"{len(connection.unsent)} bytes of an answer unread for {STALLED:.0f} s")


class BetweenSteps(trio.abc.Instrument):
    """Lets the reactor serve whoever is ready before the next step of another task, once it has not for `PATIENCE`.

    Many tasks, such as those of the control server, would otherwise each have a step before it is the reactor's turn;
    trio has no priorities. `docs/architecture.md` has what else was measured. What goes wrong here is raised in the
    reactor's task.
    """

    PATIENCE: Final = 0.0003

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._last = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        now = time.monotonic()
        if now - self._last > self.PATIENCE:
            reactor = self._reactor
            if task is not reactor.task and not reactor.epoll.closed:
                try:
                    reactor.drain()
                except Exception as error:
                    reactor.fail(error)
            self._last = time.monotonic()
