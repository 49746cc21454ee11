"""`World`: simulated time, the coordinator's link, members as processes, and partition owners, for all designs.

It delivers messages by their size and counts them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kafka_shim.apis.wire import Message

METADATA: Final = b"<the metadata of"
"""Stands for the metadata of one member in every message; `World.size` counts it as `Settings.metadata` bytes."""

REQUEST_HEADER: Final = 4 + 2 + 2 + 4 + 2 + len("member-000")
"""Bytes of a request's length, API key, version, correlation id and client id."""

RESPONSE_HEADER: Final = 4 + 4

SPREAD: Final = 0.618034
"""Multiples of the golden ratio, modulo 1, are spread evenly for any number of members."""

Steps = Generator["Message | float", Any, None]
"""A member's steps: it yields a request and gets the response, or yields seconds and gets None after them."""

Reply = Callable[[Message], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The group and its surroundings; times in seconds, sizes in bytes, `bandwidth` in bytes a second each way."""

    members: int = 100
    metadata: int = 100_000
    partitions_each: int = 4
    latency: float = 0.001
    bandwidth: float = 125e6
    heartbeat: float = 3.0
    session: float = 10.0
    rebalance: float = 10.0
    initial_delay: float = 3.0
    backoff: float = 0.1


class Coordinator(Protocol):
    """The coordinator of one design, and the behaviour of its members. `generation` is the newest."""

    generation: int

    @property
    def members(self) -> Iterable[str]:
        """The members that it counts as alive."""

    @property
    def leader(self) -> str:
        """The member to kill in a scenario: the one that computes, if there is one."""

    def receive(self, member_id: str, request: Message, reply: Reply) -> None:
        """Handle a request; `reply` may be called now, later or never."""

    def behave(self, me: Process) -> Steps:
        """Run a member for its whole life."""

    def topic_grew(self) -> None:
        """Handle the growth of a topic."""


class World:
    """One group on one coordinator, from an empty queue of events on."""

    def __init__(self, settings: Settings, make_coordinator: Callable[[World], Coordinator]) -> None:
        self.settings = settings
        self.now = 0.0
        self.partitions = settings.members * settings.partitions_each
        self.processes: dict[str, Process] = {}
        self.grown_at = float("-inf")
        self.lag: Callable[[str], float] = lambda member_id: 0.0
        self._before_growth = self.partitions
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._free_at = [0.0, 0.0]
        self._owner: dict[int, str] = {}
        self.coordinator = make_coordinator(self)
        self.start_account()

    def start_account(self) -> None:
        """Reset all counters."""
        self.began = self._counted_to = self.now
        self.requests = 0
        self.bytes = [0, 0]
        self.largest = 0
        self.conflicts = 0
        self.stopped = 0.0
        """Partition-seconds without an owner."""
        self.rounds_before = self.coordinator.generation

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after `seconds`."""
        self._scheduled += 1
        heapq.heappush(self._events, (self.now + seconds, self._scheduled, act))

    def run(self, until: Callable[[], bool], limit: float) -> bool:
        """Run events until the condition is true, for at most `limit` seconds; return False if it is not."""
        end = self.now + limit
        while self._events and self._events[0][0] <= end:
            self.now, _, act = heapq.heappop(self._events)
            act()
            if until():
                self._count_stopped()
                return True
        self.now = end
        self._count_stopped()
        return until()

    def size(self, message: Message) -> int:
        """Return the size of a message's body in bytes."""
        data = message.encode(message.versions[-1])
        return len(data) + data.count(METADATA) * (self.settings.metadata - len(METADATA))

    def carry(self, outward: bool, size: int, arrive: Callable[[], None]) -> None:
        """Send `size` bytes to the coordinator, or `outward` from it, after those already in transit."""
        self.bytes[outward] += size
        sent = max(self.now, self._free_at[outward]) + size / self.settings.bandwidth
        self._free_at[outward] = sent
        self.later(sent + self.settings.latency - self.now, arrive)

    def seen_partitions(self, member_id: str) -> int:
        """Return the number of partitions that a member sees: new ones only after the member's lag."""
        return self.partitions if self.now >= self.grown_at + self.lag(member_id) else self._before_growth

    def grow(self, partitions: int) -> None:
        """Add partitions to the topic."""
        self._count_stopped()
        self._before_growth, self.partitions, self.grown_at = self.partitions, self.partitions + partitions, self.now

    def take(self, member_id: str, partitions: Iterable[int]) -> None:
        """Let a member consume these partitions from now on."""
        self._count_stopped()
        for partition in partitions:
            if self._owner.get(partition, member_id) != member_id:
                self.conflicts += 1
            self._owner[partition] = member_id

    def release(self, member_id: str, partitions: Iterable[int] | None = None) -> None:
        """Stop a member from consuming these partitions; all of its own if None."""
        self._count_stopped()
        if partitions is None:
            partitions = [partition for partition, owner in self._owner.items() if owner == member_id]
        for partition in partitions:
            if self._owner.get(partition) == member_id:
                del self._owner[partition]

    def settled(self) -> bool:
        """True if the coordinator counts exactly the living members, all are in its newest generation, and they own all
        partitions.
        """
        generation = self.coordinator.generation
        return (
            len(self._owner) == self.partitions
            and all(process.generation == generation for process in self.processes.values())
            and set(self.coordinator.members) == set(self.processes)
        )

    def _count_stopped(self) -> None:
        self.stopped += (self.partitions - len(self._owner)) * (self.now - self._counted_to)
        self._counted_to = self.now


class Process:
    """A member: runs its steps, one request at a time, until it dies. `generation` is the one in which it consumes."""

    def __init__(self, world: World, member_id: str, behave: Callable[[Process], Steps]) -> None:
        self.world, self.member_id = world, member_id
        self.generation = -1
        self.sent: list[str] = []
        self.dies_after = 0
        self._steps = behave(self)
        self.alive = True
        world.processes[member_id] = self
        self._go(None)

    def rest(self) -> float:
        """Return the seconds until the first heartbeat after an assignment: members' heartbeats are spread."""
        return self.world.settings.heartbeat * (int(self.member_id[-3:]) * SPREAD % 1)

    def own(self, partitions: Iterable[int]) -> None:
        """Consume these partitions too."""
        self.world.take(self.member_id, partitions)

    def stop(self) -> None:
        """Stop consuming."""
        self.generation = -1
        self.world.release(self.member_id)

    def die(self) -> None:
        """Die without a request."""
        self.alive = False
        self._steps.close()
        self.world.processes.pop(self.member_id, None)
        self.world.release(self.member_id)

    def _go(self, value: Message | None) -> None:
        step = self._steps.send(value)
        if isinstance(step, Message):
            self._send(step)
        else:
            self.world.later(step, self._continue)

    def _continue(self) -> None:
        if self.alive:
            self._go(None)

    def _send(self, request: Message) -> None:
        world = self.world
        world.requests += 1
        self.sent.append(type(request).__name__.removesuffix("Request"))

        def arrive() -> None:
            world.coordinator.receive(self.member_id, request, reply)

        def reply(response: Message) -> None:
            if self.alive:
                size = RESPONSE_HEADER + world.size(response)
                world.largest = max(world.largest, size)
                world.carry(True, size, lambda: self._go(response) if self.alive else None)

        world.carry(False, REQUEST_HEADER + world.size(request), arrive)
        if len(self.sent) == self.dies_after:
            world.later(0, self.die)
