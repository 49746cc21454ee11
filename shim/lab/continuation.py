"""Continuation of a recorded run from any moment, with puppets in place of its clients.

Each puppet gets a member's state: member id, generation or epoch, partitions, and the time of its next heartbeat; then
it behaves like any puppet of its kind. `testing/sandbox.py` serves the continued run.

A client that waited for an answer sends its request again, as a client does after its connection has ended, byte for
byte: a JoinGroup with other metadata would start another rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final, NamedTuple

from kafka_shim.apis.consumer_protocol import assignment_from_bytes, subscription_from_bytes
from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.member import Member as ClassicMember
from kafka_shim.groups.classic.states import State
from kafka_shim.groups.classic.subscriptions import CONSUMER
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.states import TimerKind
from kafka_shim.groups.epochs.group import EpochGroup
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.streams.group import StreamsGroup
from kafka_shim.groups.streams.topology import message_of
from kafka_shim.lab.client_assignors import ASSIGNORS
from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript
from kafka_shim.lab.puppets import COOPERATIVE, Place, Puppet, Script
from kafka_shim.lab.scheduler import Scheduler
from kafka_shim.lab.share_puppets import SharePuppet
from kafka_shim.lab.streams_puppets import StreamsPuppet, StreamsScript

HEARTBEAT_SECONDS: Final = 3.0
"""Heartbeat interval of classic members: the default of Kafka's clients. It is not visible in the requests."""


class Unplayed(NamedTuple):
    """A member without a puppet. It is removed after its session timeout."""

    group: str
    member_id: str
    why: str


class Continuation:
    """The members of a cluster's groups, each played by a puppet from now on, or listed in `unplayed`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.puppets: list[Puppet] = []
        self.unplayed: list[Unplayed] = []
        self._scheduler = scheduler
        self._cluster = scheduler.cluster
        self._now = self._cluster.clock()
        for node in self._cluster.nodes.values():
            for name in sorted(node.groups.groups):
                group = node.groups.groups[name]
                if isinstance(group, ClassicGroup):
                    self._play_classic(group)
                elif type(group) is ConsumerGroup:
                    self._play_consumer(group)
                elif isinstance(group, ShareGroup):
                    self._play_share(group)
                elif isinstance(group, StreamsGroup):
                    self._play_streams(group)
                else:
                    members = [each.member_id for each in group.describe_members(subscriptions=False)]
                    self._leave_out(name, members, "its group belongs to an experiment")

    def _leave_out(self, group: str, members: list[str], why: str) -> None:
        self.unplayed += [Unplayed(group, member_id, why) for member_id in members]

    # Classic groups

    def _play_classic(self, group: ClassicGroup) -> None:
        if group.protocol_type != CONSUMER:
            self._leave_out(group.group_id, list(group.members), f"it is not a consumer but a {group.protocol_type}")
            return
        if group.protocol is not None and group.protocol not in ASSIGNORS:
            self._leave_out(group.group_id, list(group.members), f"no puppet can assign by {group.protocol}")
            return
        for member in sorted(group.members.values(), key=lambda each: (each.client_id, each.member_id)):
            script = _script(group.group_id, member.client_id, member.group_instance_id, member.protocols,
                             member.session_timeout_ms, member.rebalance_timeout_ms)  # fmt: skip
            if script is None:
                self._leave_out(group.group_id, [member.member_id], "its subscription cannot be read")
                continue
            timer = member.session_timer.deadline
            last_seen = self._now if timer == inf else timer - member.session_timeout
            joins, owned, offers = _is_joining(group, member), _assigned(member.assignment), member.protocols
            claimed = _claimed(member.metadata_for(COOPERATIVE))
            if joins:
                owned = claimed
            elif group.protocol == COOPERATIVE and any(
                set(numbers) - set(owned.get(topic, ())) for topic, numbers in claimed.items()
            ):
                # It has revoked partitions and was about to join again, so that another member gets them.
                joins, offers = True, ()
            place = Place(
                member_id=member.member_id,
                generation=-1 if member.is_new else group.generation,
                owned=owned,
                beats_at=max(self._now, last_seen + script.heartbeat_interval),
                leads=group.leader == member.member_id,
                protocol=group.protocol or "",
                joins=joins,
                offers=offers,
            )
            self._take_over(Puppet(self._scheduler, script), place)

    # Consumer groups

    def _play_consumer(self, group: ConsumerGroup) -> None:
        for member in sorted(group.members.values(), key=lambda each: (each.client_id, each.member_id)):
            if member.epoch < 0:
                self._leave_out(group.group_id, [member.member_id], "it was away, and may come back as a static member")
                continue
            session = _session_end(group, member.member_id)
            last_seen = self._now if session == inf else session - group.session_timeout(member)
            assigned = self._by_name(member.assigned)
            owned = {topic: list(numbers) for topic, numbers in assigned.items()}
            for topic, numbers in self._by_name(member.pending_revocation).items():
                owned.setdefault(topic, []).extend(numbers)
            if member.classic is not None:
                self._play_classic_in(group, member, owned, last_seen)
                continue
            interval = group.heartbeat_interval_ms / 1000
            script = ConsumerScript(
                group=group.group_id,
                topics=sorted(member.topic_names),
                pattern=member.regex,
                client_id=member.client_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                assignor=member.server_assignor,
                rebalance_timeout=max(member.rebalance_timeout_ms, 1) / 1000,
            )
            place = Place(
                member_id=member.member_id,
                generation=member.epoch,
                owned=owned,
                beats_at=max(self._now, last_seen + interval),
                interval=interval,
                assigned=assigned,
            )
            self._take_over(ConsumerPuppet(self._scheduler, script), place)

    def _play_classic_in(
        self, group: ConsumerGroup, member: Member, owned: Mapping[str, list[int]], last_seen: float
    ) -> None:
        """Play a member of the classic protocol in a consumer group (KIP-848, migration)."""
        classic = member.classic
        assert classic is not None
        offers = tuple((each.name, each.metadata) for each in classic.supported_protocols)
        script = _script(group.group_id, member.client_id, member.instance_id, offers,
                         classic.session_timeout_ms, member.rebalance_timeout_ms)  # fmt: skip
        if script is None:
            self._leave_out(group.group_id, [member.member_id], "its subscription cannot be read")
            return
        sync = group.timers.get((TimerKind.SYNC, member.member_id))
        place = Place(
            member_id=member.member_id,
            generation=member.epoch,
            owned=owned,
            beats_at=max(self._now, last_seen + script.heartbeat_interval),
            protocol=offers[0][0],
            joins=sync is not None and sync.deadline < inf,
            offers=offers,
        )
        self._take_over(Puppet(self._scheduler, script), place)

    # Share groups

    def _play_share(self, group: ShareGroup) -> None:
        interval = group.heartbeat_interval_ms / 1000
        for member in sorted(group.members.values(), key=lambda each: (each.client_id, each.member_id)):
            session = _session_end(group, member.member_id)
            last_seen = self._now if session == inf else session - group.session_timeout(member)
            topics = sorted(member.topic_names)
            script = ConsumerScript(
                group=group.group_id, topics=topics, client_id=member.client_id, rack_id=member.rack_id
            )
            place = Place(
                member_id=member.member_id,
                generation=member.epoch,
                owned=self._by_name(member.assigned),
                beats_at=max(self._now, last_seen + interval),
                interval=interval,
            )
            self._take_over(SharePuppet(self._scheduler, script), place)

    # Streams groups

    def _play_streams(self, group: StreamsGroup) -> None:
        interval = group.heartbeat_interval_ms / 1000
        for member in sorted(group.members.values(), key=lambda each: (each.client_id, each.member_id)):
            session = _session_end(group, member.member_id)
            last_seen = self._now if session == inf else session - group.session_timeout(member)
            assert group.topology is not None
            script = StreamsScript(
                group=group.group_id,
                client_id=member.client_id,
                rack_id=member.rack_id,
                rebalance_timeout=max(member.rebalance_timeout_ms, 1) / 1000,
                topology=message_of(group.topology),
                process_id=member.process_id,
                endpoint=member.user_endpoint,
                tags=dict(member.client_tags),
            )
            assigned, pending = member.assigned, member.pending_revocation
            place = Place(
                member_id=member.member_id,
                generation=member.epoch,
                owned=_both(assigned.active, pending.active),
                beats_at=max(self._now, last_seen + interval),
                interval=interval,
                assigned=_both(assigned.active),
            )
            puppet = StreamsPuppet(self._scheduler, script)
            puppet.take_over(place, standby=_both(assigned.standby), warmup=_both(assigned.warmup))
            self.puppets.append(puppet)

    def _by_name(self, partitions: Partitions) -> dict[str, list[int]]:
        topics = ((self._cluster.topics.with_id(topic_id), numbers) for topic_id, numbers in partitions.items())
        return {topic.name: sorted(numbers) for topic, numbers in topics if topic is not None}

    def _take_over(self, puppet: Puppet, place: Place) -> None:
        puppet.take_over(place)
        self.puppets.append(puppet)


def _both(*tasks: Mapping[str, Iterable[int]]) -> dict[str, list[int]]:
    """Merge tasks, by subtopology."""
    merged: dict[str, list[int]] = {}
    for each in tasks:
        for subtopology, numbers in each.items():
            merged.setdefault(subtopology, []).extend(numbers)
    return merged


def _is_joining(group: ClassicGroup, member: ClassicMember) -> bool:
    """True if the member waited for an answer of a round, or had not sent its SyncGroup yet."""
    if group.state is State.COMPLETING_REBALANCE:
        return True
    return member.join_exchange is not None or member.member_id in group.pending_sync


def _script(
    group: str,
    client_id: str,
    instance_id: str | None,
    offers: tuple[tuple[str, bytes], ...],
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
) -> Script | None:
    """Build the configuration of a puppet for a consumer; None if the consumer's subscription is unreadable."""
    readable = [(name, metadata) for name, metadata in offers if name in ASSIGNORS]
    subscriptions = [subscription_from_bytes(metadata) for _, metadata in readable]
    if not subscriptions or subscriptions[0] is None:
        return None
    return Script(
        group=group,
        topics=list(subscriptions[0].topics),
        client_id=client_id,
        protocols=[name for name, _ in readable],
        instance_id=instance_id,
        session_timeout=session_timeout_ms / 1000,
        rebalance_timeout=max(rebalance_timeout_ms, 1) / 1000,
        heartbeat_interval=min(HEARTBEAT_SECONDS, session_timeout_ms / 3000),
    )


def _claimed(metadata: bytes) -> Mapping[str, list[int]]:
    """Return the partitions that a member listed in the metadata of its last JoinGroup."""
    subscription = subscription_from_bytes(metadata)
    owned = () if subscription is None else subscription.owned_partitions
    return {each.topic: list(each.partitions) for each in owned}


def _assigned(data: bytes) -> Mapping[str, list[int]]:
    decoded = assignment_from_bytes(data)
    return {} if decoded is None else {each.topic: sorted(each.partitions) for each in decoded.assigned_partitions}


def _session_end(group: EpochGroup[Any, Any], member_id: str) -> float:
    """Return the end of a member's session in monotonic seconds; infinity if none runs."""
    session = group.sessions.get(member_id)
    return inf if session is None else session.deadline
