"""Wrong rules for mutation tests of share groups (KIP-932), as `mutants.py` describes."""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.mutation.mutant import Mutant

_SHARE: Final = "shim/groups/share/"
_HEARTBEAT: Final = f"{_SHARE}heartbeat.py"
_GROUP: Final = f"{_SHARE}group.py"
_STATES: Final = f"{_SHARE}states.py"
_EPOCH_GROUP: Final = "shim/groups/epochs/group.py"
_OFFSETS: Final = f"{_SHARE}offsets.py"
_ASSIGNOR: Final = f"{_SHARE}assignor.py"
_PARTITION: Final = "shim/broker/share_partition.py"

SHARE_MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "a share group is joined without topics",
        _HEARTBEAT,
        "    if request.member_epoch == JOIN and not request.subscribed_topic_names:\n",
        "    if request.member_epoch == JOIN and request.subscribed_topic_names == ['']:\n",
        ("share/join/*",),
    ),
    Mutant(
        "a share member of an unknown group is let in at any epoch",
        _STATES,
        "    Trigger.STAY: _row(_NOT_FOUND,",
        "    Trigger.STAY: _row(Rule.CREATE,",
        ("share/join/*",),
    ),
    Mutant(
        "a lost answer fences the share member",
        _HEARTBEAT,
        "    is_its = request.member_epoch in (member.epoch, member.previous_epoch)\n",
        "    is_its = request.member_epoch == member.epoch\n",
        ("share/epoch/*",),
    ),
    Mutant(
        "a share member may be at any epoch of the past",
        _HEARTBEAT,
        "    is_its = request.member_epoch in (member.epoch, member.previous_epoch)\n",
        "    is_its = request.member_epoch <= member.epoch\n",
        ("share/epoch/*",),
    ),
    Mutant(
        "a share member that names its topics gets no assignment",
        _HEARTBEAT,
        "    includes_assignment = joins or reconciled.assigned != member.assigned or names is not None\n",
        "    includes_assignment = joins or reconciled.assigned != member.assigned\n",
        ("share/epoch/*", "share/join/*"),
    ),
    Mutant(
        "a share member forgets a topic with its last partition",
        _ASSIGNOR,
        "            if topic in topics:\n",
        "            if False:\n",
        ("share/join/*",),
    ),
    Mutant(
        "partitions that become ready are never assigned",
        _HEARTBEAT,
        "    return Cause.TOPIC_METADATA_CHANGED if group.is_assignment_pending else None\n",
        "    return None\n",
        ("share/join/*",),
    ),
    Mutant(
        "a new member of a share group makes no epoch",
        _HEARTBEAT,
        "        return Cause.NEW_MEMBER\n",
        "        return None\n",
        ("share/join/*", "share/epoch/*"),
    ),
    Mutant(
        "a leaving share member makes no epoch",
        _GROUP,
        "        return [records.epoch(self.group_id, self.group_epoch + 1, new_hash)]\n",
        "        return [records.epoch(self.group_id, self.group_epoch, new_hash)]\n",
        ("share/leave/*",),
    ),
    Mutant(
        "an Empty share group is Stable",
        _GROUP,
        "        return GroupState.STABLE if self.members else GroupState.EMPTY\n",
        "        return GroupState.STABLE\n",
        ("share/leave/*",),
    ),
    Mutant(
        "topics that change are not seen by share groups",
        _GROUP,
        "        self.metadata_stale |= topic in self.topic_names\n",
        "        self.metadata_stale |= False\n",
        ("share/join/*",),
    ),
    Mutant(
        "offsets are committed to a share group",
        _GROUP,
        "        return ErrorCode.GROUP_ID_NOT_FOUND\n\n    def check_commit_in_transaction",
        "        return ErrorCode.NONE\n\n    def check_commit_in_transaction",
        ("share/leave/*",),
    ),
    Mutant(
        "a group with epochs and members can be deleted",
        _EPOCH_GROUP,
        "        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE\n",
        "        return ErrorCode.NONE\n",
        ("share/leave/*", "streams/describe/*"),
    ),
    Mutant(
        "members that are more than partitions stay idle",
        _ASSIGNOR,
        "    sharing = -(-len(members) // len(places))\n",
        "    sharing = max(1, len(members) // len(places))\n",
        ("share/join/*",),
    ),
    Mutant(
        "offsets of a share group with members are altered",
        _OFFSETS,
        "    if group is not None and group.members:\n",
        "    if group is not None and len(group.members) > 9:\n",
        ("share/offsets/*",),
    ),
    Mutant(
        "altered offsets are forgotten",
        _OFFSETS,
        ".share_states.reset(*reset)\n",
        ".share_states.initialize(*reset[:2])\n",
        ("share/offsets/*",),
    ),
    Mutant(
        "offsets of topics that a share group does not have are deleted",
        _OFFSETS,
        "            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION\n            answer.error",
        "            answer.error",
        ("share/offsets/*",),
    ),
    Mutant(
        "records are acquired that another member has",
        _PARTITION,
        "                if batch.whole.state is not RecordState.AVAILABLE:\n                    continue\n",
        "                if batch.whole.state > RecordState.ACQUIRED:\n                    continue\n",
        ("share/fetch/*",),
    ),
    Mutant(
        "a member acknowledges records that another has acquired",
        _PARTITION,
        "            if batch.whole.member_id != member_id:\n",
        "            if not batch.whole.member_id:\n",
        ("share/acknowledge/*",),
    ),
    Mutant(
        "a released record is done",
        _PARTITION,
        "    Acknowledge.RELEASE: RecordState.AVAILABLE,\n",
        "    Acknowledge.RELEASE: RecordState.ARCHIVED,\n",
        ("share/acknowledge/*",),
    ),
    Mutant(
        "a record is delivered for ever",
        _PARTITION,
        "run.count >= self.most_deliveries or",
        "run.count < 0 or",
        ("share/acknowledge/*", "share/fetch/*"),
    ),
    Mutant(
        "a renewed lock runs out as before",
        _PARTITION,
        "                run.deadline = deadline\n            else:",
        "                pass\n            else:",
        ("share/acknowledge/*",),
        ("tests/broker/test_share_partition.py",),
    ),
    Mutant(
        "locks never run out",
        _PARTITION,
        "if run.deadline <= now]",
        "if run.deadline <= 0]",
        ("share/acknowledge/*", "share/fetch/*"),
        ("tests/broker/test_share_partition.py",),
    ),
    Mutant(
        "a bad record takes the good ones of its batch with it",
        _PARTITION,
        "        self.throttled_from = max(_LEAST_THROTTLE, (most_deliveries + 1) // 2)\n",
        "        self.throttled_from = most_deliveries + 1\n",
        ("share/fetch/*",),
    ),
    Mutant(
        "a record at its last delivery comes with others",
        _PARTITION,
        "            if is_last_delivery or acquired >= most:\n",
        "            if acquired >= most:\n",
        ("share/fetch/*",),
    ),
    Mutant(
        "compacted records keep the group where it is",
        _PARTITION,
        "        if fetch_offset < first:\n",
        "        if fetch_offset < 0:\n",
        ("share/fetch/*",),
    ),
    Mutant(
        "who has read a state before it was altered writes it",
        _PARTITION,
        "        if state.epoch > self._epoch:\n",
        "        if state.epoch < self._epoch:\n",
        ("share/offsets/*",),
    ),
    Mutant(
        "a share group without connections stays in memory",
        "shim/broker/share_sessions.py",
        "        return ended, [each for each in groups if each not in self._by_group]\n",
        "        return ended, []\n",
        ("share/session/*",),
        ("tests/broker/test_share_forgetting.py",),
    ),
    Mutant(
        "one partition takes all bytes",
        "shim/broker/share_fetches.py",
        "        each_max_bytes = max_bytes // max(1, watch.acquirable)\n",
        "        each_max_bytes = max_bytes\n",
        ("share/fetch/*",),
    ),
)
