"""StreamsGroupHeartbeat: a member joins with its topology, reports its tasks, and receives those to run.

Records are written only after all decisions. The result has the missing internal topics: the caller creates them.
`reconcile.py` has the rules of a member's tasks. After Kafka's `streamsGroupHeartbeat` and
`throwIfStreamsGroupHeartbeatRequestIsInvalid` of 4.2 (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafka_shim.apis import streams_group_heartbeat as api
from kafka_shim.apis.releases import Rules
from kafka_shim.apis.streams_group_heartbeat import (
    Status,
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.epochs.group import TimerKind as SharedTimer
from kafka_shim.groups.epochs.member import JOIN, LEAVE, LEAVE_STATIC
from kafka_shim.groups.epochs.metadata_hash import metadata_hash
from kafka_shim.groups.epochs.records import Record
from kafka_shim.groups.epochs.requests import check_not_blank, find, full, not_a_member, other_epoch
from kafka_shim.groups.epochs.target import Target
from kafka_shim.groups.group import CLASSIC, Group
from kafka_shim.groups.interface import Client, Refusal
from kafka_shim.groups.shard import NodeParts, Shard
from kafka_shim.groups.streams import descriptions, records, static
from kafka_shim.groups.streams.group import StreamsGroup
from kafka_shim.groups.streams.member import NO_OFFSETS, NO_TASKS, Member, TaskOffsets, Tasks, from_ids, in_order
from kafka_shim.groups.streams.reconcile import reconcile
from kafka_shim.groups.streams.states import FIRST_EPOCH, TimerKind
from kafka_shim.groups.streams.topology import (
    ConfiguredTopology,
    InternalTopic,
    InvalidTopologyError,
    Topology,
    configure,
    value_of,
)
from kafka_shim.trace.causes import Cause


class Answer(NamedTuple):
    """The answer to a heartbeat, and the internal topics to create."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()


def refused(request: StreamsGroupHeartbeatRequest, code: int, message: str | None = None) -> Answer:
    return Answer(StreamsGroupHeartbeatResponse(error_code=code, error_message=message))


def check_request(request: StreamsGroupHeartbeatRequest, parts: NodeParts) -> None:
    """Check the request alone, before its group is looked up. Raises `Refusal`: INVALID_REQUEST (42) or
    STREAMS_INVALID_TOPOLOGY (130).
    """
    _check_supported(request, parts.rules)
    check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_not_blank("InstanceId", request.instance_id)
    check_not_blank("RackId", request.rack_id)
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOIN:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for owned, name in zip(tasks, ("ActiveTasks", "StandbyTasks", "WarmupTasks"), strict=True):
            if owned is None or owned:
                raise _invalid(f"{name} must be empty when (re-)joining.")
        if request.topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        _check_changelogs(request.topology)
    elif request.member_epoch == LEAVE_STATIC:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_STATIC:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if any(owned is not None for owned in tasks) and any(owned is None for owned in tasks):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest, rules: Rules) -> None:
    """Refuse features that the release does not support."""
    is_static = request.instance_id is not None and not rules.streams_static_members
    has_offsets = not rules.task_offsets
    unsupported: Sequence[tuple[object, str]] = (
        (is_static, "Static membership is not yet supported."),
        (has_offsets and request.task_offsets is not None, "TaskOffsets are not supported yet."),
        (has_offsets and request.task_end_offsets is not None, "TaskEndOffsets are not supported yet."),
        (has_offsets and request.warmup_tasks, "WarmupTasks are not supported yet."),
        (
            request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies),
            "Regular expressions for source topics are not supported yet.",
        ),
    )
    for is_used, sentence in unsupported:
        if is_used:
            raise _invalid(sentence)


def _check_changelogs(topology: api.Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise Refusal(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to"
                    f" {topic.partitions}.",
                )


def _invalid(sentence: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, sentence)


def heartbeat(
    shard: Shard, request: StreamsGroupHeartbeatRequest, client: Client, now: float, *, describes: bool = False
) -> Answer:
    """Answer a heartbeat that has passed `check_request`. `describes`: v1+, whose answers may ask for a description of
    the topology (KIP-1331).

    Errors: UNKNOWN_SERVER_ERROR (-1), UNKNOWN_MEMBER_ID (25), INVALID_REQUEST (42), GROUP_ID_NOT_FOUND (69),
    GROUP_MAX_SIZE_REACHED (81), FENCED_INSTANCE_ID (82), FENCED_MEMBER_EPOCH (110), UNRELEASED_INSTANCE_ID (111),
    STREAMS_INVALID_TOPOLOGY (130).
    """
    try:
        if request.member_epoch in (LEAVE, LEAVE_STATIC):
            return Answer(_leave(shard, request, now))
        answer = _Heartbeat(shard, request, client, now).answer()
        if describes:
            statuses = {each.status_code for each in answer.response.status or ()}
            required = descriptions.is_required(shard, request.group_id, statuses, now)
            answer.response.topology_description_required = required
        return answer
    except Refusal as refusal:
        shard.outbox.touch(shard)
        message = None if refusal.code is ErrorCode.UNKNOWN_SERVER_ERROR else refusal.message
        return refused(request, refusal.code, message)


def _leave(shard: Shard, request: StreamsGroupHeartbeatRequest, now: float) -> StreamsGroupHeartbeatResponse:
    group, member_id = find(shard, request.group_id, StreamsGroup), request.member_id
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = member_id
    answer = StreamsGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch, status=[])
    if request.instance_id is not None:
        member = static.holder_of(group, member_id, request.instance_id)
        if request.member_epoch == LEAVE_STATIC:
            static.leave_for_a_while(group, member)
            return answer
    elif (present := group.members.get(member_id)) is not None:
        member = present
    else:
        raise not_a_member(member_id, group.group_id)
    group.fence([member], Cause.MEMBER_LEFT, "left", now)
    return answer


class _Heartbeat:
    """One heartbeat. `records` grows until it is written. A new `group` enters the shard with its first record, as
    another object: as in Kafka, soft state begins with the second heartbeat.
    """

    def __init__(self, shard: Shard, request: StreamsGroupHeartbeatRequest, client: Client, now: float) -> None:
        self.shard, self.request, self.client, self.now = shard, request, client, now
        self.joins = request.member_epoch == JOIN
        self.records: list[Record] = []
        self.statuses: list[Status] = []
        self.cause: Cause | None = None
        self.target: Target[Tasks] | None = None
        self.replaced_group: Group | None = None
        self.replaced_member: Member | None = None
        """Static member that this member replaces."""
        self.group = self._group()

    def answer(self) -> Answer:
        group, request = self.group, self.request
        member = self._member()
        updated = self._updated(member)
        if updated is not member:
            self.records.append(records.member_metadata(group.group_id, updated))
            if request.instance_id is None or updated.needs_other_tasks(member):
                self._bump(self._cause_of(member))
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
        if self._moves_endpoint(member, reconciled, shows=shows):
            group.endpoint_epoch += 1
        if configured.problem is not None:
            self._tell(*configured.problem)
        if group.shutdown_by is not None:
            self._tell(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the"
                " entire application.",
            )
        if self.shard.rules.client_tags_required and (tags := group.missing_tags(reconciled)):
            self._tell(
                StatusCode.MISSING_CLIENT_TAGS,
                f"Missing required client tags for rack-aware standby assignment: [{', '.join(tags)}]. Configure them"
                " via 'client.tag.<tagKey>' in your Streams config.",
            )
        response = StreamsGroupHeartbeatResponse(
            member_id=reconciled.member_id,
            member_epoch=reconciled.epoch,
            heartbeat_interval_ms=group.heartbeat_interval_ms,
            status=self.statuses,
            endpoint_information_epoch=group.endpoint_epoch if was_there else 0,
        )
        if self.shard.rules.task_offsets:
            response.task_offset_interval_ms = group.task_offset_interval_ms
            response.acceptable_recovery_lag = group.acceptable_recovery_lag
        if shows:
            response.active_tasks = _task_ids(reconciled.assigned.active)
            response.standby_tasks = _task_ids(reconciled.assigned.standby)
            response.warmup_tasks = _task_ids(reconciled.assigned.warmup)
        if group.endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = group.endpoints(reconciled, configured, self.replaced_member)
        self._write(updated, reconciled, delays=is_delayed and not group.is_delayed)
        return Answer(response, configured.missing)

    # Group and member

    def _group(self) -> StreamsGroup:
        """Return the group; create it if a member joins a missing group or an Empty classic group."""
        shard, group_id = self.shard, self.request.group_id
        existing = shard.groups.get(group_id)
        group: StreamsGroup | None = None
        if isinstance(existing, StreamsGroup):
            group = existing
        elif existing is None:
            if not self.joins:
                raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
            group = StreamsGroup(group_id, shard)
        elif self.joins and existing.type == CLASSIC and existing.state == "Empty":
            self.replaced_group = existing
            group = StreamsGroup(group_id, shard)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        most = shard.config.group_streams_max_size
        if self.joins and group.size >= most and not self._fits(group):
            raise full("streams", most)
        return group

    def _fits(self, group: StreamsGroup) -> bool:
        """Return True if a full group has a place for the sender: it is there, or replaces a static member."""
        if not self.shard.rules.static_members_fit_full_groups:
            return False
        return self.request.member_id in group.members or self.request.instance_id in group.static_members

    def _cause_of(self, member: Member) -> Cause:
        """Return the cause of a new group epoch after this member joined or changed."""
        if self.replaced_member is not None:
            return Cause.STATIC_REPLACED
        return Cause.SUBSCRIPTION_CHANGED if member.member_id in self.group.members else Cause.NEW_MEMBER

    def _moves_endpoint(self, before: Member, after: Member, *, shows: bool) -> bool:
        """Return True if the members have to learn of endpoints or of their tasks again."""
        if not self.shard.rules.endpoint_may_go:
            return shows and after.user_endpoint is not None
        tasks_changed = after.assigned != before.assigned
        return after.user_endpoint != before.user_endpoint or (tasks_changed and after.user_endpoint is not None)

    def _member(self) -> Member:
        """Return the member before this heartbeat. Raises FENCED_MEMBER_EPOCH (110), except for a member that joins
        again, or repeats its last epoch and owns only assigned tasks: it may have lost the answer with the new epoch.
        """
        request, group = self.request, self.group
        member = group.members.get(request.member_id)
        if request.instance_id is not None:
            if self.joins:
                return self._joining_static_member(request.instance_id)
            member = static.holder_of(group, request.member_id, request.instance_id)
        elif self.joins:
            return Member(request.member_id) if member is None else member
        if member is None:
            raise not_a_member(request.member_id, group.group_id)
        epoch = request.member_epoch
        if epoch > member.epoch or (
            epoch < member.epoch and not (epoch == member.previous_epoch and _owns_what_it_has(self._owned(), member))
        ):
            raise other_epoch("streams", epoch, member.epoch)
        return member

    def _joining_static_member(self, instance_id: str) -> Member:
        """Return the member before it joins with an instance id: new, existing, or in the place of another."""
        request, group = self.request, self.group
        holder = group.static_member(instance_id)
        if holder is None:
            return group.members.get(request.member_id) or Member(request.member_id)
        static.check_released(holder, request.member_id, instance_id)
        successor, written = static.succeed(group, holder, request.member_id)
        self.records += written
        self.replaced_member = holder
        return successor

    def _updated(self, member: Member) -> Member:
        """Return the member after the heartbeat."""
        request = self.request
        leaves_endpoint = self.joins and request.user_endpoint is None and member.user_endpoint is not None
        if leaves_endpoint and self.shard.rules.endpoint_may_go:
            member = replace(member, user_endpoint=None)
        endpoint, tags, timeout = request.user_endpoint, request.client_tags, request.rebalance_timeout_ms
        return member.merge(
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=None if timeout == -1 else timeout,
            topology_epoch=None if request.topology is None else request.topology.epoch,
            client_id=self.client.client_id,
            client_host=self.client.client_host,
            process_id=request.process_id,
            client_tags=None if tags is None else tuple(sorted((tag.key, tag.value) for tag in tags)),
            user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        )

    def _owned(self) -> Tasks | None:
        """Return the tasks that the member reports, None if it reports none."""
        request = self.request
        if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
            return None
        return Tasks(from_ids(request.active_tasks), from_ids(request.standby_tasks), from_ids(request.warmup_tasks))

    # Topology and epochs

    def _topology(self) -> Topology:
        """Return the topology of the group: the first one stays; a member with an older one is accepted, and its answer
        says so.
        """
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
        """Return the hash of the topics and the configured topology; compute both again if topics may have changed."""
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
        self._note_offsets()
        if validated_epoch != group.validated_epoch:
            self._bump(Cause.TOPIC_METADATA_CHANGED)
        configs = group.assignment_configs()
        if configs != group.configs:
            self._bump(Cause.SUBSCRIPTION_CHANGED)
        if self.cause is None:
            return group.group_epoch
        group_epoch = group.group_epoch + 1 if group.group_epoch else FIRST_EPOCH
        described = group.description_epochs
        self.records.append(records.epoch(group.group_id, group_epoch, found_hash, validated_epoch, configs, described))
        return group_epoch

    def _note_offsets(self) -> None:
        """Keep the reported offsets of tasks. Raises `Refusal`: INVALID_REQUEST (42) if a task is in a list twice."""
        request = self.request
        if request.task_offsets is None and request.task_end_offsets is None:
            return
        offsets, end_offsets = self.group.task_offsets.get(request.member_id, NO_OFFSETS)
        if request.task_offsets is not None:
            offsets = _by_task(request.task_offsets)
        if request.task_end_offsets is not None:
            end_offsets = _by_task(request.task_end_offsets)
        self.group.task_offsets[request.member_id] = TaskOffsets(offsets, end_offsets)

    def _check_owned(self, configured: ConfiguredTopology) -> None:
        """Refuse unknown tasks with INVALID_REQUEST (42)."""
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
        """True if the first assignment waits, or begins to wait, for more members."""
        return self.group.is_delayed or (not self.group.members and self.group.initial_delay_ms > 0)

    def _assign(
        self, updated: Member, group_epoch: int, configured: ConfiguredTopology, *, is_delayed: bool
    ) -> tuple[int, Tasks]:
        """Return the target epoch and the member's target assignment; compute a new one if the group epoch is ahead."""
        group = self.group
        replaced = self.replaced_member
        last_target = group.target_of(updated.member_id if replaced is None else replaced.member_id)
        if group_epoch <= group.target_epoch:
            return group.target_epoch, last_target
        if is_delayed:
            self._tell(
                StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
            )
            return max(1, group.target_epoch), NO_TASKS
        if not group.is_target_due(group_epoch, self.now):
            self._tell(StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")
            return group.target_epoch, last_target
        configs = group.assignment_configs()
        self.target = group.compute_target(updated, configured, group_epoch, configs, replaced)
        self.records += group.records_of_target(self.target, self.now)
        return group_epoch, self.target.assigned[updated.member_id]

    def _reconcile(self, updated: Member, target_epoch: int, target: Tasks) -> Member:
        in_place = self.shard.rules.roles_change_in_place
        reconciled = reconcile(updated, target_epoch, target, self._owned(), self.group, in_place=in_place)
        if reconciled == updated:
            return updated
        self.records.append(records.current_assignment(self.group.group_id, reconciled))
        return reconciled

    # Effects

    def _bump(self, cause: Cause) -> None:
        """Let the group epoch grow; the trace has the first cause."""
        self.cause = self.cause or cause

    def _tell(self, status: StatusCode, detail: str) -> None:
        self.statuses.append(Status(status, detail))

    def _write(self, updated: Member, reconciled: Member, *, delays: bool) -> None:
        """Write the records, and update timers, counters and trace."""
        group, shard, now = self.group, self.shard, self.now
        before = group.state if shard.outbox.listening else None
        is_new_member = reconciled.member_id not in group.members
        if self.replaced_group is not None:
            self.replaced_group.erase()
            if shard.outbox.listening:
                events.group(shard.outbox, self.replaced_group, "deleted")
        for key, value in self.records:
            shard.write(key, value)
        if not self.records:
            shard.outbox.touch(shard)
        written = shard.groups[group.group_id]
        assert isinstance(written, StreamsGroup)
        group.metadata_stale = False
        if self.replaced_member is not None:
            written.forget_timers(self.replaced_member.member_id)
        written.renew_session(reconciled, now)
        if delays:
            written.arm(TimerKind.INITIAL, "", now + written.initial_delay_ms / 1000)
        if self.cause is not None:
            written.note_new_epoch(self.cause, reconciled.member_id)
            shard.counters.new_epochs[group.type] += 1
        if reconciled is not updated:
            if reconciled.is_revoking:
                written.arm_rebalance(reconciled, now)
            else:
                written.cancel(SharedTimer.REBALANCE, reconciled.member_id)
        if before is not None:
            if written is not group:
                events.group(shard.outbox, written, "created")
            if self.replaced_member is not None:
                written.trace_member(self.replaced_member, "fenced")
                written.trace_member(reconciled, "replaced")
            elif is_new_member:
                written.trace_member(reconciled, "added")
            if self.cause is not None:
                written.trace_epoch(now)
            if self.target is not None:
                written.trace_target(self.target)
            if reconciled is not updated:
                written.trace_reconciliation(
                    reconciled,
                    reconciled.state.name,
                    dict(in_order(reconciled.assigned.active)),
                    dict(in_order(reconciled.pending_revocation.active)),
                    written.waits_for(reconciled),
                )
            written.trace_state(before)


def _by_task(reported: Iterable[api.TaskOffset]) -> dict[tuple[str, int], int]:
    """Return reported offsets by task. Raises `Refusal`: INVALID_REQUEST (42) if a task is in the list twice."""
    by_task: dict[tuple[str, int], int] = {}
    for each in reported:
        task = each.subtopology_id, each.partition
        if task in by_task:
            raise _invalid(f"Task offsets contain a duplicate entry for subtopology {task[0]} and partition {task[1]}.")
        by_task[task] = each.offset
    return by_task


def _owns_what_it_has(owned: Tasks | None, member: Member) -> bool:
    """True if the member reports its tasks, and owns only assigned ones."""
    return owned is not None and all(
        subtopology in has and partitions <= set(has[subtopology])
        for tasks, has in zip(owned, member.assigned, strict=True)
        for subtopology, partitions in tasks.items()
    )


def _unexpected(message: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(*each) for each in in_order(tasks)]
