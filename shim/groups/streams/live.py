"""A streams group that is coordinated here: its hard state, and what is kept in memory alone.

Decides nothing: it holds timers and flags for the rules. All of this is rebuilt when the group is loaded.
"""

from __future__ import annotations

from kafka_shim.groups.causes import Cause
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.streams.group import StreamsGroupState
from kafka_shim.groups.streams.timers import TimerKind
from kafka_shim.groups.streams.topics import ConfiguredTopology
from kafka_shim.groups.timers import NEVER, Timer


class StreamsGroup(StreamsGroupState):
    """`configured` is the topology as the topics let it be, None until it is worked out; `metadata_stale`: topics of it
    may have changed since. `endpoint_epoch` grows when the tasks of a member that answers queries change.
    `shutdown_by` is the member that asked all others to end. `cause` and `trigger` are of the last group epoch, None if
    none began here. `rebalance_epochs` has the member epoch each rebalance timer was armed for.
    """

    __slots__ = (
        "cause",
        "configured",
        "endpoint_epoch",
        "metadata_stale",
        "rebalance_epochs",
        "shard",
        "shutdown_by",
        "timers",
        "trigger",
    )

    def __init__(self, group_id: str, shard: Shard) -> None:
        super().__init__(group_id, shard.partition)
        self.shard = shard
        self.configured: ConfiguredTopology | None = None
        self.metadata_stale = True
        self.endpoint_epoch = 0
        self.shutdown_by: str | None = None
        self.cause: Cause | None = None
        self.trigger = ""
        self.timers: dict[tuple[TimerKind, str], Timer] = {}
        """By kind and member."""
        self.rebalance_epochs: dict[str, int] = {}

    @property
    def generation(self) -> int:
        return self.group_epoch

    @property
    def protocol_type(self) -> str:
        return "streams"

    @property
    def protocol(self) -> str:
        """The assignor; there is one."""
        return "sticky"

    @property
    def leader(self) -> None:
        """There is none: the coordinator assigns."""

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def is_delayed(self) -> bool:
        """Whether the first assignment waits for more members."""
        timer = self.timers.get((TimerKind.INITIAL, ""))
        return timer is not None and timer.deadline != NEVER

    def timer(self, kind: TimerKind, member_id: str = "") -> Timer:
        """Made when it is first needed."""
        timer = self.timers.get((kind, member_id))
        if timer is None:
            timer = self.timers[kind, member_id] = Timer(kind, self.partition, self.group_id, member_id)
        return timer

    def began(self, cause: Cause, trigger: str) -> None:
        """A new group epoch has just begun."""
        self.cause, self.trigger = cause, trigger
