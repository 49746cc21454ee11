"""The share partitions of one broker: found by a session, acknowledged, released, and kept until their locks expire.

The rules of a single partition are in `share_partition.py`. Sources: KIP-932; Kafka's `SharePartitionManager` of 4.2
(semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any, Final, NamedTuple

from kafka_shim.apis.releases import Rules
from kafka_shim.apis.share_fetch import AcknowledgementBatch
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.dead_letters import DeadLetters
from kafka_shim.broker.settings import group_value, values_in_force
from kafka_shim.broker.share_batches import Dead
from kafka_shim.broker.share_partition import Acknowledge, Refused, ShareAcknowledgementBatch, SharePartition
from kafka_shim.broker.share_reading import is_search, start_offset
from kafka_shim.broker.share_sessions import ShareSession, Spot
from kafka_shim.broker.topics import Partition, Topics
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.share.persister import Place, SharePersister

_NOT_HERE: Final = "This server does not host this topic-partition."


class PartitionError(NamedTuple):
    """An error of one partition, with Kafka's sentence."""

    code: int
    message: str | None = None


_NO_ERROR: Final = PartitionError(0)


class SharePartitions:
    """All share partitions that one broker has in memory.

    - `persister` has the share states.
    - `epoch_ms` turns seconds of the coordinator's clock, in which locks run, into ms since the epoch.
    """

    def __init__(
        self,
        node_id: int,
        topics: Topics,
        outbox: Outbox,
        persister: SharePersister,
        epoch_ms: Callable[[float], int],
        rules: Rules,
        dead_letters: DeadLetters | None,
    ) -> None:
        self.persister = persister
        self._node_id = node_id
        self._topics = topics
        self._outbox = outbox
        self._epoch_ms = epoch_ms
        self._rules = rules
        self._dead_letters = dead_letters
        self.dead: list[Dead] = []
        """Dead records without a letter yet."""
        self.letters_due = inf
        """The time at which more letters are written."""
        self.may_search = True
        """A group may begin by time in one more partition now; each search for the first record unpacks a batch."""
        self._partitions: dict[str, dict[Spot, SharePartition]] = {}
        self.locks: list[tuple[float, int, SharePartition]] = []
        """A heap of the times at which locks expire: of each share partition the first, or one before it."""
        self._order = count()

    # Partitions

    def partition(self, spot: Spot) -> Partition | None:
        topic = self._topics.with_id(spot[0])
        return None if topic is None else topic.partition(spot[1])

    def find(
        self, session: ShareSession, spot: Spot, limits: dict[str, Any], now: float
    ) -> tuple[Partition | None, SharePartition | PartitionError | None]:
        """Return a partition with its share partition, read from its state if necessary, or with an error; with None if
        a search for its first record has to wait. `limits` are those of the group."""
        partition = self.partition(spot)
        shared = self._known(session, spot)
        if partition is None:
            if shared is not None:
                self._let_go(shared)
            unknown = self._topics.with_id(spot[0]) is None and session.topics.get(spot) is None
            return None, PartitionError(ErrorCode.UNKNOWN_TOPIC_ID if unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.leader != self._node_id:
            if shared is not None:
                self._let_go(shared)
            return partition, PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if shared is None:
            place = Place(session.group_id, *spot)
            state = self.persister.find(place)
            if state is None:
                return partition, PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR)
            reset = self._setting(session.group_id, "share.auto.offset.reset")
            if is_search(state, partition.log, reset):
                if not self.may_search:
                    return partition, None
                self.may_search = False
            shared = self._partitions.setdefault(session.group_id, {})[spot] = SharePartition(
                self.persister,
                place,
                state,
                start_offset(state, partition.log, reset, lambda: self._epoch_ms(now)),
                rules=self._rules,
                **limits,
            )
        else:
            shared.limit(**limits)
        shared.in_flight.truncate(partition.log.start_offset)
        return partition, shared

    def _known(self, session: ShareSession, spot: Spot) -> SharePartition | None:
        """Return the share partition of the session's group, if it is in memory here."""
        shared = self._partitions.get(session.group_id, {}).get(spot)
        return shared if shared is not None and shared.is_current else None

    def _wake(self, shared: SharePartition) -> None:
        """Wake the parked fetches of a share partition: records of it are available again."""
        for watcher in list(shared.watchers):
            watcher.changed(shared.place[1:])

    def _let_go(self, shared: SharePartition) -> None:
        """Forget a share partition; the next request reads its state again."""
        self._wake(shared)
        shared.let_go()
        place = shared.place
        partitions = self._partitions.get(place.group_id, {})
        if partitions.get(place[1:]) is shared:
            del partitions[place[1:]]
        if not partitions:
            self._partitions.pop(place.group_id, None)

    def forget_group(self, group_id: str) -> None:
        """Forget all share partitions of a group without a session here."""
        for shared in list(self._partitions.get(group_id, {}).values()):
            self._let_go(shared)

    def forget(self, place: Place) -> None:
        """Forget the share partition of a state, if it is in memory here."""
        shared = self._partitions.get(place.group_id, {}).get(place[1:])
        if shared is not None:
            self._let_go(shared)

    def forget_deleted(self, group_id: str) -> None:
        """Forget the share partitions of a group whose states are deleted."""
        for shared in list(self._partitions.get(group_id, {}).values()):
            if self.persister.get(shared.place) is None:
                self._let_go(shared)

    def knows(self, group_id: str) -> bool:
        """Return True if a share partition of the group is in memory here."""
        return group_id in self._partitions

    # Settings

    def _setting(self, group_id: str, name: str) -> str:
        settings = self._topics.settings
        own = settings.groups.get(group_id, {})
        # A first fetch asks this for each of its partitions: the group's other values are not looked at.
        value = {name: own[name]} if name in own else {}
        return group_value(name, values_in_force(value, settings, self._rules), settings)

    def limits(self, group_id: str) -> dict[str, Any]:
        """Return the delivery limit of a group, its limit of records in flight, and the list of its dead records."""
        return {
            "most_deliveries": int(self._setting(group_id, "share.delivery.count.limit")),
            "most_in_flight": int(self._setting(group_id, "share.partition.max.record.locks")),
            "dead": self.dead if self._dead_letters is not None and self._dead_letters.has_queue(group_id) else None,
        }

    def lock_ms(self, group_id: str) -> int:
        return int(self._setting(group_id, "share.record.lock.duration.ms"))

    def reads_committed(self, group_id: str) -> bool:
        return self._setting(group_id, "share.isolation.level") == "read_committed"

    # Acknowledgements

    def acknowledge(
        self,
        session: ShareSession,
        batches: Mapping[Spot, Sequence[AcknowledgementBatch]],
        now: float,
        *,
        renews: bool,
        ends: bool,
    ) -> dict[Spot, PartitionError]:
        """Let a member acknowledge records, and release the others if its session ends."""
        limits = self.limits(session.group_id) if batches else {}
        errors = {
            spot: self._acknowledge(session, spot, each, limits, now, renews=renews) for spot, each in batches.items()
        }
        if ends:
            self.release(session)
        self._bury(now)
        return errors

    def _acknowledge(
        self,
        session: ShareSession,
        spot: Spot,
        batches: Sequence[AcknowledgementBatch],
        limits: dict[str, Any],
        now: float,
        *,
        renews: bool,
    ) -> PartitionError:
        if not _is_well_formed(batches, renews=renews):
            return PartitionError(ErrorCode.INVALID_REQUEST)
        partition, shared = self.partition(spot), self._known(session, spot)
        if partition is None:
            unknown = self._topics.with_id(spot[0]) is None
            return PartitionError(ErrorCode.UNKNOWN_TOPIC_ID if unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.leader != self._node_id:
            return PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if shared is None:
            return PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE)
        is_renewal = renews and any(Acknowledge.RENEW in each.acknowledge_types for each in batches)
        if is_renewal and self._setting(session.group_id, "share.renew.acknowledge.enable").lower() == "false":
            return PartitionError(ErrorCode.INVALID_RECORD_STATE)
        shared.limit(**limits)
        shared.in_flight.truncate(partition.log.start_offset)
        deadline = now + self.lock_ms(session.group_id) / 1000
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
            if refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._let_go(shared)
            return PartitionError(refused.error, refused.message)
        if is_renewal:
            self.lock(shared, deadline)
        if released or was_full:
            self._wake(shared)
        return _NO_ERROR

    def release(self, session: ShareSession) -> None:
        """Make the records of a session that has ended available again, in all its partitions."""
        for spot in session.topics:
            shared = self._known(session, spot)
            if shared is None:
                continue
            try:
                if shared.release(session.member_id):
                    self._wake(shared)
            except Refused as refused:
                if refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    self._let_go(shared)

    def _bury(self, now: float) -> None:
        """Write letters about dead records. Those of many are due again at once."""
        if not self.dead or self._dead_letters is None:
            return
        try:
            self._dead_letters.bury(self.dead, now)
        except Exception as error:
            self.dead.clear()
            self._outbox.failed(error, "a dead letter")
        self.letters_due = now if self.dead else inf

    # Locks

    def lock(self, shared: SharePartition, deadline: float) -> None:
        """Note that records of a share partition are locked until `deadline`, unless it is looked at before."""
        if deadline < shared.next_look:
            shared.next_look = deadline
            heappush(self.locks, (deadline, next(self._order), shared))

    def expire(self, now: float) -> None:
        """Release the locks that have expired."""
        while self.locks and self.locks[0][0] <= now:
            deadline, _, partition = heappop(self.locks)
            if not partition.is_current or partition.next_look != deadline:
                continue
            partition.next_look = inf
            try:
                if partition.expire(now):
                    self._wake(partition)
                self.lock(partition, partition.next_deadline)
            except Exception as error:
                self._outbox.failed(error, "the lock of a share partition")
                # Other locks of it may be overdue too: the next request reads its state again.
                self._let_go(partition)
        self._bury(now)


def _is_well_formed(batches: Sequence[AcknowledgementBatch], *, renews: bool) -> bool:
    """Return True if the batches are in order, each with one type for all its offsets or one for each."""
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
