"""The mutants: each changes one rule of our coordinator, and lists the areas with cases that should fail.

`before` occurs exactly once in `file`; a test checks that, so that a moved or reworded rule takes its mutant along.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.mutation.client_assignor_mutants import CLIENT_ASSIGNOR_MUTANTS
from kafka_shim.conformance.mutation.consumer_mutants import CONSUMER_MUTANTS
from kafka_shim.conformance.mutation.mutant import Mutant
from kafka_shim.conformance.mutation.newer_group_mutants import NEWER_GROUP_MUTANTS
from kafka_shim.conformance.mutation.release_mutants import RELEASE_MUTANTS
from kafka_shim.conformance.mutation.share_mutants import SHARE_MUTANTS
from kafka_shim.conformance.mutation.streams_mutants import STREAMS_MUTANTS

_CLASSIC: Final = "shim/groups/classic/"
_JOIN: Final = f"{_CLASSIC}join.py"
_GROUP: Final = f"{_CLASSIC}group.py"
_REBALANCE: Final = f"{_CLASSIC}rebalance.py"
_SYNC: Final = f"{_CLASSIC}sync.py"
_HEARTBEAT: Final = f"{_CLASSIC}heartbeat.py"
_KIND: Final = f"{_CLASSIC}kind.py"
_STATES: Final = f"{_CLASSIC}states.py"
_SERVICE: Final = "shim/groups/service.py"
_SHARD: Final = "shim/groups/shard.py"
_COMMITS: Final = "shim/groups/commits.py"
_OFFSETS: Final = "shim/groups/offsets.py"
_PENDING: Final = "shim/groups/transactions.py"
_TRANSACTIONS: Final = "shim/broker/transactions.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "generation not bumped",
        _GROUP,
        "        self.generation += 1\n",
        "        self.generation = max(self.generation, 1)\n",
        ("join/*", "heartbeat/*"),
    ),
    Mutant(
        "a stale leader is kept",
        _GROUP,
        "            self.leader = next(m.member_id for m in self.members.values() if m.join_exchange is not None)\n",
        "            pass\n",
        ("found/leader/*", "join/*", "static/*"),
    ),
    Mutant(
        "the newest member leads",
        _GROUP,
        "        if self.leader is None:\n            self.leader = member.member_id\n",
        "        self.leader = member.member_id\n",
        ("join/*",),
    ),
    Mutant(
        "followers get the member list",
        _REBALANCE,
        "            members = group.joined_members() if member_id == leader else ()\n",
        "            members = group.joined_members()\n",
        ("join/*",),
    ),
    Mutant(
        "member id not required",
        _JOIN,
        "        return Trigger.JOIN_NEW_ID_REQUIRED if member_id_required else Trigger.JOIN_NEW\n",
        "        return Trigger.JOIN_NEW\n",
        ("join/*",),
    ),
    Mutant(
        "an unknown member joins with another error",
        _JOIN,
        "            return join_refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id)\n",
        "            return join_refused(ErrorCode.ILLEGAL_GENERATION, member_id)\n",
        ("join/*",),
    ),
    Mutant(
        "protocols of a joiner not checked",
        _JOIN,
        "    if not group.supports(request.protocol_type, [name for name, _ in protocols]):\n",
        "    if not group.supports(group.protocol_type or request.protocol_type, group.supporters or ['any']):\n",
        ("join/*",),
    ),
    Mutant(
        "the size of a group has no limit",
        _JOIN,
        "    if not group.has_room(member_id, max_size):\n",
        "    if not group.has_room(member_id, 1 << 31):\n",
        ("*size*", "join/*", "limits/*"),
    ),
    Mutant(
        "handed-out ids never run out",
        _JOIN,
        "    shard.arm(timer, joining.now + joining.request.session_timeout_ms / 1000)\n",
        "",
        ("join/*",),
    ),
    Mutant(
        "a leader that joins again gets the current generation",
        _JOIN,
        "    return Trigger.JOIN_LEADER if group.leader == member_id else Trigger.JOIN_SAME\n",
        "    return Trigger.JOIN_SAME\n",
        ("join/*",),
    ),
    Mutant(
        "the vote for a protocol is not counted",
        _GROUP,
        "        votes[name] = votes.get(name, 0) + count\n",
        "        votes[name] = 0 * count\n",
        ("join/*",),
    ),
    Mutant(
        "a round does not end when all have joined",
        _REBALANCE,
        "    if group.state is State.PREPARING_REBALANCE and group.all_joined and not group.in_initial_round:\n",
        "    if False and group.state is State.PREPARING_REBALANCE:\n",
        ("join/*",),
    ),
    Mutant(
        "a rebalance has no timer",
        _REBALANCE,
        "        shard.arm(group.join_timer, now + group.rebalance_timeout)\n\n\ndef",
        "        pass\n\n\ndef",
        ("join/*",),
    ),
    Mutant(
        "no member is expelled for not syncing",
        _REBALANCE,
        "    shard.arm(group.sync_timer, now + group.rebalance_timeout)\n",
        "",
        ("sync/*",),
    ),
    Mutant(
        "parked syncs are forgotten when a rebalance starts",
        _REBALANCE,
        "            release_sync(shard, member, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), now)\n",
        "            pass\n",
        ("sync/*",),
    ),
    Mutant(
        "the initial round does not wait",
        _REBALANCE,
        "        delay = shard.config.group_initial_rebalance_delay_ms / 1000\n        group.new_member_added",
        "        delay = 0.0\n        group.new_member_added",
        ("*delay*", "join/*", "limits/*"),
    ),
    Mutant(
        "newcomers do not keep the initial round open",
        _REBALANCE,
        "    if group.in_initial_round and group.new_member_added and round_.initial_remaining > 0:\n",
        "    if False and round_.initial_remaining > 0:\n",
        ("*delay*", "join/*", "limits/*"),
    ),
    Mutant(
        "absent static members are dropped",
        _REBALANCE,
        "if m.join_exchange is None and m.group_instance_id is None]\n",
        "if m.join_exchange is None]\n",
        ("static/*", "join/*"),
    ),
    Mutant(
        "the generation of a sync is not checked",
        _SYNC,
        "    if request.generation_id != group.generation:\n",
        "    if False and request.generation_id != group.generation:\n",
        ("sync/*",),
    ),
    Mutant(
        "the protocol of a sync is not checked",
        _SYNC,
        "    return of_request is not None and of_group is not None and of_request != of_group\n",
        "    return False\n",
        ("sync/*",),
    ),
    Mutant(
        "a static member that comes back rebalances a stable group",
        _JOIN,
        "    keeps_generation = rule is Rule.TAKE_OVER_STABLE and _keeps_protocol(group, old, joining)\n",
        "    keeps_generation = False\n",
        ("static/*",),
    ),
    Mutant(
        "a replaced static member is not fenced",
        _GROUP,
        "                return ErrorCode.FENCED_INSTANCE_ID\n",
        "                return ErrorCode.UNKNOWN_MEMBER_ID\n",
        ("static/*",),
    ),
    Mutant(
        "skip_assignment is never set",
        _JOIN,
        "members, skip_assignment=leads)\n",
        "members, skip_assignment=False)\n",
        ("static/*",),
    ),
    Mutant(
        "leaving starts no rebalance",
        _HEARTBEAT,
        "            rebalance.start(shard, group, why_left(leavers[0]), trigger, rule, now)\n",
        "            pass\n",
        ("leave/*",),
    ),
    Mutant(
        "handed-out ids cannot leave",
        _HEARTBEAT,
        "    elif member_id in group.pending:\n",
        "    elif False:\n",
        ("leave/*",),
    ),
    Mutant(
        "no rebalance when a session ends",
        _HEARTBEAT,
        "        rebalance.start(shard, group, Cause.SESSION_EXPIRED, member.member_id, rule, now)\n",
        "        pass\n",
        ("heartbeat/*", "join/*"),
    ),
    Mutant(
        "heartbeats do not renew the session",
        _KIND,
        "                timer.deadline = deadline\n                return",
        "                return",
        ("heartbeat/*",),
    ),
    Mutant(
        "the generation of a heartbeat is not checked",
        _HEARTBEAT,
        "    if generation != group.generation:\n",
        "    if False and generation != group.generation:\n",
        ("heartbeat/*",),
    ),
    Mutant(
        "session timeouts have no limits",
        _JOIN,
        "    if request.group_id and not least <= request.session_timeout_ms <= most:\n",
        "    if False and not least <= request.session_timeout_ms <= most:\n",
        ("join/*",),
    ),
    Mutant(
        "an empty group id is allowed",
        _SERVICE,
        "        if not group_id:\n",
        "        if False:\n",
        ("join/*", "sync/*", "heartbeat/*", "leave/*"),
    ),
    Mutant(
        "the generation of a commit is not checked",
        _GROUP,
        "            generation,\n        )\n\n    def check_commit_in_transaction",
        "            self.generation,\n        )\n\n    def check_commit_in_transaction",
        ("commit/*",),
    ),
    Mutant(
        "commits are accepted while the group is completing a rebalance",
        _STATES,
        "    Trigger.COMMIT: _row(_R.REFUSE_UNKNOWN, _R.RENEW, _R.REFUSE_REBALANCING, _R.RENEW,",
        "    Trigger.COMMIT: _row(_R.REFUSE_UNKNOWN, _R.RENEW, _R.RENEW, _R.RENEW,",
        ("commit/*",),
    ),
    Mutant(
        "metadata of commits has no limit",
        _COMMITS,
        "        if not any(self.metadata):\n            return []\n",
        "        return []\n",
        ("commit/*", "limits/*"),
    ),
    Mutant(
        "a group with members can be deleted",
        _KIND,
        "        return ERRORS[RULES[Trigger.DELETE][self.state]]\n",
        "        return ErrorCode.NONE\n",
        ("delete/*",),
    ),
    Mutant(
        "the protocol is shown before the group is stable",
        _KIND,
        "    protocol = group.protocol if rule is Rule.SHOW_STABLE else None\n",
        "    protocol = group.protocol\n",
        ("describe/*",),
    ),
    Mutant(
        "a state to list by must be spelled as Kafka spells it",
        _SERVICE,
        "(not state_filter or group.state.lower() in state_filter)",
        "(not state_filter or group.state in state_filter)",
        ("list/*",),
    ),
    Mutant(
        "an aborted transaction's offsets count",
        _PENDING,
        "if committed and each[1].sequence != OVERTAKEN]",
        "if each[1].sequence != OVERTAKEN]",
        ("txn-*",),
    ),
    Mutant(
        "a transaction's offset replaces one that was committed after it",
        _PENDING,
        "if committed and each[1].sequence != OVERTAKEN]",
        "if committed]",
        ("txn-*",),
    ),
    Mutant(
        "metadata of transactional commits has no limit",
        _PENDING,
        '            if len(metadata.encode("utf-16-le")) // 2 > limit:\n',
        '            if False and len(metadata.encode("utf-16-le")) // 2 > limit:\n',
        ("txn-commit/*",),
    ),
    Mutant(
        "a transactional commit into no group is of an unknown member",
        _PENDING,
        "missing = ErrorCode.GROUP_ID_NOT_FOUND if epoch_errors else ErrorCode.ILLEGAL_GENERATION\n",
        "missing = ErrorCode.UNKNOWN_MEMBER_ID\n",
        ("txn-commit/*",),
    ),
    Mutant(
        "the generation of a transactional commit is not checked",
        _GROUP,
        "        return self._check_speaker(rule, member_id, group_instance_id, generation)\n",
        "        return self._check_speaker(rule, member_id, group_instance_id, self.generation)\n",
        ("txn-commit/*",),
    ),
    Mutant(
        "the member of a transactional commit is not checked",
        _GROUP,
        "        return self._check_speaker(rule, member_id, group_instance_id, generation)\n",
        "        return ERRORS[rule]\n",
        ("txn-commit/*",),
    ),
    Mutant(
        "a transaction may stay open for ever",
        _PENDING,
        "    elif not was_ongoing:\n        shard.arm(timer, now + timeout_ms / 1000)\n",
        "",
        ("txn-timeout/*",),
    ),
    Mutant(
        "a new producer has the epoch of the one before it",
        _TRANSACTIONS,
        "            elif claim[1] in (-1, current[1]):\n                producer = self._next(current)\n",
        "            elif claim[1] in (-1, current[1]):\n                producer = current\n",
        ("txn-init/*",),
    ),
    Mutant(
        "a new producer leaves the open transaction as it is",
        _TRANSACTIONS,
        "            if transaction.is_ongoing:\n"
        "                self._fence(shard, transactional_id, transaction, now)\n            if",
        "            if",
        ("txn-init/*",),
    ),
    Mutant(
        "the end of a transaction gives no next epoch",
        _TRANSACTIONS,
        "        producer = self._next(current) if bumps_epoch else current\n",
        "        producer = current\n",
        ("txn-end/*",),
    ),
    Mutant(
        "offsets need not be announced to the transaction",
        _TRANSACTIONS,
        "            adds=supported_operation is TransactionSupportedOperation.ADD_PARTITION,\n",
        "            adds=True,\n",
        ("txn-commit/*",),
    ),
    Mutant(
        "partitions are added although one of them does not exist",
        _TRANSACTIONS,
        "        elif unknown := [each for each in partitions if not self._exists(*each)]:\n",
        "        elif unknown := [each for each in partitions if False]:\n",
        ("txn-add/*",),
    ),
    Mutant(
        "require_stable does not hide unstable offsets",
        _OFFSETS,
        "    if require_stable and shard.pending.has_group(request.group_id):\n",
        "    if False and shard.pending.has_group(request.group_id):\n",
        ("txn-*", "fetch/*"),
    ),
    Mutant(
        "a retention time in the request does not count",
        _OFFSETS,
        "value.expire_timestamp != -1 else wall_ms",
        "False else wall_ms",
        ("expiry/*",),
    ),
    Mutant(
        "offsets of subscribed topics expire",
        _OFFSETS,
        "    if group.is_subscribed(topic):\n        return\n    for partition",
        "    for partition",
        ("expiry/*",),
    ),
    Mutant(
        "an Empty group without offsets stays for ever",
        _GROUP,
        "        return self.state is State.EMPTY and not self.is_precreated\n",
        "        return False\n",
        ("expiry/*",),
    ),
    Mutant(
        "offsets of subscribed topics can be deleted",
        _OFFSETS,
        "        error = _GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(topic.name) else _NONE\n",
        "        error = _NONE\n",
        ("offset-delete/*",),
    ),
    Mutant(
        "offsets of a group with members of another kind can be deleted",
        _KIND,
        "RULES[Trigger.DELETE_OFFSETS if of_consumers else Trigger.DELETE_OFFSETS_OTHER]",
        "RULES[Trigger.DELETE_OFFSETS]",
        ("offset-delete/*",),
    ),
    Mutant(
        "a deleted group leaves its offsets behind",
        _SERVICE,
        "        offsets.delete_all(shard, group_id)\n",
        "",
        ("delete/*",),
    ),
    Mutant(
        "members are described without their assignment",
        _KIND,
        "                member_assignment=member.assignment,\n",
        '                member_assignment=b"",\n',
        ("describe/*",),
    ),
    Mutant(
        "a group that does not exist is described without an error",
        _KIND,
        "            error_code=ERRORS[Rule.SHOW_DEAD],\n",
        "            error_code=0,\n",
        ("describe/*",),
    ),
    Mutant(
        "the type filter of ListGroups has no effect",
        _SERVICE,
        "and (not type_filter or group.type in type_filter)\n                and (not state",
        "and (not state",
        ("list/*",),
    ),
    Mutant(
        "a tie in the vote for a protocol goes to the leader's first",
        _GROUP,
        "(java_bucket(name, buckets), of_leader.index(name))",
        "of_leader.index(name)",
        ("join/protocol/*",),
    ),
    Mutant(
        "records of any size are stored",
        _SHARD,
        "        return batch_size(encoded) <= self.topics.max_batch_bytes\n",
        "        return True\n",
        ("oversized/*",),
    ),
    Mutant(
        "a group that all have left in a round admits no member",
        _GROUP,
        "self.supporters.get(name, 0) for name in names",
        "self.supporters.get(name) for name in names",
        ("leave/pending/*",),
    ),
    *CLIENT_ASSIGNOR_MUTANTS,
    *CONSUMER_MUTANTS,
    *NEWER_GROUP_MUTANTS,
    *RELEASE_MUTANTS,
    *SHARE_MUTANTS,
    *STREAMS_MUTANTS,
)
