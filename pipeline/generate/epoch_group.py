"""One consumer, share or streams group of generated data: members join, leave, are slow, are fenced, and its fault.

Time is a number; all random choices come from the group's own generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_shim.pipeline.generate.epochs import SESSION_S, Epochs
from kafka_shim.pipeline.generate.faults import Fault
from kafka_shim.pipeline.generate.heartbeats import AWAY, JOIN, LEAVE
from kafka_shim.pipeline.generate.trace_events import Event, Member

_UNKNOWN_MEMBER_ID: Final = 25
_FENCED_INSTANCE_ID: Final = 82
_FENCED_MEMBER_EPOCH: Final = 110


class EpochGroup(Epochs):
    """A group with epochs, with its fault."""

    # Members come and go.

    def first_members(self) -> Iterator[Event]:
        yield self.event(
            self.now, "group", group=self.group_id, partition=self.offsets_partition, change="created", state="Empty",
            generation=self.generation, members=0,
        )  # fmt: skip
        for _ in range(self.size):
            yield from self.join(self._create_member())
            yield from self.steady(self.now + self.rng.uniform(0.5, 2.0))

    def leave(self, member: Member) -> Iterator[Event]:
        """A member commits and leaves."""
        yield from self._commit_progress(member, self.now, member.owned)
        self.now += 0.001
        yield from self._remove(member, "left", "MEMBER_LEFT")
        yield self._heartbeat_with_news(self.now, member, LEAVE, LEAVE)
        self.now += 0.001

    def take_over(self, old: Member) -> Iterator[Event]:
        """A static member leaves for a while and returns under another id; the group epoch stays."""
        yield from self._commit_progress(old, self.now, old.owned)
        self.now += 0.001
        yield self._reconciliation(self.now, old, AWAY)
        yield self._heartbeat_with_news(self.now, old, AWAY, AWAY)
        yield from self.steady(self.now + self.rng.uniform(3.0, 6.0), silent=old)
        new = self._new_member(int(old.client_id.rsplit("-", 1)[1]), old.instance_id)
        new.owned, new.epoch = list(old.owned), old.epoch
        self.members[self.members.index(old)] = new
        self.targets[new.member_id] = self.targets.pop(old.member_id)
        yield self._member_event(self.now, old, "fenced", self.kind)
        yield self._member_event(self.now, new, "replaced", self.kind)
        yield self._reconciliation(self.now, new)
        yield self._heartbeat_with_news(self.now, new, JOIN, new.epoch, owned=[], assigned=new.owned)
        new.next_heartbeat, new.next_commit = self.now + 1.0, self.now + 1.0
        self.now += 0.001

    # The fault of the group.

    def fault_events(self) -> Iterator[Event]:
        return self._FAULTS.get(self.fault, EpochGroup._no_fault)(self)

    def _no_fault(self) -> Iterator[Event]:
        if self.static:
            old = self._victim()
            yield from self.take_over(old)
            yield from self.steady(self.now + 5)
            # The old process is still running and learns that it is fenced.
            yield self.heartbeat(old, self.now, error=_FENCED_INSTANCE_ID, generation=old.epoch)
        yield from self.steady(self.now + 30)

    def _slow_to_revoke(self) -> Iterator[Event]:
        slow = self._victim()
        delay = self.rng.uniform(12, 25)
        self.revoking_s[slow.member_id] = delay
        self.add_fault("slow_member", member_id=slow.member_id, generation=self.generation + 1, ms=delay * 1000)
        yield from self.join(self._create_member())
        yield from self.steady(self.now + 60)
        del self.revoking_s[slow.member_id]

    def _fenced_epoch(self) -> Iterator[Event]:
        member = self._victim()
        yield self.heartbeat(member, self.now, error=_FENCED_MEMBER_EPOCH, generation=member.epoch - 1)
        self.add_fault("fenced", member_id=member.member_id, at=self.now)
        yield from self.steady(self.now + 0.1, silent=member)
        # It joins again before anything changed, so it gets the same partitions.
        yield self._heartbeat_with_news(self.now, member, JOIN, member.epoch, owned=[], assigned=member.owned)
        member.next_heartbeat = self.now + 1.0
        yield from self.steady(self.now + 30)

    def _expiry(self) -> Iterator[Event]:
        silent = self._victim()
        yield from self._commit_progress(silent, self.now, silent.owned)
        last = silent.last_heartbeat
        yield from self.steady(last + SESSION_S, silent=silent)
        self.add_fault("session_expired", member_id=silent.member_id, silent_since=last, at=self.now)
        yield from self._remove(silent, "expired", "SESSION_EXPIRED")
        self.now += 0.001

    def _broken_join(self) -> Iterator[Event]:
        yield from self.join(self._create_member(), broken=self.fault)

    def _stranger(self) -> Iterator[Event]:
        member = self._victim()
        yield from self.leave(member)
        yield from self.steady(self.now + 5)
        # The right answer first, then the violation.
        yield self.heartbeat(member, self.now, error=_UNKNOWN_MEMBER_ID, generation=member.epoch)
        self.add_fault("violation", invariant="I6", member_id=member.member_id, at=self.now + 1)
        yield from self.steady(self.now + 1)
        yield self.heartbeat(member, self.now, generation=member.epoch)

    def _fenced(self) -> Iterator[Event]:
        old = self._victim()
        yield from self.take_over(old)
        yield from self.steady(self.now + 5)
        yield self.heartbeat(old, self.now, error=_FENCED_INSTANCE_ID, generation=old.epoch)
        self.add_fault("violation", invariant="I8", member_id=old.member_id, at=self.now + 1)
        yield from self.steady(self.now + 1)
        yield self.heartbeat(old, self.now, generation=old.epoch)

    _FAULTS: Final = {
        Fault.SLOW_TO_REVOKE: _slow_to_revoke,
        Fault.FENCED_EPOCH: _fenced_epoch,
        Fault.EXPIRY: _expiry,
        Fault.TWO_OWNERS: _broken_join,
        Fault.NO_CAUSE: _broken_join,
        Fault.STRANGER_ACCEPTED: _stranger,
        Fault.FENCED_ACCEPTED: _fenced,
    }
