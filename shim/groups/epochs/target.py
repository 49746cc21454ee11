"""Target assignment of a group with epochs: its changes against the previous one, and their records.

The assignor of a kind makes the assignments, of partitions or of tasks. `EpochGroup.is_target_due` decides when. After
Kafka's `TargetAssignmentBuilder` (semantics 4.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafka_shim.groups.epochs.records import Record, RecordClasses

_A = TypeVar("_A")


@dataclass(frozen=True, slots=True)
class Target(Generic[_A]):
    """Target assignment of all members at the group epoch `epoch`.

    `changed` are the assignments that differ from the previous ones, and `records` write them; the record of the epoch
    follows them.
    """

    epoch: int
    assignor: str
    assigned: Mapping[str, _A]
    changed: Mapping[str, _A]
    records: list[Record]


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
