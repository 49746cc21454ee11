"""One broker of this process: its address, rules and connections."""

from __future__ import annotations

from typing import Any, Protocol

from kafka_shim.broker.broker import Broker
from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.server.admission import Admission
from kafka_shim.server.alarms import Alarms
from kafka_shim.server.durability import Durability
from kafka_shim.server.failures import Failures
from kafka_shim.server.journal import Inputs
from kafka_shim.server.parts import Parts
from kafka_shim.server.table import Table
from kafka_shim.server.throttling import Throttling
from kafka_shim.server.trace import Exchanges


class Interceptor(Protocol):
    """A hook between the connections of a node and its rules; `shim/lab/` implements one.

    It sees each `Exchange` twice, and may take it over: then it holds the exchange, ends it, or closes the connection.
    """

    def requested(self, exchange: Any, now: float) -> bool:
        """Return True to take over the request before its rule is called."""

    def answering(self, exchange: Any, data: bytes, now: float) -> bool:
        """Return True to take over the answer `data` before it leaves."""


class FrameWatch(Protocol):
    """A watcher of every frame of a node's connections, implemented by `frames.py`."""

    def requested(self, connection: int, frame: bytes) -> None:
        """Note the frame of a request, without its size. It may be malformed, or may wait."""

    def running(self, exchange: Any) -> None:
        """Note that the rule of a request is called next."""

    def answered(self, connection: int, data: bytes, *, is_whole: bool = True) -> None:
        """Note the frame of an answer, with its size, or the beginning of one that is too long to keep."""


class Node:
    """A broker. It is `up` unless it was stopped or killed. `table` has the requests that it serves.

    `refused` counts connections closed because of invalid bytes.
    """

    def __init__(
        self,
        address: Address,
        groups: GroupService,
        broker: Broker,
        outbox: Outbox,
        durability: Durability,
        exchanges: Exchanges,
        table: Table,
        failures: Failures,
        inputs: Inputs,
    ) -> None:
        self.id = address.id
        self.address = address
        self.up = True
        self.groups = groups
        self.broker = broker
        self.outbox = outbox
        self.durability = durability
        self.exchanges = exchanges
        self.failures = failures
        self.inputs = inputs
        self.table = table
        self.sessions: set[Any] = set()
        self.admission = Admission(broker.topics.settings)
        self.commit_shapes: dict[Any, Any] = {}
        """See `remembered/commits.py`."""
        self.refused = 0
        self.interceptor: Interceptor | None = None
        self.frames: FrameWatch | None = None
        self.throttling: Throttling | None = None
        """The quotas of clients; None while no client has any."""
        self.alarms: Alarms | None = None
        """Ends the time of throttled connections; None where nothing throttles them."""
        self.parts: Parts | None = None
        """Answers long requests part by part; None to answer each at once."""
