"""The workbench of a laboratory: all operations of tests on a running coordinator, in the coordinator's thread.

It joins waits, faults and barriers, time, brokers and rewinds. The HTTP control API offers it to any language,
`testing/` to Python.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.problems import also
from kafka_shim.control.sandboxes import Sandboxes
from kafka_shim.control.workbench import Workbench
from kafka_shim.groups.timers import Timer
from kafka_shim.lab.barriers import Barriers
from kafka_shim.lab.clock import TestClock
from kafka_shim.lab.failing_store import BreakableStore
from kafka_shim.lab.faults import Faults
from kafka_shim.lab.group_waits import GroupWaits, NotReached
from kafka_shim.lab.interception import Interception, Unmatchable, Unreachable, later_in, similar
from kafka_shim.lab.killed import Killed
from kafka_shim.lab.rewind import Offsets, Rewind
from kafka_shim.lab.sessions import end_sessions, sessions_of
from kafka_shim.lab.topic_data import TopicData
from kafka_shim.persistence.partition import partition_for
from kafka_shim.server.history import EventHistory
from kafka_shim.server.refusals import Refused
from kafka_shim.server.server import Server

if TYPE_CHECKING:
    from kafka_shim.lab.puppets import Puppet

also(NotReached, 409, "NOT_REACHED")
also(Unmatchable, 400, "INVALID_REQUEST")
also(Unreachable, 409, "NOT_REACHED")

AWAITED_GROUPS: Final = 10_000
"""Number of groups with waits. The least recently used one goes first."""
STEP_SECONDS: Final = 0.02
"""Seconds by which the clock advances at most before other tasks get a turn."""


class LabWorkbench(TopicData, Workbench):
    """A running coordinator and the operations of tests on it. `clock` is None if its time cannot be changed.

    Without `history` it keeps every request from the beginning, at a small cost for each.
    """

    def __init__(
        self,
        server: Server,
        nursery: trio.Nursery,
        clock: TestClock | None = None,
        history: EventHistory | None = None,
    ) -> None:
        super().__init__(server, nursery)
        self.clock = clock
        if history is None:
            self.history.start()
        else:
            self.history.stop(requests=False)
            self.history = history
        self.interception = Interception(self.cluster, later_in(nursery, self.cluster))
        self.conditions = self.interception.conditions
        """Checked after every tick with an event, and whenever an intercept has acted."""
        self.history.on_change.append(self.conditions.check)
        self.faults = Faults(self.interception)
        self.barriers = Barriers(self.interception)
        self.puppets: dict[int, Puppet] = {}
        """Puppets by number, for callers that cannot hold a Python object."""
        self.store: BreakableStore | None = None
        self.sandboxes = Sandboxes(self)
        self._groups: OrderedDict[str, GroupWaits] = OrderedDict()
        self._numbers = count(1)
        self._advancing = trio.Lock()

    # Groups

    def group(self, name: str) -> GroupWaits:
        """Return the waits for a group; the same object for the same name while it is remembered."""
        waits = self._groups.get(name)
        if waits is None:
            waits = self._groups[name] = self.waits_for(name)
            if len(self._groups) > AWAITED_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(name)
        return waits

    def waits_for(self, name: str) -> GroupWaits:
        """Make the waits for a group."""
        return GroupWaits(self.cluster, self.history, self.conditions, name)

    def _lines(self, group: str | None, since: int) -> Iterator[list[str]]:
        """The lines of the story, with brokers that went down too, and with records if `data_events` is on."""
        # Imported here: most tests pass, and no one reads their story.
        from kafka_shim.lab.narration import pieces

        return pieces(self.history, group, since)

    def data_events(self, on: bool = True) -> None:
        """Let Produce, Fetch and ListOffsets have `exchange` events from now on, or no more.

        They are about no group, and show the first 100 topics and partitions. A Fetch without news has none, and a
        Produce without an answer (acks=0).
        """
        for node in self.cluster.nodes.values():
            node.exchanges.topic_name = self.cluster.topics.topic_name if on else None

    def rewind(self, name: str, offsets: Offsets) -> Rewind:
        """Let a group, with or without members, start again from other offsets. Raises CannotRewind."""
        return Rewind(self.interception, name, offsets)

    # Members

    def start_puppet(self, kind: str, script: Mapping[str, Any]) -> Puppet:
        """Start a scripted member of a kind, which joins now. Raises Refused if the kind has no puppets here, and
        ValueError."""
        raise Refused(ErrorCode.INVALID_REQUEST, "This coordinator has no puppets.")

    def add_puppet(self, kind: str, script: Mapping[str, Any]) -> int:
        """Start a scripted member as `start_puppet` does; return its number in `puppets`. Raises Refused and
        ValueError."""
        number = self.number(self.start_puppet(kind, script))
        self.settle()
        return number

    def number(self, puppet: Puppet) -> int:
        """Give a puppet a number in `puppets`."""
        number = next(self._numbers)
        self.puppets[number] = puppet
        return number

    def expire(self, group: str, member: str) -> None:
        """End the session of a member now, as after a silence of its session timeout; the clock stays.

        `member` is a client id, a group instance id or a member id. Raises ValueError if no session of it runs: a
        member that waits in a JoinGroup has none.
        """
        now = self.group(group).now
        node = self.cluster.ownership.owner_of(group)
        sessions = sessions_of([node], group, {each.member_id for each in now.called(member)})
        if not sessions:
            raise ValueError(f"No session of {member!r} runs in the group {group!r}. {now}")
        self.interception.end_journal("the session of a member is ended before its time")
        end_sessions(node, sessions, self.cluster.clock())
        self.settle()

    def sessions(self) -> list[Timer]:
        """Return the timers of all members' sessions that run."""
        return sessions_of(self.cluster.nodes.values())

    def disconnect(self, client_id: str) -> int:
        """Close all connections of clients with this id, which may have `*` and `?`; return their number."""
        sessions = [session for session in self.cluster.sessions() if fnmatchcase(session.client_id, client_id)]
        for session in sessions:
            session.transport.close()
        return len(sessions)

    def kill(self, client_id: str) -> Killed:
        """Kill clients: drop all that they send, and all that is sent to them, until `clear()` of the result.

        `client_id` may have `*` and `?`. To the coordinator they are dead processes, which do not leave their groups.
        Raises ValueError if no client with this id is connected.
        """
        connected = {session.client_id for session in self.cluster.sessions() if session.client_id}
        if not any(fnmatchcase(each, client_id) for each in connected):
            others = similar(client_id, connected) if connected else "none is."
            raise ValueError(f"No client {client_id!r} is connected; {others}")
        return Killed(self.interception, client_id)

    def revive(self, client_id: str) -> int:
        """Revive the clients that were killed under this id, and return the number of them that have to connect again.

        Raises ValueError if none were.
        """
        all_killed = [each for each in self.interception.intercepts if isinstance(each, Killed)]
        killed = [each for each in all_killed if each.client_id == client_id]
        if not killed:
            dead = {each.client_id for each in all_killed}
            raise ValueError(f"{client_id!r} was not killed; {similar(client_id, dead) if dead else 'no client was.'}")
        connections = sum(len(each.connections) for each in killed)
        for each in killed:
            each.clear()
        return connections

    # Time

    def freeze(self) -> None:
        """Stop the coordinator's clock."""
        assert self.clock is not None
        self.clock.freeze()

    def resume(self) -> None:
        """Let the coordinator's clock go on."""
        assert self.clock is not None
        self.clock.resume()
        self.rearm()

    def rearm(self) -> None:
        """Wake the tasks that sleep until something is due: it is now due at another time."""
        self.cluster.ticks.rearm()

    def advance(self, seconds: float) -> None:
        """Put the coordinator's clock forward, through all timers on the way."""
        assert self.clock is not None
        end = self.clock() + seconds
        while (due := self.next_due()) <= end:
            self.clock.put(due)
            self.do_due()
        self.clock.put(end)
        self.do_due()
        self.rearm()

    async def advance_giving_way(self, seconds: float) -> None:
        """Put the coordinator's clock forward as `advance` does, but give other tasks turns if it takes long."""
        assert self.clock is not None
        async with self._advancing:
            end = self.clock() + seconds
            while self.clock() < end or self.next_due() <= end:
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
        """Return the time of the next timer, on the coordinator's clock."""
        return min((node.groups.next_deadline() for node in self.cluster.nodes.values()), default=inf)

    def do_due(self) -> None:
        """Run the timers that are due."""
        self.cluster.ticks.fire(self.cluster.clock())

    # Brokers

    def coordinator_of(self, group: str) -> int:
        """Return the id of the broker that coordinates a group."""
        return self.cluster.ownership.owner_of(group).id

    def move(self, group: str, broker: int) -> None:
        """Move a group, with all of its partition of `__consumer_offsets`, to another broker. Raises Refused."""
        self.check_broker(broker, up=True)
        self.cluster.move_partition(partition_for(group, self.cluster.ownership.partitions), broker)

    def check_broker(self, broker: int, *, up: bool) -> None:
        """Check that the broker exists, and that it is up, or down with `up` False. Raises Refused."""
        node = self.cluster.nodes.get(broker)
        if node is None:
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker {broker}.")
        if node.up is not up:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Broker {broker} is {'up' if node.up else 'down'} already.")

    def load_takes(self, seconds: float) -> None:
        """Make every load of partitions `seconds` longer from now on."""
        self.cluster.loader.seconds = seconds

    def close(self) -> None:
        """Remove faults and barriers."""
        self.faults.clear()
        self.barriers.clear()


def lab_workbench_of(workbench: Workbench) -> LabWorkbench:
    """Return the laboratory's workbench of this coordinator; the same one each time."""
    if isinstance(workbench, LabWorkbench):
        return workbench
    if not isinstance(workbench.extended, LabWorkbench):
        workbench.extended = LabWorkbench(workbench.server, workbench.nursery, history=workbench.history)
    return workbench.extended
