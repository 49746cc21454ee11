"""Wrong rules for mutation tests of streams groups (KIP-1071), as `mutants.py` describes."""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.mutation.mutant import Mutant

_STREAMS: Final = "shim/groups/streams/"
_HEARTBEAT: Final = f"{_STREAMS}heartbeat.py"
_RECONCILE: Final = f"{_STREAMS}reconcile.py"
_CHANGE: Final = f"{_STREAMS}change.py"
_RECORDS: Final = f"{_STREAMS}records.py"
_REVOKING: Final = "shim/groups/epochs/revoking.py"
_TOPOLOGY: Final = f"{_STREAMS}topology.py"
_GROUP: Final = f"{_STREAMS}group.py"
_ASSIGNOR: Final = f"{_STREAMS}assignor.py"

STREAMS_MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "a task is run while another process runs it",
        _RECONCILE,
        "        return holder is None and not",
        "        return not",
        ("streams/share/*",),
    ),
    Mutant(
        "a heartbeat without tasks counts as giving them up",
        _RECORDS,
        "        if owned is None:\n            return True\n",
        "        if owned is None:\n            return False\n",
        ("streams/share/*",),
    ),
    Mutant(
        "tasks are given up before their member says so",
        _RECONCILE,
        "    must_revoke = not revoked.is_empty and member.may_own(owned, revoked)\n",
        "    must_revoke = not revoked.is_empty and epoch < 0\n",
        ("streams/share/*",),
    ),
    Mutant(
        "a streams group begins at epoch 1",
        _CHANGE,
        "        group_epoch = group.group_epoch + 1 if group.group_epoch else FIRST_EPOCH\n",
        "        group_epoch = group.group_epoch + 1\n",
        ("streams/join/*",),
        # Only in the rules of 4.2: later groups have an epoch before the first.
        ("tests/groups/streams/test_releases.py",),
    ),
    Mutant(
        "the first assignment has no initial delay",
        _CHANGE,
        "        is_delayed = group.is_delayed or (not group.members and",
        "        is_delayed = group.is_delayed or (not group.group_id and",
        ("streams/join/*",),
    ),
    Mutant(
        "an epoch of the future is accepted in a streams group",
        _REVOKING,
        "        if epoch == JOIN or epoch == member.epoch:\n",
        "        if epoch == JOIN or member.epoch <= epoch <= member.epoch + 1000:\n",
        ("streams/validate/*",),
    ),
    Mutant(
        "a topology may change at its epoch",
        _CHANGE,
        "        if topology.epoch >= group.topology.epoch and topology != group.topology:\n",
        "        if topology.epoch > group.topology.epoch and topology != group.topology:\n",
        ("streams/topology/*",),
    ),
    Mutant(
        "a stale topology is not in the status",
        _CHANGE,
        "updated.topology_epoch < group.topology.epoch:\n",
        "updated.topology_epoch < 0:\n",
        ("streams/topology/*",),
    ),
    Mutant(
        "missing topics are not in the status",
        _HEARTBEAT,
        "    if configured.problem is not None:\n        change.tell(*configured.problem)\n",
        "",
        ("streams/topics/*",),
    ),
    Mutant(
        "a task that does not exist is accepted",
        _CHANGE,
        "                    if not 0 <= partition < subtopology.tasks:\n",
        "                    if partition < 0:\n",
        ("streams/topics/*",),
    ),
    Mutant(
        "a request to end is not passed on",
        _HEARTBEAT,
        "    if group.shutdown_by is not None:\n",
        "    if group.shutdown_by == group.group_id:\n",
        ("streams/shutdown/*",),
    ),
    Mutant(
        "tasks are assigned while topics are missing",
        _GROUP,
        "        if configured.is_ready:\n",
        "        if configured.subtopologies is not None:\n",
        ("streams/topics/*",),
    ),
    Mutant(
        "changelogs get one partition",
        _TOPOLOGY,
        "        decided |= {topic.name: most for topic in each.state_changelog_topics}\n",
        "        decided |= {topic.name: min(most, 1) for topic in each.state_changelog_topics}\n",
        ("streams/topics/*",),
    ),
    Mutant(
        "internal topics of another number of partitions are used",
        _TOPOLOGY,
        "        elif partitions != internal[name].partitions:\n",
        "        elif partitions < 0:\n",
        ("streams/topics/*",),
        ("tests/groups/streams/test_heartbeat.py",),
    ),
    Mutant(
        "topics that are read together may have other numbers of partitions",
        _TOPOLOGY,
        "    if any(each != first for each in others):\n",
        "    if any(each < 0 for each in others):\n",
        ("streams/topics/*",),
    ),
    Mutant(
        "a streams member may join with tasks",
        _HEARTBEAT,
        "            if owned is None or owned:\n",
        "            if owned is None and not request.member_id:\n",
        ("streams/validate/*",),
    ),
    Mutant(
        "a changelog may have a number of partitions of its own",
        _HEARTBEAT,
        "        for topic in subtopology.state_changelog_topics:\n",
        "        for topic in subtopology.state_changelog_topics[:0]:\n",
        ("streams/validate/*",),
    ),
    Mutant(
        "a late commit of a streams member is refused",
        _GROUP,
        "            if assignment_epoch is None or member_epoch < assignment_epoch:\n",
        "            if assignment_epoch is None or member_epoch <= assignment_epoch:\n",
        ("streams/commit/*",),
    ),
    Mutant(
        "a late commit is accepted of tasks that the member never had",
        _GROUP,
        "            if assignment_epoch is None or member_epoch < assignment_epoch:\n",
        "            if assignment_epoch is not None and member_epoch < assignment_epoch:\n",
        ("streams/commit/*",),
    ),
    Mutant(
        "a leaving streams member makes no epoch",
        _GROUP,
        "        group_epoch = self.group_epoch + 1\n",
        "        group_epoch = self.group_epoch\n",
        ("streams/leave/*",),
    ),
    Mutant(
        "topics that change are not seen by streams groups",
        _GROUP,
        "            self.metadata_stale = True\n",
        "            self.metadata_stale = False\n",
        ("streams/topics/*",),
        ("tests/groups/streams/test_heartbeat.py",),
    ),
    Mutant(
        "a streams group without its topics is Stable",
        _GROUP,
        "        if self.topology is None or self.topology.epoch != self.validated_epoch:\n",
        "        if self.topology is None:\n",
        ("streams/topics/*",),
        ("tests/groups/streams/test_heartbeat.py",),
    ),
    Mutant(
        "one streams member runs every task",
        _ASSIGNOR,
        "            if member_id is None or self.count(member_id) >= self.active_quota.share:\n",
        "            if member_id is None:\n",
        ("streams/share/*",),
    ),
)
