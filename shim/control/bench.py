"""The workbench: everything that can be done to a running coordinator from outside, in its own thread.

Decides which parts belong together: what happened and is awaited, faults and barriers, time, brokers, rewinds. The HTTP
control API offers it to any language, `testing/` to Python, which has puppets and a store that fails too: those are
known here by what can be done to them alone. It does not know HTTP.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab.barriers import Barriers
from kafka_shim.lab.clock import TestClock
from kafka_shim.lab.event_history import Watch
from kafka_shim.lab.faults import Faults
from kafka_shim.lab.group_waits import GroupAwait
from kafka_shim.lab.interception import Interception, later_in
from kafka_shim.lab.rewind import Offsets, Rewind
from kafka_shim.persistence.partition import partition_for
from kafka_shim.server.server import Server

if TYPE_CHECKING:
    from kafka_shim.control.metrics import Metrics

AWAITED_GROUPS: Final = 10_000
"""Groups of which it is kept what somebody who waits has seen; the one not asked for for longest goes first."""
STEP_SECONDS: Final = 0.02
"""How long the clock is put forward before others get a turn."""


class Puppet(Protocol):
    """A scripted member; `shim/lab/puppets.py` has it."""

    @property
    def script(self) -> Script:
        """What it says of itself."""

    member_id: str
    generation: int
    leads: bool
    owned: dict[str, list[int]]
    errors: list[tuple[str, ErrorCode]]
    fenced: bool

    def join(self) -> None: ...

    def leave(self) -> None: ...

    def crash(self) -> None: ...

    def silence(self) -> None: ...

    def commit(self, offsets: Mapping[tuple[str, int], int], *, generation: int | None = None) -> None: ...


class Script(Protocol):
    """What a puppet says of itself."""

    @property
    def group(self) -> str: ...

    @property
    def client_id(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...


class Breakable(Protocol):
    """A store that fails when it is told to; `shim/lab/failing_store.py` has it."""

    def fail(self, times: int | None = 1) -> None: ...

    def repair(self) -> None: ...


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
        self.puppets: dict[int, Puppet] = {}
        """Those added by number, for who cannot hold one itself."""
        self.store: Breakable | None = None
        self._groups: OrderedDict[str, GroupAwait] = OrderedDict()
        self._numbers = count(1)
        self._advancing = trio.Lock()
        self._nursery = nursery
        if watched:
            self.watch.start()

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap servers."""
        return self.server.bootstrap

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics of the cluster."""
        # Imported here because it takes long, and tests seldom ask.
        from kafka_shim.control.metrics import Metrics

        return Metrics(self.cluster)

    # Groups

    def group(self, name: str) -> GroupAwait:
        """Waits for a group; the same object for the same name, unless it was not asked for for long."""
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = GroupAwait(self.watch, name)
            if len(self._groups) > AWAITED_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(name)
        return found

    def create_group(self, name: str, ephemeral: bool = False, heartbeat_bound_ms: int | None = None) -> None:
        """Make an Empty group before anybody joins it; it stays until somebody has been in it.

        An ephemeral one is deleted when its last member is gone. Nobody in it may stay silent for longer than the
        bound, whatever session timeout was asked for. Raises Refused.
        """
        groups = self.cluster.ownership.owner_of(name).groups
        error = groups.precreate(name, ephemeral, heartbeat_bound_ms, self.cluster.clock())
        if error:
            raise Refused(error, _CREATE_REFUSED[error])
        self.settle()

    def delete_group(self, name: str) -> None:
        """Delete an Empty group with its offsets. Raises Refused."""
        (deleted,) = self.cluster.ownership.owner_of(name).groups.delete([name], self.cluster.clock())
        if deleted.error_code:
            raise Refused(
                ErrorCode(deleted.error_code), _DELETE_REFUSED.get(deleted.error_code, "It cannot be deleted.")
            )
        self.settle()

    def rewind(self, name: str, offsets: Offsets) -> Rewind:
        """Let a group, alive or not, begin anew from other offsets. Raises CannotRewind."""
        return Rewind(self.interception, name, offsets)

    # Members

    def puppet(self, group: str, topics: Sequence[str], **script: Any) -> Puppet:
        """A scripted member that joins now. Raises Refused where there are none."""
        raise Refused(ErrorCode.INVALID_REQUEST, "This coordinator has no puppets.")

    def add_puppet(self, script: Mapping[str, Any]) -> int:
        """A scripted member that joins now; its number in `puppets`. Raises Refused."""
        puppet = self.puppet(**script)
        number = next(self._numbers)
        self.puppets[number] = puppet
        self.settle()
        return number

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
        self.cluster.ticks.rearm()

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

    async def advance_giving_way(self, seconds: float) -> None:
        """Put the coordinator's clock forward as `advance` does, with a turn for others when that takes long."""
        assert self.clock is not None
        async with self._advancing:
            end = self.clock() + seconds
            while self.clock() < end:
                turn = trio.current_time() + STEP_SECONDS
                while (due := self.next_due()) <= end and trio.current_time() < turn:
                    self.clock.put(due)
                    self.do_due()
                if due > end:
                    self.clock.put(end)
                    self.do_due()
                self.rearm()
                await trio.lowlevel.checkpoint()

    def next_due(self) -> float:
        """When something happens next, on the coordinator's clock."""
        return min((node.groups.next_deadline() for node in self.cluster.nodes.values()), default=inf)

    def do_due(self) -> None:
        """Let happen what is due."""
        self.cluster.ticks.fire(self.cluster.clock())

    # Brokers

    def coordinator_of(self, group: str) -> int:
        """The id of the broker that coordinates a group."""
        return self.cluster.ownership.owner_of(group).id

    def move(self, group: str, broker: int) -> None:
        """Let another broker coordinate a group, with all of its partition of `__consumer_offsets`.

        Raises Refused.
        """
        self.check_broker(broker, up=True)
        self.cluster.move_partition(partition_for(group, self.cluster.ownership.partitions), broker)

    def check_broker(self, broker: int, *, up: bool) -> None:
        """Raises Refused unless there is such a broker, and it is up, or not."""
        node = self.cluster.nodes.get(broker)
        if node is None:
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker {broker}.")
        if node.up is not up:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Broker {broker} is {'up' if node.up else 'down'} already.")

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


_CREATE_REFUSED: dict[int, str] = {
    ErrorCode.INVALID_GROUP_ID: "A group id is not empty.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The group's coordinator is not available.",
    ErrorCode.DUPLICATE_RESOURCE: "There is such a group already.",
}

_DELETE_REFUSED: dict[int, str] = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
}
