"""The workbench: the operations on a running coordinator from outside, in the coordinator's thread.

It joins groups, their history, and metrics. The operations and waits of a laboratory are in `lab_workbench.py`, which
is imported at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.server.computations import switching_often
from kafka_shim.server.frames import FrameHistory
from kafka_shim.server.history import Entry, EventHistory
from kafka_shim.server.refusals import Refused
from kafka_shim.server.server import Server
from kafka_shim.server.trace_file import limits_of
from kafka_shim.trace.events import SCHEMA_VERSION

if TYPE_CHECKING:
    from kafka_shim.control.metrics import Metrics


T = TypeVar("T")


class Workbench:
    """A running coordinator. It keeps the history of groups and their members from the beginning."""

    def __init__(self, server: Server, nursery: trio.Nursery) -> None:
        self.server = server
        self.cluster = server.cluster
        self.history = EventHistory(self.cluster.events, self.cluster.wall_offset)
        self.history.start(requests=False)
        self.frames = FrameHistory(lambda: self.cluster.nodes.values())
        self.nursery = nursery
        self._long_calls = trio.CapacityLimiter(1)
        self._short_calls = trio.CapacityLimiter(1)
        self.has_tls = False
        """True if the control server is HTTPS."""
        self.served_on: tuple[str, str | None] = ("127.0.0.1", None)
        """Host and token of the control server, if it runs."""
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
        """Return the bootstrap servers for clients."""
        return self.server.bootstrap

    def story(self, group: str | None = None, since: int = 0) -> list[str]:
        """Return the story of a group, or of all, after the event of number `since`, as lines for a person."""
        return [line for piece in self.story_pieces(group, since) for line in piece]

    def story_pieces(self, group: str | None = None, since: int = 0) -> Iterator[list[str]]:
        """Yield the story until now in pieces of a few milliseconds; clients may be served in between."""
        for lines in self._lines(group, since):
            if since < self.history.forgotten:
                since = self.history.forgotten
                yield [f"(the oldest {self.history.dropped[0]:,} events are forgotten)"]
            yield lines

    def _lines(self, group: str | None, since: int) -> Iterator[list[str]]:
        # Imported here: most tests pass, and no one reads their story.
        from kafka_shim.why.narration import Narrator

        narrator = Narrator()
        for piece in self.history.pieces(since, group):
            yield [str(line) for _, now, event in piece for line in narrator.lines(event, now)]

    def trace_header(self) -> dict[str, Any]:
        """Return the first event of a trace, without its number and times."""
        nodes = self.cluster.nodes.values()
        return {
            "event": "trace",
            "schema": SCHEMA_VERSION,
            "run": "test",
            "file": 1,
            "release": self.cluster.config.release,
            "nodes": [{"node": each.id, "host": each.address.host, "port": each.address.port} for each in nodes],
            "limits": limits_of(self.cluster),
        }

    async def computed(self, compute: Callable[[str, Iterable[Entry]], T], group: str) -> T:
        """Compute something from the events of a group in another thread, so that its clients do not wait.

        The thread of a cancelled computation goes on, and nothing waits for it: it must not be inside a library when
        the interpreter ends.
        """
        entries = self.history.since(0, group)
        with switching_often():
            return await trio.to_thread.run_sync(
                compute, group, entries, limiter=self._long_calls, abandon_on_cancel=True
            )

    async def elsewhere(self, function: Callable[..., T], *arguments: Any, is_long: bool = False) -> T:
        """Call a function in another thread, so that clients of the coordinator do not wait.

        One long call, of many seconds, runs at a time, and one other. They take none of trio's default threads, which
        the store writes with.
        """
        limiter = self._long_calls if is_long else self._short_calls
        with switching_often():
            return await trio.to_thread.run_sync(function, *arguments, limiter=limiter)

    def has_group(self, name: str) -> bool:
        """Return True if the group exists, or the history remembers it."""
        groups = self.cluster.ownership.owner_of(name).groups.groups
        return name in groups or self.history.has(name)

    def create_group(self, name: str, ephemeral: bool = False, heartbeat_bound_ms: int | None = None) -> None:
        """Create an Empty group before its first member; it stays until a member has been in it.

        An ephemeral group is deleted when its last member has left. No member may be silent for longer than the bound,
        regardless of its session timeout. Raises Refused.
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
        """Send the effects of the last change."""
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
