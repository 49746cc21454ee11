"""Rounds of a registered group: all members register again, and get partitions and offsets once all have registered.

`states.RULES` has the effects of a request. Source: the Client Rewrite, "Consumer Group Membership Protocol" and
"Offset Rewind". That text has no limit for a round, which is one session timeout here, and no rule for a member that
sends heartbeats and never registers: it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.registered.group import Member, Owned, RegisteredGroup, Round
from kafka_shim.experiments.registered.messages import (
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
    PartitionToOwn,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
)
from kafka_shim.experiments.registered.states import ERRORS, RULES, Rule, Situation, State, Trigger
from kafka_shim.groups import events
from kafka_shim.groups.assignors.registry import BUILT_IN
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, GroupSpec, MemberSpec
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import PARKED, Client, Parked
from kafka_shim.groups.offsets import delete_all
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue
from kafka_shim.trace.causes import Cause

NO_OFFSET = -1
SMALLEST = 0
"""First offset of a partition that is new to a group with committed offsets."""


def register(
    shard: Shard, request: RegisterConsumerRequest, client: Client, exchange: object, now: float
) -> RegisterConsumerResponse | Parked:
    """Park a request until its round ends. Errors: UNKNOWN_MEMBER_ID (25) for an empty id, GROUP_ID_NOT_FOUND (69);
    later NOT_COORDINATOR (16), and REBALANCE_IN_PROGRESS (27) if the same consumer registers again.
    """
    group = shard.groups.get(request.group_id)
    consumer_id = request.consumer_id
    rule = RULES[Trigger.REGISTER][situation_of(group, request)]
    if ERRORS[rule]:
        return RegisterConsumerResponse(request.group_id, -1, error_code=ERRORS[rule])
    assert isinstance(group, RegisteredGroup)
    if consumer_id in group.parked:
        group.refuse(group.parked[consumer_id][0], ErrorCode.REBALANCE_IN_PROGRESS)
    group.parked[consumer_id] = exchange, client
    shard.cancel(group.session(consumer_id))
    if rule is Rule.CALL_ALL:
        # A member registers outside of a round: it was restarted.
        cause = Cause.STATIC_REPLACED if consumer_id in group.members else Cause.NEW_MEMBER
        begin(group, cause, consumer_id, now)
    _end_if_complete(group, now)
    return PARKED


def heartbeat(shard: Shard, request: ControllerHeartbeatRequest, now: float) -> ControllerHeartbeatResponse:
    """Answer a heartbeat. Errors: ILLEGAL_GENERATION (22), UNKNOWN_MEMBER_ID (25), REBALANCE_IN_PROGRESS (27): register
    again, GROUP_ID_NOT_FOUND (69).
    """
    shard.outbox.touch(shard)
    group = shard.groups.get(request.group_id)
    rule = RULES[Trigger.HEARTBEAT][situation_of(group, request)]
    if not isinstance(group, RegisteredGroup):
        return ControllerHeartbeatResponse(-1, ERRORS[rule])
    if rule in (Rule.RENEW, Rule.RENEW_AND_CALL):
        group.renew_session(request.consumer_id, now, request.session_timeout)
    return ControllerHeartbeatResponse(group.generation, ERRORS[rule])


def situation_of(group: Group | None, request: RegisterConsumerRequest | ControllerHeartbeatRequest) -> Situation:
    """Return the situation of a consumer's request, for the table."""
    if not isinstance(group, RegisteredGroup):
        return Situation.NO_GROUP
    consumer_id = request.consumer_id
    if not consumer_id:
        return Situation.NO_ID
    if consumer_id not in group.members:
        return Situation.NO_MEMBER
    if isinstance(request, ControllerHeartbeatRequest) and request.generation_id != group.generation:
        return Situation.OTHER_GENERATION
    is_awaited = group.round is not None and consumer_id in group.round.awaited
    return Situation.AWAITED if is_awaited else Situation.MEMBER


def begin(group: RegisteredGroup, cause: Cause, trigger: str, now: float) -> None:
    """Begin a full round, unless there is one: all members must register."""
    if group.round is not None and group.round.full:
        return
    before = group.state
    group.cause, group.trigger = cause, trigger
    group.shard.counters.rebalances[cause] += 1
    group.round = Round(set(group.members), full=True)
    group.shard.arm(group.timer_of_round, now + group.session_timeout_ms / 1000)
    group.trace_state(before)


def rewind(group: RegisteredGroup, now: float) -> None:
    """Begin a round for the owners of rewound partitions; without owners, commit the offsets at once."""
    owners = {
        consumer_id
        for consumer_id, member in group.members.items()
        if any(partition in member.owned.get(topic, ()) for topic, partition in group.rewinds)
    }
    if group.round is not None:
        group.round.awaited |= owners
        return
    if not owners:
        _commit_rewinds(group, now)
        group.write(group.generation, group.members, {})
        return
    group.cause, group.trigger = None, ""
    group.round = Round(owners, full=False)
    group.shard.arm(group.timer_of_round, now + group.session_timeout_ms / 1000)
    group.trace_state(State.STABLE)


def round_timeout(group: RegisteredGroup, now: float) -> None:
    """Remove the members that did not register in time."""
    assert group.round is not None
    remove(group, group.round.awaited - group.parked.keys(), Cause.REBALANCE_TIMEOUT, "removed", now)


def session_timeout(group: RegisteredGroup, consumer_id: str, now: float) -> None:
    """Remove a member that was silent for too long."""
    remove(group, [consumer_id], Cause.SESSION_EXPIRED, "expired", now)


def remove(group: RegisteredGroup, consumer_ids: Iterable[str], cause: Cause, change: str, now: float) -> None:
    """Remove members; other members get their partitions in the next generation."""
    removed_ids = set(consumer_ids)
    if not removed_ids:
        return
    before = group.state
    for consumer_id in removed_ids:
        group.trace_member(consumer_id, group.members[consumer_id].client, change)
        group.shard.cancel(group.session(consumer_id))
        del group.sessions[consumer_id]
    remaining = {consumer_id: member for consumer_id, member in group.members.items() if consumer_id not in removed_ids}
    group.write(group.generation, remaining, group.rewinds)
    if group.round is not None and group.round.full:
        group.round.awaited -= removed_ids
    elif remaining or group.parked:
        begin(group, cause, next(iter(removed_ids)), now)
    else:
        group.round = None
        group.shard.cancel(group.timer_of_round)
        group.cause, group.trigger = cause, next(iter(removed_ids))
        group.trace_state(before)
        _empty(group, now)
        return
    _end_if_complete(group, now)


def _end_if_complete(group: RegisteredGroup, now: float) -> None:
    """End the round and answer all members, once all of them have registered."""
    ended = group.round
    if ended is None or ended.awaited - group.parked.keys():
        return
    group.round = None
    group.shard.cancel(group.timer_of_round)
    generation, members = group.generation, group.members
    if ended.full:
        generation += 1
        clients = {consumer_id: client for consumer_id, (_, client) in sorted(group.parked.items())}
        members = _assigned(group, clients)
        for consumer_id, client in clients.items():
            if consumer_id not in group.members:
                group.trace_member(consumer_id, client, "added")
    _commit_rewinds(group, now)
    group.write(generation, members, {})
    group.trace_state(State.REGISTERING)
    if not members:
        _empty(group, now)
        return
    committed = group.shard.offsets.of(group.group_id)
    parked, group.parked = group.parked, {}
    for consumer_id, (exchange, _) in parked.items():
        owned = [
            PartitionToOwn(
                topic,
                number,
                committed[topic][number].offset
                if number in committed.get(topic, {})
                else (SMALLEST if committed else NO_OFFSET),
            )
            for topic, numbers in members[consumer_id].owned.items()
            for number in numbers
        ]
        group.renew_session(consumer_id, now)
        group.shard.outbox.reply(exchange, RegisterConsumerResponse(group.group_id, generation, owned), group.shard)


def _assigned(group: RegisteredGroup, clients: dict[str, Client]) -> dict[str, Member]:
    """Divide the partitions of existing topics among the consumers."""
    topics = group.shard.topics
    names = {topic_id: name for name in group.topics if (topic_id := topics.topic_id(name)) is not None}
    counts = {topic_id: topics.partitions_of(name) for topic_id, name in names.items()}
    spec = GroupSpec(dict.fromkeys(clients, MemberSpec(frozenset(names))), counts, {}, True)
    shares = BUILT_IN["range"].assign(spec) if clients else {}
    owned: dict[str, Owned] = {
        consumer_id: {
            names[topic_id]: sorted(numbers)
            for topic_id, numbers in shares.get(consumer_id, NO_PARTITIONS).items()
            if numbers
        }
        for consumer_id in clients
    }
    return {consumer_id: Member(client, owned[consumer_id]) for consumer_id, client in clients.items()}


def _commit_rewinds(group: RegisteredGroup, now: float) -> None:
    timestamp = group.shard.wall_ms(now)
    for (topic, partition), offset in group.rewinds.items():
        key = OffsetCommitKey(group.group_id, topic, partition)
        group.shard.write(key, OffsetCommitValue(offset, -1, "", timestamp))


def _empty(group: RegisteredGroup, now: float) -> None:
    """Handle the departure of the last member; delete an ephemeral group."""
    if group.rewinds:
        _commit_rewinds(group, now)
        group.write(group.generation, {}, {})
    if group.ephemeral:
        delete_all(group.shard, group.group_id)
        if group.shard.outbox.listening:
            events.group(group.shard.outbox, group, "deleted")
        group.erase()
