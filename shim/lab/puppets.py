"""Puppets: scripted members of a classic group, that join beside real clients or among themselves.

Like Kafka's consumers, a puppet joins, divides the partitions if it leads, sends heartbeats, revokes partitions, and
joins again when a rebalance begins. A `Manner` makes it misbehave. It sends real requests to the coordinator over a
`Link` of its scheduler.

Source: KIP-394, KIP-429, KIP-345; semantics 2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    assignment_from_bytes,
    assignment_to_bytes,
    subscription_from_bytes,
    subscription_to_bytes,
)
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.profiles import PROFILES
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.lab import arguments
from kafka_shim.lab.client_assignors import ASSIGNORS, Owned
from kafka_shim.lab.scheduler import Link, Scheduler

if TYPE_CHECKING:
    from kafka_shim.server.cluster import Cluster

COOPERATIVE: Final = "cooperative-sticky"
RETRY_SECONDS: Final = 0.1
CONNECT_SECONDS: Final = 0.05

_Expected = tuple[type[Message], int, Callable[[Any, float], None]]
"""Type and version of a request, and the function for its answer."""
_REJOIN_AS_NEW: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_COORDINATOR_MOVED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


@dataclass(frozen=True, kw_only=True)
class Manner:
    """Misbehaviour of a puppet.

    - `never_syncs`: it joins, and never sends SyncGroup.
    - `never_rejoins`: it ignores that it must join again.
    - `joins_twice`: it sends each JoinGroup over two connections.
    - `heartbeat_late`: it sends heartbeats this many seconds later than it should.
    - `never_revokes`: cooperative, it claims to own partitions that it had to revoke.
    - `assigns_nothing`: as leader it assigns no partitions.
    """

    never_syncs: bool = False
    never_rejoins: bool = False
    joins_twice: bool = False
    heartbeat_late: float = 0.0
    never_revokes: bool = False
    assigns_nothing: bool = False


@dataclass(frozen=True, kw_only=True)
class Script:
    """Configuration of a puppet. Times are seconds.

    `protocols` are names of assignors, in order of preference. With an `instance_id` it is a static member. It takes
    `think` to act: a leader to divide the partitions, every member to join again.
    """

    group: str
    topics: Sequence[str]
    client_id: str = "puppet"
    protocols: Sequence[str] = ("range", "roundrobin")
    instance_id: str | None = None
    session_timeout: float = 45.0
    rebalance_timeout: float = 300.0
    heartbeat_interval: float = 3.0
    think: float = 0.0
    manner: Manner = Manner()

    def __post_init__(self) -> None:
        if not isinstance(self.group, str) or not self.group:
            raise ValueError(f"A puppet's group must be a name, not {self.group!r}.")
        arguments.names("A puppet's topics", self.topics)
        arguments.names("A puppet's protocols", self.protocols)
        if not self.protocols or not set(self.protocols) <= set(ASSIGNORS):
            raise ValueError(f"A puppet's protocols must be among {', '.join(ASSIGNORS)}, not {self.protocols!r}.")
        for name in ("session_timeout", "rebalance_timeout", "heartbeat_interval"):
            arguments.seconds(f"A puppet's {name}", getattr(self, name), positive=True)
        arguments.seconds("The time a puppet takes to think", self.think)
        if not isinstance(self.manner, Manner):
            raise ValueError(f"A puppet's manner must be a Manner, not {self.manner!r}.")
        arguments.seconds("heartbeat_late", self.manner.heartbeat_late)


@dataclass(frozen=True, kw_only=True)
class Place:
    """State of a member that a puppet replaces.

    Its next heartbeat is due at `beats_at`, seconds of the coordinator's clock. In the classic protocol, if it `joins`
    it was in the middle of a rebalance, and sends its last JoinGroup again: `offers` are its assignors with their
    metadata. In the consumer protocol heartbeats come every `interval` seconds, and it revokes the partitions in
    `owned` beyond `assigned`.
    """

    member_id: str
    generation: int
    owned: Mapping[str, Sequence[int]]
    beats_at: float
    leads: bool = False
    protocol: str = ""
    joins: bool = False
    offers: Sequence[tuple[str, bytes]] = ()
    interval: float = 5.0
    assigned: Mapping[str, Sequence[int]] | None = None


class Puppet:
    """One member. `owned` is its assignment, `generation` -1 while it is in none.

    `kind` is the kind of the puppet, `script_class` the class of its script, `manner_class` that of its manner.
    """

    kind: ClassVar[str] = "classic"
    script_class: ClassVar[type[Any]] = Script
    manner_class: ClassVar[type[Any]] = Manner

    def __init__(self, scheduler: Scheduler, script: Script) -> None:
        self.script = script
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.owned: dict[str, list[int]] = {}
        self.errors: list[tuple[str, ErrorCode]] = []
        """Every error in an answer to it, with the API's name."""
        self.assignments = 0
        """Number of assignments that it got, including empty ones."""
        self.fenced = False
        self._scheduler = scheduler
        self._cluster: Cluster = scheduler.cluster
        self._release = scheduler.cluster.config.release
        self._link: Link | None = None
        self._in_flight: deque[_Expected] = deque()
        self._beat = 0
        self._is_joining = False
        self._is_active = False
        self._heartbeat: tuple[bytes, _Expected] | None = None
        # All heartbeats that are accepted have equal answers.
        self._accepted_answer = b""
        self._protocol = ""
        # The metadata of the member that it replaced, until its first JoinGroup is answered.
        self._offers: Sequence[tuple[str, bytes]] = ()

    @classmethod
    def script_of(cls, fields: Mapping[str, Any]) -> Any:
        """Build a script; a `manner` may be a mapping. Raises ValueError, in one sentence."""
        values = dict(fields)
        if isinstance(manner := values.get("manner"), Mapping):
            values["manner"] = cls.manner_class(**manner)
        return cls.script_class(**values)

    @property
    def is_cooperative(self) -> bool:
        """True if it keeps its partitions while it joins again."""
        return self.script.protocols[0] == COOPERATIVE

    # Actions of a test

    def join(self) -> None:
        """Join, and stay until `leave`."""
        self._is_active = True
        self._scheduler.later(0.0, self._join)

    def take_over(self, place: Place) -> None:
        """Take the place of a member, and stay until `leave`."""
        self._is_active = True
        self.member_id, self.generation = place.member_id, place.generation
        self.owned = {topic: sorted(numbers) for topic, numbers in place.owned.items()}
        self.leads, self._protocol, self._offers = place.leads, place.protocol, place.offers
        if place.joins:
            self._scheduler.later(0.0, self._join)
        else:
            self._begin_at(place.beats_at)

    def _begin_at(self, time: float) -> None:
        beat = self._beat
        self._scheduler.at(time, lambda now: self._beat_on(now, beat))

    def leave(self) -> None:
        """Send LeaveGroup, also as a static member."""
        self._is_active = False
        self._beat += 1
        if self.member_id:
            identity = MemberIdentity(self.member_id, self.script.instance_id, "the puppet leaves")
            self._ask_soon(LeaveGroupRequest(self.script.group, "", [identity]), self._on_leave)

    def crash(self) -> None:
        """Close the connection and stop, without LeaveGroup."""
        self._is_active = False
        self._beat += 1
        self._scheduler.later(0.0, self._hang_up)

    def silence(self) -> None:
        """Send nothing more, but keep the connection."""
        self._is_active = False
        self._beat += 1

    def commit(self, offsets: Mapping[tuple[str, int], int], *, generation: int | None = None) -> None:
        """Commit offsets by topic and partition, as a member of its generation or of another one."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in arguments.offsets_of(offsets).items():
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(partition, committed_offset=offset, committed_leader_epoch=-1)
            )
        request = OffsetCommitRequest(
            group_id=self.script.group,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.script.instance_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=each) for topic, each in topics.items()],
        )
        self._ask_soon(request, self._on_commit)

    # Requests

    def _ask_soon(self, request: Message, on_answer: Callable[[Any, float], None]) -> None:
        self._scheduler.later(0.0, lambda now: self._ask(request, on_answer, now))

    def _ask(self, request: Message, on_answer: Callable[[Any, float], None], now: float) -> None:
        key = request.api_key
        assert key is not None
        version = PROFILES[self._release].get(key, request.versions)[-1]
        # From version 10 on a commit needs topic ids, which a puppet does not have.
        version = min(version, 9) if key == _COMMIT else version
        head = encode_request_header(key, version, key, self.script.client_id)
        self._send(frame(head + request.encode(version)), (type(request), version, on_answer), now)

    def _send(self, data: bytes, expected: _Expected, now: float) -> None:
        if self._link is None or not self._link.is_open:
            self._in_flight.clear()
            node = self._cluster.ownership.owner_of(self.script.group)
            if not node.up:
                self._scheduler.later(RETRY_SECONDS, self._join)
                return
            self._link = Link(self._scheduler, self, node, self.script.client_id)
        self._in_flight.append(expected)
        self._link.ask(data, now)

    def receive(self, link: Link, data: bytes, now: float) -> None:
        """See `Client.receive`."""
        if link is not self._link:
            return
        # The correlation id is the API key, so that equal heartbeats have equal bytes. Answers come in order, but one
        # may have been swallowed.
        answered = int.from_bytes(data[4:8], "big")
        kind, version, on_answer = self._in_flight.popleft()
        while kind.api_key != answered:
            kind, version, on_answer = self._in_flight.popleft()
        if data == self._accepted_answer and kind is HeartbeatRequest:
            self._beat_later(now)
            return
        key = kind.api_key
        assert key is not None
        _, offset = decode_response_header(data[4:], key, version)
        api = APIS.get(key) or link.session.node.table.apis[key]
        answer, _ = api.response.decoder(version)(data, 4 + offset)
        if kind is HeartbeatRequest and not getattr(answer, "error_code", 0):
            self._accepted_answer = data
        on_answer(answer, now)

    def disconnected(self, link: Link, now: float) -> None:
        """See `Client.disconnected`."""
        if link is not self._link:
            return
        self._link = None
        self._in_flight.clear()
        self._is_joining = False
        if self._is_active:
            self._beat += 1
            self._scheduler.at(now + CONNECT_SECONDS, self._join if self.generation < 0 else self._resume)

    def _resume(self, now: float) -> None:
        self._beat_on(now, self._beat)

    def _hang_up(self, now: float) -> None:
        if self._link is not None:
            self._link.end(now)
            self._link = None

    def _on_error(self, request: str, error: int, now: float) -> None:
        """Handle an error in an answer."""
        code = ErrorCode(error)
        self.errors.append((request, code))
        if not self._is_active:
            return
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.fenced = True
            self._is_active = False
            return
        if code in _REJOIN_AS_NEW:
            self.generation = -1
            self.owned = {}
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        elif code in _COORDINATOR_MOVED:
            self._hang_up(now)
        wait = 0.0 if code in _REJOIN_AS_NEW or code is ErrorCode.REBALANCE_IN_PROGRESS else RETRY_SECONDS
        self._scheduler.at(now + wait, self._join)

    # Joining

    def _join(self, now: float) -> None:
        if not self._is_active or self._is_joining:
            return
        self._is_joining = True
        self._beat += 1
        if not self.is_cooperative:
            self.owned = {}
        script = self.script
        request = JoinGroupRequest(
            script.group,
            int(script.session_timeout * 1000),
            int(script.rebalance_timeout * 1000),
            self.member_id,
            script.instance_id,
            "consumer",
            [
                JoinGroupRequestProtocol(name, metadata)
                for name, metadata in self._offers or [(name, self._subscription(name)) for name in script.protocols]
            ],
        )
        if script.manner.joins_twice and self.member_id:
            Puppet(self._scheduler, script)._ask(request, lambda answer, later: None, now)
        self._ask(request, self._on_join, now)

    def _subscription(self, protocol: str) -> bytes:
        owned = self.owned if protocol == COOPERATIVE else {}
        return subscription_to_bytes(
            ConsumerProtocolSubscription(
                topics=list(self.script.topics),
                owned_partitions=[TopicPartition(topic, list(each)) for topic, each in owned.items()],
                generation_id=self.generation,
            ),
            3,
        )

    def _on_join(self, answer: JoinGroupResponse, now: float) -> None:
        self._is_joining = False
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._join(now)
            return
        if answer.error_code:
            self._on_error("JoinGroup", answer.error_code, now)
            return
        self._offers = ()
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self.leads = answer.leader == answer.member_id
        self._protocol = answer.protocol_name or ""
        self._heartbeat = None
        self._beat += 1
        if self.script.manner.never_syncs or not self._is_active:
            return
        self._scheduler.at(now + self.script.think, lambda later: self._sync(answer, later))

    def _sync(self, join_answer: JoinGroupResponse, now: float) -> None:
        assignments: list[SyncGroupRequestAssignment] = []
        if self.leads and not join_answer.skip_assignment and not self.script.manner.assigns_nothing:
            assignments = [
                SyncGroupRequestAssignment(member, _assignment(by)) for member, by in self._divide(join_answer).items()
            ]
        request = SyncGroupRequest(
            self.script.group,
            join_answer.generation_id,
            self.member_id,
            self.script.instance_id,
            "consumer",
            join_answer.protocol_name,
            assignments,
        )
        self._ask(request, self._on_sync, now)

    def _divide(self, join_answer: JoinGroupResponse) -> Owned:
        topics: dict[str, list[str]] = {}
        owned: Owned = {}
        for member in join_answer.members:
            subscription = subscription_from_bytes(member.metadata)
            topics[member.member_id] = [] if subscription is None else list(subscription.topics)
            if subscription is not None:
                owned[member.member_id] = {each.topic: list(each.partitions) for each in subscription.owned_partitions}
        counts = {
            name: len(topic.partitions)
            for name in {name for each in topics.values() for name in each}
            if (topic := self._cluster.topics.named(name)) is not None
        }
        return ASSIGNORS[join_answer.protocol_name or "range"](topics, counts, owned)

    def _on_sync(self, answer: SyncGroupResponse, now: float) -> None:
        if answer.error_code:
            self._on_error("SyncGroup", answer.error_code, now)
            return
        decoded = assignment_from_bytes(answer.assignment)
        owned = {} if decoded is None else {each.topic: sorted(each.partitions) for each in decoded.assigned_partitions}
        self.assignments += 1
        gives_up = any(set(each) - set(owned.get(topic, ())) for topic, each in self.owned.items())
        if gives_up and self.script.manner.never_revokes:
            gives_up = False
        else:
            self.owned = owned
        if self._protocol == COOPERATIVE and gives_up:
            self._scheduler.at(now, self._join)
        self._beat_later(now)

    # Heartbeats

    def _beat_later(self, now: float) -> None:
        beat = self._beat
        wait = self.script.heartbeat_interval + self.script.manner.heartbeat_late
        self._scheduler.after(now, wait, lambda later: self._beat_on(later, beat))

    def _beat_on(self, now: float, beat: int) -> None:
        if beat != self._beat or not self._is_active:
            return
        if self._heartbeat is None:
            request = HeartbeatRequest(self.script.group, self.generation, self.member_id, self.script.instance_id)
            version = PROFILES[self._release][_HEARTBEAT][1]
            head = encode_request_header(_HEARTBEAT, version, _HEARTBEAT, self.script.client_id)
            self._heartbeat = frame(head + request.encode(version)), (HeartbeatRequest, version, self._on_heartbeat)
        self._send(*self._heartbeat, now)

    def _on_heartbeat(self, answer: Any, now: float) -> None:
        if not answer.error_code:
            self._beat_later(now)
        elif answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.errors.append(("Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS))
            if self.script.manner.never_rejoins:
                self._beat_later(now)
            else:
                self._scheduler.at(now + self.script.think, self._join)
        elif answer.error_code in _COORDINATOR_MOVED:
            # It is still a member; only the coordinator has moved.
            self.errors.append(("Heartbeat", ErrorCode(answer.error_code)))
            self._hang_up(now)
            beat = self._beat
            self._scheduler.at(now + RETRY_SECONDS, lambda later: self._beat_on(later, beat))
        else:
            self._on_error("Heartbeat", answer.error_code, now)

    # Other answers

    def _on_leave(self, answer: Any, now: float) -> None:
        error = answer.error_code or next((each.error_code for each in answer.members), 0)
        if error:
            self.errors.append(("LeaveGroup", ErrorCode(error)))
        self.member_id = ""
        self.generation = -1
        self.owned = {}
        self._hang_up(now)

    def _on_commit(self, answer: Any, now: float) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    self.errors.append(("OffsetCommit", ErrorCode(partition.error_code)))


_HEARTBEAT: Final = ApiKey.HEARTBEAT
_COMMIT: Final = ApiKey.OFFSET_COMMIT


def _assignment(by_topic: Mapping[str, Sequence[int]]) -> bytes:
    assigned = [TopicPartition(topic, list(partitions)) for topic, partitions in by_topic.items()]
    return assignment_to_bytes(ConsumerProtocolAssignment(assigned), 1)
