"""The connections of one cell to the target, and its assertions about answers.

Chooses the version and the connection of each request, and words the failures.
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
from kafka_shim.conformance.plain import as_text, as_text_like, error_name
from kafka_shim.conformance.protocol import api_of
from kafka_shim.conformance.targets.base import Limits
from kafka_shim.conformance.verdict import Failed, NotServed
from kafka_shim.conformance.wire import Connection, Tape

_MOVING: Final = re.compile(r"\berror_code=1[456]\b")
"""Answers with COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR."""


def shows_a_move(tape: Tape) -> bool:
    """Return True if an answer has an error of a broker that is not, or not yet, the coordinator."""
    return any(_MOVING.search(frame.note) for frame in tape.frames if frame.direction == "=")


class Contact:
    """The connections of one cell. `api` and `version` are under test; `seconds` bounds the whole cell.

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

    # -- connections and requests

    def connect(
        self, label: str | None = None, *, client_id: str | None = None, group: str | None = None
    ) -> Connection:
        """Open a connection to the coordinator of the cell's group, or of another group."""
        return self.connect_to(self.peer.routes.coordinator(group or self.group), label, client_id)

    def connect_to(self, endpoint: Endpoint, label: str | None = None, client_id: str | None = None) -> Connection:
        """Open a connection to a broker."""
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

    def connect_securely(self, listener: str, label: str | None = None) -> Connection:
        """Open a connection to a listener that authenticates its clients; nothing is sent yet."""
        return self.connect_to(self.peer.instance.secured[listener], label)

    def another_group(self, name: str) -> str:
        """Return the id of another group with the same coordinator, so that one request may name both."""
        routes = self.peer.routes
        candidates = itertools.chain([f"{self.group}-{name}"], (f"{self.group}-{name}{n}" for n in itertools.count(2)))
        return next(each for each in candidates if routes.coordinator(each) == routes.coordinator(self.group))

    def version_of(self, request: Message | str) -> int:
        """Return the version for a request: the cell's for the API under test, else the newest."""
        name = request if isinstance(request, str) else api_of(request).name
        return self.version if name == self.api else self.peer.newest(name)

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send the request to the broker responsible for it, on a connection of the cell, and wait for the answer."""
        api = api_of(request).name
        endpoint = self.peer.routes.of(request, api, self.group)
        if endpoint not in self._aside:
            number = len(self._aside)
            self._aside[endpoint] = self.connect_to(endpoint, f"aside{number + 1}" if number else "aside")
        return self._aside[endpoint].call(request, self.version_of(api) if version is None else version)

    def has_moved(self) -> bool:
        """Return True if the coordinator changed since the cell began, so that its answers prove nothing."""
        routes = self.peer.routes
        return not routes.is_alone and (self.saw_a_move or routes.have_moved(routes.used(self.group)))

    @property
    def saw_a_move(self) -> bool:
        """True if an answer has an error of a broker that is not, or not yet, the coordinator."""
        return shows_a_move(self.tape)

    def end(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    # -- assertions

    def check(self, holds: bool, otherwise: str) -> None:
        """Raise `Failed` with the text unless `holds` is true."""
        if not holds:
            raise Failed(otherwise)

    def equal(self, actual: object, expected: object, what: str) -> None:
        """Raise `Failed` unless both values are equal; `what` names the value in the failure."""
        if actual != expected:
            raise Failed(f"{what} is {as_text_like(actual, expected)}, must be {as_text(expected)}")

    def expect(self, answer: Message | Any, **fields: Any) -> Any:
        """Raise `Failed` unless the answer has these fields. A set allows any of its values."""
        kind = type(answer).__name__
        for name, expected in fields.items():
            actual = getattr(answer, name)
            allowed = tuple(expected) if isinstance(expected, set) else (expected,)
            if actual in allowed:
                continue
            if name != "error_code":
                text = f"{kind}.{name} is {as_text_like(actual, expected)}, must be {as_text(expected)}"
                raise Failed(text, f"{kind}.{name}")
            if actual == ErrorCode.UNSUPPORTED_VERSION:
                raise NotServed(f"{kind} says {error_name(actual)} to a version the target advertises")
            must = " or ".join(error_name(code) for code in allowed)
            raise Failed(f"{kind} says {error_name(actual)}, must say {must}", f"{kind}.error_code")
        return answer

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic that the suite created."""
        return self.peer.topic_ids[name]
