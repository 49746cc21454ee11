"""The workbench: what can be done to a running coordinator from outside, in the coordinator's thread.

Puts together groups, their history, and metrics. What only a laboratory does or waits for is in `lab_workbench.py`,
which is imported at its first use. It does not know HTTP.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.server.frames import FrameHistory
from kafka_shim.server.history import EventHistory
from kafka_shim.server.refusals import Refused
from kafka_shim.server.server import Server
from kafka_shim.why.history import GroupHistory
from kafka_shim.why.narration import story

if TYPE_CHECKING:
    from kafka_shim.control.metrics import Metrics


class Workbench:
    """A running coordinator. It keeps the history of groups and their members from the beginning."""

    def __init__(self, server: Server, nursery: trio.Nursery) -> None:
        self.server = server
        self.cluster = server.cluster
        self.history = EventHistory(self.cluster.events)
        self.history.start(requests=False)
        self.frames = FrameHistory(lambda: self.cluster.nodes.values())
        self.nursery = nursery
        self.served_on: tuple[str, str | None] = ("127.0.0.1", None)
        """Host and token of the control server, where there is one."""
        self.extended: Workbench | None = None
        """The workbench of a laboratory, from the first call of `lab_workbench_of` on."""

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics of the cluster."""
        # Imported here because it takes long, and few tests use it.
        from kafka_shim.control.metrics import Metrics

        return Metrics(self.cluster)

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of clients."""
        return self.server.bootstrap

    def story(self, group: str | None = None, since: int = 0) -> list[str]:
        """What happened to a group, or to all, after the event of number `since`, in lines a person reads."""
        return story(self.history.since(since, group))

    def history_of(self, group: str) -> GroupHistory:
        """What is remembered of a group's rebalances and members. Times are seconds of Unix time."""
        found = GroupHistory(group)
        for number, now, event in self.history.since(0, group):
            found.add(event | {"seq": number, "mono": now, "wall": now + self.cluster.wall_offset})
        return found

    def has_group(self, name: str) -> bool:
        """Whether there is such a group, or was one of which something is remembered."""
        groups = self.cluster.ownership.owner_of(name).groups.groups
        return name in groups or any(True for _ in self.history.since(0, name))

    def create_group(self, name: str, ephemeral: bool = False, heartbeat_bound_ms: int | None = None) -> None:
        """Make an Empty group before anybody joins it; it stays until somebody has been in it.

        An ephemeral one is deleted when its last member is gone. Nobody in it may stay silent for longer than the
        bound, whatever the session timeout. Raises Refused.
        """
        error = self.cluster.create_group(name, ephemeral, heartbeat_bound_ms)
        if error:
            raise Refused(error, _CREATE_REFUSED[error])
        self.settle()

    def delete_group(self, name: str) -> None:
        """Delete an Empty group with its offsets. Raises Refused."""
        error = self.cluster.delete_group(name)
        if error:
            raise Refused(ErrorCode(error), _DELETE_REFUSED.get(error, "It cannot be deleted."))
        self.settle()

    def settle(self) -> None:
        """Hand on what came of the last change."""
        self.cluster.settle(self.cluster.clock())


_CREATE_REFUSED: dict[int, str] = {
    ErrorCode.INVALID_GROUP_ID: "A group id is not empty.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The group's coordinator is not available.",
    ErrorCode.DUPLICATE_RESOURCE: "There is such a group already.",
}

_DELETE_REFUSED: dict[int, str] = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
}
