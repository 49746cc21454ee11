"""One broker of this process: its address, its rules, its connections, and what it shares with the others.

Decides nothing. It does not know how a request is read or answered: `session.py` and `exchange.py` do.
"""

from __future__ import annotations

from typing import Any, Protocol

from kafka_shim.broker.broker import Broker
from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.server.durability import Durability
from kafka_shim.server.experiments import Experiment
from kafka_shim.server.table import Table
from kafka_shim.server.trace import Exchanges


class Transport(Protocol):
    """What carries the bytes of a connection. `paused` says whether reading is stopped."""

    peer: str

    @property
    def paused(self) -> bool: ...

    def send(self, data: bytes) -> bool:
        """Send, and return whether all of it is out; if not, `Session.drained` is called once it is."""

    def pause(self) -> None:
        """Read no more from the client until `resume`."""

    def resume(self) -> None:
        """Read again."""

    def close(self) -> None:
        """End the connection, and call `Session.lost`."""


class Connection(Protocol):
    """A connection of a client to a node; `session.py` has it. `client_id` is that of its newest request."""

    transport: Transport

    @property
    def client_id(self) -> str: ...

    def forget(self) -> None:
        """Remember no request, so that the next one is not handed to its rule without its interceptor."""


class Interceptor(Protocol):
    """What may stand between the connections of a node and its rules; `shim/lab/` has one.

    It sees each `Exchange` twice, and may take it over: then it holds the exchange, ends it, or closes the connection.
    """

    def requested(self, exchange: Any, now: float) -> bool:
        """The request is about to be handed to its rule. Return True to take it over."""

    def answering(self, exchange: Any, data: bytes, now: float) -> bool:
        """The answer `data` is about to leave. Return True to take it over."""


class FrameWatch(Protocol):
    """Who sees every frame of a node's connections, and when a request meets its rule; `frames.py` has one."""

    def requested(self, connection: int, frame: bytes) -> None:
        """A request came, without its size; it may be malformed, or wait."""

    def running(self, exchange: Any) -> None:
        """The request is about to be handed to its rule."""

    def answered(self, connection: int, data: bytes) -> None:
        """An answer leaves, with its size."""


class Node:
    """It is `up` unless it was stopped or killed; `release` is the Kafka release it poses as.

    `refused` counts connections closed for what they sent.
    """

    def __init__(
        self,
        address: Address,
        groups: GroupService,
        broker: Broker,
        outbox: Outbox,
        durability: Durability,
        exchanges: Exchanges,
        release: str,
        experiment: Experiment,
    ) -> None:
        self.id = address.id
        self.address = address
        self.up = True
        self.groups = groups
        self.broker = broker
        self.outbox = outbox
        self.durability = durability
        self.exchanges = exchanges
        self.table = Table(release, experiment)
        self.sessions: set[Any] = set()
        self.commit_shapes: dict[Any, Any] = {}
        """See `remembered.py`."""
        self.refused = 0
        self.interceptor: Interceptor | None = None
        self.frames: FrameWatch | None = None
