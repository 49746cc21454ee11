"""Records that all groups with epochs have: the order of their tombstones, and those of a target assignment.

A member's current assignment is deleted before its target assignment, that before the member, and everything before the
group (semantics 5.3). The assignor of a kind makes target assignments, of partitions or of tasks; only changes against
the previous one have records. After Kafka's `TargetAssignmentBuilder` (semantics 4.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

_A = TypeVar("_A")

Record: TypeAlias = tuple[Any, Any]
"""Key and value; a tombstone has the value None."""


class RecordClasses(NamedTuple):
    """Key classes of a kind's records, and the records of its members. `others` has further keys.

    `member_record(group_id, member)` and `assignment_record(group_id, member)` make the record of a member and of its
    current assignment; `target_value` makes the value of its target assignment, and `target_from` reads it.
    """

    group: type
    member: type
    current_assignment: type
    target_assignment: type
    target_value: Callable[[Any], Any]
    target_from: Callable[[Any], Any]
    target_epoch: type
    target_epoch_value: type
    member_record: Callable[[str, Any], Record]
    assignment_record: Callable[[str, Any], Record]
    others: tuple[type, ...] = ()

    @property
    def keys(self) -> tuple[type, ...]:
        """Key classes of all records that a group replays."""
        of_members = (self.member, self.current_assignment, self.target_assignment)
        return (self.group, *of_members, self.target_epoch, *self.others)

    def target_epoch_record(self, group_id: str, group_epoch: int) -> Record:
        """Return the record of the epoch of a target assignment after that the next one does not wait."""
        return self.target_epoch(group_id), self.target_epoch_value(group_epoch)

    def member_tombstones(self, group_id: str, member_id: str) -> list[Record]:
        return [
            (self.current_assignment(group_id, member_id), None),
            (self.target_assignment(group_id, member_id), None),
            (self.member(group_id, member_id), None),
        ]

    def group_tombstones(self, group_id: str, member_ids: Iterable[str], others: Iterable[Record] = ()) -> list[Record]:
        """Return the tombstones of a group and its members; `others` come right before that of the group."""
        member_ids = list(member_ids)
        return [
            *((self.current_assignment(group_id, member_id), None) for member_id in member_ids),
            *((self.target_assignment(group_id, member_id), None) for member_id in member_ids),
            (self.target_epoch(group_id), None),
            *((self.member(group_id, member_id), None) for member_id in member_ids),
            *others,
            (self.group(group_id), None),
        ]


@dataclass(frozen=True, slots=True)
class Target(Generic[_A]):
    """Target assignment of all members at the group epoch `epoch`.

    `changed` are the assignments that differ from the previous ones, and `records` write them; the record of the epoch
    follows them. `by_topic` are the changes for the trace, None if they are not in that form yet.
    """

    epoch: int
    assignor: str
    assigned: Mapping[str, _A]
    changed: Mapping[str, _A]
    records: list[Record]
    by_topic: Mapping[str, Mapping[str, Sequence[int]]] | None = None


def target(
    classes: RecordClasses,
    group_id: str,
    epoch: int,
    assignor: str,
    assigned: Mapping[str, _A],
    previous: Mapping[str, _A],
) -> Target[_A]:
    """Return the target assignment with the changes and records; a member that is not in `previous` is changed."""
    changed = {}
    for member_id, assignment in assigned.items():
        before = previous.get(member_id)
        if assignment is not before and assignment != before:
            changed[member_id] = assignment
    key, value = classes.target_assignment, classes.target_value
    written = [(key(group_id, member_id), value(assignment)) for member_id, assignment in changed.items()]
    return Target(epoch, assignor, assigned, changed, written)
