"""A running target as all cells share it: where it is, what it advertises and serves, topics made once."""

from __future__ import annotations

from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.protocol import BY_NAME
from kafka_shim.conformance.routes import Routes
from kafka_shim.conformance.targets.base import Instance, Limits
from kafka_shim.conformance.verdict import Unadvertised
from kafka_shim.conformance.wire import CLIENT_ID


def topic_name(partitions: int) -> str:
    """The name of the topic that all cells share which need so many partitions."""
    return f"conformance-{partitions}"


class Peer:
    """The target as the cells share it: where it is, what it advertises and serves, topics made once.

    `client_id`: what connections that are no member's say. `asks_for_ids`: it was seen to hand out a member id before
    it lets a member join.
    `entry` is an address that answers.
    """

    def __init__(self, instance: Instance, versions: dict[int, tuple[int, int]], entry: Endpoint | None = None) -> None:
        self.instance = instance
        self.versions = versions
        self.served: dict[int, int] = {}
        self.asks_for_ids = False
        self.topic_ids: dict[str, bytes] = {}
        self.partitions: dict[str, int] = {}
        self.client_id = CLIENT_ID
        self.entry = entry or instance.endpoints[0]
        self.routes = Routes(tuple(dict.fromkeys([self.entry, *instance.endpoints])), self.newest)

    @property
    def limits(self) -> Limits:
        return self.instance.limits

    def offers(self, name: str) -> bool:
        """Whether the target advertises an API at all."""
        return BY_NAME[name].key in self.versions

    def newest(self, name: str) -> int:
        """The newest version of an API both sides have and the target was seen to serve; else `Unadvertised`."""
        api = BY_NAME[name]
        low, high = self.versions.get(api.key, (1, 0))
        high = self.served.get(api.key, high)
        newest = min(high, api.request.versions[-1])
        if newest < max(low, api.request.versions[0]):
            raise Unadvertised(f"the target does not advertise {name}")
        return newest
