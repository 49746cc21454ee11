"""The mutants of consumer groups (KIP-848); see `mutants.py`."""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.mutation.mutant import Mutant

_CONSUMER: Final = "shim/groups/consumer/"
_HEARTBEAT: Final = f"{_CONSUMER}heartbeat.py"
_STEADY: Final = f"{_CONSUMER}steady.py"
_RECONCILE: Final = f"{_CONSUMER}reconcile.py"
_CHANGE: Final = f"{_CONSUMER}change.py"
_LEAVE: Final = f"{_CONSUMER}leave.py"
_PATTERNS: Final = f"{_CONSUMER}patterns.py"
_KIND: Final = f"{_CONSUMER}kind.py"
_OFFSETS: Final = f"{_CONSUMER}offsets.py"
_SESSIONS: Final = f"{_CONSUMER}sessions.py"
_CLASSIC_MEMBERS: Final = f"{_CONSUMER}classic_members.py"
_MIGRATION: Final = f"{_CONSUMER}migration.py"
_REGISTRY: Final = "shim/groups/assignors/registry.py"
_OFFLOAD: Final = f"{_CONSUMER}offload.py"
_DRAFT: Final = f"{_CONSUMER}draft.py"
_LIVE: Final = f"{_CONSUMER}live.py"
_OFFLOADED: Final = ("tests/groups/consumer/test_offload.py",)
_RANGE: Final = "shim/groups/assignors/range.py"
_UNIFORM: Final = "shim/groups/assignors/uniform.py"

CONSUMER_MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "a partition is assigned while another member has it",
        _RECONCILE,
        "frozenset(filterfalse(taken.__contains__, missing)) | (missing & own)",
        "missing",
        ("consumer/share/*",),
    ),
    Mutant(
        "a member comes to the new epoch while it holds on",
        _RECONCILE,
        "    if revoked and _owns_any(owned, revoked):\n",
        "    if revoked and epoch < 0:\n",
        ("consumer/share/*",),
    ),
    Mutant(
        "who does not say what it owns is taken to own nothing",
        _RECONCILE,
        "    if owned is None:\n        return True\n",
        "    if owned is None:\n        return False\n",
        ("consumer/share/*", "consumer/epoch/*"),
    ),
    Mutant(
        "the group epoch is not bumped",
        _CHANGE,
        "            group_epoch += 1\n",
        "            group_epoch = max(group_epoch, 1)\n",
        ("consumer/share/*", "consumer/join/*"),
    ),
    Mutant(
        "a lost answer fences the member",
        _HEARTBEAT,
        "    if epoch == member.previous_epoch < member.epoch and _is_within(owned, member.assigned):\n",
        "    if epoch == member.previous_epoch < 0:\n",
        ("consumer/epoch/*",),
    ),
    Mutant(
        "an epoch of the future is accepted",
        _HEARTBEAT,
        "    if epoch == JOIN or epoch == member.epoch:\n",
        "    if epoch == JOIN or epoch >= member.epoch:\n",
        ("consumer/epoch/*",),
    ),
    Mutant(
        "an instance id in use can be taken",
        _HEARTBEAT,
        "    if holder.classic is None and holder.epoch != LEAVE_STATIC:\n",
        "    if holder.classic is None and holder.epoch < LEAVE_STATIC:\n",
        ("consumer/static/*",),
    ),
    Mutant(
        "a full request is not answered with the assignment",
        _HEARTBEAT,
        "joins or is_full or reconciled.assigned",
        "joins or reconciled.assigned",
        ("consumer/answer/*",),
    ),
    Mutant(
        "a group takes one member more than it may",
        _HEARTBEAT,
        "    if group.size >= most and member_id not in group.members:\n",
        "    if group.size > most and member_id not in group.members:\n",
        ("consumer/size/*",),
    ),
    Mutant(
        "a steady heartbeat does not renew the session",
        _STEADY,
        "    renew_session(group, member, now)\n    return heartbeat_interval_ms(group)\n",
        "    return heartbeat_interval_ms(group)\n",
        ("consumer/session/*", "consumer/config/*"),
    ),
    Mutant(
        "a static member that leaves for a while leaves for good",
        _LEAVE,
        "        if request.member_epoch == LEAVE_STATIC:\n",
        "        if request.member_epoch < LEAVE_STATIC:\n",
        ("consumer/static/*",),
    ),
    Mutant(
        "nobody is assigned what a member that left had",
        _LEAVE,
        "    written.append(records.epoch(group_id, group.group_epoch + 1, found_hash))\n",
        "    written.append(records.epoch(group_id, group.group_epoch, found_hash))\n",
        ("consumer/share/*", "consumer/leave/*"),
    ),
    Mutant(
        "topics that change are not seen",
        _KIND,
        "            self.metadata_stale = True\n",
        "            self.metadata_stale = False\n",
        ("consumer/topic/*", "consumer/join/*"),
    ),
    Mutant(
        "what is no pattern is accepted",
        _PATTERNS,
        "            compiled(new)\n",
        "            compiled('')\n",
        ("consumer/regex/*",),
    ),
    Mutant(
        "patterns are never resolved",
        _PATTERNS,
        '        arm_if_idle(group, TimerKind.REGEX, "", now)\n',
        '        arm_if_idle(group, TimerKind.REGEX, "", now + 1e6)\n',
        ("consumer/regex/*",),
    ),
    Mutant(
        "who holds on is never put out",
        _CHANGE,
        "                arm_rebalance(group, reconciled, self.now)\n",
        "                pass\n",
        ("consumer/session/*",),
    ),
    Mutant(
        "a group's own heartbeat interval is not obeyed",
        _SESSIONS,
        "    own = group.shard.group_settings(group.group_id).get(INTERVAL_SETTING)\n",
        "    own = None\n",
        ("consumer/config/*", "consumer/session/*"),
    ),
    Mutant(
        "a commit with an old epoch is accepted",
        _OFFSETS,
        "    if epoch == member.epoch:\n        return ErrorCode.NONE\n",
        "    if epoch <= member.epoch:\n        return ErrorCode.NONE\n",
        ("consumer-commit/*",),
    ),
    Mutant(
        "a member may commit in a version without epochs",
        _OFFSETS,
        "    if member.classic is None and not member_epochs:\n",
        "    if member.classic is None and epoch < -1:\n",
        ("consumer-commit/*",),
    ),
    Mutant(
        "one member decides on the assignor",
        _REGISTRY,
        "        return max(votes, key=votes.__getitem__, default=None) or self.default\n",
        "        return min(votes, key=votes.__getitem__, default=None) or self.default\n",
        ("consumer/share/*",),
    ),
    Mutant(
        "range gives the last members the larger ranges",
        _RANGE,
        "    return [*_runs(0, edge, least + 1), *_runs(edge, partitions, least)]\n",
        "    edge = partitions - edge\n    return [*_runs(0, edge, least), *_runs(edge, partitions, least + 1)]\n",
        ("consumer/share/*",),
    ),
    Mutant(
        "uniform leaves the first member everything it has",
        _UNIFORM,
        "        if size > most:\n",
        "        if size > most and assignments:\n",
        ("consumer/share/*",),
    ),
    Mutant(
        "a classic member does not have to join again",
        _CLASSIC_MEMBERS,
        "        _expect_join(group, member, now)\n        return ErrorCode.REBALANCE_IN_PROGRESS\n",
        "        _expect_join(group, member, now)\n        return ErrorCode.NONE\n",
        ("migrate/*",),
    ),
    Mutant(
        "a group of classic members alone stays a consumer group",
        _MIGRATION,
        "        left > 0\n        and classic_left",
        "        left < 0\n        and classic_left",
        ("migrate/*",),
    ),
    Mutant(
        "a member that gave partitions up keeps waiting to",
        _RECONCILE,
        "        return Situation.HOLDS_ON if _owns_any(owned, member.pending_revocation) else Situation.GAVE_UP\n",
        "        return Situation.HOLDS_ON\n",
        ("consumer/share/*",),
    ),
    Mutant(
        "a member is Stable while others have its partitions",
        _RECONCILE,
        "    reached = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE\n",
        "    reached = MemberState.STABLE\n",
        ("consumer/share/*", "consumer-describe/*"),
    ),
    Mutant(
        "topics that a member gave up stay its own",
        _RECONCILE,
        "        aim = target.get(topic, frozenset()) if topic in topics else frozenset()\n",
        "        aim = target.get(topic, frozenset()) | member.assigned.get(topic, frozenset())\n",
        ("consumer/share/*", "consumer/topic/*"),
    ),
    Mutant(
        "an unchanged subscription makes an epoch",
        _HEARTBEAT,
        "    if group.group_epoch == 0 or names_changed or",
        "    if group.group_epoch == 0 or names_changed or request.subscribed_topic_names is not None or",
        ("consumer/answer/*", "consumer/epoch/*"),
    ),
    Mutant(
        "a static member's successor begins with nothing",
        _HEARTBEAT,
        "    member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)\n",
        "    member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0, assigned={})\n",
        ("consumer/static/*",),
    ),
    Mutant(
        "a classic member of an older epoch may sync",
        _CLASSIC_MEMBERS,
        "    if group.group_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:\n",
        "    if group.group_epoch > member.epoch + 1000:\n",
        ("migrate/*",),
        ("tests/groups/consumer/test_migration.py",),
    ),
    Mutant(
        "a group is converted whatever the policy",
        _MIGRATION,
        '    if shard.config.group_consumer_migration_policy not in ("upgrade", "bidirectional"):\n',
        "    if not shard.config.group_consumer_migration_policy:\n",
        ("migrate/*",),
        ("tests/groups/consumer/test_migration.py",),
    ),
    Mutant(
        "a group with assignments of its own is converted",
        _MIGRATION,
        "        elif assignment.user_data:\n",
        "        elif assignment.user_data == b'never':\n",
        ("migrate/*",),
        ("tests/groups/consumer/test_migration.py",),
    ),
    Mutant(
        "what was computed for a group counts although it has changed",
        _OFFLOAD,
        "            and self._revision == group.revision\n",
        "",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "whoever waits for a computation is forgotten when the partition goes elsewhere",
        _OFFLOAD,
        "        for each in self.line:\n",
        "        for each in ():\n",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "a group takes the place of a classic one that has changed meanwhile",
        _DRAFT,
        " and (self.replaces is None or view_of(self.replaces) == self._view)\n",
        "\n",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "a draft does not hear of its topics",
        _DRAFT,
        "        self.group.revision += 1\n",
        "",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "who has a partition is not looked up anew when a large assignment takes effect",
        _LIVE,
        "ahead.targets, ahead.owners, target.epoch\n",
        "ahead.targets, self.target_owners, target.epoch\n",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "a converted group's records are lost when it waited for its assignment",
        _DRAFT,
        "        shard.outbox.write_all(shard, self.records)\n",
        "",
        (),
        _OFFLOADED,
    ),
)
