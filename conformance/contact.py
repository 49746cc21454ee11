"""The connections of one cell to the target, and ways to say what its answers must hold.

Decides in which version and over which connection a request goes, and how a failure is worded. It does not know cases
or members.
"""

from __future__ import annotations

import itertools
import re
import time
from typing import Any, Final

from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.plain import error_name, shown, shown_like
from kafka_shim.conformance.protocol import api_of
from kafka_shim.conformance.targets.base import Limits
from kafka_shim.conformance.verdict import Failed, NotServed
from kafka_shim.conformance.wire import Connection, Tape

_MOVING: Final = re.compile(r"\berror_code=1[456]\b")
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""


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
        self._aside: dict[Endpoint, Connection] = {}

    # -- talking to the target

    def connect(
        self, label: str | None = None, *, client_id: str | None = None, group: str | None = None
    ) -> Connection:
        """A new connection, to the coordinator of the cell's group or of another."""
        return self.connect_to(self.peer.routes.coordinator(group or self.group), label, client_id)

    def connect_to(self, endpoint: Endpoint, label: str | None = None, client_id: str | None = None) -> Connection:
        """A new connection to a broker."""
        connection = Connection(
            endpoint,
            patience=self.limits.patience,
            deadline=self._deadline,
            tape=self.tape,
            label=label or f"c{len(self._connections) + 1}",
            client_id=self.peer.client_id if client_id is None else client_id,
        )
        connection.answered = self.answered
        self._connections.append(connection)
        return connection

    def another_group(self, name: str) -> str:
        """The id of another group with the same coordinator: one request may be about both."""
        routes = self.peer.routes
        candidates = itertools.chain([f"{self.group}-{name}"], (f"{self.group}-{name}{n}" for n in itertools.count(2)))
        return next(each for each in candidates if routes.coordinator(each) == routes.coordinator(self.group))

    def version_of(self, request: Message | str) -> int:
        """The version to send a request in: the cell's for the API the case is about, else the newest."""
        name = request if isinstance(request, str) else api_of(request).name
        return self.version if name == self.api else self.peer.newest(name)

    def call(self, request: Message, version: int | None = None) -> Any:
        """Ask whom the request concerns, on a connection of the cell's own, and wait for the answer."""
        api = api_of(request).name
        endpoint = self.peer.routes.of(request, api, self.group)
        if endpoint not in self._aside:
            number = len(self._aside)
            self._aside[endpoint] = self.connect_to(endpoint, f"aside{number + 1}" if number else "aside")
        return self._aside[endpoint].call(request, self.version_of(api) if version is None else version)

    def has_moved(self) -> bool:
        """Whether another broker coordinates now than when the cell began: what it saw says nothing then."""
        routes = self.peer.routes
        return not routes.is_alone and (self.saw_a_move or routes.have_moved(routes.used(self.group)))

    @property
    def saw_a_move(self) -> bool:
        """Whether an answer has an error of a broker that does not coordinate, or not yet."""
        return any(_MOVING.search(frame.note) for frame in self.tape.frames if frame.direction == "=")

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
