"""Wrong rules for mutation tests of consumer groups (KIP-848), as `mutants.py` describes."""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.mutation.mutant import Mutant

_CONSUMER: Final = "shim/groups/consumer/"
_HEARTBEAT: Final = f"{_CONSUMER}heartbeat.py"
_RECONCILE: Final = f"{_CONSUMER}reconcile.py"
_CHANGE: Final = f"{_CONSUMER}change.py"
_PATTERNS: Final = f"{_CONSUMER}patterns.py"
_GROUP: Final = f"{_CONSUMER}group.py"
_EPOCH_CHANGE: Final = "shim/groups/epochs/change.py"
_REVOKING: Final = "shim/groups/epochs/revoking.py"
_MEMBER: Final = f"{_CONSUMER}member.py"
_EPOCH_GROUP: Final = "shim/groups/epochs/group.py"
_CLASSIC_MEMBERS: Final = f"{_CONSUMER}migration/members.py"
_MIGRATION: Final = f"{_CONSUMER}migration/conversion.py"
_REGISTRY: Final = "shim/groups/assignors/registry.py"
_OFFLOAD: Final = "shim/groups/epochs/offload.py"
_TARGET: Final = f"{_CONSUMER}target.py"
_OFFLOADED: Final = ("tests/groups/consumer/test_offload.py",)
_RANGE: Final = "shim/groups/assignors/range.py"
_UNIFORM: Final = "shim/groups/assignors/uniform.py"

CONSUMER_MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "a partition is assigned while another member has it",
        _RECONCILE,
        "frozenset(filterfalse(topic_owners.__contains__, missing)) | (missing & own)",
        "missing",
        ("consumer/share/*",),
    ),
    Mutant(
        "a member comes to the new epoch while it holds on",
        _RECONCILE,
        "    if revoked and member.may_own(owned, revoked):\n",
        "    if revoked and target_epoch < 0:\n",
        ("consumer/share/*",),
    ),
    Mutant(
        "a heartbeat without partitions counts as owning nothing",
        _MEMBER,
        "        if owned is None:\n            return True\n",
        "        if owned is None:\n            return False\n",
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
        _REVOKING,
        "        if epoch == member.previous_epoch < member.epoch and member.has_all(owned):\n",
        "        if epoch == member.previous_epoch < 0:\n",
        ("consumer/epoch/*",),
    ),
    Mutant(
        "an epoch of the future is accepted",
        _REVOKING,
        "        if epoch == JOIN or epoch == member.epoch:\n",
        "        if epoch == JOIN or epoch >= member.epoch:\n",
        ("consumer/epoch/*",),
    ),
    Mutant(
        "an instance id in use can be taken",
        _REVOKING,
        "        if holder.epoch != LEAVE_STATIC and not holder.is_classic:\n",
        "        if holder.epoch < LEAVE_STATIC and not holder.is_classic:\n",
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
        _REVOKING,
        "        if len(self.members) < most or member_id in self.members:\n",
        "        if len(self.members) <= most or member_id in self.members:\n",
        ("consumer/size/*",),
    ),
    Mutant(
        "a steady heartbeat does not renew the session",
        _HEARTBEAT,
        "    group.renew_session(member, now, config.group_consumer_session_timeout_ms / 1000)\n",
        "",
        (),
        ("tests/groups/consumer/test_heartbeat.py",),
    ),
    Mutant(
        "a steady heartbeat does not renew the session of a group with its own settings",
        _HEARTBEAT,
        "        group.renew_session(member, now)\n        return group.heartbeat_interval_ms\n",
        "        return group.heartbeat_interval_ms\n",
        ("consumer/session/*", "consumer/config/*"),
        ("tests/groups/consumer/test_heartbeat.py",),
    ),
    Mutant(
        "a static member that leaves for a while leaves for good",
        _REVOKING,
        "            if request.member_epoch == LEAVE_STATIC:\n",
        "            if request.member_epoch < LEAVE_STATIC:\n",
        ("consumer/static/*",),
    ),
    Mutant(
        "the partitions of a former member are not assigned",
        _GROUP,
        "        return [*written, records.epoch(group_id, self.group_epoch + 1, new_hash)]\n",
        "        return [*written, records.epoch(group_id, self.group_epoch, new_hash)]\n",
        ("consumer/share/*", "consumer/leave/*"),
    ),
    Mutant(
        "topics that change are not seen",
        _GROUP,
        "            self.metadata_stale = True\n",
        "            self.metadata_stale = False\n",
        ("consumer/topic/*", "consumer/join/*"),
    ),
    Mutant(
        "an invalid pattern is accepted",
        _PATTERNS,
        "            compiled(new)\n",
        "            compiled('')\n",
        ("consumer/regex/*",),
    ),
    Mutant(
        "patterns are never resolved",
        _PATTERNS,
        '        group.arm_if_idle(TimerKind.REGEX, "", now)\n',
        '        group.arm_if_idle(TimerKind.REGEX, "", now + 1e6)\n',
        ("consumer/regex/*",),
    ),
    Mutant(
        "a member that holds on is never expelled",
        _EPOCH_CHANGE,
        "            written.arm_rebalance(reconciled, self.now)\n",
        "            pass\n",
        ("consumer/session/*",),
    ),
    Mutant(
        "a group's own heartbeat interval is not obeyed",
        _EPOCH_GROUP,
        "        if own and setting.name in own:\n",
        "        if not own and setting.name in own:\n",
        ("consumer/config/*", "consumer/session/*"),
    ),
    Mutant(
        "a commit with an old epoch is accepted",
        _EPOCH_GROUP,
        "    if epoch == member.epoch:\n        return ErrorCode.NONE\n",
        "    if epoch <= member.epoch:\n        return ErrorCode.NONE\n",
        ("consumer-commit/*",),
    ),
    Mutant(
        "a member may commit in a version without epochs",
        _EPOCH_GROUP,
        "        if not member.is_classic and not member_epochs:\n",
        "        if not member.is_classic and generation < -1:\n",
        ("consumer-commit/*",),
    ),
    Mutant(
        "one member decides on the assignor",
        _REGISTRY,
        "        return max(votes, key=lambda name: ",
        "        return min(votes, key=lambda name: ",
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
        "        remaining > 0\n        and classic_remaining",
        "        remaining < 0\n        and classic_remaining",
        ("migrate/*",),
    ),
    Mutant(
        "a member that gave partitions up keeps waiting to",
        _REVOKING,
        "return Situation.HOLDS_ON if self.may_own(owned, self.pending_revocation) else Situation.GAVE_UP\n",
        "return Situation.HOLDS_ON\n",
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
        "        or names_changed\n",
        "        or names_changed\n        or request.subscribed_topic_names is not None\n",
        ("consumer/answer/*", "consumer/epoch/*"),
    ),
    Mutant(
        "a static member's successor begins with nothing",
        _REVOKING,
        "        member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)\n",
        "        member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0, assigned={})\n",
        ("consumer/static/*",),
    ),
    Mutant(
        "a classic member whose subscription cannot be read joins without topics",
        _CLASSIC_MEMBERS,
        '        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "Malformed embedded consumer protocol.")\n',
        "        subscription = ConsumerProtocolSubscription()\n",
        ("migrate/*",),
    ),
    Mutant(
        "a classic member of an older epoch may sync",
        _CLASSIC_MEMBERS,
        "    if group.epoch_to_join > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:\n",
        "    if group.epoch_to_join > member.epoch + 1000:\n",
        ("migrate/*",),
        ("tests/groups/consumer/test_migration.py",),
    ),
    Mutant(
        "a group is converted under every policy",
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
        "a stale computation counts for a changed group",
        _TARGET,
        "            and self._revision == group.revision\n",
        "",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "a request that waits for a computation is forgotten when the partition moves",
        _OFFLOAD,
        "        for each in self.queue:\n",
        "        for each in ():\n",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "a draft replaces a classic group that has changed",
        _TARGET,
        " and (self.snapshot is None or self.snapshot.holds())\n",
        "\n",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "a draft does not hear of its topics",
        _TARGET,
        "        self.group.revision += 1\n",
        "",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "the owners are not renewed when a large assignment takes effect",
        _TARGET,
        "precomputed.targets, precomputed.owners, target.epoch\n",
        "precomputed.targets, self.target_owners, target.epoch\n",
        (),
        _OFFLOADED,
    ),
    Mutant(
        "a converted group's records are lost when it waited for its assignment",
        _CHANGE,
        "            shard.outbox.write_all(shard, draft.records)\n",
        "",
        (),
        _OFFLOADED,
    ),
)
