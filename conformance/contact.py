"""The connections of one cell to the target, and ways to say what its answers must hold.

Decides in which version and over which connection a request goes, and how a failure is worded. It does not know cases
or members.
"""

from __future__ import annotations

import time
from typing import Any

from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.plain import error_name, shown, shown_like
from kafka_shim.conformance.protocol import api_of
from kafka_shim.conformance.targets.base import Limits
from kafka_shim.conformance.verdict import Failed, NotServed
from kafka_shim.conformance.wire import Connection, Tape


class Contact:
    """One cell's connections. `api` and `version`: what is under test. `seconds`: how long the cell may take.

    `answered` collects the API keys and versions that had an answer.
    """

    def __init__(self, peer: Peer, group: str, api: str | None, version: int, limits: Limits, seconds: float) -> None:
        self.peer = peer
        self.group = group
        self.api = api
        self.version = version
        self.limits = limits
        self.tape = Tape()
        self.answered: set[tuple[int, int]] = set()
        self._deadline = time.monotonic() + seconds
        self._connections: list[Connection] = []
        self._aside: Connection | None = None

    # -- talking to the target

    def connect(self, label: str | None = None, *, client_id: str = "conformance") -> Connection:
        """A new connection."""
        connection = Connection(
            self.peer.instance.host,
            self.peer.instance.port,
            patience=self.limits.patience,
            deadline=self._deadline,
            tape=self.tape,
            label=label or f"c{len(self._connections) + 1}",
            client_id=client_id,
        )
        connection.answered = self.answered
        self._connections.append(connection)
        return connection

    def version_of(self, request: Message | str) -> int:
        """The version to send a request in: the cell's for the API the case is about, else the newest."""
        name = request if isinstance(request, str) else api_of(request).name
        return self.version if name == self.api else self.peer.newest(name)

    def call(self, request: Message, version: int | None = None) -> Any:
        """Ask on a connection of the trial's own and wait for the answer."""
        if self._aside is None:
            self._aside = self.connect("aside")
        return self._aside.call(request, self.version_of(request) if version is None else version)

    def end(self) -> None:
        """Close what is open."""
        for connection in self._connections:
            connection.close()

    # -- what must hold

    def check(self, holds: bool, otherwise: str) -> None:
        """`Failed` with the text unless it holds."""
        if not holds:
            raise Failed(otherwise)

    def equal(self, actual: object, expected: object, what: str) -> None:
        """`Failed` unless both are the same."""
        if actual != expected:
            raise Failed(f"{what} is {shown_like(actual, expected)}, must be {shown(expected)}")

    def expect(self, answer: Message | Any, **fields: Any) -> Any:
        """`Failed` unless the answer has these fields. A set of values allows any of them."""
        kind = type(answer).__name__
        for name, expected in fields.items():
            actual = getattr(answer, name)
            allowed = tuple(expected) if isinstance(expected, set) else (expected,)
            if actual in allowed:
                continue
            if name != "error_code":
                text = f"{kind}.{name} is {shown_like(actual, expected)}, must be {shown(expected)}"
                raise Failed(text, f"{kind}.{name}")
            if actual == ErrorCode.UNSUPPORTED_VERSION:
                raise NotServed(f"{kind} says {error_name(actual)} to a version the target advertises")
            must = " or ".join(error_name(code) for code in allowed)
            raise Failed(f"{kind} says {error_name(actual)}, must say {must}", f"{kind}.error_code")
        return answer

    def topic_id(self, name: str) -> bytes:
        """The id of a topic that the suite made or found."""
        return self.peer.topic_ids[name]
