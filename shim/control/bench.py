"""The workbench: everything that can be done to a running coordinator from outside, in its own thread.

Decides which parts belong together: what happened and is awaited, faults and barriers, time, brokers, rewinds. The HTTP
control API offers it to any language, `shim.testing` to Python. It does not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import trio

from apis.wire.errors import ErrorCode
from persistence.partition import partition_for
from shim.groups.shard import Shard
from shim.server.awaiting import GroupAwait
from shim.server.barriers import Barriers
from shim.server.clock import TestClock
from shim.server.faults import Faults
from shim.server.interception import Interception, later_in
from shim.server.rewind import Offsets, Rewind
from shim.server.server import Server
from shim.server.watching import Watch


class Refused(Exception):
    """What was asked for cannot be done; `error` says why by Kafka's name, the message in one sentence."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class Bench:
    """A running coordinator and what may be done to it. `clock` is None where its time is nobody's to change.

    With `watched` it keeps what happens from the beginning, which costs every request a little; else only while
    somebody waits for something.
    """

    def __init__(
        self, server: Server, nursery: trio.Nursery, clock: TestClock | None = None, watched: bool = True
    ) -> None:
        self.server = server
        self.cluster = server.cluster
        self.clock = clock
        self.watch = Watch(self.cluster)
        self.interception = Interception(self.cluster, later_in(nursery, self.cluster))
        self.faults = Faults(self.interception)
        self.barriers = Barriers(self.interception)
        self._groups: dict[str, GroupAwait] = {}
        self._ephemeral: set[str] = set()
        self._nursery = nursery
        if watched:
            self.watch.start()

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap servers."""
        return self.server.bootstrap

    # Groups

    def group(self, name: str) -> GroupAwait:
        """Waits for a group; the same object for the same name."""
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = GroupAwait(self.watch, name)
        return found

    def create_group(self, name: str, ephemeral: bool = False) -> None:
        """Make an Empty group before anybody joins it; an ephemeral one is deleted when its last member is gone.

        Raises Refused.
        """
        shard = self._shard(name)
        if name in shard.groups:
            raise Refused(ErrorCode.DUPLICATE_RESOURCE, "There is such a group already.")
        shard.create(name, self.cluster.clock())
        if ephemeral:
            if not self._ephemeral:
                self.watch.start()
                self.watch.follow(self._delete_ephemeral)
            self._ephemeral.add(name)
        self.settle()

    def delete_group(self, name: str) -> None:
        """Delete an Empty group with its offsets. Raises Refused."""
        (deleted,) = self.cluster.owner_of(name).groups.delete([name], self.cluster.clock())
        if deleted.error_code:
            raise Refused(
                ErrorCode(deleted.error_code), _DELETE_REFUSED.get(deleted.error_code, "It cannot be deleted.")
            )
        self._ephemeral.discard(name)
        self.settle()

    def rewind(self, name: str, offsets: Offsets) -> Rewind:
        """Let a group, alive or not, begin anew from other offsets. Raises CannotRewind."""
        return Rewind(self.interception, name, offsets)

    def _shard(self, name: str) -> Shard:
        if not name:
            raise Refused(ErrorCode.INVALID_GROUP_ID, "A group id is not empty.")
        groups = self.cluster.owner_of(name).groups
        shard = groups.shards.get(groups.partition_of(name))
        if shard is None:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group's coordinator is not available.")
        return shard

    def _delete_ephemeral(self, number: int, now: float, event: Mapping[str, Any]) -> None:
        name = event.get("group")
        if event["event"] == "state" and event["to"] == "Empty" and name in self._ephemeral:
            # Not at once: the events of a tick are told while it is still being settled.
            self._nursery.start_soon(self._delete_soon, name)

    async def _delete_soon(self, name: str) -> None:
        group = self.cluster.owner_of(name).groups.groups.get(name)
        if group is not None and not group.members:
            self.delete_group(name)

    # Time

    def freeze(self) -> None:
        """Stop the coordinator's clock."""
        assert self.clock is not None
        self.clock.freeze()

    def resume(self) -> None:
        """Let the coordinator's clock go on from where it stands."""
        assert self.clock is not None
        self.clock.resume()
        self.rearm()

    def rearm(self) -> None:
        """Let who sleeps until something is due see that it comes at another time."""
        self.cluster.rearm()

    def advance(self, seconds: float) -> None:
        """Put the coordinator's clock forward, through all that becomes due on the way."""
        assert self.clock is not None
        end = self.clock() + seconds
        while (due := self.next_due()) <= end:
            self.clock.put(due)
            self.do_due()
        self.clock.put(end)
        self.do_due()
        self.rearm()

    def next_due(self) -> float:
        """When something happens next, on the coordinator's clock."""
        return min((node.groups.next_deadline() for node in self.cluster.nodes.values()), default=inf)

    def do_due(self) -> None:
        """Let happen what is due."""
        self.cluster.fire(self.cluster.clock())

    # Brokers

    def coordinator_of(self, group: str) -> int:
        """The id of the broker that coordinates a group."""
        return self.cluster.owner_of(group).id

    def move(self, group: str, broker: int) -> None:
        """Let another broker coordinate a group, with all of its partition of `__consumer_offsets`.

        Raises ValueError.
        """
        self.cluster.move_partition(partition_for(group, self.cluster.partitions), broker)

    def load_takes(self, seconds: float) -> None:
        """How much longer than it must every load of partitions takes from now on."""
        self.cluster.loader.seconds = seconds

    def settle(self) -> None:
        """Hand on what came of the last change."""
        self.cluster.settle(self.cluster.clock())

    def close(self) -> None:
        """Undo what stands in clients' way: faults and barriers."""
        self.faults.clear()
        self.barriers.clear()


_DELETE_REFUSED: dict[int, str] = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
}
