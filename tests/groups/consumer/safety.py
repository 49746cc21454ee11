"""Invariants of a consumer group that hold at every moment, under any faults of members, answers and coordinator."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.states import MemberState
from kafka_shim.groups.epochs.member import LEAVE_STATIC
from tests.groups.context import GROUP

from .context import Cluster, Consumer


def check(cluster: Cluster, clients: Iterable[Consumer]) -> None:
    """I1: each partition has one owner at most. I5: the records give the state. I10: each timer's member is present."""
    group = cluster.service.groups.get(GROUP)
    if not isinstance(group, ConsumerGroup):
        return
    owners: dict[tuple[bytes, int], str] = {}
    for member in group.members.values():
        for partitions in (member.assigned, member.pending_revocation):
            for topic, numbers in partitions.items():
                assert numbers, "an empty set of partitions"
                for number in numbers:
                    other = owners.setdefault((topic, number), member.member_id)
                    assert other == member.member_id, f"{number} is had by {other} and {member.member_id}"
        assert member.epoch <= group.target_epoch <= group.group_epoch
        assert member.state is MemberState.UNREVOKED_PARTITIONS or not member.pending_revocation
    assert group.owners == {
        topic: {number: owner for (of, number), owner in owners.items() if of == topic}
        for topic in {topic for topic, _ in owners}
    }
    for client in clients:
        check_client(cluster, group, client)
    for timer in cluster.service.timers.armed():
        assert not timer.member_id or timer.member_id in group.members, f"{timer} of a member that is gone"


def check_client(cluster: Cluster, group: ConsumerGroup, client: Consumer) -> None:
    """A client in the group uses only partitions that the coordinator counts as its own."""
    member = group.members.get(client.member_id)
    if member is None or member.epoch == LEAVE_STATIC:
        return
    known = {
        (cluster.topics.topic_name(topic), number)
        for partitions in (member.assigned, member.pending_revocation)
        for topic, numbers in partitions.items()
        for number in numbers
    }
    uses = {(name, number) for name, number in client.owned if name in cluster.topics.by_name}
    assert uses <= known, f"{client.member_id} uses {uses - known}, which the coordinator does not know it to have"


def check_records(cluster: Cluster) -> None:
    """I5: a restart gives the same group from its records."""
    group = cluster.service.groups.get(GROUP)
    again = Cluster.__new__(Cluster)
    again.__dict__.update(cluster.__dict__)
    again.events, again.written, again.parked = [], [], set()
    again.start()
    loaded = again.service.groups.get(GROUP)
    assert (group is None) == (loaded is None)
    if isinstance(group, ConsumerGroup):
        assert isinstance(loaded, ConsumerGroup)
        for name in (
            "group_epoch",
            "target_epoch",
            "metadata_hash",
            "members",
            "static_members",
            "targets",
            "target_owners",
            "owners",
            "classic_members",
        ):
            assert getattr(loaded, name) == getattr(group, name), name
        for name in ("names", "patterns", "resolved"):
            assert getattr(loaded.subscriptions, name) == getattr(group.subscriptions, name), name
