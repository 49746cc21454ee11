"""Change of a streams group by a heartbeat: topology, group epoch, new target assignment, reconciliation.

Records are written only after all decisions. `heartbeat.py` checks the request and builds the answer; `reconcile.py`
has the rules of a member's tasks. After Kafka's `streamsGroupHeartbeat` of 4.2 (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kafka_shim.apis import streams_group_heartbeat as api
from kafka_shim.apis.streams_group_heartbeat import Status, StatusCode, StreamsGroupHeartbeatRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.epochs.member import JOIN
from kafka_shim.groups.epochs.metadata_hash import metadata_hash
from kafka_shim.groups.epochs.records import Target
from kafka_shim.groups.epochs.requests import not_a_member
from kafka_shim.groups.epochs.revoking import RevokingChange
from kafka_shim.groups.group import CLASSIC
from kafka_shim.groups.interface import Client, Refusal
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.streams import records
from kafka_shim.groups.streams.group import StreamsGroup
from kafka_shim.groups.streams.reconcile import reconcile
from kafka_shim.groups.streams.records import NO_OFFSETS, NO_TASKS, Member, TaskOffsets, Tasks, from_ids
from kafka_shim.groups.streams.states import FIRST_EPOCH, TimerKind
from kafka_shim.groups.streams.topology import ConfiguredTopology, InvalidTopologyError, Topology, configure, value_of
from kafka_shim.trace.causes import Cause


class Change(RevokingChange[StreamsGroup, Member, Tasks]):
    """Change by one heartbeat. A new `group` enters the shard with its first record, as another object: as in Kafka,
    soft state begins with the second heartbeat.

    `member` is the sender before the heartbeat, `updated` after it, `reconciled` after a step towards its target. The
    answer has the `statuses`. `delays`: the first assignment begins to wait for more members.
    """

    configured: ConfiguredTopology
    member: Member
    updated: Member
    reconciled: Member
    delays: bool

    def __init__(self, shard: Shard, request: StreamsGroupHeartbeatRequest, client: Client, now: float) -> None:
        self.shard, self.request, self.client = shard, request, client
        self.joins = request.member_epoch == JOIN
        self.owned = _owned(request)
        self.statuses: list[Status] = []
        super().__init__(self._group(), now)
        present = shard.groups.get(request.group_id)
        if present is not self.group:
            self.replaced_group = present

    def apply(self) -> None:
        """Decide on all changes, and collect their records. Raises `Refusal`, with nothing changed but soft state."""
        group, request = self.group, self.request
        self.member = member = self._member()
        self.updated = updated = self._updated(member)
        if updated is not member:
            self.records.append(records.member_metadata(group.group_id, updated))
            if request.instance_id is None or updated.needs_other_tasks(member):
                self._bump(self._cause_of(member))
        topology = self._topology()
        if group.topology is not None and updated.topology_epoch < group.topology.epoch:
            self.tell(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {updated.topology_epoch} is behind the group's topology epoch"
                f" {group.topology.epoch}.",
            )
        found_hash, self.configured = self._configured(topology)
        group_epoch = self._renew_epoch(topology, found_hash, self.configured)
        is_delayed = group.is_delayed or (not group.members and group.initial_delay_ms > 0)
        self.delays = is_delayed and not group.is_delayed
        if is_delayed and group_epoch > group.target_epoch:
            target_epoch, target = max(1, group.target_epoch), NO_TASKS
            self.tell(
                StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
            )
        else:
            target_epoch, target = self.assign(updated, group_epoch)
            if target_epoch < group_epoch:
                self.tell(
                    StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."
                )
        self.reconciled = self._reconcile(updated, target_epoch, target)

    def tell(self, status: StatusCode, detail: str) -> None:
        """Add a status to the answer."""
        self.statuses.append(Status(status, detail))

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
            group = StreamsGroup(group_id, shard)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        if self.joins:
            group.check_room(self.request.member_id, self.request.instance_id, shard.config.group_streams_max_size)
        return group

    def _cause_of(self, member: Member) -> Cause:
        """Return the cause of a new group epoch after this member joined or changed."""
        if self.replaced_member is not None:
            return Cause.STATIC_REPLACED
        return Cause.SUBSCRIPTION_CHANGED if member.member_id in self.group.members else Cause.NEW_MEMBER

    def _member(self) -> Member:
        """Return the member before this heartbeat: new, existing, or in the place of a static one."""
        request, group = self.request, self.group
        if not self.joins:
            if request.instance_id is not None:
                member = group.holder_of(request.instance_id, request.member_id)
            elif (present := group.members.get(request.member_id)) is not None:
                member = present
            else:
                raise not_a_member(request.member_id, group.group_id)
            group.check_epoch(member, request.member_epoch, self.owned)
            return member
        holder = group.static_member(request.instance_id)
        if holder is None:
            return group.members.get(request.member_id) or Member(request.member_id)
        group.check_released(holder, request.member_id)
        return self.take_place(holder, request.member_id)

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
        for tasks in self.owned or ():
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

    # Assignment

    def last_target(self, updated: Member) -> Tasks:
        return self.group.target_of((self.replaced_member or updated).member_id)

    def compute(self, updated: Member, group_epoch: int) -> Target[Tasks]:
        group = self.group
        configs = group.assignment_configs()
        return group.compute_target(updated, self.configured, group_epoch, configs, self.replaced_member)

    def _reconcile(self, updated: Member, target_epoch: int, target: Tasks) -> Member:
        in_place = self.shard.rules.roles_change_in_place
        reconciled = reconcile(updated, target_epoch, target, self.owned, self.group, in_place=in_place)
        if reconciled == updated:
            return updated
        self.records.append(records.current_assignment(self.group.group_id, reconciled))
        return reconciled

    def write_records(self) -> StreamsGroup:
        written = super().write_records()
        if self.delays:
            written.arm(TimerKind.INITIAL, "", self.now + written.initial_delay_ms / 1000)
        return written

    def _bump(self, cause: Cause) -> None:
        """Let the group epoch grow; the trace has the first cause."""
        self.cause = self.cause or cause


def _owned(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that the member reports, None if it reports none."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(from_ids(request.active_tasks), from_ids(request.standby_tasks), from_ids(request.warmup_tasks))


def _by_task(reported: Iterable[api.TaskOffset]) -> dict[tuple[str, int], int]:
    """Return reported offsets by task. Raises `Refusal`: INVALID_REQUEST (42) if a task is in the list twice."""
    by_task: dict[tuple[str, int], int] = {}
    for each in reported:
        task = each.subtopology_id, each.partition
        if task in by_task:
            raise _invalid(f"Task offsets contain a duplicate entry for subtopology {task[0]} and partition {task[1]}.")
        by_task[task] = each.offset
    return by_task


def _invalid(sentence: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, sentence)


def _unexpected(message: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message)
