"""State of a group of registered consumers, and the methods that every kind of group has.

Only `replay` changes hard state; parked requests, rounds and timers are in memory. The rules are in the modules beside
this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.registered.messages import RegisterConsumerResponse
from kafka_shim.experiments.registered.records import (
    OwnedPartitions,
    RegisteredGroupKey,
    RegisteredGroupValue,
    RegisteredMember,
    Rewind,
)
from kafka_shim.experiments.registered.states import State
from kafka_shim.groups import events
from kafka_shim.groups.group import Expelled, GroupDescription, MemberDescription, Subscription
from kafka_shim.groups.interface import Client
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.trace.causes import Cause

Owned = Mapping[str, list[int]]
"""Partitions by topic."""


class TimerKind(StrEnum):
    SESSION = "session"
    ROUND = "join"
    """Time for members to register again: one session timeout."""


@dataclass(slots=True)
class Round:
    """A round and the members that must register. In a `full` round all members register and get new partitions; in
    others the owners of rewound partitions register and get other offsets.
    """

    awaited: set[str]
    full: bool


@dataclass(slots=True)
class Member:
    client: Client
    owned: Owned


class RegisteredGroup:
    """Implements `Group`, except for the methods in `kind.py`. `parked` has RegisterConsumer requests by consumer
    id.
    """

    type: Final = "registered"
    protocol_type: Final = "consumer"
    protocol: Final = "range"
    leader: Final = None
    is_simple: Final = False
    is_disposable: Final = False

    def __init__(self, group_id: str, shard: Shard) -> None:
        self.group_id, self.partition, self.shard = group_id, shard.partition, shard
        self.generation = 0
        self.session_timeout_ms = 0
        self.ephemeral = False
        self.topics: list[str] = []
        self.members: dict[str, Member] = {}
        self.rewinds: dict[tuple[str, int], int] = {}
        self.round: Round | None = None
        self.parked: dict[str, tuple[object, Client]] = {}
        self.cause: Cause | None = None
        self.trigger = ""
        self.sessions: dict[str, Timer] = {}
        self.timer_of_round = Timer(TimerKind.ROUND, self.partition, group_id)

    @property
    def state(self) -> State:
        if self.round is not None:
            return State.REGISTERING
        return State.STABLE if self.members else State.EMPTY

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def weight(self) -> int:
        return self.size

    def timer_weight(self, timer: Timer) -> int:
        return len(self.members) // 8

    def owned(self) -> dict[str, set[int]]:
        """Return the partitions of all members together, by topic."""
        return {
            topic: {number for member in self.members.values() for number in member.owned.get(topic, ())}
            for topic in self.topics
        }

    # Lifecycle

    def replay(self, key: RegisteredGroupKey, value: RegisteredGroupValue | None) -> None:
        if value is None:
            self.shard.drop(self.group_id)
            return
        self.generation = value.generation
        self.session_timeout_ms, self.ephemeral = value.session_timeout_ms, value.ephemeral
        self.topics = value.topics
        self.members = {
            each.consumer_id: Member(
                Client(each.client_id, each.client_host), {owned.topic: owned.partitions for owned in each.owned}
            )
            for each in value.members
        }
        self.rewinds = {(each.topic, each.partition): each.offset for each in value.rewinds}

    def write(
        self,
        generation: int,
        members: Mapping[str, Member],
        rewinds: Mapping[tuple[str, int], int],
    ) -> None:
        """Write the record of the group with these values; its options do not change."""
        value = RegisteredGroupValue(
            generation,
            self.session_timeout_ms,
            self.ephemeral,
            self.topics,
            [
                RegisteredMember(
                    consumer_id,
                    member.client.client_id,
                    member.client.client_host,
                    [OwnedPartitions(topic, numbers) for topic, numbers in member.owned.items()],
                )
                for consumer_id, member in members.items()
            ],
            [Rewind(topic, partition, offset) for (topic, partition), offset in rewinds.items()],
        )
        self.shard.write(RegisteredGroupKey(self.group_id), value)

    def erase(self) -> None:
        self.shard.write(RegisteredGroupKey(self.group_id), None)

    def resign(self) -> None:
        self.answer_parked(ErrorCode.NOT_COORDINATOR)
        self.shard.drop(self.group_id)
        if self.shard.outbox.listening:
            events.group(self.shard.outbox, self, "unloaded")

    def release(self) -> None:
        for timer in (*self.sessions.values(), self.timer_of_round):
            self.shard.cancel(timer)

    def session(self, consumer_id: str) -> Timer:
        """Return the session timer of a member; create it on first use."""
        timer = self.sessions.get(consumer_id)
        if timer is None:
            timer = self.sessions[consumer_id] = Timer(TimerKind.SESSION, self.partition, self.group_id, consumer_id)
        return timer

    def renew_session(self, consumer_id: str, now: float, timeout_ms: int = 0) -> None:
        """Restart a member's session. A member may ask for a shorter timeout than the group's."""
        allowed = min(timeout_ms or self.session_timeout_ms, self.session_timeout_ms)
        self.shard.arm(self.session(consumer_id), now + allowed / 1000)

    def answer_parked(self, code: ErrorCode) -> None:
        """Answer all parked requests with an error."""
        parked, self.parked = self.parked, {}
        for exchange, _ in parked.values():
            self.refuse(exchange, code)

    def refuse(self, exchange: object, code: ErrorCode) -> None:
        """Answer one parked request with an error."""
        self.shard.outbox.reply(exchange, RegisterConsumerResponse(self.group_id, -1, error_code=code), self.shard)

    # Members

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        """Refuse Kafka's heartbeats: its members send another request."""
        return ErrorCode.UNKNOWN_MEMBER_ID

    def renew(self, member_id: str, now: float) -> None:
        if member_id in self.members:
            self.renew_session(member_id, now)

    def expel(self, now: float) -> list[Expelled]:
        expelled = []
        for consumer_id in self.members:
            exchange, _ = self.parked.get(consumer_id, (None, None))
            timeout = self.session_timeout_ms / 1000
            expelled.append(Expelled(consumer_id, None, exchange, self.session(consumer_id).deadline, timeout))
        self.answer_parked(ErrorCode.UNKNOWN_MEMBER_ID)
        self.release()
        self.sessions, self.round = {}, None
        self.write(self.generation + 1, {}, {})
        return expelled

    # Permissions

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool
    ) -> ErrorCode:
        """Allow commits of a member in this generation, and any commit while the group has no members. Errors: 22,
        25.
        """
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        return self.check_commit(member_id, group_instance_id, generation, member_epochs=False)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members or self.parked else ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    # Offsets

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.topics and bool(self.members)

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        return None if self.members else commit_timestamp

    # Description

    def describe(self) -> GroupDescription:
        return GroupDescription(
            type=self.type,
            group_id=self.group_id,
            state=self.state,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            generation=self.generation,
            leader=None,
            cause=None if self.cause is None else self.cause.value,
            trigger=self.trigger,
            ephemeral=self.ephemeral,
            heartbeat_bound_ms=self.session_timeout_ms,
        )

    def describe_members(self, *, subscriptions: bool = True) -> Iterator[MemberDescription]:
        return (
            MemberDescription(
                member_id=consumer_id,
                group_instance_id=None,
                client_id=member.client.client_id,
                client_host=member.client.client_host,
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=self.session_timeout_ms,
                protocols=[self.protocol],
                parked="join" if consumer_id in self.parked else None,
                subscription=Subscription(topics=list(self.topics), generation=self.generation),
                assignment={topic: list(numbers) for topic, numbers in member.owned.items()},
                has_assignment=self.round is None,
            )
            for consumer_id, member in list(self.members.items())
        )

    # Trace

    def trace_member(self, consumer_id: str, client: Client, change: str) -> None:
        if self.shard.outbox.listening:
            self.shard.outbox.event(
                "member",
                group=self.group_id,
                member_id=consumer_id,
                instance_id=None,
                client_id=client.client_id,
                client_host=client.client_host,
                change=change,
                rule="registered",
            )

    def trace_state(self, before: State) -> None:
        if self.shard.outbox.listening and self.state is not before:
            self.shard.outbox.event(
                "state",
                group=self.group_id,
                **{"from": before.value},
                to=self.state.value,
                generation=self.generation,
                cause=None if self.cause is None else self.cause.value,
                trigger=self.trigger,
                rule="registered",
            )
