"""Wrong rules for mutation tests of groups with client-side assignors, an experiment, as `mutants.py` describes.

No release of Kafka has these groups, so the suite has no cases for them: the tests of their rules must fail.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.mutation.mutant import Mutant

_FOLDER: Final = "shim/experiments/client_assignors/"
_CHOICE: Final = f"{_FOLDER}choice.py"
_DELEGATION: Final = f"{_FOLDER}delegation.py"
_HEARTBEAT: Final = f"{_FOLDER}heartbeat.py"
_INSTALL: Final = f"{_FOLDER}install.py"
_TESTS: Final = (
    "tests/experiments/client_assignors/test_computing.py",
    "tests/experiments/client_assignors/test_machine.py",
    "tests/groups/exhaustive/test_exhaustive.py",
)


def _mutant(name: str, file: str, before: str, after: str) -> Mutant:
    return Mutant(name, file, before, after, (), _TESTS)


CLIENT_ASSIGNOR_MUTANTS: Final[tuple[Mutant, ...]] = (
    _mutant(
        "an assignor computes that some members do not have",
        _CHOICE,
        "set.intersection(*shared)",
        "set.union(*shared)",
    ),
    _mutant(
        "an assignor computes with metadata that it does not read",
        _CHOICE,
        "        if assignor.minimum_version <= min(versions) and max(versions) <= assignor.maximum_version\n",
        "        if assignor.minimum_version <= min(versions)\n",
    ),
    _mutant(
        "each member votes for its worst assignor",
        _CHOICE,
        "next(each.name for each in assignors_of(member) if",
        "next(each.name for each in reversed(assignors_of(member)) if",
    ),
    _mutant(
        "two members compute at a time",
        _DELEGATION,
        "        return delegation.member_id == member.member_id\n",
        "        return True\n",
    ),
    _mutant(
        "a member computes when there is nothing to compute",
        _DELEGATION,
        "    if assignor is None or group.group_epoch <= group.target_epoch:\n",
        "    if assignor is None:\n",
    ),
    _mutant(
        "a member that is too slow is asked again at once",
        _DELEGATION,
        "        group.passed_over.add(delegation.member_id)\n",
        "",
    ),
    _mutant(
        "no member is asked once all were too slow",
        _DELEGATION,
        "        group.passed_over.clear()\n",
        "        pass\n",
    ),
    _mutant(
        "a group waits for a former member",
        _DELEGATION,
        "    if delegation.member_id not in group.members:\n",
        "    if not group.members:\n",
    ),
    _mutant(
        "a computation goes on although the coordinator has done it",
        _DELEGATION,
        "    elif delegation.group_epoch <= group.target_epoch:\n",
        "    elif delegation.group_epoch < 0:\n",
    ),
    _mutant(
        "a member computes for as long as it likes",
        _DELEGATION,
        "    group.shard.arm(group.timer_of_delegation, now + member.rebalance_timeout_ms / 1000)\n",
        "    group.shard.arm(group.timer_of_delegation, now + 10**9)\n",
    ),
    _mutant(
        "other metadata begins no epoch",
        _HEARTBEAT,
        "        if cause is None and updated.extension != member.extension:\n",
        "        if cause is None and len(updated.extension) != len(member.extension):\n",
    ),
    _mutant(
        "two assignors of a member may have one name",
        _HEARTBEAT,
        "    if len({each.name for each in assignors}) < len(assignors) or",
        "    if",
    ),
    _mutant(
        "an assignor need not read what it writes",
        _HEARTBEAT,
        "        if not each.minimum_version <= each.metadata_version <= each.maximum_version:\n",
        "        if not each.minimum_version <= each.maximum_version:\n",
    ),
    _mutant(
        "the coordinator computes beside the members",
        _HEARTBEAT,
        "        if elect(_members_with(group, updated)) is None:\n",
        "        if group.target_epoch or elect(_members_with(group, updated)) is None:\n",
    ),
    _mutant(
        "an assignment counts for another epoch",
        _INSTALL,
        "        if request.group_epoch != delegation.group_epoch:\n",
        "        if request.group_epoch < 0:\n",
    ),
    _mutant(
        "the computing member may hand in at any member epoch",
        _INSTALL,
        "    if request.member_epoch != member.epoch:\n",
        "    if request.member_epoch < 0:\n",
    ),
    _mutant(
        "a member that was not asked may hand in",
        _INSTALL,
        "    if delegation is None or delegation.member_id != member.member_id:\n",
        "    if delegation is None:\n",
    ),
    _mutant(
        "two members get one partition",
        _INSTALL,
        "            if (topic_id, number) in owners:\n",
        "            if (topic_id, -1 - number) in owners:\n",
    ),
    _mutant(
        "a member gets topics that it does not subscribe to",
        _INSTALL,
        "            if topic_id not in subject.topics or not 0 <= number < delegation.partition_counts[topic_id]:\n",
        "            if not 0 <= number < delegation.partition_counts.get(topic_id, 1):\n",
    ),
    _mutant(
        "a member gets metadata that it cannot read",
        _INSTALL,
        "        if each.metadata_version not in subject.versions:\n",
        "        if each.metadata_version < 0:\n",
    ),
    _mutant(
        "a static member's successor does not get its computed target",
        _INSTALL,
        "    if member_id in group.members or delegation.subjects is None:\n",
        "    if True:\n",
    ),
    _mutant(
        "an assignor that fails takes all partitions from all members",
        _INSTALL,
        "            group.targets.get(member_id, NO_PARTITIONS),\n            group.metadata_of",
        "            NO_PARTITIONS,\n            group.metadata_of",
    ),
)
