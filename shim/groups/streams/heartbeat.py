"""StreamsGroupHeartbeat: a member joins with its topology, reports the tasks it owns, and hears which to run.

Decides what is refused, when the group epoch grows and a new target assignment is computed, and what the answer says.
Nothing is written before all is decided. Internal topics that are missing are in the result: whoever asked creates
them. What a member may run is in `reconcile.py`, leaving in `leave.py`. After Kafka's `streamsGroupHeartbeat` of 4.2
(semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from kafka_shim.apis.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events as group_events
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.records import erase
from kafka_shim.groups.classic.states import State
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.subscriptions import metadata_hash
from kafka_shim.groups.interface import Client
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.streams import events, records, sessions
from kafka_shim.groups.streams.endpoints import by_endpoint
from kafka_shim.groups.streams.leave import leave
from kafka_shim.groups.streams.live import StreamsGroup
from kafka_shim.groups.streams.member import Member
from kafka_shim.groups.streams.reconcile import FencedError, reconcile
from kafka_shim.groups.streams.records import Record
from kafka_shim.groups.streams.states import FIRST_EPOCH, JOIN, LEAVE, GroupState, MemberState, StatusCode
from kafka_shim.groups.streams.target import Target, compute
from kafka_shim.groups.streams.tasks import NO_TASKS, Tasks, from_ids, in_order
from kafka_shim.groups.streams.topics import ConfiguredTopology, InternalTopic, InvalidTopologyError, configure
from kafka_shim.groups.streams.topology import Topology, value_of

_MISMATCH = "than the one known by the group coordinator"


class Answer(NamedTuple):
    """The answer to a heartbeat, and the internal topics that must be created."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()


def refused(request: StreamsGroupHeartbeatRequest, code: int, message: str | None = None) -> Answer:
    return Answer(StreamsGroupHeartbeatResponse(error_code=code, error_message=message))


def heartbeat(shard: Shard, request: StreamsGroupHeartbeatRequest, client: Client, now: float) -> Answer:
    """The answer to a heartbeat that `checks.check_request` let through.

    Errors: UNKNOWN_SERVER_ERROR (-1), UNKNOWN_MEMBER_ID (25), INVALID_REQUEST (42), GROUP_ID_NOT_FOUND (69),
    GROUP_MAX_SIZE_REACHED (81), FENCED_MEMBER_EPOCH (110), STREAMS_INVALID_TOPOLOGY (130).
    """
    try:
        if request.member_epoch == LEAVE:
            return Answer(leave(shard, request, now))
        return _Heartbeat(shard, request, client, now).answer()
    except Refusal as refusal:
        shard.outbox.touch(shard)
        message = None if refusal.code is ErrorCode.UNKNOWN_SERVER_ERROR else refusal.message
        return refused(request, refusal.code, message)


class _Heartbeat:
    """One heartbeat. `records` grows until it is written. `group` may be new, and is then not in the shard before its
    first record is, as another object: what only memory has begins with the second heartbeat, as in Kafka."""

    def __init__(self, shard: Shard, request: StreamsGroupHeartbeatRequest, client: Client, now: float) -> None:
        self.shard, self.request, self.client, self.now = shard, request, client, now
        self.joins = request.member_epoch == JOIN
        self.records: list[Record] = []
        self.statuses: list[Status] = []
        self.cause: Cause | None = None
        self.target: Target | None = None
        self.replaced_group: ClassicGroup | None = None
        self.group = self._group()

    def answer(self) -> Answer:
        group, request = self.group, self.request
        member = self._member()
        updated = self._updated(member)
        if updated != member:
            self.records.append(records.member_metadata(group.group_id, updated))
            self._bump(Cause.SUBSCRIPTION_CHANGED if member.member_id in group.members else Cause.NEW_MEMBER)
        topology = self._topology()
        if group.topology is not None and updated.topology_epoch < group.topology.epoch:
            self._tell(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {updated.topology_epoch} is behind the group's topology epoch"
                f" {group.topology.epoch}.",
            )
        found_hash, configured = self._configured(topology)
        group_epoch = self._renew_epoch(topology, found_hash, configured)
        is_delayed = self._delays()
        target_epoch, target = self._assign(updated, group_epoch, configured, is_delayed=is_delayed)
        reconciled = self._reconcile(updated, target_epoch, target)
        if request.shutdown_application and group.shutdown_by is None:
            group.shutdown_by = request.member_id
        was_there = group.group_id in self.shard.groups
        shows = self.joins or reconciled.assigned != member.assigned
        if shows and reconciled.user_endpoint is not None:
            group.endpoint_epoch += 1
        if configured.problem is not None:
            self._tell(*configured.problem)
        if group.shutdown_by is not None:
            self._tell(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the"
                " entire application.",
            )
        response = StreamsGroupHeartbeatResponse(
            member_id=reconciled.member_id,
            member_epoch=reconciled.epoch,
            heartbeat_interval_ms=sessions.heartbeat_interval_ms(group),
            status=self.statuses,
            endpoint_information_epoch=group.endpoint_epoch if was_there else 0,
        )
        if shows:
            response.active_tasks = _task_ids(reconciled.assigned.active)
            response.standby_tasks = _task_ids(reconciled.assigned.standby)
            response.warmup_tasks = _task_ids(reconciled.assigned.warmup)
        if group.endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = by_endpoint(group, reconciled, configured)
        self._write(updated, reconciled, delays=is_delayed and not group.is_delayed)
        return Answer(response, configured.missing)

    # Who it is

    def _group(self) -> StreamsGroup:
        """The group, made if a member joins that is not there, also in the place of an Empty classic group."""
        shard, group_id = self.shard, self.request.group_id
        found = shard.groups.get(group_id)
        group: StreamsGroup | None = None
        if isinstance(found, StreamsGroup):
            group = found
        elif found is None:
            if not self.joins:
                raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
            group = StreamsGroup(group_id, shard)
        elif self.joins and isinstance(found, ClassicGroup) and found.state is State.EMPTY:
            self.replaced_group = found
            group = StreamsGroup(group_id, shard)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        most = shard.config.group_streams_max_size
        if self.joins and group.size >= most:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {most} members.",
            )
        return group

    def _member(self) -> Member:
        """The member as it is before this heartbeat. FENCED_MEMBER_EPOCH (110), but for a member that joins again, or
        repeats its last epoch and owns nothing it is not assigned: the answer that brought the new epoch may have got
        lost."""
        request, group = self.request, self.group
        member = group.members.get(request.member_id)
        if self.joins:
            return Member(request.member_id) if member is None else member
        if member is None:
            raise Refusal(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {request.member_id} is not a member of group {group.group_id}."
            )
        epoch = request.member_epoch
        if epoch > member.epoch or (
            epoch < member.epoch and not (epoch == member.previous_epoch and _owns_what_it_has(self._owned(), member))
        ):
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The streams group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch"
                f" ({epoch}) {_MISMATCH} ({member.epoch}). The member must abandon all its partitions and rejoin.",
            )
        return member

    def _updated(self, member: Member) -> Member:
        """The member with what the heartbeat says of it; what it does not say is unchanged."""
        request = self.request
        endpoint, tags = request.user_endpoint, request.client_tags
        timeout = request.rebalance_timeout_ms
        return replace(
            member,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
            topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
            client_id=self.client.client_id,
            client_host=self.client.client_host,
            process_id=member.process_id if request.process_id is None else request.process_id,
            client_tags=member.client_tags if tags is None else tuple(sorted((tag.key, tag.value) for tag in tags)),
            user_endpoint=member.user_endpoint if endpoint is None else (endpoint.host, endpoint.port),
        )

    def _owned(self) -> Tasks | None:
        """What the member says it owns, None if it does not say."""
        request = self.request
        if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
            return None
        return Tasks(from_ids(request.active_tasks), from_ids(request.standby_tasks), from_ids(request.warmup_tasks))

    # What follows

    def _topology(self) -> Topology:
        """The topology of the group: the first that came stays; a member with an older one is let in and told so."""
        group, sent = self.group, self.request.topology
        if sent is None:
            if group.topology is None:
                raise _unexpected("The topology is null and the group topology is also null.")
            return group.topology
        value = value_of(sent)
        try:
            topology = Topology(value)
        except ValueError as error:
            raise _unexpected(str(error)) from error
        if group.topology is None:
            self.records.append(records.topology(group.group_id, value))
            return topology
        if topology.epoch >= group.topology.epoch and topology != group.topology:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return group.topology

    def _configured(self, topology: Topology) -> tuple[int, ConfiguredTopology]:
        """The hash of the topics and what they let the topology be, worked out anew if they may have changed."""
        group, topics = self.group, self.shard.topics
        if group.configured is not None and not group.metadata_stale:
            return group.metadata_hash, group.configured
        found_hash = metadata_hash(topology.required, topics)
        if found_hash != group.metadata_hash:
            self._bump(Cause.TOPIC_METADATA_CHANGED)
        elif group.configured is not None:
            return found_hash, group.configured
        try:
            configured = group.configured = configure(topology, topics.partitions_of)
        except InvalidTopologyError as error:
            raise Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(error)) from error
        except (ValueError, LookupError) as error:
            raise _unexpected(str(error)) from error
        return found_hash, configured

    def _renew_epoch(self, topology: Topology, found_hash: int, configured: ConfiguredTopology) -> int:
        group = self.group
        validated_epoch = -1
        if configured.is_ready:
            validated_epoch = topology.epoch
            self._check_owned(configured)
        if validated_epoch != group.validated_epoch:
            self._bump(Cause.TOPIC_METADATA_CHANGED)
        configs = sessions.assignment_configs(group)
        if configs != group.configs:
            self._bump(Cause.SUBSCRIPTION_CHANGED)
        if self.cause is None:
            return group.group_epoch
        group_epoch = group.group_epoch + 1 if group.group_epoch else FIRST_EPOCH
        self.records.append(records.epoch(group.group_id, group_epoch, found_hash, validated_epoch, configs))
        return group_epoch

    def _check_owned(self, configured: ConfiguredTopology) -> None:
        """INVALID_REQUEST (42) for a task there is not."""
        for tasks in self._owned() or ():
            for subtopology_id, partitions in tasks.items():
                subtopology = (configured.subtopologies or {}).get(subtopology_id)
                if subtopology is None:
                    raise Refusal(
                        ErrorCode.INVALID_REQUEST, f"Subtopology {subtopology_id} does not exist in the topology."
                    )
                for partition in sorted(partitions):
                    if not 0 <= partition < subtopology.tasks:
                        raise Refusal(
                            ErrorCode.INVALID_REQUEST,
                            f"Task {partition} for subtopology {subtopology_id} is invalid. Number of tasks for this"
                            f" subtopology: {subtopology.tasks}",
                        )

    def _delays(self) -> bool:
        """Whether the first assignment waits, or begins to wait, for more members."""
        return self.group.is_delayed or (not self.group.members and sessions.initial_delay_ms(self.group) > 0)

    def _assign(
        self, updated: Member, group_epoch: int, configured: ConfiguredTopology, *, is_delayed: bool
    ) -> tuple[int, Tasks]:
        """The target epoch and the member's target assignment, computed anew if the group epoch is ahead."""
        group = self.group
        if group_epoch <= group.target_epoch:
            return group.target_epoch, group.target_of(updated.member_id)
        if is_delayed:
            self._tell(
                StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
            )
            return max(1, group.target_epoch), NO_TASKS
        self.target = compute(group, updated, configured, group_epoch, sessions.assignment_configs(group))
        self.records += self.target.records
        return group_epoch, self.target.assignments[updated.member_id]

    def _reconcile(self, updated: Member, target_epoch: int, target: Tasks) -> Member:
        try:
            reconciled = reconcile(updated, target_epoch, target, self._owned(), self.group)
        except FencedError as error:
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH, f"{error} The member must abandon all its tasks and rejoin."
            ) from error
        if reconciled == updated:
            return updated
        self.records.append(records.current_assignment(self.group.group_id, reconciled))
        return reconciled

    # Effects

    def _bump(self, cause: Cause) -> None:
        """The group epoch is to grow; the first cause is the one that is shown."""
        self.cause = self.cause or cause

    def _tell(self, status: StatusCode, detail: str) -> None:
        self.statuses.append(Status(status, detail))

    def _write(self, updated: Member, reconciled: Member, *, delays: bool) -> None:
        """Everything is decided: write it, and let timers follow."""
        group, shard, now = self.group, self.shard, self.now
        before = group.state if shard.outbox.listening else GroupState.EMPTY
        is_new_member = reconciled.member_id not in group.members
        if self.replaced_group is not None:
            erase(shard, self.replaced_group)
            if shard.outbox.listening:
                group_events.group(shard.outbox, self.replaced_group, "deleted")
        for key, value in self.records:
            shard.write(key, value)
        if not self.records:
            shard.outbox.touch(shard)
        written = shard.groups[group.group_id]
        assert isinstance(written, StreamsGroup)
        group.metadata_stale = False
        sessions.renew_session(written, reconciled.member_id, now)
        if delays:
            sessions.delay_first_assignment(written, now)
        if self.cause is not None:
            written.began(self.cause, reconciled.member_id)
            shard.counters.rebalances[self.cause] += 1
            shard.counters.streams_rebalances += 1
        if reconciled is not updated:
            if reconciled.state is MemberState.UNREVOKED_TASKS:
                sessions.arm_rebalance(written, reconciled, now)
            else:
                sessions.cancel_rebalance(written, reconciled.member_id)
        if shard.outbox.listening:
            if written is not group:
                group_events.group(shard.outbox, written, "created")
            if is_new_member:
                events.member(written, reconciled, "added")
            if self.cause is not None:
                events.epoch(written)
            if self.target is not None:
                events.target(written, self.target)
            if reconciled is not updated:
                events.reconciliation(written, reconciled)
            events.state(written, before)


def _owns_what_it_has(owned: Tasks | None, member: Member) -> bool:
    """Whether the member says what it owns, and owns nothing it is not assigned."""
    return owned is not None and all(
        subtopology in has and partitions <= set(has[subtopology])
        for tasks, has in zip(owned, member.assigned, strict=True)
        for subtopology, partitions in tasks.items()
    )


def _unexpected(message: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(*each) for each in in_order(tasks)]
