"""Killed clients: to the coordinator they are dead processes, though their objects live on in the test's process."""

from __future__ import annotations

from fnmatch import fnmatchcase

from kafka_shim.lab.interception import Block, Facts, Interception
from kafka_shim.lab.sessions import intervened
from kafka_shim.lab.snapshots import snapshot
from kafka_shim.server.connection import Connection, State
from kafka_shim.server.exchange import Exchange


class Killed(Block):
    """Clients cut off from requests and answers: an `Intercept` until `clear`, or the end of a `with` block.

    Their connections stay open: a closed one would make the clients raise errors that a dead process does not raise.
    Only a request to leave a group ends its connection, to let a test close the client without a long wait.
    """

    def __init__(self, interception: Interception, client_id: str) -> None:
        self.client_id = client_id
        self.connections: set[Connection] = set()
        """Connections on which a request or an answer was dropped."""
        self._interception = interception
        interception.end_journal("a client is held dead")
        interception.add(self)
        self._tell("killed")

    def clear(self) -> None:
        """Revive them: serve their next requests. A second call does nothing.

        Connections on which something was dropped are closed: a client would wait for the answer until its own timeout.
        """
        if self not in self._interception.intercepts:
            return
        self._interception.remove(self)
        for session in self.connections:
            if session.state is not State.CLOSED:
                session.transport.close()
        self.connections.clear()
        self._tell("revived")

    _end = clear

    def _tell(self, change: str) -> None:
        """Tell the trace, in each group that has such a client."""
        cluster = self._interception.cluster
        for node in cluster.nodes.values():
            for group in list(node.groups.groups):
                for member in snapshot(cluster, group).members:
                    if fnmatchcase(member.client_id, self.client_id):
                        intervened(node, group, member.member_id, change)
        cluster.settle(cluster.clock())

    # `Intercept`

    def request(self, exchange: Exchange, facts: Facts, now: float) -> bool:
        """See `Intercept`."""
        if not fnmatchcase(facts.client_id, self.client_id):
            return False
        # A heartbeat of every kind of group leaves with a negative epoch.
        if facts.api == "LeaveGroup" or getattr(exchange.request, "member_epoch", 0) < 0:
            exchange.session.transport.close()
        self._lose(exchange)
        return True

    def answer(self, exchange: Exchange, facts: Facts, data: bytes, now: float) -> bool:
        """See `Intercept`."""
        if not fnmatchcase(facts.client_id, self.client_id):
            return False
        self._lose(exchange)
        return True

    def _lose(self, exchange: Exchange) -> None:
        self.connections.add(exchange.session)
        self._interception.conditions.check()
