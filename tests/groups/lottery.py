"""A kind of group of its own, as `docs/kinds.md` says one is added: of the members of a lottery one is the winner."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.group import Expelled, GroupDescription
from kafka_shim.groups.shard import Kind, Shard
from kafka_shim.groups.timers import Timer

SESSION_SECONDS: Final = 10.0


class LotteryKey(NamedTuple):
    group: str
    record_type: int = -100


class LotteryValue(NamedTuple):
    epoch: int
    members: tuple[str, ...]


class Enter(NamedTuple):
    """A request: take part, or stay in."""

    group_id: str
    member_id: str


class State(StrEnum):
    EMPTY = "Empty"
    DRAWN = "Drawn"


class TimerKind(StrEnum):
    SESSION = "session"


class Lottery:
    """Implements `Group`. The winner is the member that has been there for longest."""

    type: Final = "lottery"
    protocol_type: Final = "lottery"
    protocol: Final = None
    is_simple: Final = False

    def __init__(self, group_id: str, shard: Shard) -> None:
        self.group_id, self.partition, self.shard = group_id, shard.partition, shard
        self.generation = 0
        self.members: dict[str, Timer] = {}

    @property
    def state(self) -> State:
        return State.DRAWN if self.members else State.EMPTY

    @property
    def leader(self) -> str | None:
        return next(iter(self.members), None)

    @property
    def size(self) -> int:
        return len(self.members)

    def timer_weight(self, timer: Timer) -> int:
        return self.size

    @property
    def is_disposable(self) -> bool:
        return not self.members

    def activate(self, now: float) -> None:
        for timer in self.members.values():
            self.shard.arm(timer, now + SESSION_SECONDS)

    def resign(self) -> None:
        self.shard.drop(self.group_id)

    def release(self) -> None:
        for timer in self.members.values():
            self.shard.cancel(timer)

    def replay(self, key: LotteryKey, value: LotteryValue | None) -> None:
        if value is None:
            self.shard.drop(self.group_id)
            return
        for gone in self.members.keys() - set(value.members):
            self.shard.cancel(self.members.pop(gone))
        for member in value.members:
            self.members.setdefault(member, Timer(TimerKind.SESSION, self.partition, self.group_id, member))
        self.generation = value.epoch

    def fire(self, timer: Timer, now: float) -> None:
        self.write(tuple(member for member in self.members if member != timer.member_id))

    def write(self, members: tuple[str, ...]) -> None:
        self.shard.write(LotteryKey(self.group_id), LotteryValue(self.generation + 1, members))

    def erase(self) -> None:
        self.shard.write(LotteryKey(self.group_id), None)

    def topic_changed(self, topic: str, now: float) -> None: ...

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        return ErrorCode.UNKNOWN_MEMBER_ID

    def renew(self, member_id: str, now: float) -> None: ...

    def expel(self, now: float) -> list[Expelled]:
        self.write(())
        return []

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool
    ) -> ErrorCode:
        """Only the winner commits."""
        return ErrorCode.NONE if member_id == self.leader else ErrorCode.UNKNOWN_MEMBER_ID

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        return ErrorCode.UNKNOWN_MEMBER_ID

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        return self.check_delete()

    def is_subscribed(self, topic: str) -> bool:
        return False

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def describe(self) -> GroupDescription:
        return GroupDescription(
            type=self.type,
            group_id=self.group_id,
            state=self.state,
            protocol_type=self.protocol_type,
            protocol=None,
            generation=self.generation,
            leader=self.leader,
        )


def enter(shard: Shard, request: Enter, now: float) -> str | ErrorCode:
    """The winner, or GROUP_ID_NOT_FOUND (69) for a group of another kind."""
    group: Any = shard.groups.get(request.group_id)
    if group is None:
        shard.write(LotteryKey(request.group_id), LotteryValue(1, (request.member_id,)))
    elif not isinstance(group, Lottery):
        return ErrorCode.GROUP_ID_NOT_FOUND
    elif request.member_id not in group.members:
        group.write((*group.members, request.member_id))
    group = shard.groups[request.group_id]
    shard.arm(group.members[request.member_id], now + SESSION_SECONDS)
    return str(group.leader)


LOTTERY: Final = Kind(Lottery.type, State, Lottery, (LotteryKey,), {Enter: enter})
