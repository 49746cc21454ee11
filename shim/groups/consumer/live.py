"""A consumer group that is coordinated here: its hard state, and what is kept in memory alone.

Decides nothing: it holds timers and flags for the rules. All of this is rebuilt when the group is loaded.
"""

from __future__ import annotations

from math import inf
from typing import Any

from kafka_shim.groups.causes import Cause
from kafka_shim.groups.consumer.group import ConsumerGroupState
from kafka_shim.groups.consumer.target import Specs, Target
from kafka_shim.groups.consumer.timers import TimerKind
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer


class Calm:
    """A time without changes of a group; it ends at `until`, monotonic seconds, if not before. Known by identity.

    `deadline` is when the session ends of whoever gives a sign of life at `now`. All members of a tick share it: a
    number of its own for each would be one more thing that is in no cache of the processor.
    """

    __slots__ = ("deadline", "now", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.now = self.deadline = -inf


class ConsumerGroup(ConsumerGroupState):
    """`metadata_stale`: the topics are to be compared with those the group knows, at the next heartbeat.
    `patterns_stale`: its patterns are to be resolved again; `resolves`: they are being resolved elsewhere. `cause` and
    `trigger` are of its last group epoch, None if none began here. `rebalance_epochs` has the member epoch each
    rebalance timer was armed for. `calm` is the calm that lasts, None if there was a change since, or nobody has
    looked. `specs` are its members as an assignor sees them; `revision` grows with every change of what a target
    assignment is computed from. `draft` is None once the group is in the shard, before that a `Draft` of `draft.py`.
    """

    __slots__ = (
        "calm",
        "cause",
        "draft",
        "metadata_stale",
        "patterns_stale",
        "rebalance_epochs",
        "resolves",
        "revision",
        "sessions",
        "shard",
        "specs",
        "timers",
        "trigger",
    )

    def __init__(self, group_id: str, shard: Shard) -> None:
        super().__init__(group_id, shard.partition)
        self.shard = shard
        self.metadata_stale = True
        self.patterns_stale = True
        self.cause: Cause | None = None
        self.trigger = ""
        self.calm: Calm | None = None
        self.specs = Specs(self, shard.topics)
        self.resolves = False
        self.revision = 0
        self.draft: Any = None
        self.sessions: dict[str, Timer] = {}
        """The session timer of each member, by its id."""
        self.timers: dict[tuple[TimerKind, str], Timer] = {}
        """All others, by kind and member."""
        self.rebalance_epochs: dict[str, int] = {}

    @property
    def generation(self) -> int:
        return self.group_epoch

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def protocol(self) -> str:
        """The assignor most members ask for."""
        return self.shard.assignors.choose(member.server_assignor for member in self.members.values())

    @property
    def leader(self) -> str | None:
        """There is none: the coordinator assigns."""
        return None

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def is_crowded(self) -> bool:
        """Whether it has more members than `group.consumer.max.size`, as when that was lowered."""
        return len(self.members) > self.shard.config.group_consumer_max_size

    @property
    def is_in_shard(self) -> bool:
        """Whether its first record was written, and it has not been dropped since."""
        found: object = self.shard.groups.get(self.group_id)
        return found is self

    def install(self, target: Target) -> None:
        """Let a target assignment take effect whose state was made where it was computed: what replaying its records
        one by one would come to."""
        ahead = target.ahead
        assert ahead is not None
        self.calm = None
        self.targets, self.target_owners, self.target_epoch = ahead.targets, ahead.owners, target.epoch
        if self.target_metadata:
            for member_id in target.changed:
                self.target_metadata.pop(member_id, None)
        self.specs.install(ahead.members)
        self.revision += 1

    def session(self, member_id: str) -> Timer:
        """The session timer of a member, made when it is first needed."""
        timer = self.sessions.get(member_id)
        if timer is None:
            timer = self.sessions[member_id] = Timer(TimerKind.SESSION, self.partition, self.group_id, member_id)
        return timer

    def timer(self, kind: TimerKind, member_id: str = "") -> Timer:
        """Another timer, made when it is first needed."""
        timer = self.timers.get((kind, member_id))
        if timer is None:
            timer = self.timers[kind, member_id] = Timer(kind, self.partition, self.group_id, member_id)
        return timer

    def began(self, cause: Cause, trigger: str) -> None:
        """A new group epoch has just begun; `trigger` is the member that brought it about, empty if nobody did."""
        self.cause, self.trigger = cause, trigger
        self.shard.counters.rebalances[cause] += 1
