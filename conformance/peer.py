"""A running target as all cells share it: its address, its advertised and served versions, its topics."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.protocol import BY_NAME
from kafka_shim.conformance.routes import Routes
from kafka_shim.conformance.targets.base import Instance, Limits
from kafka_shim.conformance.verdict import Unadvertised
from kafka_shim.conformance.wire import CLIENT_ID

OLDEST: Final = "4.2"
"""The oldest release with rules that the cases know."""


def topic_name(partitions: int) -> str:
    """Return the name of the shared topic with this number of partitions."""
    return f"conformance-{partitions}"


class Peer:
    """A running target: its address, its advertised and served versions, and the topics that cells share.

    `client_id` is for connections that belong to no member. `asks_for_ids`: the target assigned a member id before it
    let a member join. `entry` is an address that answers. `release` is the release to judge by, such as `4.3`; empty:
    the newest with these versions.
    """

    def __init__(
        self,
        instance: Instance,
        versions: dict[int, tuple[int, int]],
        entry: Endpoint | None = None,
        release: str = "",
    ) -> None:
        self.instance = instance
        self._release = release
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

    @cached_property
    def release(self) -> str:
        """Return the newest release of Kafka with these rules: the chosen one, or as the advertised versions tell."""
        if self._release:
            return self._release

        def newest(name: str) -> int:
            return self.versions.get(BY_NAME[name].key, (0, -1))[1]

        if newest("TxnOffsetCommit") >= 6:
            return "4.4"
        return "4.3" if newest("DescribeLogDirs") >= 5 else OLDEST

    def topic_names(self) -> dict[bytes, str]:
        """Return the names of topics by id."""
        # From a copy, which is made at once: cells in other threads create topics.
        return {topic_id: name for name, topic_id in self.topic_ids.copy().items()}

    def offers(self, name: str) -> bool:
        """Return True if the target advertises an API in any version."""
        return BY_NAME[name].key in self.versions

    def newest(self, name: str) -> int:
        """Return the newest version of an API that both sides have and the target serves, else raise `Unadvertised`."""
        api = BY_NAME[name]
        low, high = self.versions.get(api.key, (1, 0))
        high = self.served.get(api.key, high)
        newest = min(high, api.request.versions[-1])
        if newest < max(low, api.request.versions[0]):
            raise Unadvertised(f"the target does not advertise {name}")
        return newest
