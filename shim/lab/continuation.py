"""A recorded run that goes on from any moment, with puppets in the places of its clients.

Decides which members a puppet can play, and what each knows at first: its member id, generation or epoch, what it owns,
when its next heartbeat is due. From then on it does what puppets of its kind do. It does not know sockets:
`testing/sandbox.py` serves the run that goes on.

A client that waited for an answer asks again, as a client does whose connection has ended. It says what it said
before, byte for byte: a JoinGroup that says something else would be another rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final, NamedTuple

from kafka_shim.apis.consumer_protocol import assignment_from_bytes, subscription_from_bytes
from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.classic.group import CONSUMER, ClassicGroup
from kafka_shim.groups.classic.member import Member as ClassicMember
from kafka_shim.groups.classic.states import State
from kafka_shim.groups.consumer.kind import Consumer
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.sessions import heartbeat_interval_ms, session_timeout
from kafka_shim.groups.consumer.timers import TimerKind
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.streams import sessions as streams_sessions
from kafka_shim.groups.streams.live import StreamsGroup
from kafka_shim.groups.streams.timers import TimerKind as StreamsTimerKind
from kafka_shim.groups.streams.topology import message_of
from kafka_shim.lab.client_assignors import ASSIGNORS
from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript
from kafka_shim.lab.puppets import COOPERATIVE, Place, Puppet, Script
from kafka_shim.lab.scheduler import Scheduler
from kafka_shim.lab.share_puppets import SharePuppet
from kafka_shim.lab.streams_puppets import StreamsPuppet, StreamsScript

HEARTBEAT_SECONDS: Final = 3.0
"""How often members of the classic protocol send heartbeats: what Kafka's clients do unless they are told otherwise.
The wire does not show it."""


class Unplayed(NamedTuple):
    """A member in whose place there is no puppet. It is missed after its session timeout."""

    group: str
    member_id: str
    why: str


class Continuation:
    """The members of a cluster's groups, each played by a puppet from now on, or `unplayed`."""

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
                elif type(group) is Consumer:
                    self._play_consumer(group)
                elif isinstance(group, ShareGroup):
                    self._play_share(group)
                elif isinstance(group, StreamsGroup):
                    self._play_streams(group)
                else:
                    members = [each.member_id for each in group.describe().members]
                    self._leave_out(name, members, "its group is one of an experiment")

    def _leave_out(self, group: str, members: list[str], why: str) -> None:
        self.unplayed += [Unplayed(group, member_id, why) for member_id in members]

    # Classic groups

    def _play_classic(self, group: ClassicGroup) -> None:
        if group.protocol_type != CONSUMER:
            self._leave_out(group.group_id, list(group.members), f"it is no consumer but a {group.protocol_type}")
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
            heard = self._now if timer == inf else timer - member.session_timeout
            joins, owned, offers = _is_joining(group, member), _assigned(member.assignment), member.protocols
            claimed = _claimed(member.metadata_for(COOPERATIVE))
            if joins:
                owned = claimed
            elif group.protocol == COOPERATIVE and any(
                set(numbers) - set(owned.get(topic, ())) for topic, numbers in claimed.items()
            ):
                # It has given something up, and was about to join again, so that another gets it.
                joins, offers = True, ()
            place = Place(
                member_id=member.member_id,
                generation=-1 if member.is_new else group.generation,
                owned=owned,
                beats_at=max(self._now, heard + script.heartbeat_interval),
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
            session = group.session(member.member_id).deadline
            heard = self._now if session == inf else session - session_timeout(group, member)
            assigned = self._named(member.assigned)
            owned = {topic: list(numbers) for topic, numbers in assigned.items()}
            for topic, numbers in self._named(member.pending_revocation).items():
                owned.setdefault(topic, []).extend(numbers)
            if member.classic is not None:
                self._play_classic_in(group, member, owned, heard)
                continue
            interval = heartbeat_interval_ms(group) / 1000
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
                beats_at=max(self._now, heard + interval),
                interval=interval,
                assigned=assigned,
            )
            self._take_over(ConsumerPuppet(self._scheduler, script), place)

    def _play_classic_in(
        self, group: ConsumerGroup, member: Member, owned: Mapping[str, list[int]], heard: float
    ) -> None:
        """A member of the classic protocol in a consumer group (KIP-848, migration)."""
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
            beats_at=max(self._now, heard + script.heartbeat_interval),
            protocol=offers[0][0],
            joins=sync is not None and sync.deadline < inf,
            offers=offers,
        )
        self._take_over(Puppet(self._scheduler, script), place)

    # Share groups

    def _play_share(self, group: ShareGroup) -> None:
        interval = group.heartbeat_interval_ms / 1000
        for member in sorted(group.members.values(), key=lambda each: (each.client_id, each.member_id)):
            session = group.session(member.member_id).deadline
            heard = self._now if session == inf else session - group.session_timeout_ms / 1000
            topics = sorted(member.topic_names)
            script = ConsumerScript(
                group=group.group_id, topics=topics, client_id=member.client_id, rack_id=member.rack_id
            )
            place = Place(
                member_id=member.member_id,
                generation=member.epoch,
                owned=self._named(member.assigned),
                beats_at=max(self._now, heard + interval),
                interval=interval,
            )
            self._take_over(SharePuppet(self._scheduler, script), place)

    # Streams groups

    def _play_streams(self, group: StreamsGroup) -> None:
        interval = streams_sessions.heartbeat_interval_ms(group) / 1000
        for member in sorted(group.members.values(), key=lambda each: (each.client_id, each.member_id)):
            session = group.timer(StreamsTimerKind.SESSION, member.member_id).deadline
            heard = self._now if session == inf else session - streams_sessions.session_timeout_ms(group) / 1000
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
                beats_at=max(self._now, heard + interval),
                interval=interval,
                assigned=_both(assigned.active),
            )
            puppet = StreamsPuppet(self._scheduler, script)
            puppet.take_over(place, standby=_both(assigned.standby), warmup=_both(assigned.warmup))
            self.puppets.append(puppet)

    def _named(self, partitions: Partitions) -> dict[str, list[int]]:
        found = ((self._cluster.topics.with_id(topic_id), numbers) for topic_id, numbers in partitions.items())
        return {topic.name: sorted(numbers) for topic, numbers in found if topic is not None}

    def _take_over(self, puppet: Puppet, place: Place) -> None:
        puppet.take_over(place)
        self.puppets.append(puppet)


def _both(*tasks: Mapping[str, Iterable[int]]) -> dict[str, list[int]]:
    """Tasks by subtopology, of all that are given."""
    found: dict[str, list[int]] = {}
    for each in tasks:
        for subtopology, numbers in each.items():
            found.setdefault(subtopology, []).extend(numbers)
    return found


def _is_joining(group: ClassicGroup, member: ClassicMember) -> bool:
    """Whether the member waited for an answer of a round, or had not asked for its assignment yet."""
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
    """What a puppet says in the place of a consumer; None if nobody can tell what that one subscribes to."""
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
    """What a member said that it owned when it last joined, by its metadata."""
    subscription = subscription_from_bytes(metadata)
    owned = () if subscription is None else subscription.owned_partitions
    return {each.topic: list(each.partitions) for each in owned}


def _assigned(data: bytes) -> Mapping[str, list[int]]:
    decoded = assignment_from_bytes(data)
    return {} if decoded is None else {each.topic: sorted(each.partitions) for each in decoded.assigned_partitions}
