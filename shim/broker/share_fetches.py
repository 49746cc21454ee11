"""ShareFetch and ShareAcknowledge: a member of a share group acquires records and acknowledges them.

Records are available again when their lock expires, when a member closes its session, and when its connection ends. The
share partitions are in `share_partitions.py`. Sources: KIP-932; Kafka's `SharePartitionManager` and `DelayedShareFetch`
of 4.2 (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from operator import attrgetter
from typing import Final

from kafka_shim.apis import share_acknowledge as acknowledge_api
from kafka_shim.apis.releases import Rules
from kafka_shim.apis.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_shim.apis.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    FetchTopic,
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
from kafka_shim.broker.share_partition import Reader, SharePartition
from kafka_shim.broker.share_partitions import PartitionError, SharePartitions
from kafka_shim.broker.share_reading import Passed, read
from kafka_shim.broker.share_sessions import SessionError, ShareSession, ShareSessions, Spot
from kafka_shim.broker.share_states import Progress
from kafka_shim.broker.share_watch import ShareWatch
from kafka_shim.broker.topics import Partition, Topics
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.share.persister import UNINITIALIZED, Place
from kafka_shim.groups.share.states import is_member_id

WHOLE_BATCHES: Final = 0
"""The acquire mode in which a batch is never divided (KIP-1206)."""
AT_ONCE: Final = 5_000
"""Work after which parked fetches wait until other clients are served: partitions and kilobytes in answers, and batches
of logs."""
_LOOK: Final = 10
"""Work of a look at a parked fetch."""
_MOST_GONE: Final = 1_000
"""Ends of waits for fetches that are gone, beside twice those of the others."""


def _batches(
    topics: Iterable[FetchTopic | acknowledge_api.AcknowledgeTopic],
) -> dict[Spot, Sequence[AcknowledgementBatch]]:
    """Return the acknowledgements of each partition: the last ones, if a request names it twice, as in Kafka."""
    return {
        (topic.topic_id, each.partition_index): each.acknowledgement_batches
        for topic in topics
        for each in topic.partitions
    }


class _Parked:
    """A fetch that waits for records, with the `watch` of its session. `acknowledged` goes into its answer, and the
    smallest `number` has waited longest."""

    def __init__(
        self,
        exchange: object,
        session: ShareSession,
        watch: ShareWatch,
        request: ShareFetchRequest,
        acknowledged: dict[Spot, PartitionError],
        *,
        is_first: bool,
    ) -> None:
        self.exchange = exchange
        self.session = session
        self.watch = watch
        self.request = request
        self.acknowledged = acknowledged
        self.is_first = is_first
        self.number = 0
        self.passed = Passed()

    @property
    def work(self) -> int:
        """Return the partitions in its answer and the kilobytes of records, at most."""
        watch = self.watch
        partitions = len(self.session.topics) if self.is_first else len(watch.errors) + len(watch.readable)
        return partitions + min(self.request.max_bytes, watch.readable_bytes) // 1000


_number: Final = attrgetter("number")


class ShareFetchApi:
    """The rules of both APIs on one broker, with its share sessions and parked fetches.

    `ahead()` is the number of seconds by which the coordinator's clock, in which locks run, is ahead of real time, in
    which fetches wait.
    """

    def __init__(
        self,
        node_id: int,
        topics: Topics,
        outbox: Outbox,
        partitions: SharePartitions,
        ahead: Callable[[], float],
        rules: Rules,
    ) -> None:
        self.node_id = node_id
        self.topics = topics
        self.outbox = outbox
        self.partitions = partitions
        self.sessions = ShareSessions(topics.settings.number("group.share.max.share.sessions"))
        self._ahead = ahead
        self._rules = rules
        self._waiting: dict[object, _Parked] = {}
        self._woken: dict[ShareWatch, None] = {}
        self._next_turn = inf
        """The time at which more of the woken fetches are answered."""
        self._numbered: dict[int, _Parked] = {}
        self._wait_ends: list[tuple[float, int]] = []
        """A heap of the times at which waits end, each with the number of its fetch; a fetch may be gone."""
        self._order = count()
        self._released = False
        self.room: Callable[[], int] | None = None
        """See `FetchApi.room`."""
        partitions.persister.on_drop.append(self._dropped)

    # The rules

    def fetch(
        self, request: ShareFetchRequest, exchange: object, connection: object, now: float
    ) -> ShareFetchResponse | Parked:
        """Answer or park one ShareFetch. Errors of the whole request: INVALID_REQUEST (42), 122, 123, 133, which also
        ends a session with too many partitions."""
        if request.group_id is None:
            return ShareFetchResponse(error_code=self._group_id_error)
        self.partitions.may_search = True
        acknowledges = any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions)
        epoch = request.share_session_epoch
        if (
            not is_member_id(request.member_id)
            or (epoch == INITIAL_EPOCH and acknowledges)
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
                    session.add((topic.topic_id, each.partition_index), name)
            for gone in request.forgotten_topics_data:
                session.forget((gone.topic_id, index) for index in gone.partitions)
            if request.topics and self.sessions.is_too_large(session):
                return self._too_large(session, now)
        acknowledged = self.partitions.acknowledge(
            session,
            {spot: each for spot, each in _batches(request.topics).items() if each} if acknowledges else {},
            now,
            renews=request.is_renew_ack,
            ends=epoch == FINAL_EPOCH,
        )
        watch = session.watch
        if not isinstance(watch, ShareWatch):
            watch = session.watch = ShareWatch(session, self.partitions, self._wake)
        parked = _Parked(exchange, session, watch, request, acknowledged, is_first=epoch == INITIAL_EPOCH)
        self.topics.settle(now)
        may_wait = epoch != FINAL_EPOCH and request.max_wait_ms > 0 and request.max_records > 0
        if may_wait and not acknowledged and not watch.is_ready(request.min_bytes, now):
            self._park(parked, now)
            return PARKED
        answer = self._answer(parked, now)
        if epoch == FINAL_EPOCH:
            self._closed(session)
        return answer

    def acknowledge(self, request: ShareAcknowledgeRequest, now: float) -> ShareAcknowledgeResponse:
        """Answer one ShareAcknowledge. Errors of the whole request: INVALID_REQUEST (42), 122, 123."""
        if request.group_id is None:
            return ShareAcknowledgeResponse(error_code=self._group_id_error)
        if not is_member_id(request.member_id):
            return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
        epoch = request.share_session_epoch
        try:
            if epoch == INITIAL_EPOCH:
                raise SessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session = self.sessions.go_on(request.group_id, request.member_id, epoch)
        except SessionError as refused:
            return ShareAcknowledgeResponse(error_code=refused.error)
        acknowledged = self.partitions.acknowledge(
            session,
            _batches(request.topics),
            now,
            renews=request.is_renew_ack,
            ends=epoch == FINAL_EPOCH,
        )
        if epoch == FINAL_EPOCH:
            self._closed(session)
        self.topics.settle(now)
        response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=self.partitions.lock_ms(session.group_id))
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
        """Return the start offset of a share partition and its lag, -1 if unknown."""
        state = self.partitions.persister.get(place)
        if state is None or state.start_offset == UNINITIALIZED:
            return -1, -1
        if partition is None:
            return state.start_offset, -1
        return state.start_offset, Progress(state.start_offset, state.completed).lag(partition.log.high_watermark)

    # Time

    def next_deadline(self) -> float:
        """Return the time of the next `expire`, in seconds of the coordinator's clock; infinity if none is due."""
        if self._released:
            return -inf
        wait_ends = self._wait_ends
        while wait_ends and wait_ends[0][1] not in self._numbered:
            heappop(wait_ends)
        locks = self.partitions.locks
        deadline = self.partitions.letters_due
        if locks and locks[0][0] < deadline:
            deadline = locks[0][0]
        if self._next_turn < deadline:
            deadline = self._next_turn
        return min(deadline, wait_ends[0][0] + self._ahead()) if wait_ends else deadline

    def expire(self, now: float) -> None:
        """Release the locks that have expired, and answer the fetches at the end of their wait."""
        self._released = False
        partitions = self.partitions
        partitions.may_search = True
        if partitions.dead or (partitions.locks and partitions.locks[0][0] <= now):
            partitions.expire(now)
        if self._woken:
            self.topics.woken[self] = None
        if self.topics.woken:
            self.topics.settle(now)
        room = AT_ONCE
        while room > 0 and self._wait_ends and self._wait_ends[0][0] <= now - self._ahead():
            parked = self._numbered.get(heappop(self._wait_ends)[1])
            if parked is not None:
                room -= self._reply(parked, now)

    def drop(self, exchange: object) -> None:
        """Drop a parked fetch after the end of its connection."""
        parked = self._waiting.get(exchange)
        if parked is not None:
            self._unpark(parked)

    def disconnected(self, connection: object) -> None:
        """End the sessions of a connection: the records they have acquired are available again at once. A group without
        another session is forgotten here."""
        sessions, groups = self.sessions.disconnected(connection)
        for session in sessions:
            self.partitions.release(session)
            self._released = True
        for group_id in groups:
            self.partitions.forget_group(group_id)

    def _too_large(self, session: ShareSession, now: float) -> ShareFetchResponse:
        """End a session with too many partitions."""
        self.sessions.go_on(session.group_id, session.member_id, FINAL_EPOCH)
        self.partitions.release(session)
        self._closed(session)
        self.topics.settle(now)
        return ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def _closed(self, session: ShareSession) -> None:
        """Forget a deleted group at the end of its last session, and another one once the connection has ended."""
        if not self.sessions.has(session.group_id):
            self.partitions.forget_deleted(session.group_id)
            if self.partitions.knows(session.group_id):
                oldest = self.sessions.closed(session)
                if oldest is not None:
                    self.partitions.forget_group(oldest)

    def _dropped(self, place: Place) -> None:
        """Forget a share partition with its state, unless a session of the group goes on."""
        if not self.sessions.has(place.group_id):
            self.partitions.forget(place)

    # Waiting

    def _wake(self, watch: ShareWatch) -> None:
        self._woken[watch] = None
        self.topics.woken[self] = None

    def settle(self, now: float) -> None:
        """Answer the fetches that wait for changed partitions, if there are records for them now; the one that has
        waited longest comes first."""
        woken, self._woken = self._woken, {}
        self._next_turn, room = inf, AT_ONCE
        for parked in sorted((each for watch in woken for each in watch.waiting), key=_number):
            if room > 0:
                room -= self._try_again(parked, now)
            else:
                self._woken[parked.watch] = None
                self._next_turn = now

    def _try_again(self, parked: _Parked, now: float) -> int:
        """Answer a fetch if there are records for it now. Return the work."""
        if self._waiting.get(parked.exchange) is parked:
            try:
                is_ready = parked.watch.is_ready(parked.request.min_bytes, now)
            except Exception as error:
                # Another client's request has changed the log: it must not fail for the fetches that wait.
                self._unpark(parked)
                self.outbox.failed(error, "a parked ShareFetch", exchange=parked.exchange)
            else:
                if is_ready:
                    return self._reply(parked, now)
                self._look_again(parked, now)
        return _LOOK

    def _look_again(self, parked: _Parked, now: float) -> None:
        """Go on with the partitions of a session that were not looked at."""
        if parked.watch.is_behind:
            self._woken[parked.watch] = None
            self._next_turn = now

    def _park(self, parked: _Parked, now: float) -> None:
        parked.watch.mark()
        parked.watch.waiting.append(parked)
        self._waiting[parked.exchange] = parked
        ends = now - self._ahead() + parked.request.max_wait_ms / 1000
        parked.number = next(self._order)
        self._numbered[parked.number] = parked
        self._look_again(parked, now)
        heappush(self._wait_ends, (ends, parked.number))
        if len(self._wait_ends) > 2 * len(self._numbered) + _MOST_GONE:
            self._wait_ends = [each for each in self._wait_ends if each[1] in self._numbered]
            heapify(self._wait_ends)

    def _unpark(self, parked: _Parked) -> None:
        del self._waiting[parked.exchange], self._numbered[parked.number]
        watch = parked.watch
        watch.waiting.remove(parked)
        if watch.is_ended:
            watch.end()

    def _reply(self, parked: _Parked, now: float) -> int:
        """Answer a fetch. Return the work."""
        work = _LOOK + parked.work
        self._unpark(parked)
        try:
            response = self._answer(parked, now)
        except Exception as error:
            self.outbox.failed(error, "a parked ShareFetch", exchange=parked.exchange)
        else:
            self.outbox.reply_at_once(parked.exchange, response)
        return work + parked.passed.count

    # Answers

    @property
    def _group_id_error(self) -> ErrorCode:
        """The error for a request without group id."""
        return ErrorCode.INVALID_REQUEST if self._rules.share_ids_required else ErrorCode.UNKNOWN_SERVER_ERROR

    def _answer(self, parked: _Parked, now: float) -> ShareFetchResponse:
        """Acquire records partition by partition, with an equal part of the bytes for each.

        Each answer begins with another partition. Partitions that have just delivered records come last, after all
        those without a first offset looked up by a fetch yet, as Kafka reads the two apart.
        """
        session, request = parked.session, parked.request
        lock_ms = self.partitions.lock_ms(session.group_id)
        deadline = now + lock_ms / 1000
        reader = Reader(
            session.member_id,
            deadline,
            request.max_records,
            request.batch_size,
            request.share_acquire_mode == WHOLE_BATCHES,
        )
        watch = parked.watch
        spots: Sequence[Spot] = ()
        reads = request.share_session_epoch != FINAL_EPOCH and not request.is_renew_ack
        if reads:
            watch.look(now)
            spots = list(session.topics) if parked.is_first else watch.candidates(request.share_session_epoch)
        answered: dict[Spot, PartitionData] = {}
        known: list[tuple[Spot, PartitionLog, SharePartition]] = []
        fresh: list[tuple[Spot, PartitionLog, SharePartition]] = []
        for spot in spots:
            data = answered[spot] = PartitionData(spot[1])
            if spot in watch.errors:
                data.error_code, data.error_message = watch.errors[spot]
            elif spot in watch.readable:
                log, shared = watch.find(spot)
                (known if shared.looked_up == shared.first_to_fetch() else fresh).append((spot, log, shared))
        if reads:
            watch.mark()
        max_bytes = request.max_bytes if self.room is None else min(request.max_bytes, self.room())
        each_max_bytes = max_bytes // max(1, watch.acquirable)
        for part in (known, fresh):
            first_whole = request.max_bytes > 0
            for spot, log, shared in part:
                if reader.max_records <= 0 or parked.passed.is_enough:
                    break
                data = answered[spot]
                for watcher in shared.watchers:
                    watcher.note(spot)
                data.records, acquired = read(
                    shared,
                    log,
                    reader,
                    max_bytes=each_max_bytes,
                    first_whole=first_whole,
                    committed=self.partitions.reads_committed(session.group_id),
                    passed=parked.passed,
                )
                if acquired:
                    first_whole = False
                    data.acquired_records = [AcquiredRecords(*each) for each in acquired]
                    count = sum(each.last - each.first + 1 for each in acquired)
                    reader = reader._replace(max_records=reader.max_records - count)
                    self.partitions.lock(shared, deadline)
        for spot, data in list(answered.items()):
            if data.acquired_records and not parked.is_first:
                session.put_last(spot)
            if not (parked.is_first or data.error_code or data.acquired_records):
                del answered[spot]
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
        """Return the leader if it is another broker; else zeros, as in Kafka."""
        partition = self.partitions.partition(spot) if error == ErrorCode.NOT_LEADER_OR_FOLLOWER else None
        return LeaderIdAndEpoch() if partition is None else LeaderIdAndEpoch(partition.leader, LEADER_EPOCH)

    def _endpoints(self, leaders: Iterable[LeaderIdAndEpoch]) -> list[NodeEndpoint]:
        ids = {each.leader_id for each in leaders}
        return [NodeEndpoint(*self.topics.nodes[each]) for each in sorted(ids & self.topics.nodes.keys())]
