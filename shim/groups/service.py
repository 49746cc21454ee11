"""The group coordinator of one node: which partitions of `__consumer_offsets` it has, and what follows for a request.

Decides what is refused before any group is looked at: an empty group id (24), a session timeout out of bounds (26), a
partition that is loading (14) or is not here (16). It hands everything else to the rules, and due timers too. Of a kind
of group it knows only which of its requests are refused as invalid before any group is looked at: the kind says why. It
knows no sockets, stores or other nodes.

Source: semantics 2.2, 2.11, 5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_shim.apis.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.delete_groups import DeletableGroupResult
from kafka_shim.apis.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from kafka_shim.apis.describe_groups import DescribedGroup, DescribeGroupsRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_shim.apis.leave_group import error as leave_refused
from kafka_shim.apis.list_groups import ListedGroup, ListGroupsResponse
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_shim.apis.offset_commit import error as commit_refused
from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_shim.apis.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kafka_shim.apis.offset_fetch import group_error as fetch_refused
from kafka_shim.apis.share_group_describe import DescribedGroup as DescribedShareGroup
from kafka_shim.apis.share_group_describe import ShareGroupDescribeRequest
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_shim.apis.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from kafka_shim.apis.streams_group_describe import StreamsGroupDescribeRequest
from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.sync_group import error as sync_refused
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from kafka_shim.apis.txn_offset_commit import complete as with_refused
from kafka_shim.apis.txn_offset_commit import error as txn_commit_refused
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import administration, commits, events, offsets, transactions
from kafka_shim.groups.assignors.registry import Assignors
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.consumer.heartbeat import check_request
from kafka_shim.groups.consumer.heartbeat import refused as consumer_heartbeat_refused
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.counters import Counters
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Client, Parked, TransactionSupportedOperation
from kafka_shim.groups.kinds import KINDS, SIMPLE, Kinds, precreate
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.rows import Row
from kafka_shim.groups.shard import NodeParts, NoTopics, Shard, TopicCatalogue
from kafka_shim.groups.share import offsets as share_offsets
from kafka_shim.groups.share.heartbeat import check_request as check_share_request
from kafka_shim.groups.share.heartbeat import refused as share_heartbeat_refused
from kafka_shim.groups.share.persister import SharePersister
from kafka_shim.groups.share.records import Initialized
from kafka_shim.groups.streams.checks import check_request as check_streams_request
from kafka_shim.groups.streams.heartbeat import Answer as StreamsAnswer
from kafka_shim.groups.streams.heartbeat import refused as streams_heartbeat_refused
from kafka_shim.groups.timers import ShardTimer, Timers
from kafka_shim.persistence.partition import partition_for

_Answer = TypeVar("_Answer")


class WaitingOffsets(NamedTuple):
    """Offsets of a transaction that another process must let in. `refused` is to be in the answer too."""

    exchange: object
    request: TxnOffsetCommitRequest
    refused: Sequence[TxnOffsetCommitResponseTopic]


class TransactionCoordinator(Protocol):
    """What the groups of a node must know of transactions; `shim/broker/transactions.py` has it."""

    def admit_offsets(
        self,
        waiting: WaitingOffsets,
        partition: int,
        now: float,
        supported_operation: TransactionSupportedOperation,
    ) -> int | Parked:
        """The error of offsets of that partition of `__consumer_offsets` in a transaction, 0 for none; PARKED if
        another process must check, after which `GroupService.admitted` is called."""

    def time_out(self, shard: Shard, transactional_id: str, now: float) -> None:
        """A transaction has been open for too long."""

    def expire_ids(self, shard: Shard, now: float) -> None:
        """Forget the transactional ids that nobody has used for long."""


class GroupService:
    """The group coordinator of one node. `now` is monotonic seconds of its clock.

    `new_id` makes the part of a member id that is nobody else's; `locate` says where the coordinator of a key is, as
    `coordinator_of` does. `wall_offset` is what makes Unix time of monotonic seconds. `topics` is what groups
    know of topics; without it there are none. `assignors` are those KIP-848 groups may use, Kafka's own if None;
    `group_settings` has what was set for a single group, by its id. `kinds` are the kinds of groups.
    `share_states` are those of the process, of this node alone if None.
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
        topics: TopicCatalogue | None = None,
        coordinator: TransactionCoordinator | None = None,
        assignors: Assignors | None = None,
        group_settings: Callable[[str], Mapping[str, str]] = lambda group_id: {},
        kinds: Kinds = KINDS,
        share_states: SharePersister | None = None,
    ) -> None:
        self.node_id = node_id
        self.config = config
        self.outbox = outbox
        self.timers = timers
        self.counters = Counters()
        self.shards: dict[int, Shard] = {}
        """Active partitions."""
        self.groups: dict[str, Group] = {}
        """Every group of the active partitions, by id."""
        self.coordinator = coordinator
        """Without one, there are no transactions here."""
        self._loading: set[int] = set()
        self._failed: set[int] = set()
        self._deleted_topics: dict[int, list[str]] = {}
        """Topics that were deleted while a partition was loading, by partition."""
        self._kinds = kinds
        self._locate = locate
        self._parts = NodeParts(
            config,
            outbox,
            timers,
            self.counters,
            NoTopics() if topics is None else topics,
            self.groups,
            kinds.by_record,
            SIMPLE,
            Assignors() if assignors is None else assignors,
            group_settings,
            SharePersister() if share_states is None else share_states,
            new_id,
            wall_offset,
        )

    # Partitions

    def begin_loading(self, partition: int) -> None:
        """The partition is this node's from now on; until it is loaded its groups are answered 14."""
        self._failed.discard(partition)
        self._loading.add(partition)
        self._deleted_topics.pop(partition, None)
        self._trace_partition(partition, "loading")

    def load(self, partition: int, records: Iterable[tuple[Any, Any]], now: float) -> None:
        """Replay a partition's records and begin to coordinate its groups.

        A record that cannot be replayed leaves the partition failed, and is raised.
        """
        self._loading.add(partition)
        shard = Shard(partition, self._parts)
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
            group.activate(now)
        transactions.activate(shard, now)
        offsets.schedule_expiry(shard, now)
        for topic in self._deleted_topics.pop(partition, ()):
            offsets.delete_topic(shard, topic)

    def unload(self, partition: int, now: float) -> None:
        """The partition is this node's no more: parked requests are answered 16, timers cancelled, groups forgotten."""
        self._loading.discard(partition)
        self._failed.discard(partition)
        shard = self.shards.pop(partition, None)
        if shard is not None:
            shard.resign()
            for group in list(shard.groups.values()):
                group.resign()
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
        partition = self.partition_of(group_id)
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

    def ask(self, request: Any, refuse: Callable[[Any, int], Any], *arguments: Any, **flags: Any) -> Any:
        """Hand a request about one group to the rule of its kind; `arguments` and `flags` follow shard and request.

        What is refused before (14, 16, 24) is answered with `refuse(request, code)`.
        """
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return refuse(request, shard)
        rule = self._kinds.rule_for(type(request), shard.groups.get(request.group_id))
        return rule(shard, request, *arguments, **flags)

    def ask_each(
        self,
        request: type,
        group_ids: Sequence[str],
        refuse: Callable[[str, ErrorCode], _Answer],
        *,
        empty_id_allowed: bool = False,
    ) -> list[_Answer]:
        """The answer of a class of request, by which groups are described, for each of several groups.

        What is refused before (14, 16) is `refuse(group_id, code)`. So is an empty group id (24), before all others,
        unless it is allowed.
        """
        rule = self._kinds.rule_for(request)
        answers = []
        if not empty_id_allowed:
            answers = [refuse(each, ErrorCode.INVALID_GROUP_ID) for each in group_ids if not each]
            group_ids = [each for each in group_ids if each]
        for group_id in group_ids:
            shard = self._route(group_id)
            answers.append(refuse(group_id, shard) if isinstance(shard, ErrorCode) else rule(shard, group_id))
        return answers

    def row_of(self, group_id: str, request: Any, *, member_id_required: bool) -> Row | None:
        """The row of a table that decides about a request of a group as things are now, for people to see; None if no
        table does, or it is refused before (14, 16, 24)."""
        shard = self._route_named(group_id)
        if isinstance(shard, ErrorCode):
            return None
        return self._kinds.row_of(request, shard.groups.get(group_id), member_id_required=member_id_required)

    def join(
        self,
        request: JoinGroupRequest,
        client: Client,
        exchange: object,
        now: float,
        *,
        member_id_required: bool,
        skip_assignment_supported: bool,
    ) -> JoinGroupResponse | Parked:
        """`member_id_required`: v4+ (KIP-394); `skip_assignment_supported`: v9+ (KIP-814)."""
        if request.group_id:
            least, most = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
            if not least <= request.session_timeout_ms <= most:
                return join_refused(request, ErrorCode.INVALID_SESSION_TIMEOUT)
        answer: JoinGroupResponse | Parked = self.ask(
            request,
            join_refused,
            client,
            exchange,
            now,
            member_id_required=member_id_required,
            skip_assignment_supported=skip_assignment_supported,
        )
        return answer

    def sync(self, request: SyncGroupRequest, exchange: object, now: float) -> SyncGroupResponse | Parked:
        answer: SyncGroupResponse | Parked = self.ask(request, sync_refused, exchange, now)
        return answer

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now: float) -> int:
        """The error code of the answer, 0 for none."""
        group = self.groups.get(group_id)
        if group is not None and group_id:
            return group.heartbeat(member_id, instance_id, generation_id, now)
        shard = self._route_named(group_id)
        if isinstance(shard, ErrorCode):
            return ErrorCode.NONE if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else shard
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(self, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
        """The members are in `request.members` whatever the version; the answer is in its newest form."""
        answer: LeaveGroupResponse = self.ask(request, leave_refused, now)
        return answer

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        now: float,
        *,
        member_makes_id: bool,
        exchange: object = None,
    ) -> ConsumerGroupHeartbeatResponse | Parked:
        """ConsumerGroupHeartbeat. `member_makes_id`: v1+ (KIP-1082); `exchange` is needed where the outbox offloads."""
        try:
            check_request(request, self._parts.assignors.names, member_makes_id=member_makes_id)
        except Refusal as refusal:
            return consumer_heartbeat_refused(request, refusal.code, refusal.message)
        answer: ConsumerGroupHeartbeatResponse | Parked = self.ask(
            request, consumer_heartbeat_refused, client, exchange, now
        )
        return answer

    def streams_heartbeat(self, request: StreamsGroupHeartbeatRequest, client: Client, now: float) -> StreamsAnswer:
        """StreamsGroupHeartbeat; the caller creates the internal topics that are missing."""
        try:
            check_streams_request(request)
        except Refusal as refusal:
            return streams_heartbeat_refused(request, refusal.code, refusal.message)
        answer: StreamsAnswer = self.ask(request, streams_heartbeat_refused, client, now)
        return answer

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now: float
    ) -> ShareGroupHeartbeatResponse:
        """ShareGroupHeartbeat (KIP-932)."""
        try:
            check_share_request(request)
        except Refusal as refusal:
            return share_heartbeat_refused(request, refusal.code, refusal.message)
        answer: ShareGroupHeartbeatResponse = self.ask(request, share_heartbeat_refused, client, now)
        return answer

    # Administration

    def describe_share_groups(self, group_ids: Sequence[str]) -> list[DescribedShareGroup]:
        """ShareGroupDescribe."""
        return self.ask_each(
            ShareGroupDescribeRequest,
            group_ids,
            lambda group_id, error: DescribedShareGroup(error_code=error, group_id=group_id),
        )

    def shared_topics(self, group_id: str) -> Mapping[bytes, Initialized] | ErrorCode:
        """The topics and partitions in which a share group has a share state; 14 or 16 if it is not known here."""
        shard = self._route(group_id)
        return shard if isinstance(shard, ErrorCode) else share_offsets.initialized(shard, group_id)

    def alter_share_offsets(self, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
        answer: AlterShareGroupOffsetsResponse = self.ask(request, share_offsets.alter_refused)
        return answer

    def delete_share_offsets(self, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
        answer: DeleteShareGroupOffsetsResponse = self.ask(request, share_offsets.delete_refused)
        return answer

    def describe_consumer_groups(self, group_ids: Sequence[str], now: float) -> list[DescribedConsumerGroup]:
        """ConsumerGroupDescribe."""
        return self.ask_each(
            ConsumerGroupDescribeRequest,
            group_ids,
            lambda group_id, error: DescribedConsumerGroup(error_code=error, group_id=group_id),
        )

    def describe_streams_groups(self, group_ids: Sequence[str], now: float) -> list[DescribedStreamsGroup]:
        """StreamsGroupDescribe."""
        return self.ask_each(
            StreamsGroupDescribeRequest,
            group_ids,
            lambda group_id, error: DescribedStreamsGroup(error_code=error, group_id=group_id),
        )

    def describe(self, group_ids: Sequence[str], now: float) -> list[DescribedGroup]:
        return self.ask_each(
            DescribeGroupsRequest,
            group_ids,
            lambda group_id, error: DescribedGroup(error_code=error, group_id=group_id),
            empty_id_allowed=True,
        )

    def delete(self, group_ids: Sequence[str], now: float) -> list[DeletableGroupResult]:
        """A group named twice is deleted once."""
        deleted = []
        for group_id in dict.fromkeys(group_ids):
            shard = self._route(group_id)
            if isinstance(shard, ErrorCode):
                deleted.append(DeletableGroupResult(group_id, shard))
            else:
                deleted.append(administration.delete(shard, group_id))
        return deleted

    def list(self, states: Sequence[str], types: Sequence[str]) -> ListGroupsResponse:
        """While a partition is loading the answer is COORDINATOR_LOAD_IN_PROGRESS (14), without groups."""
        if self._loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        state_filter = {state.strip().lower() for state in states}
        # As Kafka does: blanks around a state are dropped, those around a type are not.
        type_filter = {type_.lower() for type_ in types}
        groups: list[ListedGroup] = []
        for shard in self.shards.values():
            groups.extend(administration.listed(shard, state_filter, type_filter))
        return ListGroupsResponse(groups=groups)

    # Offsets

    def commit(self, request: OffsetCommitRequest, now: float, *, unknown_group_is_69: bool) -> OffsetCommitResponse:
        """Only topics and partitions that exist are in `request`. An empty group id is a legal one here.

        `unknown_group_is_69`: v9+ (else 22).
        """
        shard = self._route(request.group_id)
        if isinstance(shard, ErrorCode):
            return commit_refused(request, shard)
        return commits.commit(shard, request, now, unknown_group_is_69=unknown_group_is_69)

    def repeatable_commit(self, request: OffsetCommitRequest, *, member_epochs: bool = True) -> commits.Commit | None:
        """What `commit_again` can do over again, or None if some of it would be refused. `member_epochs`: v9+."""
        shard = self._route(request.group_id)
        return None if isinstance(shard, ErrorCode) else commits.repeatable(shard, request, member_epochs=member_epochs)

    def commit_again(self, commit: commits.Commit, offsets: Sequence[int], now: float) -> bool:
        """Commit other offsets than the last time. False, and nothing done, if it must be checked like any other."""
        group = self.groups.get(commit.group_id)
        return group is not None and commits.again(self.shards[group.partition], group, commit, offsets, now)

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        refused: Sequence[TxnOffsetCommitResponseTopic],
        exchange: object,
        now: float,
        *,
        supported_operation: TransactionSupportedOperation,
    ) -> TxnOffsetCommitResponse | Parked:
        """Only topics and partitions that exist are in `request`; `refused` is to be in the answer too."""
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return with_refused(txn_commit_refused(request, shard), refused)
        if self.coordinator is None:
            return with_refused(txn_commit_refused(request, ErrorCode.UNSUPPORTED_VERSION), refused)
        error: int | Parked = 0
        if not transactions.is_within(shard, request.producer_id, request.producer_epoch):
            waiting = WaitingOffsets(exchange, request, refused)
            error = self.coordinator.admit_offsets(waiting, shard.partition, now, supported_operation)
        if isinstance(error, Parked):
            return error
        answer = txn_commit_refused(request, error) if error else transactions.commit(shard, request, now)
        return with_refused(answer, refused)

    def admitted(self, waiting: WaitingOffsets, error: int, now: float) -> None:
        """Another process has answered what `commit_in_transaction` waits for: the error, 0 for none."""
        request, refused = waiting.request, waiting.refused
        # Meanwhile the group may have gone elsewhere.
        shard = self._route(request.group_id)
        if isinstance(shard, ErrorCode):
            self.outbox.reply_at_once(waiting.exchange, with_refused(txn_commit_refused(request, shard), refused))
            return
        answer = txn_commit_refused(request, error) if error else transactions.commit(shard, request, now)
        self.outbox.reply(waiting.exchange, with_refused(answer, refused), shard)

    def fetch(self, group: OffsetFetchRequestGroup, *, require_stable: bool, now: float) -> OffsetFetchResponseGroup:
        """An empty group id is a legal one here."""
        shard = self._route(group.group_id)
        if isinstance(shard, ErrorCode):
            return fetch_refused(group, shard)
        return offsets.fetch(shard, group, require_stable=require_stable)

    def delete_offsets(self, request: OffsetDeleteRequest, now: float) -> OffsetDeleteResponse:
        shard = self._route_named(request.group_id)
        if isinstance(shard, ErrorCode):
            return OffsetDeleteResponse(error_code=shard)
        return offsets.delete(shard, request)

    # Topics

    def topic_changed(self, topic: str, now: float) -> None:
        """A topic was created or has grown: every group hears of it."""
        for shard in self.shards.values():
            shard.topic_changed(topic, now)

    def topic_deleted(self, topic: str, now: float) -> None:
        """Every group loses what it committed in the topic (semantics 3.4), and hears that it is gone."""
        for shard in self.shards.values():
            offsets.delete_topic(shard, topic)
        for partition in self._loading:
            self._deleted_topics.setdefault(partition, []).append(topic)
        self.topic_changed(topic, now)

    # Groups made before their first member comes

    def precreate(self, group_id: str, ephemeral: bool, heartbeat_bound_ms: int | None, now: float) -> ErrorCode:
        """Make an Empty group before anybody joins it; Kafka has no such groups.

        An ephemeral one is deleted when its last member is gone. Nobody in it may be silent for longer than the bound.
        Errors: INVALID_GROUP_ID (24), COORDINATOR_NOT_AVAILABLE (15), DUPLICATE_RESOURCE (92).
        """
        shard = self._route_named(group_id)
        if isinstance(shard, ErrorCode):
            return shard if shard is ErrorCode.INVALID_GROUP_ID else ErrorCode.COORDINATOR_NOT_AVAILABLE
        if group_id in shard.groups:
            return ErrorCode.DUPLICATE_RESOURCE
        precreate(shard, group_id, ephemeral, heartbeat_bound_ms, now)
        return ErrorCode.NONE

    def coordinator_of(self, key: str, key_type: Literal[0, 1]) -> tuple[int, int, str, int]:
        """`(error, node_id, host, port)` of the coordinator of a group (0) or a transactional id (1)."""
        return self._locate(key, key_type)

    # Time

    def next_deadline(self) -> float:
        """When to call `fire` next, in monotonic seconds; infinity if nothing is armed."""
        return self.timers.next_deadline()

    def fire(self, now: float) -> None:
        """Run the rule of every timer that is due."""
        while (timer := self.timers.pop(now)) is not None:
            shard = self.shards[timer.partition]
            if self.outbox.tracing:
                events.timer(self.outbox, timer, "fired")
            if timer.kind is ShardTimer.TRANSACTION:
                if self.coordinator is not None:
                    self.coordinator.time_out(shard, timer.group_id, now)
            elif timer.kind is ShardTimer.OFFSET_EXPIRY:
                offsets.expire(shard, now)
                offsets.schedule_expiry(shard, now)
                if self.coordinator is not None:
                    self.coordinator.expire_ids(shard, now)
            else:
                shard.groups[timer.group_id].fire(timer, now)
