"""The schedule of one group of any kind: a start, a fault after a third of its time, and a deployment now and then.

`classic_group.py` and `epoch_group.py` implement these steps and the faults.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final

from kafka_shim.pipeline.generate.trace_events import Event, Member, TraceEvents

QUIET_S: Final = 900.0
"""Least seconds between rebalances, apart from storms and rounds that follow from one change."""


class Schedule(TraceEvents, ABC):
    """A group of any kind, from its first member to the end of the trace."""

    @abstractmethod
    def first_members(self) -> Iterator[Event]:
        """Let the first members join."""

    @abstractmethod
    def steady(self, until: float) -> Iterator[Event]:
        """Yield heartbeats and commits until then."""

    @abstractmethod
    def join(self, member: Member, **how: Any) -> Iterator[Event]:
        """Let one more member join."""

    @abstractmethod
    def leave(self, member: Member) -> Iterator[Event]:
        """Let a member leave."""

    @abstractmethod
    def fault_events(self) -> Iterator[Event]:
        """Yield the fault of the group; something ordinary if it has none."""

    def run(self) -> Iterator[Event]:
        """Yield all events of the group, in order of time."""
        yield from self.first_members()
        fault_at = self.start + (self.end - self.start) * self.rng.uniform(0.3, 0.4)
        yield from self.steady(fault_at)
        yield from self.fault_events()
        # Deployments now and then, well apart.
        while self.now + 2 * QUIET_S < self.end:
            yield from self.steady(self.now + QUIET_S * self.rng.uniform(1.0, 1.8))
            if self.rng.random() < 0.3 and self.now + QUIET_S < self.end:
                yield from self._scale()
        yield from self.steady(self.end)

    def _victim(self) -> Member:
        """Choose a member that is not the leader."""
        return self.rng.choice([member for member in self.members if member.member_id != self.leader])

    def _scale(self) -> Iterator[Event]:
        if len(self.members) > 2 and self.rng.random() < 0.5:
            yield from self.leave(self._victim())
        else:
            yield from self.join(self._create_member())

    def _create_member(self) -> Member:
        """Create a new member; a static one in a group of static members."""
        number = self._serial
        return self._new_member(number, f"{self.group_id}-instance-{number}" if self.static else None)
