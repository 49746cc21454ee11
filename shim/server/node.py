"""One broker of this process: its address, its rules, and the connections it has.

Decides nothing; it is what connections, timers and whoever looks from outside find each other by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_shim.broker.broker import Broker
from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.server.durability import Durability
from kafka_shim.server.table import Table
from kafka_shim.server.trace import Exchanges

if TYPE_CHECKING:
    from kafka_shim.server.session import Interceptor, Session


class Node:
    """One broker. It is `up` unless it was stopped or killed; `release` is the Kafka release it poses as."""

    def __init__(
        self,
        address: Address,
        groups: GroupService,
        broker: Broker,
        outbox: Outbox,
        durability: Durability,
        exchanges: Exchanges,
        release: str,
    ) -> None:
        self.id = address.id
        self.address = address
        self.up = True
        self.groups = groups
        self.broker = broker
        self.outbox = outbox
        self.durability = durability
        self.exchanges = exchanges
        self.table = Table(release)
        self.sessions: set[Session] = set()
        self.refused = 0
        """Connections closed for what they sent."""
        self.interceptor: Interceptor | None = None
