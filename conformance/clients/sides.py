"""The other side of client cases: the target, and for what ours does not serve yet, Apache Kafka in its place.

Decides which coordinator a case runs against. Once ours serves ConsumerGroupHeartbeat, every case runs on ours.
"""

from __future__ import annotations

from kafka_shim.conformance.clients.case import ClientCase
from kafka_shim.conformance.clients.consumer_scenario import HEARTBEAT
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.peers import probe
from kafka_shim.conformance.targets import Target, TargetError, open_target
from kafka_shim.conformance.targets.shim import ShimTarget


class Sides:
    """The target and, if need be, its substitute. `start` before cases run, `stop` whatever came of it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.without = ""
        """Why cases of the consumer protocol cannot be run; empty if they can."""
        self._substitute: Target | None = None
        self._peers: dict[str, Peer] = {}
        self._names: dict[str, str] = {}

    def start(self, protocols: set[str]) -> Peer:
        """Start what cases of these protocols need; the target itself."""
        peer = probe(self.target.start("default"))
        self._take("classic", peer, self.target)
        if "consumer" not in protocols:
            return peer
        if peer.offers(HEARTBEAT):
            self._take("consumer", peer, self.target)
            return peer
        self.without = f"the target does not serve {HEARTBEAT}"
        if isinstance(self.target, ShimTarget):
            self._substitute = open_target("kafka")
            try:
                self._take("consumer", probe(self._substitute.start("default")), self._substitute)
                self.without = ""
            except TargetError as missing:
                self.without += f", and in its place: {missing}"
        return peer

    def _take(self, protocol: str, peer: Peer, target: Target) -> None:
        self._peers[protocol], self._names[protocol] = peer, target.name

    def of(self, case: ClientCase) -> tuple[Peer | None, str]:
        """What a case runs against, and its name; None if there is nothing."""
        return self._peers.get(case.protocol), self._names.get(case.protocol, self.target.name)

    def stop(self) -> None:
        """End all that was started."""
        for target in (self.target, self._substitute):
            if target is not None:
                target.stop()
