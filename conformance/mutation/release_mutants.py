"""Wrong rules for mutation tests of rules that Kafka 4.3 or 4.4 added, as `mutants.py` describes."""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.mutation.mutant import Mutant

_SETTINGS: Final = "shim/broker/settings.py"
_CONFIGS: Final = "shim/broker/admin/configs.py"
_DEAD_LETTERS: Final = "shim/broker/dead_letters.py"
_SHARE_PARTITION: Final = "shim/broker/share_partition.py"
_STREAMS_GROUP: Final = "shim/groups/streams/group.py"
_DESCRIPTIONS: Final = "shim/groups/streams/descriptions.py"
_STREAMS_HEARTBEAT: Final = "shim/groups/streams/heartbeat.py"
_STREAMS_CHANGE: Final = "shim/groups/streams/change.py"
_REVOKING: Final = "shim/groups/epochs/revoking.py"
_CONSUMER_GROUP: Final = "shim/groups/consumer/group.py"
_EPOCH_GROUP: Final = "shim/groups/epochs/group.py"
_CONVERSION: Final = "shim/groups/consumer/migration/conversion.py"
_CLASSIC_MEMBERS: Final = "shim/groups/consumer/migration/members.py"
_HANDLERS: Final = "shim/server/handlers.py"
_OFFSETS: Final = "shim/groups/offsets.py"
_TRANSACTIONS: Final = "shim/broker/transactions.py"

RELEASE_MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "a running broker takes an assignment interval beyond its bounds",
        _CONFIGS,
        "        if self._rules.dynamic_intervals and (refusal",
        "        if not self._rules.dynamic_intervals and (refusal",
        ("incremental-alter-configs/broker/*",),
    ),
    Mutant(
        "topics have no settings of late remote copies",
        _SETTINGS,
        "    return {name: each for name, each in TOPIC_SETTINGS.items() if each.exists(rules)}\n",
        "    return {name: each for name, each in TOPIC_SETTINGS.items() if not each.rule}\n",
        ("describe-configs/topic/*",),
    ),
    Mutant(
        "a streams group takes an assignor that does not exist",
        _SETTINGS,
        "        if name == TASK_ASSIGNOR and value not in (",
        "        if name == OFFSET_RESET and value not in (",
        ("incremental-alter-configs/group/*",),
    ),
    Mutant(
        "a setting of assignors in threads takes any text",
        _SETTINGS,
        '    return Setting(name, _BOOLEAN, "true", internal=True, rule=_OFFLOAD)\n',
        '    return Setting(name, _STRING, "true", internal=True, rule=_OFFLOAD)\n',
        ("incremental-alter-configs/group/*",),
    ),
    Mutant(
        "a stored setting of a group counts beyond the bounds",
        _SETTINGS,
        "    if not rules.settings_within_bounds:\n",
        "    if rules.settings_within_bounds:\n",
        (),
        ("tests/conformance/test_settings_after_restart.py",),
    ),
    Mutant(
        "settings of cordoned folders exist in every release",
        "shim/broker/unused_settings.py",
        '    (_DYNAMIC_OF_4_3, True, "cordoned_folders"),\n',
        '    (_DYNAMIC_OF_4_3, True, ""),\n',
        (),
        ("tests/conformance/test_settings_of_kafka.py",),
    ),
    Mutant(
        "client tags are not compared with those that the group requires",
        _STREAMS_GROUP,
        "        present = {key for key, _ in member.client_tags}\n",
        "        present = set(required.split(','))\n",
        ("streams/tags/*",),
    ),
    Mutant(
        "other client tags make no epoch",
        _STREAMS_GROUP,
        '            configs["rack.aware.assignment.tags"] = tags\n',
        "            pass\n",
        ("streams/tags/*",),
    ),
    Mutant(
        "a group has no time of its own between two reports of offsets",
        _STREAMS_GROUP,
        "        return self.setting(_TASK_OFFSET_INTERVAL_MS)\n",
        "        return self.shard.config.group_streams_task_offset_interval_ms\n",
        ("streams/offsets/*",),
    ),
    Mutant(
        "a rejected record gets no letter",
        _SHARE_PARTITION,
        'REJECTED if kind is Acknowledge.REJECT else ""',
        'REJECTED if kind is Acknowledge.RENEW else ""',
        ("share/dead/*",),
    ),
    Mutant(
        "a record after its last delivery gets no letter",
        _SHARE_PARTITION,
        "            state, cause = RecordState.ARCHIVED, EXCEEDED\n",
        "            state = RecordState.ARCHIVED\n",
        ("share/dead/*",),
    ),
    Mutant(
        "a letter always has key and value",
        _DEAD_LETTERS,
        'if own.get(COPIES) == "true" else None',
        'if own.get(COPIES) != "" else None',
        ("share/dead/*",),
    ),
    Mutant(
        "any topic may be a dead letter queue",
        _DEAD_LETTERS,
        "        if topic is not None and settings.topic_text(",
        "        if topic is not None and not settings.topic_text(",
        ("share/dead/*",),
    ),
    Mutant(
        "a dead letter queue may have any name",
        _DEAD_LETTERS,
        "        if not name.startswith(prefix := settings.text(PREFIX)):\n",
        "        if not name.startswith(prefix := settings.text(PREFIX)[:0]):\n",
        ("share/dead/*",),
    ),
    Mutant(
        "a downgrade never looks at the assignment that waits",
        _CLASSIC_MEMBERS,
        "    if group.shard.rules.downgrade_checks_assignment:\n",
        "    if not group.shard.rules.downgrade_checks_assignment:\n",
        ("migrate/static/*",),
    ),
    Mutant(
        "a classic member joins again for an epoch without assignment",
        _CONSUMER_GROUP,
        "        return self.target_epoch if self.shard.rules.rejoin_at_assignment_epoch else self.group_epoch\n",
        "        return self.group_epoch\n",
        ("consumer/interval/*",),
    ),
    Mutant(
        "a deleted topic takes the offsets of another topic with its name",
        _OFFSETS,
        "    for_all = not shard.rules.offsets_end_with_topic_id\n",
        "    for_all = shard.rules.offsets_end_with_topic_id\n",
        (),
        ("tests/server/test_newer_releases.py",),
    ),
    Mutant(
        "a standby is given up before its member runs the task",
        _STREAMS_CHANGE,
        "        in_place = self.shard.rules.roles_change_in_place\n",
        "        in_place = not self.shard.rules.roles_change_in_place\n",
        ("streams/roles/*",),
    ),
    Mutant(
        "a full streams group has no place for its own member",
        _REVOKING,
        "        if len(self.members) < most or member_id in self.members:\n",
        "        if len(self.members) < most:\n",
        ("streams/size/*",),
    ),
    Mutant(
        "a full streams group has a place for its own member before 4.4 too",
        _STREAMS_GROUP,
        "        if len(self.members) >= most and not self.shard.rules.static_members_fit_full_groups:\n",
        "        if len(self.members) > most and not self.shard.rules.static_members_fit_full_groups:\n",
        (),
        ("tests/groups/streams/test_releases.py",),
    ),
    Mutant(
        "version 0 of offsets needs no ZooKeeper",
        _HANDLERS,
        "    if call.version == 0 and call.broker.rules.zookeeper_offsets_refused and any(",
        "    if call.version == 0 and not call.broker.rules.zookeeper_offsets_refused and any(",
        (),
        ("tests/server/test_older_releases.py",),
    ),
    Mutant(
        "a converted group waits for the interval",
        _CONVERSION,
        "            records.CLASSES.target_epoch_record(group_id, generation),\n",
        "            (\n                records.CLASSES.target_epoch(group_id),\n"
        "                records.CLASSES.target_epoch_value(generation, 2**50),\n            ),\n",
        ("consumer/interval/*",),
    ),
    Mutant(
        "version 6 of a transaction's offsets has the errors of version 5",
        "shim/groups/transactions.py",
        "    if error is ErrorCode.STALE_MEMBER_EPOCH and not epoch_errors:\n",
        "    if error is ErrorCode.STALE_MEMBER_EPOCH:\n",
        ("txn-commit/epoch/*",),
    ),
    Mutant(
        "a new group begins at epoch 0",
        _EPOCH_GROUP,
        "        self.group_epoch = self.target_epoch = int(shard.rules.first_epoch_two)\n",
        "        self.group_epoch = self.target_epoch = 0\n",
        ("consumer/join/*",),
    ),
    Mutant(
        "a topology description that was requested is not missed",
        _HANDLERS,
        "            status = DescriptionStatus.AVAILABLE if is_stored else DescriptionStatus.NOT_STORED\n",
        "            status = DescriptionStatus.AVAILABLE if is_stored else DescriptionStatus.NOT_REQUESTED\n",
        ("streams/describe/*",),
    ),
    Mutant(
        "every member is asked for its topology",
        _DESCRIPTIONS,
        "        if now < last.end:\n",
        "        if now < 0:\n",
        ("topology-description/store/*",),
    ),
    Mutant(
        "the topology of another epoch may be described",
        _DESCRIPTIONS,
        "        if request.topology_epoch != current:\n",
        "        if request.topology_epoch < current:\n",
        ("topology-description/refused/*",),
    ),
    Mutant(
        "no record says that a description is being stored",
        _STREAMS_GROUP,
        "        for stored in (UNKNOWN_DESCRIPTION, topology_epoch):\n",
        "        for stored in (topology_epoch,):\n",
        (),
        ("tests/groups/streams/test_descriptions.py",),
    ),
    Mutant(
        "offsets of tasks make no candidate for a task",
        "shim/groups/streams/assignor.py",
        "            for task in copies | offsets.keys():\n",
        "            for task in copies:\n",
        ("streams/offsets/*",),
    ),
    Mutant(
        "an abort by the coordinator at the last epoch keeps the producer id",
        _TRANSACTIONS,
        "        producer = self._next(current) if shard.rules.new_id_after_own_abort else (current[0], epoch)\n",
        "        producer = (current[0], epoch)\n",
        (),
        ("tests/broker/test_transactions.py",),
    ),
    Mutant(
        "a producer that was aborted never returns",
        _TRANSACTIONS,
        "        transaction.last_producer = current if may_return else (-1, -1)\n",
        "        transaction.last_producer = (-1, -1)\n",
        ("txn-init/*",),
    ),
    Mutant(
        "who knows the endpoint epoch gets all endpoints again",
        _STREAMS_HEARTBEAT,
        "    if group.endpoint_epoch != request.endpoint_information_epoch:\n",
        "    if group.endpoint_epoch >= request.endpoint_information_epoch:\n",
        ("streams/endpoint/*",),
    ),
    Mutant(
        "other tasks make no endpoint epoch",
        _STREAMS_HEARTBEAT,
        "    tasks_changed = after.assigned != before.assigned\n",
        "    tasks_changed = False\n",
        ("streams/endpoint/*",),
    ),
)
