"""Rounds: all members register again, and are answered with partitions and offsets once everybody has.

Decides when a round begins and ends, who is awaited, who gets which partitions, and the offsets to begin from; what a
request of a consumer does is in `states.RULES`. After
the Client Rewrite, "Consumer Group Membership Protocol" and "Offset Rewind". That text does not say how long members
are awaited, which is a session here, nor what becomes of one that sends heartbeats and never registers: it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.apis.experimental.controller_heartbeat import ControllerHeartbeatRequest, ControllerHeartbeatResponse
from kafka_shim.apis.experimental.register_consumer import (
    PartitionToOwn,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.assignors.registry import BUILT_IN
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, GroupSpec, MemberSpec
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import PARKED, Client, Parked
from kafka_shim.groups.offsets import delete_all
from kafka_shim.groups.registered.group import Member, Owned, RegisteredGroup, Round
from kafka_shim.groups.registered.states import ERRORS, RULES, Rule, Situation, State, Trigger
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue

NO_OFFSET = -1
SMALLEST = 0
"""Where a partition begins that came to the topics of a group which has committed offsets."""


def register(
    shard: Shard, request: RegisterConsumerRequest, client: Client, exchange: object, now: float
) -> RegisterConsumerResponse | Parked:
    """Parked until the round ends. Errors: UNKNOWN_MEMBER_ID (25) for an empty id, GROUP_ID_NOT_FOUND (69); later
    NOT_COORDINATOR (16), and REBALANCE_IN_PROGRESS (27) if the same consumer registers again meanwhile."""
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
        # A member that nobody called was restarted.
        cause = Cause.STATIC_REPLACED if consumer_id in group.members else Cause.NEW_MEMBER
        begin(group, cause, consumer_id, now)
    _end_if_complete(group, now)
    return PARKED


def heartbeat(shard: Shard, request: ControllerHeartbeatRequest, now: float) -> ControllerHeartbeatResponse:
    """Errors: ILLEGAL_GENERATION (22), UNKNOWN_MEMBER_ID (25), REBALANCE_IN_PROGRESS (27): register again,
    GROUP_ID_NOT_FOUND (69)."""
    shard.outbox.touch(shard)
    group = shard.groups.get(request.group_id)
    rule = RULES[Trigger.HEARTBEAT][situation_of(group, request)]
    if not isinstance(group, RegisteredGroup):
        return ControllerHeartbeatResponse(-1, ERRORS[rule])
    if rule in (Rule.RENEW, Rule.RENEW_AND_CALL):
        group.renew_session(request.consumer_id, now, request.session_timeout)
    return ControllerHeartbeatResponse(group.generation, ERRORS[rule])


def situation_of(group: Group | None, request: RegisterConsumerRequest | ControllerHeartbeatRequest) -> Situation:
    """What a request of a consumer finds."""
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
    """Everybody is to register; nothing happens in a full round."""
    if group.round is not None and group.round.full:
        return
    before = group.state
    group.cause, group.trigger = cause, trigger
    group.shard.counters.rebalances[cause] += 1
    group.round = Round(set(group.members), full=True)
    group.shard.arm(group.timer_of_round, now + group.session_timeout_ms / 1000)
    group.trace_state(before)


def rewind(group: RegisteredGroup, now: float) -> None:
    """The owners of rewound partitions are to register; without any, the offsets count at once."""
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
    """Who did not register again is removed."""
    assert group.round is not None
    remove(group, group.round.awaited - group.parked.keys(), Cause.REBALANCE_TIMEOUT, "removed", now)


def session_timeout(group: RegisteredGroup, consumer_id: str, now: float) -> None:
    """A member was silent for too long."""
    remove(group, [consumer_id], Cause.SESSION_EXPIRED, "expired", now)


def remove(group: RegisteredGroup, consumer_ids: Iterable[str], cause: Cause, change: str, now: float) -> None:
    """Members go; what they had is others' in the next generation."""
    gone = set(consumer_ids)
    if not gone:
        return
    before = group.state
    for consumer_id in gone:
        group.trace_member(consumer_id, group.members[consumer_id].client, change)
        group.shard.cancel(group.session(consumer_id))
        del group.sessions[consumer_id]
    left = {consumer_id: member for consumer_id, member in group.members.items() if consumer_id not in gone}
    group.write(group.generation, left, group.rewinds)
    if group.round is not None and group.round.full:
        group.round.awaited -= gone
    elif left or group.parked:
        begin(group, cause, next(iter(gone)), now)
    else:
        group.round = None
        group.shard.cancel(group.timer_of_round)
        group.cause, group.trigger = cause, next(iter(gone))
        group.trace_state(before)
        _empty(group, now)
        return
    _end_if_complete(group, now)


def _end_if_complete(group: RegisteredGroup, now: float) -> None:
    """Answer everybody, once all who are awaited have registered."""
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
    """What each consumer gets of the topics that exist."""
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
    """The last member is gone, and an ephemeral group with it."""
    if group.rewinds:
        _commit_rewinds(group, now)
        group.write(group.generation, {}, {})
    if group.ephemeral:
        delete_all(group.shard, group.group_id)
        if group.shard.outbox.listening:
            events.group(group.shard.outbox, group, "deleted")
        group.erase()
