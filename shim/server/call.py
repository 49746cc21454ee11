"""One request on its way to a rule: what its header and connection say, and the rules it may be handed to."""

from __future__ import annotations

from kafka_shim.broker.broker import Broker
from kafka_shim.groups.interface import Client
from kafka_shim.groups.service import GroupService


class Call:
    """`now` is monotonic seconds of the coordinator's clock. `token` names the reply should the rule park it. `node_id`
    is the broker that received the request.
    """

    __slots__ = ("version", "client", "token", "now", "node_id", "groups", "broker")

    def __init__(
        self,
        version: int,
        client: Client,
        token: object,
        now: float,
        node_id: int,
        groups: GroupService,
        broker: Broker,
    ) -> None:
        self.version = version
        self.client = client
        self.token = token
        self.now = now
        self.node_id = node_id
        self.groups = groups
        self.broker = broker
