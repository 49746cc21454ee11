"""The reactor: every connection of a process on one epoll object, in one trio task.

A task per connection would cost trio two or three times the price of a heartbeat. Here the task waits, in
`trio.lowlevel.wait_readable`, for the epoll object of all sockets, and then serves all ready ones without waiting.
`session.py` handles the bytes; `encrypted.py` turns those of TLS into plain ones and back.

Sockets are served in the order in which they became ready. That is why the epoll object reports edges: with levels, it
would put each reported socket at the end of its queue at once, and a client that is quick to send its next request
would find a place there, before others that have been waiting for longer. An edge comes once, so a socket that may have
more to read than was read is queued again (`Connection.look_again`).

A step of a TLS handshake costs a hundred times a heartbeat. It waits (`Reactor.later`) until all ready clients are
served.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio

from kafka_shim.server.cluster import Cluster
from kafka_shim.server.failures import Border
from kafka_shim.server.idle import Idle
from kafka_shim.server.node import Node
from kafka_shim.server.session import Session, client_host

if TYPE_CHECKING:
    from kafka_shim.server.secured import Door

log: Final = logging.getLogger("kafka_shim.server")

AVAILABLE: Final = hasattr(select, "epoll")
"""True if this platform has epoll."""

RECEIVE_BYTES: Final = 16 * 1024
EVENTS: Final = 128
TURN: Final = 0.002
"""Seconds after which the rest of trio gets a turn."""
HANDSHAKES: Final = 0.001
"""Seconds after which no further step of a handshake begins before ready clients are served."""
STALLED: Final = 30.0
"""Seconds that a client may leave an answer unread, or a TLS handshake undone."""
_TOO_MANY: Final = (errno.EMFILE, errno.ENFILE)
REST: Final = 1.0
"""Seconds between two looks at the rate of new connections, while there are too many."""
_NOTHING: Final = memoryview(b"")
_READABLE: Final = select.EPOLLIN if AVAILABLE else 0
_BROKEN: Final = select.EPOLLERR | select.EPOLLHUP if AVAILABLE else 0
WRITABLE: Final = select.EPOLLOUT if AVAILABLE else 0
"""The event of a socket that takes bytes again."""


class Connection:
    """One socket, and the `events` to watch for. `unsent` are the bytes that the socket did not take, since
    `stalled_since`."""

    __slots__ = (
        "_address",
        "_limits",
        "_node",
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

    def __init__(
        self, reactor: Reactor, node: Node, sock: socket.socket, address: Any, door: Door | None = None
    ) -> None:
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
        self._node = node
        self._address = address
        self._limits = None if door is None else door.limits
        self.events = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
        self.begin(node, address, door)

    def begin(self, node: Node, address: Any, door: Door | None) -> None:
        """Open the session."""
        cluster = self._reactor.cluster
        self.session: Session = cluster.open(node, self, client_host(address), door)
        self.receive = cluster.receiver(self.session)

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
        """Send more: the socket takes bytes again."""
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
        """Report the socket once more if it is ready, after all others that are."""
        if self._reactor.connections.get(self.fd) is self:
            self._reactor.epoll.modify(self.fd, self.events)

    def over(self) -> None:
        """Note the end of the client's bytes."""
        self.session.end()

    def close(self) -> None:
        """See `Transport.close`."""
        if self._reactor.connections.pop(self.fd, None) is not None:
            self._reactor.stalled.discard(self)
            self.unsent = _NOTHING
            # Closing a socket takes it out of the epoll object.
            self.sock.close()
            self._node.admission.leave(self._address, self._limits)
            self._reactor.wake()
            self.session.lost()

    def failed(self, error: Exception) -> None:
        """Close after an exception while serving this client."""
        self.session.failed(error)

    def give_up(self) -> None:
        """Close: the client has been stalled for too long."""
        self.session.refuse(f"{len(self.unsent)} bytes of an answer unread for {STALLED:.0f} s")

    def go_on(self, now: float) -> None:
        """Take the step that was to come later; see `Reactor.later`."""

    def _watch(self, events: int) -> None:
        if events != self.events:
            self.events = events
            self._reactor.epoll.modify(self.fd, events)


Opens = Callable[["Reactor", Node, socket.socket, Any, "Door | None"], Connection]
"""Makes a connection of an accepted socket and its address."""


class Reactor:
    """The reactor for the connections of `cluster`.

    `later` has the connections with a step to take when all ready clients are served. `stalled` has those that give up
    after `STALLED` seconds.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.epoll = select.epoll()
        self.connections: dict[int, Connection] = {}
        self.task: trio.lowlevel.Task | None = None
        self._poll = self.epoll.poll
        self._clock = cluster.clock
        self._settle = cluster.settle
        self._ticks = cluster.ticks
        self.stalled: set[Connection] = set()
        self.later: deque[Connection] = deque()
        self._resting: set[int] = set()
        """Listeners that accept nothing: they have as many connections as they may have, or too many new ones."""
        self._looks = False
        """True while a look at the rate of new connections is to come."""
        self.idle = Idle(cluster.topics.settings.number("connections.max.idle.ms"))
        self._listeners: dict[int, tuple[socket.socket, Node, Door | None, Opens]] = {}
        # Given up for a moment when descriptors run out, so that a connection can be accepted and refused.
        self._spare = os.open(os.devnull, os.O_RDONLY)

    async def run(self) -> None:
        """Serve until cancelled; then close everything."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._close_stalled)
                nursery.start_soon(self.idle.run, self.connections.values)
                await self._serve()
        finally:
            self.close()

    def close(self) -> None:
        """Close every connection and listener."""
        for connection in list(self.connections.values()):
            connection.close()
        for sock, *_ in self._listeners.values():
            sock.close()
        self.epoll.close()
        if self._spare >= 0:
            os.close(self._spare)

    def stop_accepting(self, only: Node | None = None) -> None:
        """Refuse new connections, to one node or to all; existing ones go on."""
        for fd, (sock, node, *_) in list(self._listeners.items()):
            if only in (None, node):
                del self._listeners[fd]
                self._resting.discard(fd)
                self.epoll.unregister(fd)
                sock.close()

    def accept(self, sock: socket.socket, node: Node, door: Door | None = None, opens: Opens = Connection) -> None:
        """Accept the connections of a listening socket for `node`, through the door of a listener if it has one."""
        sock.setblocking(False)
        self._listeners[sock.fileno()] = (sock, node, door, opens)
        self.epoll.register(sock.fileno(), select.EPOLLIN)

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
        """Serve the connections that are ready, each once; return False if none is."""
        events = self._poll(0, EVENTS)
        if not events and not self.later:
            return False
        now = self._clock()
        if self._ticks.wake_at <= now:
            self._ticks.catch_up(now)
        find = self.connections.get
        for fd, mask in events:
            connection = find(fd)
            if connection is None:
                self._accept(fd)
                continue
            try:
                is_only_readable = mask == _READABLE
                if not is_only_readable:
                    if mask & select.EPOLLOUT:
                        connection.flush(now)
                        if mask == select.EPOLLOUT:
                            continue
                    if connection.paused:
                        # The end of a client that waits is reported too; it is read with the bytes before it.
                        if mask & _BROKEN:
                            connection.close()
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
                    connection.receive(data, now)
                    if not is_only_readable or len(data) == RECEIVE_BYTES:
                        connection.look_again()
                elif mask & _BROKEN:
                    # No answer can reach the client.
                    connection.close()
                else:
                    connection.over()
            except Exception as error:
                connection.failed(error)
        if self.later:
            self._take_steps(now)
        self._settle(now)
        return True

    def _take_steps(self, now: float) -> None:
        """Take the steps that were to come later, at least one."""
        ends = time.monotonic() + HANDSHAKES
        while self.later:
            connection = self.later.popleft()
            try:
                connection.go_on(now)
            except Exception as error:
                connection.failed(error)
            if time.monotonic() > ends:
                break

    def _accept(self, listener: int) -> None:
        if listener not in self._listeners:
            return
        listening, node, door, opens = self._listeners[listener]
        limits = None if door is None else door.limits
        for _ in range(EVENTS):
            seconds = self._delay(node, door)
            if seconds > 0:
                self._rest(listener, seconds)
                return
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _TOO_MANY:
                    self._turn_away(listening)
                    return
                continue
            try:
                now = self._clock()
                node.admission.created(limits, now)
                refused_for = node.admission.refusal(address, now)
                if refused_for is None:
                    self._begin(node, sock, address, door, opens)
                elif refused_for > 0:
                    self.cluster.delays.after(refused_for, sock.close)
                else:
                    sock.close()
            except Exception as error:
                self.cluster.failures.note(Border.ACCEPT, f"a connection of {address}", error)
                sock.close()

    def _delay(self, node: Node, door: Door | None) -> float:
        """Return the seconds until a listener may accept the next connection; after an exception, until the next
        look."""
        try:
            return node.admission.delay(None if door is None else door.limits, self._clock())
        except Exception as error:
            self.cluster.failures.note(Border.ACCEPT, "the admission of new connections", error)
            return REST

    def _begin(self, node: Node, sock: socket.socket, address: Any, door: Door | None, opens: Opens) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        limits = None if door is None else door.limits
        # First: a connection that is open without being counted would be counted no more at its end.
        node.admission.enter(address, limits)
        try:
            connection = opens(self, node, sock, address, door)
        except Exception:
            node.admission.leave(address, limits)
            raise
        self.connections[connection.fd] = connection
        try:
            self.epoll.register(connection.fd, connection.events)
        except Exception:
            connection.close()
            raise

    def _rest(self, listener: int, seconds: float) -> None:
        """Accept nothing at a listener until a connection ends or its rate is in order, and look every second."""
        self._resting.add(listener)
        self.epoll.modify(listener, 0)
        if seconds < inf and not self._looks:
            self._looks = True
            self.cluster.delays.after(min(seconds, REST), self._look_at_rates)

    def _look_at_rates(self) -> None:
        self._looks = False
        if not self.epoll.closed:
            self.wake()
            if self._resting:
                self._looks = True
                self.cluster.delays.after(REST, self._look_at_rates)

    def wake(self) -> None:
        """Accept again at the listeners that are not full any longer, and whose rate is in order."""
        for listener in list(self._resting):
            _, node, door, _ = self._listeners[listener]
            if self._delay(node, door) <= 0:
                self._resting.discard(listener)
                self.epoll.modify(listener, select.EPOLLIN)

    def _turn_away(self, listening: socket.socket) -> None:
        if self._spare >= 0:
            os.close(self._spare)
        try:
            listening.accept()[0].close()
        except OSError as error:
            if error.errno in _TOO_MANY:
                # Another thread has the descriptor: look again later, since the listener stays ready.
                self._rest(listening.fileno(), REST)
        try:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            self._spare = -1
        log.error("a connection was refused: no more than %d files may be open", len(self.connections))

    async def _close_stalled(self) -> None:
        while True:
            await trio.sleep(STALLED / 10)
            # An administrator may have raised the limit.
            self.wake()
            too_long = time.monotonic() - STALLED
            for connection in [each for each in self.stalled if each.stalled_since < too_long]:
                try:
                    connection.give_up()
                except Exception as error:
                    connection.failed(error)


class BetweenSteps(trio.abc.Instrument):
    """An instrument that lets the reactor serve ready clients before the next step of another task, after `PATIENCE`
    seconds without a turn.

    Many tasks, such as those of the control server, would otherwise each have a step before it is the reactor's turn;
    trio has no priorities. `docs/architecture.md` has the measurements. An exception here would only uninstall the
    instrument, so it is noted; the reactor's own task meets it again if it lasts.
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
                    reactor.cluster.failures.note(Border.TICK, "serving between two steps", error)
            self._last = time.monotonic()
