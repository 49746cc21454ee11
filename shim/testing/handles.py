"""Handles for tests in other threads than the server: groups, faults, barriers (requests held until the test lets them
go), puppets (scripted members) and the clock.

Each method calls the object's own method in the server's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from inspect import isawaitable
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab import arguments
from kafka_shim.lab.barriers import Barrier
from kafka_shim.lab.faults import Fault, Firing
from kafka_shim.lab.group_waits import LOOK_SECONDS, TIMEOUT, GroupWaits, NotReached, OwnedPartitions
from kafka_shim.lab.interception import Block
from kafka_shim.lab.killed import Killed
from kafka_shim.lab.snapshots import GroupSnapshot
from kafka_shim.testing.calls import explains_calls
from kafka_shim.testing.thread import CoordinatorThread

if TYPE_CHECKING:
    from kafka_shim.experiments.client_assignors.puppets import ClientAssignorPuppet, PuppetAssignor
    from kafka_shim.experiments.registered.puppets import RegisteredPuppet
    from kafka_shim.lab.puppets import Puppet

T = TypeVar("T")


class GroupView:
    """A group without its waits."""

    def __init__(self, server: CoordinatorThread, group: GroupWaits) -> None:
        self.name = group.group
        self._server = server
        self._group = group

    @property
    def now(self) -> GroupSnapshot:
        """The present state of the group."""
        return self._server.call(lambda: self._group.now)

    def story(self) -> list[str]:
        """Return the story of the group, as readable lines."""
        return self._server.call(self._group.story)

    def _never(
        self, wait: Callable[..., Coroutine[Any, Any, None]], seconds: float | None, heartbeats: int | None, **rest: Any
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        if seconds is None and heartbeats is None:
            raise ValueError(f"{wait.__name__} needs seconds or heartbeats.")
        kit = self._server.kit
        advance = kit.advance if seconds is not None and kit.clock.is_frozen else None
        return partial(wait, seconds, heartbeats=heartbeats, advance=advance, **rest)

    def _vain(self, goal: str, timeout: float) -> NotReached:
        return self._server.call(self._group.vain, goal, timeout)


@explains_calls
class Group(GroupView):
    """Waits for states and events of a group; see `GroupWaits`. Timeouts are real seconds; all raise NotReached."""

    def stable(
        self,
        *,
        members: int | Collection[str] | None = None,
        generation: int | None = None,
        owners: Mapping[str, OwnedPartitions] | None = None,
        timeout: float = TIMEOUT,
    ) -> GroupSnapshot:
        """See `GroupWaits.stable`."""
        wait = partial(self._group.stable, members=members, generation=generation, owners=owners, timeout=timeout)
        return cast("GroupSnapshot", self._server.wait(wait))

    def consuming(self, *, members: int | Collection[str] | None = None, timeout: float = TIMEOUT) -> GroupSnapshot:
        """See `GroupWaits.consuming`."""
        wait = partial(self._group.consuming, members=members, timeout=timeout)
        return cast("GroupSnapshot", self._server.wait(wait))

    def owns(self, member: str, partitions: OwnedPartitions, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """See `GroupWaits.owns`."""
        return cast("GroupSnapshot", self._server.wait(partial(self._group.owns, member, partitions, timeout=timeout)))

    def empty(self, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """See `GroupWaits.empty`."""
        return cast("GroupSnapshot", self._server.wait(partial(self._group.empty, timeout=timeout)))

    def next(self, event: str, *, from_now: bool = False, timeout: float = TIMEOUT, **fields: Any) -> dict[str, Any]:
        """See `GroupWaits.next`."""
        arguments.event_of(event, fields)
        wait = partial(self._group.next, event, from_now=from_now, timeout=timeout, **fields)
        return cast("dict[str, Any]", self._server.wait(wait))

    def committed(self, topic: str, partition: int, *, at_least: int | None = None, timeout: float = TIMEOUT) -> int:
        """See `GroupWaits.committed`."""
        wait = partial(self._group.committed, topic, partition, at_least=at_least, timeout=timeout)
        return int(self._server.wait(wait))

    def caught_up(self, *topics: str, timeout: float = TIMEOUT) -> None:
        """See `GroupWaits.caught_up`."""
        self._server.wait(partial(self._group.caught_up, *topics, timeout=timeout))

    def no_rebalance_for(
        self, seconds: float | None = None, *, heartbeats: int | None = None, timeout: float = TIMEOUT
    ) -> None:
        """See `GroupWaits.no_rebalance_for`. While the clock is frozen, `seconds` are those of the coordinator."""
        self._server.wait(self._never(self._group.no_rebalance_for, seconds, heartbeats, timeout=timeout))

    def no_commit_for(
        self,
        seconds: float | None = None,
        *,
        topic: str | None = None,
        heartbeats: int | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """See `GroupWaits.no_commit_for`. While the clock is frozen, `seconds` are those of the coordinator."""
        self._server.wait(self._never(self._group.no_commit_for, seconds, heartbeats, topic=topic, timeout=timeout))

    def wait_for(
        self,
        condition: Callable[[GroupSnapshot], Any],
        goal: str = "the condition of the test",
        *,
        timeout: float = TIMEOUT,
    ) -> GroupSnapshot:
        """See `GroupWaits.wait_for`. The condition is called in the caller's thread."""
        arguments.seconds("timeout", timeout)
        end = monotonic() + timeout
        while True:
            now = self.now
            result = condition(now)
            if isawaitable(result):
                raise TypeError("A condition to await needs AsyncCoordinator.")
            if result:
                return now
            if monotonic() >= end:
                raise self._vain(goal, timeout)
            self._server.wait(self._group.changed, min(LOOK_SECONDS, max(end - monotonic(), 0.0)))


@explains_calls
class Clock:
    """The coordinator's clock. Its timers follow it; clients, their sockets and waiting fetches use real time."""

    def __init__(self, server: CoordinatorThread) -> None:
        self._server = server

    @property
    def is_frozen(self) -> bool:
        """True while it is frozen."""
        return self._server.kit.clock.is_frozen

    def freeze(self) -> None:
        """Freeze it; only `advance` moves it."""
        self._server.call(self._server.kit.freeze)

    def resume(self) -> None:
        """Let it run again from its present time."""
        self._server.call(self._server.kit.resume)

    def advance(self, seconds: float) -> None:
        """Advance it by `seconds`, with all timers that become due, and let puppets act.

        Real clients act only if it takes long: puppets send all their heartbeats of days. Ctrl-C ends it then, but not
        on an event loop.
        """
        self._server.call_giving_way(self._server.kit.advance, self._server.kit.advance_giving_way, seconds)


@explains_calls
class FaultView(Block):
    """A declared fault, as a context manager until the end of the block, without its waits; see `Fault`."""

    def __init__(self, server: CoordinatorThread, fault: Fault) -> None:
        self._server = server
        self._fault = fault

    def __str__(self) -> str:
        return str(self._fault)

    @property
    def fired(self) -> int:
        """How many times it has happened."""
        return self._server.call(lambda: self._fault.fired)

    @property
    def firings(self) -> list[Firing]:
        """The time and the request of each time it happened."""
        return self._server.call(lambda: list(self._fault.firings))

    def clear(self) -> None:
        """Remove it."""
        self._server.call(self._fault.clear)

    _end = clear


@explains_calls
class FaultHandle(FaultView):
    """A declared fault, as a context manager until the end of the block; see `Fault`."""

    def wait_fired(self, times: int = 1, *, timeout: float = TIMEOUT) -> None:
        """Wait until it has happened `times` times. Raises NotReached."""
        self._server.wait(self._server.kit.fired, self._fault, times, timeout)


@explains_calls
class BarrierView(Block):
    """A barrier in force, as a context manager until the end of the block, without its waits; see `Barrier`."""

    def __init__(self, server: CoordinatorThread, barrier: Barrier) -> None:
        self._server = server
        self._barrier = barrier

    @property
    def held(self) -> list[str]:
        """The senders of the held requests: member ids, or client ids of those without one."""
        return self._server.call(lambda: [each.facts.member or each.facts.client_id for each in self._barrier.held])

    def release(self, requests: int | None = None) -> int:
        """Release the held requests, or the first few; return their number. The barrier stays in force."""
        return self._server.call(self._barrier.release, requests)

    def remove(self) -> None:
        """Release all held requests, and hold no more."""
        self._server.call(self._barrier.remove)

    _end = remove


@explains_calls
class BarrierHandle(BarrierView):
    """A barrier in force, as a context manager until the end of the block; see `Barrier`."""

    def reached(self, requests: int = 1, *, timeout: float = TIMEOUT) -> None:
        """Wait until it holds `requests` requests. Raises NotReached."""
        self._server.wait(self._server.kit.reached, self._barrier, requests, timeout)


class KilledHandle(Block):
    """Killed clients, until `clear` or the end of a `with` block; see `Killed`."""

    def __init__(self, server: CoordinatorThread, killed: Killed) -> None:
        self._server = server
        self._killed = killed

    def clear(self) -> None:
        """Revive them."""
        self._server.call(self._killed.clear)

    _end = clear


@explains_calls
class PuppetHandle:
    """A scripted member; see `Puppet`."""

    def __init__(self, server: CoordinatorThread, puppet: Puppet) -> None:
        self._server = server
        self._puppet = puppet

    def _seen(self, look: Callable[[], T]) -> T:
        """Return a value of the puppet, after it has read the answers sent to it before."""
        kit = self._server.kit

        def read() -> T:
            kit.scheduler.run(kit.clock())
            return look()

        return self._server.call(read)

    def _do(self, act: Callable[[], None]) -> None:
        """Let the puppet act, and send its requests at once."""
        kit = self._server.kit

        def run() -> None:
            act()
            now = kit.clock()
            kit.scheduler.run(now)
            kit.cluster.settle(now)

        self._server.call(run)

    @property
    def member_id(self) -> str:
        """Its member id, empty while it has none."""
        return self._seen(lambda: self._puppet.member_id)

    @property
    def generation(self) -> int:
        """Its generation, -1 without one."""
        return self._seen(lambda: self._puppet.generation)

    @property
    def owned(self) -> dict[str, list[int]]:
        """Its assignment, by topic."""
        return self._seen(lambda: dict(self._puppet.owned))

    @property
    def errors(self) -> list[tuple[str, ErrorCode]]:
        """Every error in an answer to it, with the API's name."""
        return self._seen(lambda: list(self._puppet.errors))

    @property
    def is_fenced(self) -> bool:
        """True if another member has taken its group instance id."""
        return self._seen(lambda: self._puppet.fenced)

    def join(self) -> None:
        """Join again, after it left or crashed."""
        self._do(self._puppet.join)

    def leave(self) -> None:
        """Leave the group with its protocol's request."""
        self._do(self._puppet.leave)

    def crash(self) -> None:
        """Close the connection and stop, without leaving the group."""
        self._do(self._puppet.crash)

    def silence(self) -> None:
        """Send nothing more, but keep the connection."""
        self._do(self._puppet.silence)

    def commit(self, offsets: Mapping[tuple[str, int], int], *, generation: int | None = None) -> None:
        """Commit offsets by topic and partition, as a member of its generation or of another one."""
        self._do(partial(self._puppet.commit, offsets, generation=generation))


class ClientAssignorHandle(PuppetHandle):
    """A scripted member that computes assignments itself; see `ClientAssignorPuppet`."""

    _puppet: ClientAssignorPuppet

    @property
    def installed(self) -> list[int]:
        """The group epochs of its computations."""
        return self._seen(lambda: list(self._puppet.installed))

    @property
    def metadata(self) -> bytes:
        """The assignor's metadata in its assignment."""
        return self._seen(lambda: self._puppet.metadata)

    @property
    def assignor_error(self) -> int:
        """The assignor's error in its assignment, 0 for none."""
        return self._seen(lambda: self._puppet.assignor_error)

    def say(self, *assignors: PuppetAssignor) -> None:
        """Use these assignors from now on, or their new metadata."""
        self._server.call(lambda: self._puppet.say(*assignors))


class RegisteredHandle(PuppetHandle):
    """A scripted member that registers; see `RegisteredPuppet`."""

    _puppet: RegisteredPuppet

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """Its first offsets, by topic and partition, -1 without a committed offset."""
        return self._seen(lambda: dict(self._puppet.positions))

    def rewind(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set the offsets from which the group continues."""
        self._server.call(lambda: self._puppet.rewind(offsets))
