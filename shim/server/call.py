"""What a handler sees of an exchange: the request's header and connection, and the rules it may ask."""

from __future__ import annotations

from typing import Protocol

from kafka_shim.broker.broker import Broker
from kafka_shim.groups.interface import Client
from kafka_shim.groups.service import GroupService


class Call(Protocol):
    """One request on its way to a rule. Rules that park it reply to this very object.

    `arrived` is monotonic seconds of the coordinator's clock, `session` the connection that it came on.
    """

    client: Client
    arrived: float

    @property
    def session(self) -> object: ...

    @property
    def version(self) -> int: ...

    @property
    def groups(self) -> GroupService: ...

    @property
    def broker(self) -> Broker: ...
