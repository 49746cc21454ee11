"""TLS connections of the reactor: bytes of a socket go through OpenSSL in memory, to and from the same session.

A connection has a session once its handshake is done, since the session needs the principal of the client's
certificate. Until then a few KiB wait, for at most `reactor.STALLED` seconds in all. A long answer is encrypted in
parts, as the client reads it, since a hundred megabytes at once would let other clients wait.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from kafka_shim.security.tls import Certified, Tls
from kafka_shim.server import reactor
from kafka_shim.server.failures import Border
from kafka_shim.server.node import Node
from kafka_shim.server.reactor import Connection, Reactor
from kafka_shim.server.session import Session, client_host

if TYPE_CHECKING:
    from kafka_shim.server.secured import Door

log: Final = logging.getLogger("kafka_shim.server")

RECORD_BYTES: Final = 16 * 1024
"""The largest plain text of a TLS record. To read as much takes the whole record, so OpenSSL keeps nothing back."""
EARLY_BYTES: Final = 64 * 1024
"""The limit of bytes to read from a client before its handshake has gone on."""
PART: Final = 128 * 1024
"""Bytes to encrypt before the socket is asked whether it takes them."""
TURN_BYTES: Final = 1024 * 1024
"""Bytes to encrypt for one client in one turn."""
MAX_NOTES: Final = 64 * 1024
"""The limit of bytes of TLS itself, such as answers to updates of keys, that a client may leave unread."""
_NOTHING: Final = memoryview(b"")


_NO_SESSION: Final = cast(Session, SimpleNamespace(lost=lambda: None))
"""Stands where the session will be."""


class TlsConnection(Connection):
    """A connection with TLS. `_entering` are the door and the host of a client during the handshake, None after it.
    `_clear` are the bytes that are not encrypted yet, since the socket does not take them. `_has_said_all` is true
    after the farewell of the server, `_is_over` once the client has ended before its handshake."""

    __slots__ = (
        "_clear",
        "_deliver",
        "_entering",
        "_has_said_all",
        "_incoming",
        "_is_over",
        "_is_queued",
        "_outgoing",
        "_principal_of",
        "_read",
        "_tls",
        "_tls_object",
        "_write",
    )

    def __init__(
        self,
        loop: Reactor,
        node: Node,
        sock: socket.socket,
        address: Any,
        door: Door | None,
        tls: Tls,
        principal_of: Callable[[Certified], str | None],
    ) -> None:
        self._tls = tls
        self._tls_object: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._principal_of = principal_of
        self._clear = _NOTHING
        self._is_queued = self._is_over = self._has_said_all = False
        super().__init__(loop, node, sock, address, door)

    def begin(self, node: Node, address: Any, door: Door | None) -> None:
        """Wait for the handshake."""
        self._entering: tuple[Door | None, str] | None = (door, client_host(address))
        self.session = _NO_SESSION
        self.receive = self._wait
        self.stalled_since = time.monotonic()
        self._reactor.stalled.add(self)

    # The handshake

    def _wait(self, data: bytes, now: float) -> None:
        self._incoming.write(data)
        if not self._is_queued:
            self._is_queued = True
            self._reactor.later.append(self)
        if self._incoming.pending > EARLY_BYTES:
            self.pause()

    def go_on(self, now: float) -> None:
        """Take the next step of the handshake."""
        self._is_queued = False
        if self._entering is None or self._is_closed:
            return
        if self.paused:
            self.resume()
        tls = self._tls_object
        if tls is None:
            # Only now: a silent connection needs no buffers of OpenSSL.
            tls = self._tls_object = self._tls.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        try:
            tls.do_handshake()
            principal = self._principal_of(tls)
        except ssl.SSLWantReadError:
            self._send_notes()
            if self._is_over:
                self.close()
            return
        except (OSError, ValueError) as error:
            self._no_tls(str(error))
            return
        if not self._node.up:
            self.close()
            return
        self._enter(tls, *self._entering, principal)
        self._send_notes()
        if self._incoming.pending:
            self._decrypt(b"", now)
        if self._is_over:
            self.over()

    def _enter(self, tls: ssl.SSLObject, door: Door | None, host: str, principal: str | None) -> None:
        self._entering = None
        self._read, self._write = tls.read, tls.write
        cluster = self._reactor.cluster
        self.session = cluster.open(self._node, self, host, door, principal)
        self._deliver = cluster.receiver(self.session)
        self.receive = self._decrypt
        if not self.unsent:
            self._reactor.stalled.discard(self)

    def _no_tls(self, reason: str) -> None:
        log.warning("no TLS with %s: %s", self.peer, reason)
        # The client hears the reason, if it still listens.
        self._send_notes()
        self._end()

    # From the client

    def _decrypt(self, data: bytes, now: float) -> None:
        incoming, read = self._incoming, self._read
        incoming.write(data)
        try:
            while True:
                plain = read(RECORD_BYTES)
                if not plain:
                    # OpenSSL would keep all that comes after the farewell.
                    self.receive = _ignore
                    self.over()
                    return
                self._deliver(plain, now)
                if not incoming.pending:
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            if not self._is_closed:
                self._send_notes()
                self._has_said_all = True
                self.session.refuse(f"broken TLS: {error}")
            return
        if self._outgoing.pending:
            self._send_notes()

    # To the client

    def send(self, data: bytes) -> bool:
        """See `Transport.send`."""
        if self.unsent or self._clear:
            self._clear = memoryview(bytes(self._clear) + data)
            return False
        if len(data) > PART:
            self._clear = memoryview(data)
            return self._send_clear()
        try:
            self._write(data)
            encrypted = self._outgoing.read()
            sent = self._send(encrypted)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._end()
            return True
        self.used = True
        if sent == len(encrypted):
            return True
        self._keep(memoryview(encrypted)[sent:])
        return False

    def _send_clear(self) -> bool:
        """Encrypt and send, as far as the socket takes it and a turn allows; return True if nothing is left."""
        clear, budget = self._clear, TURN_BYTES
        encrypted, sent = b"", 0
        try:
            while clear and budget > 0:
                part = clear[:PART]
                self._write(part)
                encrypted, sent = self._outgoing.read(), 0
                clear, budget = clear[len(part) :], budget - len(part)
                sent = self._send(encrypted)
                if sent < len(encrypted):
                    break
        except BlockingIOError:
            pass
        except OSError:
            self._end()
            return True
        self.used = True
        self._clear = clear or _NOTHING
        if sent == len(encrypted) and not clear:
            return True
        self._keep(memoryview(encrypted)[sent:] if sent < len(encrypted) else _NOTHING)
        if not self.unsent:
            # The socket takes more, and reports no edge for it.
            self.look_again()
        return False

    def _send_notes(self) -> None:
        """Send the messages of TLS itself: parts of the handshake, tickets, alerts."""
        notes = self._outgoing.read()
        if not notes or self._is_closed:
            return
        if self.unsent:
            if len(self.unsent) > MAX_NOTES + 2 * PART:
                self._end()
            else:
                self.unsent = memoryview(bytes(self.unsent) + notes)
            return
        try:
            sent = self._send(notes)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._end()
            return
        if sent < len(notes):
            self._keep(memoryview(notes)[sent:])

    def _keep(self, unsent: memoryview) -> None:
        self.unsent = unsent
        if self._entering is None:
            self.stalled_since = time.monotonic()
        self._reactor.stalled.add(self)
        self._watch(self.events | reactor.WRITABLE)

    def flush(self, now: float) -> None:
        """See `Connection.flush`."""
        if self.unsent:
            try:
                sent = self._send(self.unsent)
            except BlockingIOError:
                return
            except OSError:
                self._end()
                return
            self.unsent = self.unsent[sent:]
            self.used = True
            if self._entering is None:
                self.stalled_since = time.monotonic()
            if self.unsent:
                return
            self.unsent = _NOTHING
        if self._clear and not self._send_clear():
            return
        if self._is_closed:
            return
        self._watch(self.events & ~reactor.WRITABLE)
        if self._entering is None:
            self._reactor.stalled.discard(self)
            self.session.drained(now)

    # The end

    def over(self) -> None:
        """See `Connection.over`."""
        if self._entering is None:
            super().over()
        elif self._is_queued:
            # The last step of the handshake may be there, and requests behind it.
            self._is_over = True
        else:
            self.close()

    def give_up(self) -> None:
        """See `Connection.give_up`."""
        if self._entering is not None:
            self._no_tls(f"not within {reactor.STALLED:.0f} s")
        else:
            self.session.refuse(
                f"{len(self.unsent) + len(self._clear)} bytes of an answer unread for {reactor.STALLED:.0f} s"
            )

    def failed(self, error: Exception) -> None:
        """See `Connection.failed`."""
        if self._entering is None:
            super().failed(error)
        else:
            self._reactor.cluster.failures.note(Border.ACCEPT, f"a handshake of TLS with {self.peer}", error)
            self._end()

    @property
    def _is_closed(self) -> bool:
        return self._reactor.connections.get(self.fd) is not self

    def _end(self) -> None:
        """Close without a farewell."""
        self._has_said_all = True
        self.close()

    def close(self) -> None:
        """See `Transport.close`. The client hears that nothing is missing, if nothing is."""
        if self._is_closed:
            return
        tls = self._tls_object
        if tls is not None and self._entering is None and not (self._has_said_all or self.unsent or self._clear):
            self._has_said_all = True
            with suppress(OSError):
                tls.unwrap()
            with suppress(OSError):
                self._send(self._outgoing.read())
        self._clear = _NOTHING
        # Without these cycles reference counting frees the buffers of OpenSSL at once.
        self.receive = self._deliver = _ignore
        super().close()


def _ignore(data: bytes, now: float) -> None:
    pass
