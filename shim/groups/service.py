"""The group coordinator of one node: which partitions of `__consumer_offsets` it has, and what follows for a request.

Decides what is refused before any group is looked at: a coordinator that is not running (15), an empty group id (24), a
session timeout out of bounds (26), a partition that is loading (14) or is not here (16). It hands everything else to
the rules, and due timers too. It does not know sockets, stores or other nodes.

Source: semantics 2.2, 2.11, 5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Protocol

from kafka_shim.apis.call import Client, NotAdded, Parked
from kafka_shim.apis.delete_groups import DeletableGroupResult
from kafka_shim.apis.describe_groups import DescribedGroup
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_shim.apis.list_groups import ListedGroup, ListGroupsResponse
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_shim.apis.offset_commit import error as commit_refused
from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_shim.apis.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kafka_shim.apis.offset_fetch import group_error as fetch_refused
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from kafka_shim.apis.txn_offset_commit import complete as with_refused
from kafka_shim.apis.txn_offset_commit import error as txn_commit_refused
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import commits, offsets, trace, transactions
from kafka_shim.groups.classic import describe, lifecycle, rebalance
from kafka_shim.groups.classic.answers import join_refused, sync_refused
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.heartbeat import heartbeat, pending_timeout, session_timeout
from kafka_shim.groups.classic.join import join
from kafka_shim.groups.classic.leave import leave
from kafka_shim.groups.classic.sync import sync, sync_timeout
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.counters import Counters
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer, TimerKind, Timers
from kafka_shim.persistence.partition import partition_for


class TransactionCoordinator(Protocol):
    """What the groups of a node must know of transactions; `shim/broker/transactions.py` has it."""

    def admit_offsets(
        self,
        request: TxnOffsetCommitRequest,
        partition: int,
        now: float,
        not_added: NotAdded,
        told: Callable[[int, float], None],
    ) -> int | Parked:
        """The error of offsets of that partition of `__consumer_offsets` in a transaction, 0 for none; PARKED if
        another process must be asked, which `told(error, now)` is called after."""

    def time_out(self, shard: Shard, transactional_id: str, now: float) -> None:
        """A transaction has been open for too long."""

    def expire_ids(self, shard: Shard, now: float) -> None:
        """Forget the transactional ids that nobody has used for long."""


class GroupService:
    """The group coordinator of one node; implements `kafka_shim.apis.call.Groups`.

    `new_id` makes the part of a member id that is nobody else's; `locate` says where the coordinator of a key is, as
    `Groups.coordinator_of` has it. `wall_offset` is what makes Unix time of monotonic seconds. The service answers 15
    to everything until `running` is set.
    """

    def __init__(
        self,
        node_id: int,
        config: GroupConfig,
        outbox: Outbox,
        timers: Timers,
        new_id: Callable[[], str],
        locate: Callable[[str, Literal[0, 1]], tuple[int, int, str, int]],
        wall_offset: float = 0.0,
    ) -> None:
        self.node_id = node_id
        self.config = config
        self.outbox = outbox
        self.timers = timers
        self.counters = Counters()
        self.running = True
        self.shards: dict[int, Shard] = {}
        """Active partitions."""
        self.groups: dict[str, ClassicGroup] = {}
        """Every group of the active partitions, by id."""
        self.coordinator: TransactionCoordinator | None = None
        """Without one, there are no transactions here."""
        self._loading: set[int] = set()
        self._failed: set[int] = set()
        self._gone: dict[int, list[str]] = {}
        """Topics that were deleted while a partition was loading, by partition."""
        self._new_id = new_id
        self._locate = locate
        self._wall_offset = wall_offset

    # Partitions

    def begin_loading(self, partition: int) -> None:
        """The partition is this node's from now on; until it is loaded its groups are answered 14."""
        self._failed.discard(partition)
        self._loading.add(partition)
        self._gone.pop(partition, None)
        self._trace_partition(partition, "loading")

    def load(self, partition: int, records: Iterable[tuple[Any, Any]], now: float) -> None:
        """Replay a partition's records and begin to coordinate its groups.

        A record that cannot be replayed leaves the partition failed, and is raised.
        """
        self._loading.add(partition)
        shard = Shard(
            partition,
            self.config,
            self.outbox,
            self.timers,
            self.counters,
            self.groups,
            self._new_id,
            self._wall_offset,
        )
        try:
            for key, value in records:
                shard.replay(key, value)
        except Exception:
            for group_id in list(shard.groups):
                shard.drop(group_id)
            self.fail(partition)
            raise
        self._loading.discard(partition)
        self.shards[partition] = shard
        self._trace_partition(partition, "active")
        for group in list(shard.groups.values()):
            lifecycle.activate(shard, group, now)
        transactions.activate(shard, now)
        offsets.schedule_expiry(shard, now)
        for topic in self._gone.pop(partition, ()):
            offsets.delete_topic(shard, topic)

    def unload(self, partition: int, now: float) -> None:
        """The partition is this node's no more: parked requests are answered 16, timers cancelled, groups forgotten."""
        self._loading.discard(partition)
        self._failed.discard(partition)
        shard = self.shards.pop(partition, None)
        if shard is not None:
            # A refusal shows nothing that would have to be durable first.
            shard.batch = 0
            for group in list(shard.groups.values()):
                lifecycle.resign(shard, group)
            transactions.resign(shard)
            shard.cancel(shard.expiry_timer)
        self._trace_partition(partition, "unloaded")

    def fail(self, partition: int) -> None:
        """The partition could not be loaded: its groups are answered 16 until it is loaded anew."""
        self._loading.discard(partition)
        self._failed.add(partition)
        self._trace_partition(partition, "failed")

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` a group lives in."""
        return partition_for(group_id, self.config.offsets_topic_num_partitions)

    def partitions(self) -> dict[int, str]:
        """Loading, active and failed partitions of this node, each with that word."""
        return (
            dict.fromkeys(self._loading, "loading")
            | dict.fromkeys(self._failed, "failed")
            | dict.fromkeys(self.shards, "active")
        )

    def shard_of(self, transactional_id: str) -> Shard | ErrorCode:
        """The shard that keeps a transactional id, which is found as a group is; 14, 15 or 16 if it is not here."""
        return self._route(transactional_id)

    def _route(self, group_id: str) -> Shard | ErrorCode:
        if not self.running:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_of(group_id)
        shard = self.shards.get(partition)
        if shard is not None:
            return shard
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    def _route_named(self, group_id: str) -> Shard | ErrorCode:
        if self.running and not group_id:
            return ErrorCode.INVALID_GROUP_ID
        return self._route(group_id)

    def _trace_partition(self, partition: int, change: str) -> None:
        if self.outbox.listening:
            shard = self.shards.get(partition)
            self.outbox.event(
                "partition",
                partition=partition,
                node=self.node_id,
                change=change,
                groups=0 if shard is None else len(shard.groups),
                unknown_records=0 if shard is None else shard.unknown_records,
            )

    # Members

    def join(
        self,
        request: JoinGroupRequest,
        client: Client,
        token: object,
        now: float,
        *,
        member_id_required: bool,
        skip_assignment_supported: bool,
    ) -> JoinGroupResponse | Parked:
        """See `Groups.join`."""
        if self.running and request.group_id:
            least, most = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
            if not least <= request.session_timeout_ms <= most:
                return join_refused(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return join_refused(shard, request.member_id)
        return join(
            shard,
            request,
            client,
            token,
            now,
            member_id_required=member_id_required,
            skip_assignment_supported=skip_assignment_supported,
        )

    def sync(self, request: SyncGroupRequest, token: object, now: float) -> SyncGroupResponse | Parked:
        """See `Groups.sync`."""
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return sync_refused(shard)
        return sync(shard, request, token, now)

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now: float) -> int:
        """See `Groups.heartbeat`."""
        # The most frequent request by far: the case that nothing is amiss takes no call but the two look-ups.
        group = self.groups.get(group_id)
        if group is not None and generation_id == group.generation:
            member = group.members.get(member_id)
            if member is not None and (instance_id is None or instance_id == member.group_instance_id):
                session = member.session
                deadline = now + member.session_timeout
                if session.queued <= deadline:
                    session.deadline = deadline
                    return group.heartbeat_error
        shard = self._route_named(group_id)
        if isinstance(shard, ErrorCode):
            return ErrorCode.NONE if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else shard
        return heartbeat(shard, group_id, generation_id, member_id, instance_id, now)

    def leave(self, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
        """See `Groups.leave`."""
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return LeaveGroupResponse(error_code=shard)
        return leave(shard, request, now)

    # Administration

    def describe(self, group_ids: Sequence[str], now: float) -> list[DescribedGroup]:
        """See `Groups.describe`. An empty group id is a legal one here."""
        described = []
        for group_id in group_ids:
            shard = self._route(group_id)
            if isinstance(shard, ErrorCode):
                described.append(DescribedGroup(error_code=shard, group_id=group_id))
            else:
                described.append(describe.describe(shard, group_id))
        return described

    def delete(self, group_ids: Sequence[str], now: float) -> list[DeletableGroupResult]:
        """See `Groups.delete`. A group named twice is deleted once."""
        deleted = []
        for group_id in dict.fromkeys(group_ids):
            shard = self._route(group_id)
            if isinstance(shard, ErrorCode):
                deleted.append(DeletableGroupResult(group_id, shard))
            else:
                deleted.append(describe.delete(shard, group_id))
        return deleted

    def list(self, states: Sequence[str], types: Sequence[str]) -> ListGroupsResponse:
        """See `Groups.list`. While a partition is loading the answer is 14, without groups."""
        if not self.running:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {type_.strip().lower() for type_ in types}
        groups: list[ListedGroup] = []
        for shard in self.shards.values():
            groups.extend(describe.listed(shard, wanted_states, wanted_types))
        return ListGroupsResponse(groups=groups)

    # Offsets

    def commit(self, request: OffsetCommitRequest, now: float, *, unknown_group_is_69: bool) -> OffsetCommitResponse:
        """See `Groups.commit`. An empty group id is a legal one here."""
        shard = self._route(request.group_id)
        if isinstance(shard, ErrorCode):
            return commit_refused(request, shard)
        return commits.commit(shard, request, now, unknown_group_is_69=unknown_group_is_69)

    def known_commit(self, request: OffsetCommitRequest) -> commits.Commit | None:
        """What `commit_again` can do over again, or None if some of it would be refused."""
        return commits.known(request, self.config.offset_metadata_max_bytes)

    def commit_again(self, known: commits.Commit, offsets: Sequence[int], now: float) -> bool:
        """Commit other offsets than the last time. False, and nothing done, if it is to be asked as any other."""
        shard = self._route(known.group_id)
        return not isinstance(shard, ErrorCode) and commits.again(shard, known, offsets, now)

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        refused: Sequence[TxnOffsetCommitResponseTopic],
        token: object,
        now: float,
        *,
        not_added: NotAdded,
    ) -> TxnOffsetCommitResponse | Parked:
        """See `Groups.commit_in_transaction`."""
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return with_refused(txn_commit_refused(request, shard), refused)
        if self.coordinator is None:
            return with_refused(txn_commit_refused(request, ErrorCode.UNSUPPORTED_VERSION), refused)
        error: int | Parked = 0
        if not transactions.is_within(shard, request.producer_id, request.producer_epoch):

            def told(error: int, later: float) -> None:
                # Meanwhile the group may have gone elsewhere.
                home = self._route(request.group_id)
                if isinstance(home, ErrorCode):
                    self.outbox.replies.append((token, with_refused(txn_commit_refused(request, home), refused), 0))
                    return
                answer = txn_commit_refused(request, error) if error else transactions.commit(home, request, later)
                self.outbox.reply(token, with_refused(answer, refused), home)

            error = self.coordinator.admit_offsets(request, shard.partition, now, not_added, told)
        if isinstance(error, Parked):
            return error
        answer = txn_commit_refused(request, error) if error else transactions.commit(shard, request, now)
        return with_refused(answer, refused)

    def fetch(self, group: OffsetFetchRequestGroup, *, require_stable: bool, now: float) -> OffsetFetchResponseGroup:
        """See `Groups.fetch`. An empty group id is a legal one here."""
        shard = self._route(group.group_id)
        if isinstance(shard, ErrorCode):
            return fetch_refused(group, shard)
        return offsets.fetch(shard, group, require_stable=require_stable)

    def delete_offsets(self, request: OffsetDeleteRequest, now: float) -> OffsetDeleteResponse:
        """See `Groups.delete_offsets`."""
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return OffsetDeleteResponse(error_code=shard)
        return offsets.delete(shard, request)

    def topic_deleted(self, topic: str) -> None:
        """Every group loses what it committed in the topic (semantics 3.4)."""
        for shard in self.shards.values():
            offsets.delete_topic(shard, topic)
        for partition in self._loading:
            self._gone.setdefault(partition, []).append(topic)

    def coordinator_of(self, key: str, key_type: Literal[0, 1]) -> tuple[int, int, str, int]:
        """See `Groups.coordinator_of`."""
        return self._locate(key, key_type)

    # Time

    def next_deadline(self) -> float:
        """When to call `fire` next, in monotonic seconds; infinity if nothing is armed."""
        return self.timers.next_deadline()

    def fire(self, now: float) -> None:
        """Run the rule of every timer that is due."""
        while (timer := self.timers.pop(now)) is not None:
            shard = self.shards[timer.partition]
            if self.outbox.listening:
                trace.timer(self.outbox, timer, "fired")
            if timer.kind is TimerKind.TRANSACTION:
                if self.coordinator is not None:
                    self.coordinator.time_out(shard, timer.group_id, now)
            else:
                _FIRE[timer.kind](shard, timer, now)
                if timer.kind is TimerKind.OFFSET_EXPIRY and self.coordinator is not None:
                    self.coordinator.expire_ids(shard, now)


def _fire_session(shard: Shard, timer: Timer, now: float) -> None:
    session_timeout(shard, shard.groups[timer.group_id], timer.member_id, now)


def _fire_pending_member(shard: Shard, timer: Timer, now: float) -> None:
    pending_timeout(shard, shard.groups[timer.group_id], timer.member_id, now)


def _fire_join(shard: Shard, timer: Timer, now: float) -> None:
    rebalance.join_timeout(shard, shard.groups[timer.group_id], now)


def _fire_sync(shard: Shard, timer: Timer, now: float) -> None:
    sync_timeout(shard, shard.groups[timer.group_id], now)


def _fire_offset_expiry(shard: Shard, timer: Timer, now: float) -> None:
    offsets.expire(shard, now)
    offsets.schedule_expiry(shard, now)


_FIRE: Final[dict[TimerKind, Callable[[Shard, Timer, float], None]]] = {
    TimerKind.SESSION: _fire_session,
    TimerKind.PENDING_MEMBER: _fire_pending_member,
    TimerKind.JOIN: _fire_join,
    TimerKind.SYNC: _fire_sync,
    TimerKind.OFFSET_EXPIRY: _fire_offset_expiry,
}
