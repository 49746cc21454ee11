"""The life of one group of any kind: a start, trouble after a third of it, and a deployment now and then.

Decides when something happens to a group. What a group of a kind does then, and what its fault comes to, is in
`model.py` and `epoch_model.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final

from kafka_shim.pipeline.generate.telling import Emitted, Member, Telling

QUIET_S: Final = 900.0
"""Groups rebalance at most once in this time, but for storms and what follows from one change."""


class Life(Telling, ABC):
    """One group from its first member to the end of time."""

    @abstractmethod
    def first_members(self) -> Iterator[Emitted]:
        """The members it begins with join."""

    @abstractmethod
    def steady(self, until: float) -> Iterator[Emitted]:
        """Heartbeats and commits until then."""

    @abstractmethod
    def join(self, member: Member, **how: Any) -> Iterator[Emitted]:
        """One more member joins."""

    @abstractmethod
    def leave(self, member: Member) -> Iterator[Emitted]:
        """A member says good-bye."""

    @abstractmethod
    def trouble(self) -> Iterator[Emitted]:
        """What the fault of the group comes to; something ordinary if it has none."""

    def run(self) -> Iterator[Emitted]:
        """All its events, in order of time."""
        yield from self.first_members()
        trouble = self.start + (self.end - self.start) * self.rng.uniform(0.3, 0.4)
        yield from self.steady(trouble)
        yield from self.trouble()
        # Ordinary life goes on: a deployment now and then, well apart.
        while self.now + 2 * QUIET_S < self.end:
            yield from self.steady(self.now + QUIET_S * self.rng.uniform(1.0, 1.8))
            if self.rng.random() < 0.3 and self.now + QUIET_S < self.end:
                yield from self._scale()
        yield from self.steady(self.end)

    def _victim(self) -> Member:
        """A member that does not lead."""
        return self.rng.choice([member for member in self.members if member.member_id != self.leader])

    def _scale(self) -> Iterator[Emitted]:
        if len(self.members) > 2 and self.rng.random() < 0.5:
            yield from self.leave(self._victim())
        else:
            yield from self.join(self._newcomer())

    def _newcomer(self) -> Member:
        """A member that was not there before; a static one in a group of static members."""
        number = self._serial
        return self._new_member(number, f"{self.group_id}-instance-{number}" if self.static else None)
