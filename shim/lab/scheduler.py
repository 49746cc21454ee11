"""`Scheduler`: the times of puppets' actions, and the connections between puppets and brokers.

Actions run in the order of their times, equal times in the order of their calls. Time is the coordinator's, an
argument. A `Network` between puppets and brokers delays messages and may lose one, which ends its connection, as with
TCP. Messages of one connection and direction arrive in order; between connections there is no order.
"""

from __future__ import annotations

import random
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush, heapreplace
from math import inf
from typing import Protocol

from kafka_shim.server.cluster import Cluster
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.node import Node

Act = Callable[[float], None]
_Due = tuple[float, int, Act, "deque[_Due] | None"]


@dataclass(frozen=True, kw_only=True)
class Network:
    """Delay of a message, from `least` to `most` seconds, and the probability of its loss."""

    least: float = 0.0
    most: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most < inf or not 0 <= self.loss <= 1:
            raise ValueError(f"Give 0 <= least <= most, in seconds, and a loss from 0 to 1: not {self}.")


class Scheduler:
    """Actions in order. `woken` is called after an action was added in front of all others. Without a `seed` each
    instance draws other random numbers. `failures` note the exceptions of actions; without them `run` raises.
    """

    def __init__(
        self,
        cluster: Cluster,
        network: Network | None = None,
        seed: int | None = None,
        failures: Failures | None = None,
    ) -> None:
        self.cluster = cluster
        self._failures = failures
        self.network = network or Network()
        self.random = random.Random(seed)
        self._ids = random.Random(None if seed is None else f"ids of members, {seed}")
        self.woken: Callable[[], None] = lambda: None
        # By time, then order of calls. Waits of one length end in the order in which they begin. So only the first of
        # each length is in the heap, and the others queue behind it: the heap stays small and fast.
        self._acts: list[_Due] = []
        self._lines: dict[float, deque[_Due]] = {}
        self._order = 0

    def new_id(self) -> str:
        """Make a member id for a puppet. It does not use the coordinator's ids, which are in its journal."""
        return str(uuid.UUID(int=self._ids.getrandbits(128), version=4))

    def at(self, time: float, act: Act) -> None:
        """Call `act(now)` at a time, in the coordinator's seconds."""
        order = self._order = self._order + 1
        heappush(self._acts, (time, order, act, None))
        if self._acts[0][1] == order:
            self.woken()

    def after(self, now: float, wait: float, act: Act) -> None:
        """Call `act(now)` after `wait` seconds from `now`; for many waits of equal length."""
        line = self._lines.get(wait)
        if line is None:
            line = self._lines[wait] = deque()
        time = now + wait
        if line and line[-1][0] > time:
            self.at(time, act)
            return
        order = self._order = self._order + 1
        due = (time, order, act, line)
        line.append(due)
        if len(line) == 1:
            heappush(self._acts, due)
            if self._acts[0][1] == order:
                self.woken()

    def later(self, seconds: float, act: Act) -> None:
        """Call `act(now)` after `seconds`."""
        self.at(self.cluster.clock() + seconds, act)

    def next_deadline(self) -> float:
        """Return the time of the next action, infinity without one."""
        return self._acts[0][0] if self._acts else inf

    def run(self, now: float) -> None:
        """Run the actions that are due at `now`."""
        acts = self._acts
        while acts and acts[0][0] <= now:
            _, _, act, line = acts[0]
            if line is None:
                heappop(acts)
            else:
                line.popleft()
                if line:
                    heapreplace(acts, line[0])
                else:
                    heappop(acts)
            try:
                act(now)
            except Exception as error:
                if self._failures is None:
                    raise
                self._failures.note(Border.LABORATORY, "an action of a puppet", error)


class Client(Protocol):
    """The client at the other end of a `Link`."""

    def receive(self, link: Link, data: bytes, now: float) -> None:
        """Handle one whole answer."""

    def disconnected(self, link: Link, now: float) -> None:
        """Handle the end of the connection by the server or the network."""


class Link:
    """A connection from a scheduled client to a node; the `Transport` of its session."""

    def __init__(self, scheduler: Scheduler, client: Client, node: Node, name: str) -> None:
        self.peer = name
        self.paused = False
        self.session = scheduler.cluster.open(node, self, "/127.0.0.1")
        self.is_open = True
        self._scheduler = scheduler
        self._client = client
        self._chance = scheduler.random.random
        self._there = 0.0
        self._back = 0.0
        self._unread = b""
        network = scheduler.network
        self._is_plain = not (network.most or network.loss)

    # Client side

    def ask(self, data: bytes, now: float) -> None:
        """Send a request."""
        if self._is_plain:
            if self.is_open:
                self.session.receive(data, now)
            return
        self._there = arrival = self._arrival(now, self._there)
        if arrival != inf:
            self._scheduler.at(arrival, partial(self._arrived, data))

    def end(self, now: float) -> None:
        """Close the connection."""
        if self.is_open:
            self.is_open = False
            self.session.lost()

    def _arrived(self, data: bytes, now: float) -> None:
        if self.is_open:
            self.session.receive(data, now)

    # Server side

    def send(self, data: bytes) -> bool:
        """See `Transport.send`. The client receives an answer only later, never during the call."""
        now = self._scheduler.cluster.clock()
        arrival = self._back = now if self._is_plain else self._arrival(now, self._back)
        if arrival != inf:
            self._scheduler.at(arrival, partial(self._answered, data))
        return True

    def pause(self) -> None:
        """See `Transport.pause`: a scheduled client never has more than one request in flight."""

    def resume(self) -> None:
        """See `Transport.resume`."""

    def close(self) -> None:
        """See `Transport.close`."""
        self._end(self._scheduler.cluster.clock())

    def _answered(self, data: bytes, now: float) -> None:
        """Pass whole answers to the client; a slow fault sends them in pieces."""
        data = self._unread + data
        while self.is_open and len(data) >= 4 and len(data) >= (end := 4 + int.from_bytes(data[:4])):
            answer, data = data[:end], data[end:]
            self._client.receive(self, answer, now)
        self._unread = data

    def _end(self, now: float) -> None:
        if self.is_open:
            self.is_open = False
            self.session.lost()
            self._scheduler.at(now, lambda later: self._client.disconnected(self, later))

    def _arrival(self, now: float, before: float) -> float:
        """Return the arrival time of a message sent now, not before that of the message before; infinity if it is
        lost.
        """
        network = self._scheduler.network
        chance = self._chance
        if network.loss and chance() < network.loss:
            self._scheduler.later(network.most * 2, self._end)
            return inf
        arrival = now + network.least + (network.most - network.least) * chance()
        return arrival if arrival > before else before
