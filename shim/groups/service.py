"""Group coordinator of one node: its partitions of `__consumer_offsets`, and the path of requests and timers to rules.

Refuses requests with an empty group id (24), and for partitions that are loading (14) or belong to another node (16).
The kind of the group handles everything else.

Source: semantics 2.2, 2.11, 5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

from kafka_shim.apis.delete_groups import DeletableGroupResult
from kafka_shim.apis.list_groups import ListedGroup, ListGroupsResponse
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_shim.apis.offset_commit import error as commit_refused
from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_shim.apis.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kafka_shim.apis.offset_fetch import group_error as fetch_refused
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from kafka_shim.apis.txn_offset_commit import complete as with_refused
from kafka_shim.apis.txn_offset_commit import error as txn_commit_refused
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import commits, events, offsets, transactions
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.interface import Parked, Refusal, Row, TopicRights, TransactionSupportedOperation
from kafka_shim.groups.shard import Kinds, NodeParts, Shard
from kafka_shim.groups.timers import ShardTimer, Timer, TimerFailed
from kafka_shim.persistence.own_types import with_own
from kafka_shim.persistence.partition import partition_for

_Answer = TypeVar("_Answer")

FIRED_AT_ONCE: Final = 10_000
"""Cost after that due timers wait for the next tick; 1 is about a microsecond."""
_ANY_TIMER: Final = 10
_MARKER: Final = 8
"""Cost of one marker of a transaction."""


class WaitingOffsets(NamedTuple):
    """Offsets of a transaction that wait for the check of another process. `refused` belongs into the answer too."""

    exchange: object
    request: TxnOffsetCommitRequest
    refused: Sequence[TxnOffsetCommitResponseTopic]
    epoch_errors: bool


class TransactionCoordinator(Protocol):
    """Transaction coordinator, as far as groups need it; implemented in `shim/broker/transactions.py`."""

    def admit_offsets(
        self,
        waiting: WaitingOffsets,
        partition: int,
        now: float,
        supported_operation: TransactionSupportedOperation,
    ) -> int | Parked:
        """Check offsets in a transaction: return the error, 0 for none.

        PARKED if another process has to check first; it then calls `GroupService.admitted`.
        """

    def time_out(self, shard: Shard, transactional_id: str, now: float) -> None:
        """Abort a transaction that was open for too long."""

    def expire_ids(self, shard: Shard, now: float) -> None:
        """Delete the transactional ids that were unused for long."""


class GroupService:
    """Group coordinator of one node. `now` is monotonic seconds of its clock.

    `kinds` are the kinds of groups. `locate` returns the coordinator of a key, as `coordinator_of` does. Without a
    `coordinator`, transactions are refused.
    """

    def __init__(
        self,
        node_id: int,
        parts: NodeParts,
        kinds: Kinds,
        locate: Callable[[str, Literal[0, 1]], tuple[int, int, str, int]],
        coordinator: TransactionCoordinator | None = None,
    ) -> None:
        self.node_id = node_id
        self.config = parts.config
        self.outbox = parts.outbox
        self.timers = parts.timers
        self.counters = parts.counters
        self.shards: dict[int, Shard] = {}
        """Active partitions."""
        self.groups = parts.groups
        """Every group of the active partitions, by id."""
        self.coordinator = coordinator
        self._loading: set[int] = set()
        self._failed: set[int] = set()
        self._deleted_topics: dict[int, list[tuple[str, bytes]]] = {}
        """Topics deleted while a partition was loading, by partition."""
        self._kinds = kinds
        self._locate = locate
        self._parts = parts

    def configure(self, config: GroupConfig) -> None:
        """Use other values from the next request on; the number of partitions must stay."""
        self.config = config
        self._parts = replace(self._parts, config=config)
        for shard in self.shards.values():
            shard.config = config

    def obey(self, topic_rights: TopicRights) -> None:
        """Let patterns match by these rights; before any partition is loaded."""
        self._parts = replace(self._parts, topic_rights=topic_rights)

    # Partitions

    def begin_loading(self, partition: int) -> None:
        """Mark a partition as loading; requests for its groups are answered 14."""
        self._failed.discard(partition)
        self._loading.add(partition)
        self._deleted_topics.pop(partition, None)
        self._trace_partition(partition, "loading")

    def read(self, records: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
        """Return the records of a store, those that only a kind knows in its own classes."""
        own_types = self._kinds.own_types
        return with_own(records, own_types) if own_types else records

    def load(self, partition: int, records: Iterable[tuple[Any, Any]], now: float) -> None:
        """Replay a partition's records and begin to coordinate its groups.

        If a record cannot be replayed, the partition is marked as failed and the error raised.
        """
        self._loading.add(partition)
        shard = Shard(partition, self._parts, self._kinds)
        try:
            for key, value in self.read(records):
                shard.replay(key, value)
        except Exception:
            for group_id in list(shard.groups):
                shard.drop(group_id)
            self.fail(partition)
            raise
        self._loading.discard(partition)
        self.shards[partition] = shard
        self._trace_partition(partition, "active")
        for group_id, group in list(shard.groups.items()):
            try:
                group.activate(now)
            except Exception as error:
                self.outbox.failed(error, f"taking up group {group_id!r}")
        transactions.activate(shard, now)
        offsets.schedule_expiry(shard, now)
        for topic, topic_id in self._deleted_topics.pop(partition, ()):
            offsets.delete_topic(shard, topic, topic_id)

    def unload(self, partition: int, now: float) -> None:
        """Drop a partition: answer parked requests 16, cancel timers, forget groups."""
        self._loading.discard(partition)
        self._failed.discard(partition)
        shard = self.shards.pop(partition, None)
        if shard is not None:
            shard.resign()
            for group_id, group in list(shard.groups.items()):
                try:
                    group.resign()
                except Exception as error:
                    self.outbox.failed(error, f"giving up group {group_id!r}")
            transactions.resign(shard)
            shard.cancel(shard.expiry_timer)
        self._trace_partition(partition, "unloaded")

    def fail(self, partition: int) -> None:
        """Mark a partition as failed; requests for its groups are answered 16 until it is loaded."""
        self._loading.discard(partition)
        self._failed.add(partition)
        self._trace_partition(partition, "failed")

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` for a group."""
        return partition_for(group_id, self.config.offsets_topic_num_partitions)

    def partitions(self) -> dict[int, str]:
        """Return the loading, active and failed partitions of this node, each with that word."""
        return (
            dict.fromkeys(self._loading, "loading")
            | dict.fromkeys(self._failed, "failed")
            | dict.fromkeys(self.shards, "active")
        )

    def shard_of(self, transactional_id: str) -> Shard | ErrorCode:
        """Return the shard of a transactional id, chosen as for a group id; 14, 15 or 16 if this node has none."""
        return self._route(transactional_id)

    def _route(self, group_id: str) -> Shard | ErrorCode:
        group = self.groups.get(group_id)
        if group is None:
            partition = partition_for(group_id, self.config.offsets_topic_num_partitions)
        else:
            partition = group.partition
        shard = self.shards.get(partition)
        if shard is not None:
            return shard
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    def _route_named(self, group_id: str) -> Shard | ErrorCode:
        if not group_id:
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

    def ask(self, request: Any, refuse: Callable[..., Any], *arguments: Any, **flags: Any) -> Any:
        """Pass a request about one group to the rule of its kind; `arguments` and `flags` follow shard and request.

        `refuse(request, code)` returns the answer for a group that is not here (14, 16, 24); `refuse(request, code,
        message)` the answer for a request that fails the check of its kind.
        """
        kinds = self._kinds
        check = kinds.checks.get(type(request))
        if check is not None:
            try:
                check(request, self._parts)
            except Refusal as refusal:
                if refusal.message is None:
                    return refuse(request, refusal.code)
                return refuse(request, refusal.code, refusal.message)
        group_id = request.group_id
        shard = self._route(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            return refuse(request, shard)
        group = shard.groups.get(group_id)
        rule = kinds.rules[type(request), None if group is None else group.type]
        return rule(shard, request, *arguments, **flags)

    def ask_each(
        self,
        request: type,
        group_ids: Sequence[str],
        refuse: Callable[[str, ErrorCode], _Answer],
        *,
        empty_id_allowed: bool = False,
    ) -> list[_Answer]:
        """Describe several groups by a class of request; return an answer for each.

        `refuse(group_id, code)` returns the answer for a group that is not here (14, 16), and for an empty group id
        (24), before all others, unless it is allowed.
        """
        rule = self._kinds.rules[request, None]
        answers = []
        if not empty_id_allowed:
            answers = [refuse(each, ErrorCode.INVALID_GROUP_ID) for each in group_ids if not each]
            group_ids = [each for each in group_ids if each]
        for group_id in group_ids:
            shard = self._route(group_id)
            answers.append(refuse(group_id, shard) if isinstance(shard, ErrorCode) else rule(shard, group_id))
        return answers

    def row_of(self, group_id: str, request: Any, *, member_id_required: bool) -> Row | None:
        """Return the row of the table that selects the rule for a request now, for display; None if no table does,
        or the request is refused before (14, 16, 24)."""
        shard = self._route_named(group_id)
        if isinstance(shard, ErrorCode):
            return None
        return self._kinds.row_of(request, shard.groups.get(group_id), member_id_required=member_id_required)

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now: float) -> int:
        """Handle a Heartbeat; return the error code of the answer, 0 for none."""
        group = self.groups.get(group_id)
        if group is not None and group_id:
            return group.heartbeat(member_id, instance_id, generation_id, now)
        shard = self._route_named(group_id)
        if isinstance(shard, ErrorCode):
            return ErrorCode.NONE if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else shard
        return ErrorCode.UNKNOWN_MEMBER_ID

    # Administration

    def delete(self, group_ids: Sequence[str], now: float) -> list[DeletableGroupResult]:
        """Delete groups with their offsets; a repeated id is deleted once.

        Errors: 14, 16, NON_EMPTY_GROUP (68), GROUP_ID_NOT_FOUND (69).
        """
        deleted = []
        for group_id in dict.fromkeys(group_ids):
            shard = self._route(group_id)
            error = shard if isinstance(shard, ErrorCode) else _delete(shard, group_id)
            deleted.append(DeletableGroupResult(group_id, error))
        return deleted

    @property
    def is_loading(self) -> bool:
        """Return True while a partition is loading."""
        return bool(self._loading)

    def group_ids(self) -> Sequence[str]:
        """Return the ids of all groups, in the order of `list`."""
        return [group_id for shard in self.shards.values() for group_id in shard.groups]

    def list(
        self, states: Sequence[str], types: Sequence[str], group_ids: Sequence[str] | None = None
    ) -> ListGroupsResponse:
        """List groups: those of `group_ids` that there are, or all; COORDINATOR_LOAD_IN_PROGRESS (14) without groups
        while a partition is loading."""
        if self.is_loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        state_filter = {state.strip().lower() for state in states}
        # As in Kafka, spaces around a state are dropped, but not around a type.
        type_filter = {type_.lower() for type_ in types}
        for shard in self.shards.values():
            shard.outbox.touch(shard)
        ids = self.group_ids() if group_ids is None else group_ids
        return ListGroupsResponse(
            groups=[
                ListedGroup(group.group_id, group.protocol_type or "", group.state, group.type)
                for group in map(self.groups.get, ids)
                if group is not None
                and (not type_filter or group.type in type_filter)
                and (not state_filter or group.state.lower() in state_filter)
            ]
        )

    # Offsets

    def commit(self, request: OffsetCommitRequest, now: float, *, unknown_group_is_69: bool) -> OffsetCommitResponse:
        """Handle an OffsetCommit of existing partitions; an empty group id is valid here.

        `unknown_group_is_69`: v9+ (else 22).
        """
        shard = self._route(request.group_id)
        if isinstance(shard, ErrorCode):
            return commit_refused(request, shard)
        return commits.commit(shard, request, now, unknown_group_is_69=unknown_group_is_69)

    def repeatable_commit(self, request: OffsetCommitRequest, *, member_epochs: bool = True) -> commits.Commit | None:
        """Return a commit for `commit_again`, or None if some of it would be refused. `member_epochs`: v9+."""
        shard = self._route(request.group_id)
        return None if isinstance(shard, ErrorCode) else commits.repeatable(shard, request, member_epochs=member_epochs)

    def commit_again(self, commit: commits.Commit, offsets: Sequence[int], now: float) -> bool:
        """Commit new offsets of an earlier commit. Returns False, with nothing done, if it needs all checks."""
        group = self.groups.get(commit.group_id)
        return group is not None and commits.repeat(self.shards[group.partition], group, commit, offsets, now)

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        refused: Sequence[TxnOffsetCommitResponseTopic],
        exchange: object,
        now: float,
        *,
        supported_operation: TransactionSupportedOperation,
        epoch_errors: bool = False,
    ) -> TxnOffsetCommitResponse | Parked:
        """Handle a TxnOffsetCommit of existing partitions; `refused` belongs into the answer too. `epoch_errors`: see
        `transactions.commit`."""
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return with_refused(txn_commit_refused(request, shard), refused)
        if self.coordinator is None:
            return with_refused(txn_commit_refused(request, ErrorCode.UNSUPPORTED_VERSION), refused)
        error: int | Parked = 0
        if not transactions.is_within(shard, request.producer_id, request.producer_epoch):
            waiting = WaitingOffsets(exchange, request, refused, epoch_errors)
            error = self.coordinator.admit_offsets(waiting, shard.partition, now, supported_operation)
        if isinstance(error, Parked):
            return error
        if error:
            return with_refused(txn_commit_refused(request, error), refused)
        return with_refused(transactions.commit(shard, request, now, epoch_errors=epoch_errors), refused)

    def admitted(self, waiting: WaitingOffsets, error: int, now: float) -> None:
        """Continue a `commit_in_transaction` after the check of another process: `error`, 0 for none."""
        request, refused = waiting.request, waiting.refused
        # The partition may have moved to another node during the check.
        shard = self._route(request.group_id)
        if isinstance(shard, ErrorCode):
            self.outbox.reply_at_once(waiting.exchange, with_refused(txn_commit_refused(request, shard), refused))
            return
        if error:
            answer = txn_commit_refused(request, error)
        else:
            answer = transactions.commit(shard, request, now, epoch_errors=waiting.epoch_errors)
        self.outbox.reply(waiting.exchange, with_refused(answer, refused), shard)

    def fetch(self, group: OffsetFetchRequestGroup, *, require_stable: bool, now: float) -> OffsetFetchResponseGroup:
        """Fetch offsets; an empty group id is valid here."""
        shard = self._route(group.group_id)
        if isinstance(shard, ErrorCode):
            return fetch_refused(group, shard)
        return offsets.fetch(shard, group, require_stable=require_stable)

    def weight_of_offsets(self, requests: Sequence[OffsetFetchRequestGroup]) -> int:
        """Return the number of partitions in the answer for some groups."""
        weight = 0
        for request in requests:
            if request.topics is not None:
                for topic in request.topics:
                    weight += len(topic.partition_indexes)
            elif (group := self.groups.get(request.group_id)) is not None:
                weight += sum(map(len, self.shards[group.partition].offsets.of(request.group_id).values()))
        return weight

    def weight_of(self, group_ids: Sequence[str]) -> int:
        """Return the weight of some groups (`Group.weight`); 0 for one that does not exist."""
        groups, weight = self.groups, 0
        for group_id in group_ids:
            if group_id in groups:
                weight += groups[group_id].weight
        return weight

    def delete_offsets(self, request: OffsetDeleteRequest, now: float) -> OffsetDeleteResponse:
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return OffsetDeleteResponse(error_code=shard)
        return offsets.delete(shard, request)

    # Topics

    def topic_changed(self, topic: str, now: float) -> None:
        """Tell every group about a topic that was created or has grown."""
        for shard in self.shards.values():
            if shard.groups or shard.computations:
                shard.topic_changed(topic, now)

    def topic_deleted(self, topic: str, topic_id: bytes, now: float) -> None:
        """Delete all offsets in a deleted topic (semantics 3.4), and tell every group."""
        for shard in self.shards.values():
            offsets.delete_topic(shard, topic, topic_id)
        for partition in self._loading:
            self._deleted_topics.setdefault(partition, []).append((topic, topic_id))
        self.topic_changed(topic, now)

    # Groups created before their first member

    def precreate(self, group_id: str, ephemeral: bool, heartbeat_bound_ms: int | None, now: float) -> ErrorCode:
        """Create an Empty group before its first member; Kafka has no such groups.

        An ephemeral group is deleted with its last member. The bound limits the session timeouts of its members.
        Errors: INVALID_GROUP_ID (24), COORDINATOR_NOT_AVAILABLE (15), DUPLICATE_RESOURCE (92).
        """
        shard = self._route_named(group_id)
        if isinstance(shard, ErrorCode):
            return shard if shard is ErrorCode.INVALID_GROUP_ID else ErrorCode.COORDINATOR_NOT_AVAILABLE
        if group_id in shard.groups:
            return ErrorCode.DUPLICATE_RESOURCE
        self._kinds.precreate(shard, group_id, ephemeral, heartbeat_bound_ms, now)
        return ErrorCode.NONE

    def coordinator_of(self, key: str, key_type: Literal[0, 1]) -> tuple[int, int, str, int]:
        """Return `(error, node_id, host, port)` of the coordinator of a group (0) or a transactional id (1)."""
        return self._locate(key, key_type)

    # Time

    def next_deadline(self) -> float:
        """Return the time for the next call of `fire`, in monotonic seconds; infinity if no timer is armed."""
        return self.timers.next_deadline()

    def fire(self, now: float) -> None:
        """Run the rules of due timers, the first of them first, until they have cost `FIRED_AT_ONCE`.

        The next call goes on with the others; `next_deadline` is not after `now` as long as there are some. So does the
        call after `TimerFailed`, which it raises.
        """
        # A cost, not a time: a replay of the journal has to fire the same timers.
        rest = FIRED_AT_ONCE
        while rest > 0 and (timer := self.timers.pop(now)) is not None:
            try:
                shard = self.shards[timer.partition]
                if isinstance(timer.kind, ShardTimer):
                    rest -= self._fire(shard, timer, now)
                else:
                    group = shard.groups[timer.group_id]
                    rest -= _ANY_TIMER + group.timer_weight(timer)
                    group.fire(timer, now)
            except Exception as error:
                raise TimerFailed(timer) from error
            if timer.deadline <= now:
                # The rule wants to go on at the next tick.
                return

    def _fire(self, shard: Shard, timer: Timer, now: float) -> int:
        """Run the rule of a timer of a partition; return its cost."""
        cost = _ANY_TIMER
        if timer.kind is ShardTimer.TRANSACTION:
            if self.coordinator is not None:
                cost += _MARKER * len(shard.transactions[timer.group_id].partitions)
                self.coordinator.time_out(shard, timer.group_id, now)
        else:
            cost += min(shard.offsets.count + len(shard.groups) + len(shard.transactions), offsets.LOOKS_AT_ONCE)
            if offsets.expire(shard, now):
                shard.arm(timer, now)
                return cost
            offsets.schedule_expiry(shard, now)
            if self.coordinator is not None:
                self.coordinator.expire_ids(shard, now)
        return cost


def _delete(shard: Shard, group_id: str) -> ErrorCode:
    group = shard.groups.get(group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
    if group is not None and not error:
        offsets.delete_all(shard, group_id)
        group.erase()
        if shard.outbox.listening:
            events.group(shard.outbox, group, "deleted")
    return error
