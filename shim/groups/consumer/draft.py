"""A consumer group that is not in the shard yet: that of a first member, or one made of a classic group with members.

Decides whether such a draft still stands when its first change is to be written: while that was computed elsewhere,
somebody may have made another group, or the classic group may have changed. It does not know how one is made of a
classic group: that is `migration.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.member import Protocols
from kafka_shim.groups.classic.states import State
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.records import Record
from kafka_shim.groups.group import Group
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.records import ConsumerGroupMetadataKey


class ClassicMemberView(NamedTuple):
    """What a draft has of a member of a classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes


class ClassicView(NamedTuple):
    """What a draft has of a classic group. It does not change with the group."""

    state: State
    generation: int
    protocol: str | None
    members: Sequence[ClassicMemberView]


class Draft:
    """`group` takes the place of the classic group `replaces`, if there is one. `records` bring the members over, and
    were replayed to it."""

    def __init__(
        self,
        group: Group,
        replaces: ClassicGroup | None = None,
        view: ClassicView | None = None,
        records: Sequence[Record] = (),
    ) -> None:
        assert isinstance(group, ConsumerGroup)
        self.group: ConsumerGroup = group
        self.replaces = replaces
        self.records = records
        self._made = group
        self._view = view
        group.draft = self

    def stands(self) -> bool:
        """Whether nothing has come in between."""
        present: object = self.group.shard.groups.get(self.group.group_id)
        return present is self.replaces and (self.replaces is None or view_of(self.replaces) == self._view)

    def topic_changed(self, topic: str, now: float) -> None:
        """What was computed for it does not count any more; its members, if it has any, are looked at again."""
        self._made.topic_changed(topic, now)
        self.group.revision += 1

    def adopt(self) -> None:
        """The group is in the shard from now on."""
        shard = self.group.shard
        shard.adopt(self.group.group_id, self._made)
        shard.outbox.write_all(shard, self.records)
        self.group.draft = None


def new_group(shard: Shard, group_id: str) -> Group:
    """A consumer group without members that is not in the shard."""
    return shard.new_group(ConsumerGroupMetadataKey, group_id)


def view_of(classic: ClassicGroup) -> ClassicView:
    members = [
        ClassicMemberView(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.protocols,
            member.assignment,
        )
        for member in classic.members.values()
    ]
    return ClassicView(classic.state, classic.generation, classic.protocol, members)
