"""What an assignor sees of a group, what it answers, and whether the answer may be used.

An assignor is a pure function over this data: no I/O, no clock, no chance. It knows nothing of epochs, of members that
have not revoked yet, of records: reconciliation is not its business. After Kafka's `GroupSpec`,
`SubscribedTopicDescriber` and `GroupAssignment` (semantics 4.9).
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
"""Topic id -> partition -> member id: a target assignment read the other way."""

NO_PARTITIONS: Partitions = {}


@dataclass(slots=True)
class MemberSpec:
    """One member: what it subscribes to, and its share of the newest target assignment. It is not to be changed."""

    topics: frozenset[bytes]
    """Ids of the topics it subscribes to, only such as exist."""
    assignment: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    instance_id: str | None = None
    rack_id: str | None = None
    size: int = field(init=False)
    """How many partitions `assignment` has."""

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.assignment.values()))


class GroupSpec(NamedTuple):
    """A group as an assignor sees it. It is not to be changed."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Topic id -> partitions, of every topic somebody subscribes to."""
    owners: Owners
    """The assignments of all members, read the other way."""
    homogeneous: bool
    """Whether all members subscribe to the same topics."""


class Assignor(Protocol):
    """A server-side assignor; `name` is what a member asks for in ConsumerGroupHeartbeat."""

    @property
    def name(self) -> str: ...

    def assign(self, spec: GroupSpec) -> Mapping[str, Partitions]:
        """The partitions of each member; a member that is left out gets none. May raise `AssignorError`."""
        ...


class AssignorError(Exception):
    """An assignor cannot answer, or gave an answer that cannot be used. The client gets UNKNOWN_SERVER_ERROR (-1)."""


def group_spec(members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> GroupSpec:
    """The group of these members, with what follows from them."""
    subscriptions = iter(members.values())
    first = next(subscriptions, MemberSpec(frozenset())).topics
    same = all(member.topics == first for member in subscriptions)
    return GroupSpec(members, partition_counts, owners_of({id: m.assignment for id, m in members.items()}), same)


def owners_of(assignments: Mapping[str, Partitions]) -> dict[bytes, dict[int, str]]:
    """Assignments read the other way."""
    owners: defaultdict[bytes, dict[int, str]] = defaultdict(dict)
    for member_id, assignment in assignments.items():
        for topic, partitions in assignment.items():
            of_topic = owners[topic]
            for partition in partitions:
                of_topic[partition] = member_id
    return dict(owners)


def check(name: str, spec: GroupSpec, assignments: Mapping[str, Partitions]) -> None:
    """Raise `AssignorError` with one sentence unless a group may take these assignments.

    Partitions nobody gets are allowed, as in Kafka.
    """
    taken: dict[bytes, set[int]] = {}
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
            owned = taken.setdefault(topic, set())
            twice = owned & partitions
            if twice:
                raise AssignorError(
                    f"assignor {name} assigned partitions {sorted(twice)} of topic {uuid_text(topic)} to two members"
                )
            owned |= partitions
