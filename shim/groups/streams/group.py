"""Streams group (KIP-1071): topology, members, epochs and tasks, built from records, with its timers and flags.

Only `replay` changes the hard state. The group's state and the processes with each task follow from it. `heartbeat.py`
has the rule of a heartbeat. A commit with an older epoch is accepted for tasks that the member had at that epoch
already, so that a rebalance does not lose a commit in flight. After Kafka's `StreamsGroup`, `TargetAssignmentBuilder`
and `EndpointToPartitionsManager` of 4.2 (semantics 3.1 to 3.3, 4.12, 5.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kafka_shim.apis.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition
from kafka_shim.apis.streams_group_topology_description_update import TopologyDescription
from kafka_shim.groups.epochs import events
from kafka_shim.groups.epochs.group import Setting
from kafka_shim.groups.epochs.member import count
from kafka_shim.groups.epochs.records import Record, Target
from kafka_shim.groups.epochs.requests import full
from kafka_shim.groups.epochs.revoking import RevokingGroup
from kafka_shim.groups.group import GroupDescription, Subscription, TopologyNode
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.streams import records
from kafka_shim.groups.streams.assignor import MemberSpec, SubtopologySpec, assign
from kafka_shim.groups.streams.records import (
    NO_OFFSETS,
    NO_TASKS,
    AssignedTasks,
    Member,
    TaskOffsets,
    Tasks,
    each_task,
    in_order,
)
from kafka_shim.groups.streams.states import GroupState, MemberState, TimerKind
from kafka_shim.groups.streams.topology import ConfiguredTopology, Topology
from kafka_shim.groups.timers import NEVER, Timer
from kafka_shim.persistence.records import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTopologyKey,
)
from kafka_shim.trace.causes import Cause

_NUM_STANDBY_REPLICAS: Final = Setting.of("streams", "num.standby.replicas")
_INITIAL_REBALANCE_DELAY_MS: Final = Setting.of("streams", "initial.rebalance.delay.ms")
_TASK_OFFSET_INTERVAL_MS: Final = Setting.of("streams", "task.offset.interval.ms")
_ACCEPTABLE_RECOVERY_LAG: Final = Setting.of("streams", "acceptable.recovery.lag")
NOT_DESCRIBED: Final = (-1, -1)
UNKNOWN_DESCRIPTION: Final = -2
_CLIENT_TAGS: Final = Setting.of("streams", "rack.aware.assignment.tags")


class Solicitation(NamedTuple):
    """A member was told to describe the topology of this epoch (KIP-1331); no other is before `end`."""

    topology_epoch: int
    end: float
    pause_s: float


class StreamsGroup(RevokingGroup[Member, Tasks]):
    """State of a streams group; implements `Group`.

    `validated_epoch` is the epoch of a topology whose topics all exist as required, -1 for none. `configs` are the
    settings of the last assignment. `configured` is the topology with its partition counts, None until it is computed;
    `metadata_stale` is set if its topics may have changed since. `endpoint_epoch` grows when the tasks of a member with
    an endpoint change. `shutdown_by` is the member that requested a shutdown of all. `task_offsets` are the last
    reports of members; no record has them.
    """

    __slots__ = (
        "configs",
        "configured",
        "copies",
        "description",
        "description_epochs",
        "endpoint_epoch",
        "running",
        "shutdown_by",
        "solicitation",
        "task_offsets",
        "topology",
        "validated_epoch",
    )

    type = "streams"
    record_classes = records.CLASSES

    def __init__(self, group_id: str, shard: Shard) -> None:
        super().__init__(group_id, shard)
        self.static_members = {}
        self.validated_epoch = 0
        self.configs: Mapping[str, str] = {}
        self.topology: Topology | None = None
        self.running: dict[tuple[str, int], str] = {}
        """The process that has an active task, or must still revoke it."""
        self.copies: dict[tuple[str, int], list[str]] = {}
        """The processes that have a task as a standby or warm-up, or must still revoke it; one entry per copy."""
        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        self.shutdown_by: str | None = None
        self.task_offsets: dict[str, TaskOffsets] = {}
        self.description_epochs = NOT_DESCRIBED
        """The epochs of the topology description that is kept, and of one that was refused for good."""
        self.description: tuple[int, TopologyDescription] | None = None
        """Topology description and its epoch; no record has it."""
        self.solicitation: Solicitation | None = None

    # Derived state

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return GroupState.NOT_READY
        if self.group_epoch > self.target_epoch:
            return GroupState.ASSIGNING
        return GroupState.STABLE if self.is_reconciled else GroupState.RECONCILING

    @property
    def protocol(self) -> str:
        """The assignor; there is only one."""
        return "sticky"

    def target_of(self, member_id: str) -> Tasks:
        return self.targets.get(member_id, NO_TASKS)

    def active(self, subtopology: str, partition: int) -> str | None:
        """See `reconcile.Owners`."""
        return self.running.get((subtopology, partition))

    def has_copy(self, process_id: str, subtopology: str, partition: int) -> bool:
        """See `reconcile.Owners`."""
        return process_id in self.copies.get((subtopology, partition), ())

    def waits_for(self, member: Member) -> list[str]:
        """Return the members with tasks that this one waits for."""
        if member.state is not MemberState.UNRELEASED_TASKS:
            return []
        missing = set(each_task(self.target_of(member.member_id).active)) - set(each_task(member.assigned.active))
        return sorted(
            other.member_id
            for other in self.members.values()
            if other is not member
            and any(
                not missing.isdisjoint(each_task(tasks.active)) for tasks in (other.assigned, other.pending_revocation)
            )
        )

    def subscription_of(self, member: Member) -> Subscription:
        """Describe the topics of the topology, as those of every member."""
        topics = [] if self.topology is None else sorted(self.topology.by_source)
        return Subscription(topics=topics, generation=member.epoch, rack=member.rack_id)

    def assignment_of(self, member: Member) -> dict[str, list[int]]:
        """Return the member's tasks, by subtopology."""
        standby = {f"{subtopology} standby": each for subtopology, each in in_order(member.assigned.standby)}
        return dict(in_order(member.assigned.active)) | standby

    # Topics, timers, departure

    def assignment_configs(self) -> dict[str, str]:
        """Return the settings of the assignor; a change of them starts a new group epoch."""
        configs = {"num.standby.replicas": str(self.setting(_NUM_STANDBY_REPLICAS))}
        if self.shard.rules.client_tags_required and (tags := self.text(_CLIENT_TAGS)):
            configs["rack.aware.assignment.tags"] = tags
        return configs

    def missing_tags(self, member: Member) -> list[str]:
        """Return the client tags that the group requires and a member lacks."""
        required = self.text(_CLIENT_TAGS)
        if not required:
            return []
        present = {key for key, _ in member.client_tags}
        return [tag for each in required.split(",") if (tag := each.strip()) not in present]

    def topic_changed(self, topic: str, now: float) -> None:
        """Let the next heartbeat check the topics of the topology again."""
        if self.topology is None or topic in self.topology.required:
            self.metadata_stale = True

    @property
    def task_offset_interval_ms(self) -> int:
        """Time between two reports of offsets of tasks."""
        return self.setting(_TASK_OFFSET_INTERVAL_MS)

    @property
    def acceptable_recovery_lag(self) -> int:
        """Records that a copy of a task may lag behind."""
        return self.setting(_ACCEPTABLE_RECOVERY_LAG)

    @property
    def initial_delay_ms(self) -> int:
        """Delay of the first assignment of a group that was empty, since others may join soon; 0 is none."""
        return self.setting(_INITIAL_REBALANCE_DELAY_MS)

    @property
    def is_delayed(self) -> bool:
        """True while the first assignment waits for more members."""
        timer = self.timers.get((TimerKind.INITIAL, ""))
        return timer is not None and timer.deadline != NEVER

    def fire(self, timer: Timer, now: float) -> None:
        if timer.kind is TimerKind.INITIAL:
            self._end_delay(now)
        else:
            super().fire(timer, now)

    def _end_delay(self, now: float) -> None:
        """End the delay of the first assignment. Without a second heartbeat there is no configured topology yet: as in
        Kafka, the next heartbeat computes then.
        """
        if not self.members or self.configured is None or not self.is_target_due(self.group_epoch, now):
            return
        before = self.state
        target = self.compute_target(None, self.configured, self.group_epoch, self.configs)
        for key, value in self.records_of_target(target, now):
            self.shard.write(key, value)
        if self.shard.outbox.listening:
            events.target(self, target)
            events.state(self, before)

    def fence(self, members: Sequence[Member], cause: Cause, change: str, now: float) -> None:
        super().fence(members, cause, change, now)
        if not self.members:
            self.shutdown_by = None

    def records_of_departure(self, members: Sequence[Member]) -> list[Record]:
        group_epoch = self.group_epoch + 1
        return [self._record_of_epoch(group_epoch, self.description_epochs)]

    @property
    def weight(self) -> int:
        topics = 0 if self.topology is None else len(self.topology.required)
        return self.size + topics + sum(count(tasks) for each in self.targets.values() for tasks in each)

    # Topology descriptions

    def describe(self) -> GroupDescription:
        nodes = [] if self.description is None else topology_nodes(self.description[1])
        return replace(super().describe(), topology=nodes)

    def store_description(self, topology_epoch: int, description: TopologyDescription) -> None:
        """Keep a topology description. As in Kafka, a record before says that the stored one is unknown."""
        for stored in (UNKNOWN_DESCRIPTION, topology_epoch):
            self.shard.write(*self._record_of_epoch(self.group_epoch, (stored, self.description_epochs[1])))
        self.description = (topology_epoch, description)
        self.solicitation = None

    @property
    def is_disposable(self) -> bool:
        return super().is_disposable and self.description_epochs[0] == NOT_DESCRIBED[0]

    def let_go(self) -> bool:
        """See `Attached`: forget the topology description."""
        if self.description_epochs[0] == NOT_DESCRIBED[0]:
            return False
        self.shard.write(*self._record_of_epoch(self.group_epoch, (NOT_DESCRIBED[0], self.description_epochs[1])))
        self.description = None
        return True

    def _record_of_epoch(self, group_epoch: int, description_epochs: tuple[int, int]) -> Record:
        return records.epoch(
            self.group_id,
            group_epoch,
            self.metadata_hash,
            self.validated_epoch,
            self.configs,
            description_epochs,
        )

    # Target assignment

    def compute_target(
        self,
        updated: Member | None,
        configured: ConfiguredTopology,
        group_epoch: int,
        configs: Mapping[str, str],
        replaced: Member | None = None,
    ) -> Target[Tasks]:
        """Compute the target assignment with `updated` as one of the members; reconciliation handles present tasks.

        `replaced` is the static member that `updated` replaces. No member gets tasks while topics are missing.
        """
        members, targets = dict(self.members), self.targets
        if replaced is not None and updated is not None:
            del members[replaced.member_id]
            targets = targets | {updated.member_id: self.target_of(replaced.member_id)}
        if updated is not None:
            members[updated.member_id] = updated
        assignments = dict.fromkeys(members, NO_TASKS)
        if configured.is_ready:
            assert configured.subtopologies is not None
            assignments = assign(
                {
                    member_id: MemberSpec(
                        member.process_id,
                        targets.get(member_id, NO_TASKS),
                        self.task_offsets.get(member_id, NO_OFFSETS).offsets,
                    )
                    for member_id, member in members.items()
                },
                {
                    subtopology_id: SubtopologySpec(each.tasks, each.is_stateful)
                    for subtopology_id, each in configured.subtopologies.items()
                },
                int(configs.get("num.standby.replicas", "0")),
            )
        return self.new_target(group_epoch, assignments)

    def check_room(self, member_id: str, instance_id: str | None, most: int) -> None:
        """Refuse a new member of a full group, before Kafka 4.4 its own members too. Raises `Refusal`:
        GROUP_MAX_SIZE_REACHED (81)."""
        if len(self.members) >= most and not self.shard.rules.static_members_fit_full_groups:
            raise full(self.type, most)
        super().check_room(member_id, instance_id, most)

    def inherited_target(self, old_id: str, new_id: str) -> Record:
        classes = self.record_classes
        return classes.target_assignment(self.group_id, new_id), classes.target_value(self.target_of(old_id))

    def by_topic(self, assignment: Tasks | AssignedTasks) -> dict[str, list[int]]:
        """Return the active tasks by subtopology: each of them has one owner."""
        return dict(in_order(assignment.active))

    # Offsets

    def allows_late_commit(self, member_id: str, member_epoch: int, partitions: Iterable[tuple[str, int]]) -> bool:
        """Return True if a commit with an older epoch concerns only tasks that the member was assigned at that epoch or
        before, and still has or must revoke.
        """
        member = self.members.get(member_id)
        if member is None or self.topology is None or member_epoch > member.epoch:
            return False
        for topic, partition in partitions:
            subtopology = self.topology.by_source.get(topic)
            if subtopology is None:
                return False
            has, gives_up = (
                tasks.active.get(subtopology, {}) for tasks in (member.assigned, member.pending_revocation)
            )
            assignment_epoch = has.get(partition, gives_up.get(partition))
            if assignment_epoch is None or member_epoch < assignment_epoch:
                return False
        return True

    def is_subscribed(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.by_source

    # Endpoints for interactive queries

    def endpoints(
        self, updated: Member, configured: ConfiguredTopology, replaced: Member | None = None
    ) -> list[EndpointToPartitions]:
        """Return the address of each member with an endpoint, and the partitions that its tasks read; `updated`, which
        sent the request, is the last. `replaced` is the static member that it replaces."""
        not_others = {updated.member_id, updated.member_id if replaced is None else replaced.member_id}
        others = (member for member in self.members.values() if member.member_id not in not_others)
        return [
            EndpointToPartitions(
                Endpoint(*member.user_endpoint),
                self._partitions_of(member.assigned.active, configured),
                self._partitions_of(member.assigned.standby, configured),
            )
            for member in (*others, updated)
            if member.user_endpoint is not None
        ]

    def _partitions_of(
        self, tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology
    ) -> list[TopicPartition]:
        """Return the existing partitions that tasks read. While source topics are missing there are none: Kafka 4.2
        then answers the heartbeat with UNKNOWN_SERVER_ERROR (-1)."""
        read = []
        for subtopology_id, partitions in in_order(tasks):
            subtopology = (configured.subtopologies or {}).get(subtopology_id)
            if subtopology is None:
                continue
            for topic in (*subtopology.source_topics, *(each.name for each in subtopology.repartition_sources)):
                count = self.shard.topics.partitions_of(topic)
                existing = [partition for partition in partitions if partition < count]
                if existing:
                    read.append(TopicPartition(topic, existing))
        return read

    # Records

    def replay(self, key: Any, value: Any) -> None:
        super().replay(key, value)
        if isinstance(value, StreamsGroupMetadataValue):
            self.validated_epoch = value.validated_topology_epoch
            self.configs = {each.key: each.value for each in value.last_assignment_configs or ()}
            self.description_epochs = (value.stored_description_topology_epoch, value.failed_description_topology_epoch)

    def replay_current(self, member_id: str, value: StreamsGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            self._put((member or Member(member_id)).with_assignment(value))
        elif member is not None:
            self._put(member.without_assignment())

    def replay_other(self, key: Any, value: Any) -> None:
        assert type(key) is StreamsGroupTopologyKey
        self.topology = None if value is None else Topology(value)

    def replay_member(self, member_id: str, value: StreamsGroupMemberMetadataValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            self._put((member or Member(member_id)).with_metadata(value))
        elif member is not None:
            self.check_member_deletion(member)
            self._disown(self.members.pop(member_id))
            self.static_members.pop(member.instance_id or "", None)
            self.task_offsets.pop(member_id, None)

    def tombstones(self) -> list[Record]:
        of_group = self.record_classes.group_tombstones(self.group_id, self.members)
        return [*of_group, (StreamsGroupTopologyKey(self.group_id), None)]

    def _put(self, member: Member) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._disown(old)
            self.static_members.pop(old.instance_id or "", None)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for tasks in (member.assigned, member.pending_revocation):
            self.running |= dict.fromkeys(each_task(tasks.active), member.process_id)
            for task in _copies_of(tasks):
                self.copies.setdefault(task, []).append(member.process_id)

    def _disown(self, member: Member) -> None:
        process_id = member.process_id
        for tasks in (member.assigned, member.pending_revocation):
            for task in each_task(tasks.active):
                # The record of another member, which has the task now, may have come first.
                if self.running.get(task) == process_id:
                    del self.running[task]
            for task in _copies_of(tasks):
                self.copies[task].remove(process_id)
                if not self.copies[task]:
                    del self.copies[task]


def _copies_of(tasks: AssignedTasks) -> Iterable[tuple[str, int]]:
    return (*each_task(tasks.standby), *each_task(tasks.warmup))


NODE_TYPES: Final = {1: "source", 2: "processor", 3: "sink"}


def topology_nodes(description: TopologyDescription) -> list[TopologyNode]:
    """Return the nodes of a topology description, those of global stores last."""
    parts = [(each.subtopology_id, node) for each in description.subtopologies for node in each.nodes]
    parts += [("", node) for each in description.global_stores for node in (each.source, each.processor)]
    return [
        TopologyNode(
            part,
            node.name,
            NODE_TYPES[node.node_type],
            [*node.source_topics, *([] if node.sink_topic is None else [node.sink_topic])],
            node.stores,
            node.successors,
        )
        for part, node in parts
    ]
