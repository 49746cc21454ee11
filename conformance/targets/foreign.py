"""A target somebody else started: `HOST:PORT`. Nothing about it can be configured; its limits are asked of it."""

from __future__ import annotations

from kafka_shim.conformance.targets.base import Instance, Limits, TargetError


class ForeignTarget:
    """`HOST:PORT` of a running coordinator."""

    def __init__(self, address: str) -> None:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise TargetError(
                f"there is no target {address}; it is shim[:STORE], kafka[:VERSION], kfake, rdkafka-mock or HOST:PORT"
            )
        self.name = address
        self.profiles = frozenset({"default"})
        self.violations: list[str] = []
        self._host, self._port = host.strip("[]"), int(port)

    def start(self, profile: str) -> Instance:
        return Instance(self._host, self._port, profile, Limits(), description=self.name)

    def stop(self) -> None:
        """Nothing: it is not ours to stop."""
