"""Records that all groups with epochs have, and the order of their tombstones.

A member's current assignment is deleted before its target assignment, that before the member, and everything before the
group (semantics 5.3). A rule collects its records and writes them at its end, so that a refused request changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

Record: TypeAlias = tuple[Any, Any]
"""Key and value; a tombstone has the value None."""


class RecordClasses(NamedTuple):
    """Key classes of a kind's records, and the values of those of a target assignment. `others` has further keys.

    `target_value` makes the value of a member's target assignment, and `target_from` reads it.
    """

    group: type
    member: type
    current_assignment: type
    target_assignment: type
    target_value: Callable[[Any], Any]
    target_from: Callable[[Any], Any]
    target_epoch: type
    target_epoch_value: type
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
