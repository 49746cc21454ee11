"""Input and output of an assignor, and the check of its output.

An assignor is a pure function over this data: without I/O, clock or randomness. Epochs, pending revocations and records
are the business of reconciliation. Source: Kafka's `GroupSpec`, `SubscribedTopicDescriber` and `GroupAssignment`
(semantics 4.9).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from kafka_shim.apis.wire.types import uuid_text

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""Topic id (16 bytes) -> partitions. A topic without partitions is left out."""

Owners: TypeAlias = Mapping[bytes, Mapping[int, str]]
"""Topic id -> partition -> member id: an inverted target assignment."""

NO_PARTITIONS: Partitions = {}


def no_partitions() -> Partitions:
    """Return `NO_PARTITIONS`, the default of fields of data classes."""
    return NO_PARTITIONS


@dataclass(slots=True)
class MemberSpec:
    """One member: its subscription, and its part of the newest target assignment. Do not change it."""

    topics: frozenset[bytes]
    """Ids of its subscribed topics that exist."""
    assignment: Partitions = field(default_factory=no_partitions)
    instance_id: str | None = None
    rack_id: str | None = None
    size: int = field(init=False)
    """Number of partitions in `assignment`."""

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.assignment.values()))


class GroupSpec(NamedTuple):
    """A group as input of an assignor. Do not change it."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Topic id -> partitions, of every subscribed topic."""
    owners: Owners
    """The inverted assignments of all members."""
    homogeneous: bool
    """True if all members subscribe to the same topics."""


class Assignor(Protocol):
    """A server-side assignor; members request it in ConsumerGroupHeartbeat by its `name`."""

    @property
    def name(self) -> str: ...

    def assign(self, spec: GroupSpec) -> Mapping[str, Partitions]:
        """Return the partitions of each member; a member that is left out gets none. May raise `AssignorError`."""
        ...


class AssignorError(Exception):
    """An assignor failed, or its answer is invalid. The client gets UNKNOWN_SERVER_ERROR (-1)."""


def group_spec(members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> GroupSpec:
    """Build the spec of a group from its members."""
    subscriptions = iter(members.values())
    first = next(subscriptions, MemberSpec(frozenset())).topics
    same = all(member.topics == first for member in subscriptions)
    return GroupSpec(members, partition_counts, owners_of({id: m.assignment for id, m in members.items()}), same)


def owners_of(assignments: Mapping[str, Partitions]) -> dict[bytes, dict[int, str]]:
    """Invert assignments."""
    owners: defaultdict[bytes, dict[int, str]] = defaultdict(dict)
    for member_id, assignment in assignments.items():
        for topic, partitions in assignment.items():
            of_topic = owners[topic]
            for partition in partitions:
                of_topic[partition] = member_id
    return dict(owners)


def check(name: str, spec: GroupSpec, assignments: Mapping[str, Partitions]) -> None:
    """Raise `AssignorError` with one sentence unless these assignments are valid for the group.

    As in Kafka, partitions without an owner are allowed.
    """
    assigned: dict[bytes, set[int]] = {}
    for member_id, assignment in assignments.items():
        member = spec.members.get(member_id)
        if member is None:
            raise AssignorError(f"assignor {name} assigned partitions to {member_id}, who is not a member")
        for topic, partitions in assignment.items():
            if topic not in member.topics:
                raise AssignorError(
                    f"assignor {name} assigned topic {uuid_text(topic)} to {member_id}, who does not subscribe to it"
                )
            count = spec.partition_counts[topic]
            if not all(0 <= partition < count for partition in partitions):
                raise AssignorError(
                    f"assignor {name} assigned partitions {sorted(partitions)} of topic {uuid_text(topic)}, "
                    f"which has {count}"
                )
            owned = assigned.setdefault(topic, set())
            twice = owned & partitions
            if twice:
                raise AssignorError(
                    f"assignor {name} assigned partitions {sorted(twice)} of topic {uuid_text(topic)} to two members"
                )
            owned |= partitions
