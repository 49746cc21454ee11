"""ShareFetch and ShareAcknowledge: what a member of a share group gets, and what becomes of what it got.

Decides which partitions answer with what, whether a fetch waits, and when records are available again: when their lock
runs out, when a member closes its session, and when its connection is gone. What one partition does is in
`share_partition.py`. Does not know versions or the clock. Sources: KIP-932; Kafka's `SharePartitionManager` and
`DelayedShareFetch` of 4.2 (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final, NamedTuple, TypeVar

from kafka_shim.apis import share_acknowledge as acknowledge_api
from kafka_shim.apis.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_shim.apis.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import LEADER_EPOCH
from kafka_shim.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.settings import group_value
from kafka_shim.broker.share_partition import Acknowledge, Refused, ShareAcknowledgementBatch, SharePartition
from kafka_shim.broker.share_reading import read, start_offset
from kafka_shim.broker.share_sessions import SessionError, ShareSession, ShareSessions, Spot, forget
from kafka_shim.broker.topics import Partition, Topics
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.share.persister import UNINITIALIZED, Place, SharePersister
from kafka_shim.groups.share.states import is_member_id

WHOLE_BATCHES: Final = 0
"""The acquire mode in which a batch is never divided (KIP-1206)."""
_ANSWER = TypeVar("_ANSWER", ShareFetchResponse, ShareAcknowledgeResponse)


class _Error(NamedTuple):
    """An error of one partition, and Kafka's sentence."""

    code: int
    message: str | None = None


_FINE: Final = _Error(0)


class _Parked:
    """A fetch that waits for records: a watcher of its partitions' logs. `acknowledged` is for its answer."""

    def __init__(
        self,
        owner: ShareFetchApi,
        exchange: object,
        session: ShareSession,
        request: ShareFetchRequest,
        acknowledged: dict[Spot, _Error],
        *,
        is_first: bool,
    ) -> None:
        self.exchange = exchange
        self.session = session
        self.request = request
        self.acknowledged = acknowledged
        self.is_first = is_first
        self.logs: list[PartitionLog] = []
        self._owner = owner

    def changed(self) -> None:
        self._owner.topics.woken[self] = None

    def settle(self, now: float) -> None:
        self._owner.try_again(self, now)


class ShareFetchApi:
    """The two rules of one broker, its share sessions, its share partitions, and its parked fetches.

    `persister` has the share states. `epoch_ms` turns seconds of the coordinator's clock, in which locks run, into ms
    since the epoch; `ahead()` is by how many seconds that clock is ahead of real time, in which fetches wait.
    """

    def __init__(
        self,
        node_id: int,
        topics: Topics,
        outbox: Outbox,
        persister: SharePersister,
        epoch_ms: Callable[[float], int],
        ahead: Callable[[], float],
    ) -> None:
        self.node_id = node_id
        self.topics = topics
        self.outbox = outbox
        self.persister = persister
        self.sessions = ShareSessions(topics.settings.number("group.share.max.share.sessions"))
        self._epoch_ms = epoch_ms
        self._ahead = ahead
        self._partitions: dict[Place, SharePartition] = {}
        self._waiting: dict[object, _Parked] = {}
        self._wait_ends: list[tuple[float, int, _Parked]] = []
        self._locks: list[tuple[float, int, SharePartition]] = []
        self._order = count()
        self._released = False

    # The rules

    def fetch(
        self, request: ShareFetchRequest, exchange: object, connection: object, now: float
    ) -> ShareFetchResponse | Parked:
        """Answer or park one ShareFetch. Errors for the whole: INVALID_REQUEST (42), 122, 123, 133."""
        if request.group_id is None:
            return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        acknowledges = any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions)
        epoch = request.share_session_epoch
        if (
            not is_member_id(request.member_id)
            or (epoch == INITIAL_EPOCH and acknowledges)
            or (epoch == FINAL_EPOCH and request.topics and not acknowledges)
            or (
                request.is_renew_ack
                and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms)
            )
        ):
            return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        try:
            if epoch == INITIAL_EPOCH:
                session = self.sessions.begin(request.group_id, request.member_id, connection)
            else:
                session = self.sessions.go_on(request.group_id, request.member_id, epoch)
        except SessionError as refused:
            return ShareFetchResponse(error_code=refused.error)
        if epoch != FINAL_EPOCH:
            for topic in request.topics:
                name = self.topics.topic_name(topic.topic_id)
                for each in topic.partitions:
                    session.topics.setdefault((topic.topic_id, each.partition_index), name)
            for gone in request.forgotten_topics_data:
                forget(session, ((gone.topic_id, index) for index in gone.partitions))
        acknowledged = self._acknowledge_all(
            session,
            (
                ((topic.topic_id, each.partition_index), each.acknowledgement_batches)
                for topic in request.topics
                for each in topic.partitions
                if each.acknowledgement_batches
            ),
            now,
            renews=request.is_renew_ack,
        )
        if epoch == FINAL_EPOCH:
            self._release(session)
        parked = _Parked(self, exchange, session, request, acknowledged, is_first=epoch == INITIAL_EPOCH)
        self.topics.settle(now)
        may_wait = epoch != FINAL_EPOCH and request.max_wait_ms > 0 and request.max_records > 0
        if may_wait and not acknowledged and not self._is_ready(parked, now):
            self._park(parked, now)
            return PARKED
        return self._answer(parked, now)

    def acknowledge(self, request: ShareAcknowledgeRequest, now: float) -> ShareAcknowledgeResponse:
        """The answer to one ShareAcknowledge. Errors for the whole: INVALID_REQUEST (42), 122, 123."""
        if request.group_id is None:
            return ShareAcknowledgeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        if not is_member_id(request.member_id):
            return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
        epoch = request.share_session_epoch
        try:
            if epoch == INITIAL_EPOCH:
                raise SessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session = self.sessions.go_on(request.group_id, request.member_id, epoch)
        except SessionError as refused:
            return ShareAcknowledgeResponse(error_code=refused.error)
        acknowledged = self._acknowledge_all(
            session,
            (
                ((topic.topic_id, each.partition_index), each.acknowledgement_batches)
                for topic in request.topics
                for each in topic.partitions
            ),
            now,
            renews=request.is_renew_ack,
        )
        if epoch == FINAL_EPOCH:
            self._release(session)
        self.topics.settle(now)
        response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=self._lock_ms(session.group_id))
        by_topic: dict[bytes, acknowledge_api.ShareAcknowledgeTopicResponse] = {}
        for (topic_id, index), error in acknowledged.items():
            topic = by_topic.get(topic_id)
            if topic is None:
                topic = by_topic[topic_id] = acknowledge_api.ShareAcknowledgeTopicResponse(topic_id)
                response.responses.append(topic)
            data = acknowledge_api.PartitionData(index, error.code, error.message)
            data.current_leader = self._leader((topic_id, index), error.code)
            topic.partitions.append(data)
        response.node_endpoints = self._endpoints(
            data.current_leader for topic in response.responses for data in topic.partitions if data.error_code
        )
        return response

    def progress(self, place: Place, partition: Partition | None) -> tuple[int, int]:
        """The start offset of a share partition and its lag, -1 where they are unknown."""
        state = self.persister.get(place)
        if state is None or state.start_offset == UNINITIALIZED:
            return -1, -1
        lag = -1 if partition is None else partition.log.high_watermark - state.start_offset - state.completed
        return state.start_offset, lag

    # Time

    def next_deadline(self) -> float:
        """When `expire` is due next, in seconds of the coordinator's clock; infinity if never."""
        if self._released:
            return -inf
        wait_ends = self._wait_ends
        while wait_ends and self._waiting.get(wait_ends[0][2].exchange) is not wait_ends[0][2]:
            heappop(wait_ends)
        deadline = self._locks[0][0] if self._locks else inf
        return min(deadline, wait_ends[0][0] + self._ahead()) if wait_ends else deadline

    def expire(self, now: float) -> None:
        """Let locks that have run out go, and answer the fetches whose wait is over."""
        self._released = False
        while self._locks and self._locks[0][0] <= now:
            _, _, partition = heappop(self._locks)
            if partition.is_current and partition.expire(now):
                self._wake(partition)
        self.topics.settle(now)
        real = now - self._ahead()
        while self._wait_ends and self._wait_ends[0][0] <= real:
            parked = heappop(self._wait_ends)[2]
            if self._waiting.get(parked.exchange) is parked:
                self._reply(parked, now)

    def drop(self, exchange: object) -> None:
        """The connection of a parked fetch is gone."""
        parked = self._waiting.get(exchange)
        if parked is not None:
            self._unpark(parked)

    def disconnected(self, connection: object) -> None:
        """A connection is gone, and its sessions with it: what they have acquired is available again at once."""
        for session in self.sessions.disconnected(connection):
            self._release(session)
            self._released = True

    # Waiting

    def try_again(self, parked: _Parked, now: float) -> None:
        """Answer a parked fetch if there is something for it now."""
        if self._waiting.get(parked.exchange) is parked and self._is_ready(parked, now):
            self._reply(parked, now)

    def _park(self, parked: _Parked, now: float) -> None:
        self._waiting[parked.exchange] = parked
        ends = now - self._ahead() + parked.request.max_wait_ms / 1000
        heappush(self._wait_ends, (ends, next(self._order), parked))
        found = (self._partition(spot) for spot in parked.session.topics)
        parked.logs = [partition.log for partition in found if partition is not None]
        for log in parked.logs:
            log.watchers.add(parked)

    def _unpark(self, parked: _Parked) -> None:
        del self._waiting[parked.exchange]
        self.topics.woken.pop(parked, None)
        for log in parked.logs:
            log.watchers.discard(parked)

    def _reply(self, parked: _Parked, now: float) -> None:
        self._unpark(parked)
        self.outbox.reply_at_once(parked.exchange, self._answer(parked, now))

    def _is_ready(self, parked: _Parked, now: float) -> bool:
        """Whether there are so many bytes to fetch as the member waits for, or an error to tell it of."""
        found = 0
        for spot in parked.session.topics:
            partition, shared = self._find(parked.session, spot, now)
            if partition is None or isinstance(shared, _Error):
                return True
            offset = shared.first_to_fetch()
            if offset is not None:
                found += partition.log.readable(offset, committed=self._reads_committed(parked.session.group_id))
        return found > 0 and found >= parked.request.min_bytes

    def _wake(self, shared: SharePartition) -> None:
        """Records of a share partition are available again: whoever waits for some may have them."""
        for parked in self._waiting.values():
            if any(self._partitions.get(_place(parked.session, spot)) is shared for spot in parked.session.topics):
                self.topics.woken[parked] = None

    # Partitions

    def _partition(self, spot: Spot) -> Partition | None:
        topic = self.topics.with_id(spot[0])
        return None if topic is None else topic.partition(spot[1])

    def _find(self, session: ShareSession, spot: Spot, now: float) -> tuple[Partition | None, SharePartition | _Error]:
        """A partition as the group of the session has it, read from its state if need be; or what is wrong with it."""
        partition = self._partition(spot)
        place = _place(session, spot)
        if partition is None:
            self._partitions.pop(place, None)
            unknown = self.topics.with_id(spot[0]) is None and session.topics.get(spot) is None
            return None, _Error(ErrorCode.UNKNOWN_TOPIC_ID if unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.leader != self.node_id:
            self._partitions.pop(place, None)
            return partition, _Error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        state = self.persister.find(place)
        if state is None:
            self._partitions.pop(place, None)
            return partition, _Error(ErrorCode.UNKNOWN_SERVER_ERROR)
        shared = self._partitions.get(place)
        if shared is None or shared.state is not state or not shared.is_current:
            reset = self._setting(session.group_id, "share.auto.offset.reset")
            settings = self.topics.settings
            shared = self._partitions[place] = SharePartition(
                state,
                start_offset(state, partition.log, reset, lambda: self._epoch_ms(now)),
                most_deliveries=settings.number("group.share.delivery.count.limit"),
                most_in_flight=settings.number("group.share.partition.max.record.locks"),
            )
        shared.truncate(partition.log.start_offset)
        return partition, shared

    def _setting(self, group_id: str, name: str) -> str:
        settings = self.topics.settings
        return group_value(name, settings.groups.get(group_id, {}), settings)

    def _lock_ms(self, group_id: str) -> int:
        return int(self._setting(group_id, "share.record.lock.duration.ms"))

    def _reads_committed(self, group_id: str) -> bool:
        return self._setting(group_id, "share.isolation.level") == "read_committed"

    # Acknowledgements

    def _acknowledge_all(
        self,
        session: ShareSession,
        batches: Iterable[tuple[Spot, Sequence[AcknowledgementBatch]]],
        now: float,
        *,
        renews: bool,
    ) -> dict[Spot, _Error]:
        return {spot: self._acknowledge(session, spot, each, now, renews=renews) for spot, each in batches}

    def _acknowledge(
        self,
        session: ShareSession,
        spot: Spot,
        batches: Sequence[AcknowledgementBatch],
        now: float,
        *,
        renews: bool,
    ) -> _Error:
        if not _is_well_formed(batches, renews=renews):
            return _Error(ErrorCode.INVALID_REQUEST)
        _, shared = self._find(session, spot, now)
        if isinstance(shared, _Error):
            return shared
        deadline = now + self._lock_ms(session.group_id) / 1000
        was_full = shared.first_to_fetch() is None
        try:
            released = shared.acknowledge(
                session.member_id,
                [
                    ShareAcknowledgementBatch(each.first_offset, each.last_offset, each.acknowledge_types)
                    for each in batches
                ],
                deadline,
            )
        except Refused as refused:
            return _Error(refused.error, refused.message)
        if renews:
            heappush(self._locks, (deadline, next(self._order), shared))
        if released or was_full:
            self._wake(shared)
        return _FINE

    def _release(self, session: ShareSession) -> None:
        """The session is over: what it has acquired in its partitions is available again."""
        for spot in session.topics:
            shared = self._partitions.get(_place(session, spot))
            if shared is not None and shared.is_current and shared.release(session.member_id):
                self._wake(shared)

    # Answers

    def _answer(self, parked: _Parked, now: float) -> ShareFetchResponse:
        """Acquire what there is, partition by partition; each time another one comes first."""
        session, request = parked.session, parked.request
        lock_ms = self._lock_ms(session.group_id)
        deadline = now + lock_ms / 1000
        committed = self._reads_committed(session.group_id)
        bytes_left, records_left = request.max_bytes, request.max_records
        spots = list(session.topics) if request.share_session_epoch != FINAL_EPOCH and not request.is_renew_ack else []
        turn = session.epoch % len(spots) if spots else 0
        answered: dict[Spot, PartitionData] = {}
        for spot in spots[turn:] + spots[:turn]:
            partition, shared = self._find(session, spot, now)
            data = PartitionData(spot[1])
            if partition is None or isinstance(shared, _Error):
                if isinstance(shared, _Error):
                    data.error_code, data.error_message = shared
            elif bytes_left > 0 and records_left > 0:
                data.records, acquired = read(
                    shared,
                    partition.log,
                    session.member_id,
                    deadline,
                    max_bytes=bytes_left,
                    max_records=records_left,
                    batch_size=request.batch_size,
                    whole_batches=request.share_acquire_mode == WHOLE_BATCHES,
                    committed=committed,
                )
                data.acquired_records = [AcquiredRecords(*each) for each in acquired]
                bytes_left -= len(data.records)
                records_left -= sum(each.last - each.first + 1 for each in acquired)
                if acquired:
                    heappush(self._locks, (deadline, next(self._order), shared))
            if parked.is_first or data.error_code or data.acquired_records:
                answered[spot] = data
        for spot, error in parked.acknowledged.items():
            data = answered.setdefault(spot, PartitionData(spot[1]))
            data.acknowledge_error_code, data.acknowledge_error_message = error
        response = ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms)
        by_topic: dict[bytes, ShareFetchableTopicResponse] = {}
        for spot, data in answered.items():
            topic = by_topic.get(spot[0])
            if topic is None:
                topic = by_topic[spot[0]] = ShareFetchableTopicResponse(spot[0])
                response.responses.append(topic)
            data.current_leader = self._leader(spot, data.error_code or data.acknowledge_error_code)
            topic.partitions.append(data)
        response.node_endpoints = self._endpoints(data.current_leader for data in answered.values())
        return response

    def _leader(self, spot: Spot, error: int) -> LeaderIdAndEpoch:
        """Whom to ask instead, where this broker is not the leader; zeros where there is nothing to say, as in
        Kafka."""
        partition = self._partition(spot) if error == ErrorCode.NOT_LEADER_OR_FOLLOWER else None
        return LeaderIdAndEpoch() if partition is None else LeaderIdAndEpoch(partition.leader, LEADER_EPOCH)

    def _endpoints(self, leaders: Iterable[LeaderIdAndEpoch]) -> list[NodeEndpoint]:
        ids = {each.leader_id for each in leaders}
        return [NodeEndpoint(*self.topics.nodes[each]) for each in sorted(ids & self.topics.nodes.keys())]


def _place(session: ShareSession, spot: Spot) -> Place:
    return Place(session.group_id, *spot)


def _is_well_formed(batches: Sequence[AcknowledgementBatch], *, renews: bool) -> bool:
    """Whether batches are in order, and have a type for all their offsets or one for each."""
    highest = Acknowledge.RENEW if renews else Acknowledge.REJECT
    end = -1
    for each in batches:
        size = each.last_offset - each.first_offset + 1
        if each.first_offset < end or size < 1 or len(each.acknowledge_types) not in (1, size):
            return False
        if not all(Acknowledge.GAP <= kind <= highest for kind in each.acknowledge_types):
            return False
        end = each.last_offset
    return True
