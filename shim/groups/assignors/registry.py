"""`Assignors`: the assignors of a coordinator, the choice for a group, and the errors of a faulty one.

The server finds a user's own assignors and passes them in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from kafka_shim.persistence.partition import java_bucket

from .range import RangeAssignor
from .spec import Assignor, AssignorError, GroupSpec, Partitions, check
from .uniform import UniformAssignor

BUILT_IN: Mapping[str, Assignor] = {"uniform": UniformAssignor(), "range": RangeAssignor()}
"""Kafka's own, in the order of its default of `group.consumer.assignors`."""


class Assignors:
    """The assignors of `group.consumer.assignors`, by name; the first is the default."""

    def __init__(self, assignors: Sequence[Assignor] = tuple(BUILT_IN.values())) -> None:
        self._by_name = {assignor.name: assignor for assignor in assignors}
        self.names: Collection[str] = self._by_name.keys()
        self.default = assignors[0].name

    def choose(self, names: Iterable[str | None]) -> str:
        """Return the name that most members request, or the default.

        Of equally frequent names the first in a Java hash map wins, as in Kafka: `uniform` before `range`.
        """
        votes = Counter(names)
        del votes[None]
        return max(votes, key=lambda name: (votes[name], -java_bucket(name or "")), default=None) or self.default

    def assign(self, name: str, spec: GroupSpec) -> Mapping[str, Partitions]:
        """Compute the new target assignment. Raises `AssignorError` if the assignor fails or its answer is invalid."""
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
