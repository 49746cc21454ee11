"""The mutants of share groups (KIP-932); see `mutants.py`."""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.mutation.mutant import Mutant

_SHARE: Final = "shim/groups/share/"
_HEARTBEAT: Final = f"{_SHARE}heartbeat.py"
_GROUP: Final = f"{_SHARE}group.py"
_STATES: Final = f"{_SHARE}states.py"
_KIND: Final = f"{_SHARE}kind.py"
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
        "    shows = joins or reconciled.assigned != member.assigned or names is not None\n",
        "    shows = joins or reconciled.assigned != member.assigned\n",
        ("share/epoch/*", "share/join/*"),
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
        "who leaves a share group makes no epoch",
        _HEARTBEAT,
        "    written.append(records.epoch(group.group_id, group.group_epoch + 1, found_hash))\n",
        "    written.append(records.epoch(group.group_id, group.group_epoch, found_hash))\n",
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
        _KIND,
        "        self.metadata_stale |= topic in self.topic_names\n",
        "        self.metadata_stale |= False\n",
        ("share/join/*",),
    ),
    Mutant(
        "offsets are committed to a share group",
        _KIND,
        "        return ErrorCode.GROUP_ID_NOT_FOUND\n\n    def check_commit_in_transaction",
        "        return ErrorCode.NONE\n\n    def check_commit_in_transaction",
        ("share/leave/*",),
    ),
    Mutant(
        "a share group with members can be deleted",
        _KIND,
        "        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE\n",
        "        return ErrorCode.NONE\n",
        ("share/leave/*",),
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
        "share_states.reset(Place(request.group_id, topic_id, each.partition_index), each.start_offset)\n",
        "share_states.initialize(Place(group.group_id, topic_id, each.partition_index))\n",
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
        "                if record.state is not RecordState.AVAILABLE:\n                    continue\n",
        "                if record.state in _DONE:\n                    continue\n",
        ("share/fetch/*",),
    ),
    Mutant(
        "a member acknowledges what another has acquired",
        _PARTITION,
        "                if record.member_id != member_id:\n",
        "                if not record.member_id:\n",
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
        "        if state is RecordState.AVAILABLE and record.count >= self.most_deliveries:\n",
        "        if state is RecordState.AVAILABLE and record.count < 0:\n",
        ("share/acknowledge/*",),
    ),
    Mutant(
        "a renewed lock runs out as before",
        _PARTITION,
        "                record.deadline = deadline\n            else:",
        "                pass\n            else:",
        ("share/acknowledge/*",),
        ("tests/broker/test_share_partition.py",),
    ),
    Mutant(
        "locks never run out",
        _PARTITION,
        "if record[1].deadline <= now)",
        "if record[1].deadline <= 0)",
        ("share/acknowledge/*", "share/fetch/*"),
        ("tests/broker/test_share_partition.py",),
    ),
)
