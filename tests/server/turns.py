"""The turns of long exchanges, taken when a test says so."""

from kafka_shim.server.parts import Parts
from tests.server.wire import Wire


class Turns(Parts):
    """Long exchanges of connections to one cluster, which get their turns from the test."""

    def __init__(self, *wires: Wire) -> None:
        super().__init__(lambda: 100.0, wires[0].cluster.settle)
        for wire in wires:
            wire.session.node.parts = self
            wire.session.node.broker.fetches.take_turns = self.add

    def bound_fetches(self, *wires: Wire) -> None:
        """Bound the memory of the answers to the fetches of these connections."""
        for wire in wires:
            fetches = wire.session.node.broker.fetches
            fetches.room = self.room
            fetches.hold = lambda exchange, size: self.hold(exchange.session, size)

    def all(self) -> None:
        """Take all turns, also those that come of others."""
        while self._exchanges:
            self.turn()
