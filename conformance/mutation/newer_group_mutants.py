"""Wrong rules for mutation tests of the groups, offsets and connections of Kafka 4.3 and 4.4: intervals, epochs,
static members, limits by group, topic ids. `release_mutants.py` has the others."""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.mutation.mutant import Mutant

_EPOCH_GROUP: Final = "shim/groups/epochs/group.py"
_CONSUMER_GROUP: Final = "shim/groups/consumer/group.py"
_CONSUMER_HEARTBEAT: Final = "shim/groups/consumer/heartbeat.py"
_CHANGE: Final = "shim/groups/consumer/change.py"
_STREAMS_CHANGE: Final = "shim/groups/streams/change.py"
_SHARE_PARTITIONS: Final = "shim/broker/share_partitions.py"
_BROKER: Final = "shim/broker/broker.py"

NEWER_GROUP_MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "an assignment never waits for the interval",
        _EPOCH_GROUP,
        "        return due_ms is None or self.shard.wall_ms(now) >= due_ms\n",
        "        return True\n",
        ("*/interval/*",),
    ),
    Mutant(
        "an assignment waits for the interval of the broker",
        _EPOCH_GROUP,
        "self.setting(self._assignment_interval_ms)",
        "getattr(self.shard.config, self._assignment_interval_ms.attribute)",
        ("*/interval/*",),
    ),
    Mutant(
        "the last leave keeps the wait for the interval",
        _EPOCH_GROUP,
        "        if len(members) == len(self.members) and shard.rules.reset_of_empty_groups:\n",
        "        if len(members) == len(self.members) and not shard.rules.reset_of_empty_groups:\n",
        ("*/interval/*", "*/record/*"),
    ),
    Mutant(
        "the record of a target assignment has no time",
        _EPOCH_GROUP,
        "        computed_ms = self.shard.wall_ms(now) if self.shard.rules.batched_assignments else NEVER_COMPUTED\n",
        "        computed_ms = NEVER_COMPUTED\n",
        ("*/record/*", "*/interval/*"),
    ),
    Mutant(
        "another preferred assignor makes no epoch",
        _CONSUMER_HEARTBEAT,
        "    return group.shard.assignors.choose(names.elements()) != group.protocol\n",
        "    return False\n",
        ("consumer/assignor/*",),
    ),
    Mutant(
        "partitions that a member keeps get a new epoch",
        _CHANGE,
        "            reconciled = reconciled.with_epochs(updated, target_epoch)\n",
        "            reconciled = reconciled.at_epoch(target_epoch)\n",
        ("consumer-commit/epoch/*", "consumer/record/*"),
    ),
    Mutant(
        "a commit at any older epoch counts",
        _CONSUMER_GROUP,
        "        return all(member.has_since(member_epoch, topic_id(topic) or b",
        "        return all(member.has_since(member.epoch, topic_id(topic) or b",
        ("consumer-commit/epoch/*", "txn-commit/epoch/*"),
    ),
    Mutant(
        "one partition of an older epoch is enough for a commit",
        _CONSUMER_GROUP,
        "        return all(member.has_since(",
        "        return any(member.has_since(",
        ("consumer-commit/epoch/*", "txn-commit/epoch/*"),
    ),
    Mutant(
        "a static member that is away keeps the epochs of its partitions",
        "shim/groups/consumer/member.py",
        "        return away if self.assignment_epochs is None else away.at_epoch(0)\n",
        "        return away\n",
        ("consumer-commit/epoch/*",),
    ),
    Mutant(
        "a member that must revoke partitions is described without them",
        "shim/groups/consumer/kind.py",
        "    if not member.pending_revocation or not group.shard.rules.described_revocations:\n",
        "    if not member.pending_revocation or group.shard.rules.described_revocations:\n",
        ("consumer-describe/*",),
    ),
    Mutant(
        "a full group has no place for a successor",
        "shim/groups/epochs/revoking.py",
        "        if instance_id not in self.static_members or not self.shard.rules.static_members_fit_full_groups:\n",
        "        if instance_id not in self.static_members or self.shard.rules.static_members_fit_full_groups:\n",
        ("consumer/size/*", "migrate/size/*"),
    ),
    Mutant(
        "an instance id that its member gave up stays taken",
        _CONSUMER_GROUP,
        "            if old.instance_id != member.instance_id and self.shard.rules.instance_id_moves:\n",
        "            if old.instance_id != member.instance_id and not self.shard.rules.instance_id_moves:\n",
        ("consumer/instance/*",),
    ),
    Mutant(
        "the record of a commit by name has no topic id",
        "shim/groups/commits.py",
        "        id_of = shard.topics.topic_id if shard.rules.ids_in_commits else None\n",
        "        id_of = None\n",
        ("commit/id/*",),
    ),
    Mutant(
        "the record of a transaction's offset has no topic id",
        "shim/groups/transactions.py",
        "    ids_are_stored = shard.rules.ids_in_transactions\n",
        "    ids_are_stored = False\n",
        ("txn-commit/id/*",),
    ),
    Mutant(
        "a share group makes an epoch for partitions while an assignment waits",
        "shim/groups/share/heartbeat.py",
        "    if group.group_epoch > group.target_epoch and group.shard.rules.initialized_in_waiting_epoch:\n",
        "    if group.group_epoch > group.target_epoch and not group.shard.rules.initialized_in_waiting_epoch:\n",
        ("share/leave/*",),
    ),
    Mutant(
        "added partitions start where the group says",
        "shim/groups/share/group.py",
        "            if topic is not None and self.shard.rules.added_partitions_from_zero:\n",
        "            if topic is not None and not self.shard.rules.added_partitions_from_zero:\n",
        ("share/added/*",),
    ),
    Mutant(
        "a request without share group has another error",
        "shim/broker/share_fetches.py",
        "ErrorCode.INVALID_REQUEST if self._rules.share_ids_required else ErrorCode.UNKNOWN_SERVER_ERROR\n",
        "ErrorCode.UNKNOWN_SERVER_ERROR\n",
        ("share/null/*",),
    ),
    Mutant(
        "a share group has the delivery limit of the broker",
        _SHARE_PARTITIONS,
        '            "most_deliveries": int(self._setting(group_id, "share.delivery.count.limit")),\n',
        '            "most_deliveries": int(self._setting("", "share.delivery.count.limit")),\n',
        ("share/limit/*",),
    ),
    Mutant(
        "a share group has the locks of the broker",
        _SHARE_PARTITIONS,
        '            "most_in_flight": int(self._setting(group_id, "share.partition.max.record.locks")),\n',
        '            "most_in_flight": int(self._setting("", "share.partition.max.record.locks")),\n',
        ("share/limit/*",),
    ),
    Mutant(
        "a group cannot forbid renewals",
        _SHARE_PARTITIONS,
        '"share.renew.acknowledge.enable").lower() == "false":\n',
        '"share.renew.acknowledge.enable").lower() == "":\n',
        ("share/limit/*",),
    ),
    Mutant(
        "a negative state epoch is stored",
        "shim/broker/share_states.py",
        "each.state_epoch < 0 and self._rules.share_state_epochs_checked:\n",
        "each.state_epoch < 0 and not self._rules.share_state_epochs_checked:\n",
        ("share-state/*",),
    ),
    Mutant(
        "a refused acknowledgement has the text of older releases",
        "shim/broker/share_partition.py",
        "        self._fenced = _FENCED if rules.fenced_text_without_group else _FENCED_BEFORE\n",
        "        self._fenced = _FENCED_BEFORE\n",
        ("share/offsets/*",),
    ),
    Mutant(
        "streams groups refuse static members",
        "shim/groups/streams/heartbeat.py",
        "    is_static = request.instance_id is not None and not rules.streams_static_members\n",
        "    is_static = request.instance_id is not None\n",
        ("streams/static/*",),
    ),
    Mutant(
        "every change of a static streams member makes an epoch",
        _STREAMS_CHANGE,
        "            if request.instance_id is None or updated.needs_other_tasks(member):\n",
        "            if True:\n",
        ("streams/static/*",),
    ),
    Mutant(
        "no change of a static streams member makes an epoch",
        _STREAMS_CHANGE,
        "            if request.instance_id is None or updated.needs_other_tasks(member):\n",
        "            if request.instance_id is None:\n",
        ("streams/static/*",),
    ),
    Mutant(
        "the end offsets of tasks are not kept",
        _STREAMS_CHANGE,
        "            end_offsets = _by_task(request.task_end_offsets)\n",
        "            pass\n",
        ("streams/offsets/*",),
    ),
    Mutant(
        "a streams member that joins without endpoint keeps the old one",
        _STREAMS_CHANGE,
        "        if leaves_endpoint and self.shard.rules.endpoint_may_go:\n",
        "        if leaves_endpoint and not self.shard.rules.endpoint_may_go:\n",
        ("streams/endpoint/*",),
    ),
    Mutant(
        "a connection to another broker is accepted",
        _BROKER,
        "            if (request.cluster_id, request.node_id) != (self.topics.cluster_id, self.node_id):\n",
        "            if request.cluster_id != self.topics.cluster_id:\n",
        ("apiversions/place/*",),
    ),
    Mutant(
        "a cluster id without broker is compared",
        _BROKER,
        "            if request.cluster_id is None or request.node_id == -1:\n",
        "            if request.cluster_id is None:\n",
        ("apiversions/place/*",),
    ),
    Mutant(
        "the bounds of a group's setting have no numbers",
        "shim/broker/settings.py",
        "        if (is_low or is_high) and rules.bounds_by_number:\n",
        "        if (is_low or is_high) and not rules.bounds_by_number:\n",
        ("incremental-alter-configs/group/*",),
    ),
    Mutant(
        "a group's setting is described without the broker's",
        "shim/broker/admin/config_values.py",
        "        if not rules.group_synonyms_of_broker:\n",
        "        if rules.group_synonyms_of_broker:\n",
        ("describe-configs/group/*",),
    ),
)
