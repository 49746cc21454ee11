"""What `CoordinatorServer` hands out: groups, faults, barriers, puppets, the clock, for threads that are not its own.

Decides nothing: every method is that of the object in the server's thread, which does it there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab import arguments
from kafka_shim.lab.barriers import Barrier
from kafka_shim.lab.faults import Fault, Firing
from kafka_shim.lab.group_waits import TIMEOUT, GroupWaits, OwnedPartitions
from kafka_shim.lab.puppets import Puppet
from kafka_shim.lab.snapshots import GroupSnapshot
from kafka_shim.testing.thread import CoordinatorThread

if TYPE_CHECKING:
    from kafka_shim.lab.client_assignor_puppets import ClientAssignorPuppet, PuppetAssignor
    from kafka_shim.lab.registered_puppets import RegisteredPuppet

T = TypeVar("T")


class GroupView:
    """A group without its waits."""

    def __init__(self, server: CoordinatorThread, group: GroupWaits) -> None:
        self.name = group.group
        self._server = server
        self._group = group

    @property
    def now(self) -> GroupSnapshot:
        """The group as it is."""
        return self._server.call(lambda: self._group.now)

    def story(self) -> list[str]:
        """What happened to the group, in lines a person reads."""
        return self._server.call(self._group.story)

    def _no_rebalance(
        self, seconds: float | None, heartbeats: int | None, timeout: float
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        if seconds is None and heartbeats is None:
            raise ValueError("Say for how many seconds there is to be no rebalance, or for how many heartbeats.")
        kit = self._server.kit
        advance = kit.advance if seconds is not None and kit.clock.is_frozen else None
        return partial(self._group.no_rebalance_for, seconds, heartbeats=heartbeats, advance=advance, timeout=timeout)


class Group(GroupView):
    """Waits for what becomes of a group; see `GroupWaits`. Timeouts are real seconds; all raise NotReached."""

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

    def no_rebalance_for(
        self, seconds: float | None = None, *, heartbeats: int | None = None, timeout: float = TIMEOUT
    ) -> None:
        """See `GroupWaits.no_rebalance_for`. While the clock is frozen, `seconds` are those of the coordinator."""
        self._server.wait(self._no_rebalance(seconds, heartbeats, timeout))


class Clock:
    """The coordinator's clock. Its timers follow it; clients, their sockets and fetches that wait do not."""

    def __init__(self, server: CoordinatorThread) -> None:
        self._server = server

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self._server.kit.clock.is_frozen

    def freeze(self) -> None:
        """Let it stand still; only `advance` moves it."""
        self._server.call(self._server.kit.freeze)

    def resume(self) -> None:
        """Let it go on from where it stands."""
        self._server.call(self._server.kit.resume)

    def advance(self, seconds: float) -> None:
        """Put it forward, through all that becomes due on the way; puppets act, real clients have no time to."""
        self._server.call(self._server.kit.advance, seconds)


class FaultView:
    """A fault in force, without its waits; see `Fault`."""

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
        """When it happened, and to whom."""
        return self._server.call(lambda: list(self._fault.firings))

    def clear(self) -> None:
        """Let it happen no more."""
        self._server.call(self._fault.clear)


class FaultHandle(FaultView):
    """A fault in force; see `Fault`."""

    def wait_fired(self, times: int = 1, *, timeout: float = TIMEOUT) -> None:
        """Wait until it has happened so often. Raises NotReached."""
        self._server.wait(self._server.kit.fired, self._fault, times, timeout)


class BarrierView:
    """A barrier in force, without its waits; see `Barrier`."""

    def __init__(self, server: CoordinatorThread, barrier: Barrier) -> None:
        self._server = server
        self._barrier = barrier

    @property
    def held(self) -> list[str]:
        """Who is held, by member id where there is one, else by client id."""
        return self._server.call(lambda: [held.facts.member or held.facts.client_id for held in self._barrier.held])

    def release(self, requests: int | None = None) -> int:
        """Let go what it holds, or the first few; how many that were. It stays in force."""
        return self._server.call(self._barrier.release, requests)

    def remove(self) -> None:
        """Let go everything, and hold nothing more."""
        self._server.call(self._barrier.remove)


class BarrierHandle(BarrierView):
    """A barrier in force, as a context manager until the end of the block; see `Barrier`."""

    def __enter__(self) -> BarrierHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    def reached(self, requests: int = 1, *, timeout: float = TIMEOUT) -> None:
        """Wait until it holds so many. Raises NotReached."""
        self._server.wait(self._server.kit.reached, self._barrier, requests, timeout)


class PuppetHandle:
    """A scripted member; see `Puppet`."""

    def __init__(self, server: CoordinatorThread, puppet: Puppet) -> None:
        self._server = server
        self._puppet = puppet

    def _seen(self, look: Callable[[], T]) -> T:
        """What it knows, once it has read the answers that were sent to it before."""
        kit = self._server.kit

        def read() -> T:
            kit.scheduler.run(kit.clock())
            return look()

        return self._server.call(read)

    @property
    def member_id(self) -> str:
        """Its member id, empty while it has none."""
        return self._seen(lambda: self._puppet.member_id)

    @property
    def generation(self) -> int:
        """The generation it is in, -1 for none."""
        return self._seen(lambda: self._puppet.generation)

    @property
    def owned(self) -> dict[str, list[int]]:
        """What it has been assigned, by topic."""
        return self._seen(lambda: dict(self._puppet.owned))

    @property
    def errors(self) -> list[tuple[str, ErrorCode]]:
        """Every error it was answered, with the API's name."""
        return self._seen(lambda: list(self._puppet.errors))

    @property
    def is_fenced(self) -> bool:
        """Whether another member has taken its group instance id."""
        return self._seen(lambda: self._puppet.fenced)

    def join(self) -> None:
        """Join anew, after it left or crashed."""
        self._server.call(self._puppet.join)

    def leave(self) -> None:
        """Leave in good order."""
        self._server.call(self._puppet.leave)

    def crash(self) -> None:
        """Do nothing more, and close the connection without a word."""
        self._server.call(self._puppet.crash)

    def silence(self) -> None:
        """Do nothing more, but keep the connection."""
        self._server.call(self._puppet.silence)

    def commit(self, offsets: Mapping[tuple[str, int], int], *, generation: int | None = None) -> None:
        """Commit offsets by topic and partition, as a member of its generation or of another one."""
        self._server.call(partial(self._puppet.commit, offsets, generation=generation))


class ClientAssignorHandle(PuppetHandle):
    """A scripted member that computes assignments itself; see `ClientAssignorPuppet`."""

    _puppet: ClientAssignorPuppet

    @property
    def installed(self) -> list[int]:
        """The group epochs whose assignment it computed."""
        return self._seen(lambda: list(self._puppet.installed))

    @property
    def metadata(self) -> bytes:
        """What the assignor said to it with its assignment."""
        return self._seen(lambda: self._puppet.metadata)

    @property
    def assignor_error(self) -> int:
        """The error that the assignor said to it, 0 for none."""
        return self._seen(lambda: self._puppet.assignor_error)

    def say(self, *assignors: PuppetAssignor) -> None:
        """Have these assignors from now on, or say other metadata."""
        self._server.call(lambda: self._puppet.say(*assignors))


class RegisteredHandle(PuppetHandle):
    """A scripted member that registers; see `RegisteredPuppet`."""

    _puppet: RegisteredPuppet

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """The offsets that it began from, by topic and partition, -1 where none was committed."""
        return self._seen(lambda: dict(self._puppet.positions))

    def rewind(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Let the group go on from these offsets."""
        self._server.call(lambda: self._puppet.rewind(offsets))
