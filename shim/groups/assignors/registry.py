"""Which assignors a coordinator has, which one a group uses, and what happens when one misbehaves.

It does not know where assignors come from: the server finds a user's own and hands them in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from .range import RangeAssignor
from .spec import Assignor, AssignorError, GroupSpec, Partitions, check
from .uniform import UniformAssignor

BUILT_IN: Mapping[str, Assignor] = {"uniform": UniformAssignor(), "range": RangeAssignor()}
"""Kafka's own, in the order of its default of `group.consumer.assignors`."""


class Assignors:
    """The assignors of `group.consumer.assignors`, by name; the first is the default."""

    def __init__(self, assignors: Sequence[Assignor] = tuple(BUILT_IN.values())) -> None:
        self._by_name = {assignor.name: assignor for assignor in assignors}
        self.default = assignors[0].name

    @property
    def names(self) -> Collection[str]:
        return self._by_name.keys()

    def choose(self, names: Iterable[str | None]) -> str:
        """The name most members ask for, or the default. Of names asked for equally often the first one wins."""
        votes = Counter(names)
        del votes[None]
        return max(votes, key=votes.__getitem__, default=None) or self.default

    def assign(self, name: str, spec: GroupSpec) -> Mapping[str, Partitions]:
        """The new target assignment; raises `AssignorError` where the assignor fails or its answer cannot be used."""
        assignor = self._by_name.get(name)
        if assignor is None:
            raise AssignorError(f"there is no assignor {name} here")
        if BUILT_IN.get(name) is assignor:
            return assignor.assign(spec)
        try:
            assignments = assignor.assign(spec)
            if not isinstance(assignments, Mapping):
                raise AssignorError(f"assignor {name} answered {type(assignments).__name__}, not a mapping")
            assignments = {
                member_id: {topic: frozenset(owned) for topic, owned in assignment.items() if owned}
                for member_id, assignment in assignments.items()
            }
        except AssignorError:
            raise
        except Exception as error:
            raise AssignorError(f"assignor {name} failed: {type(error).__name__}: {error}") from error
        check(name, spec, assignments)
        return assignments
