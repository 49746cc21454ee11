"""One classic group of generated data: members join, leave, restart and fail, and its fault.

Time is a number; all random choices come from the group's own generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kafka_shim.pipeline.generate.faults import Fault
from kafka_shim.pipeline.generate.rounds import HEARTBEAT_S, Rounds
from kafka_shim.pipeline.generate.trace_events import Event, Member


class ClassicGroup(Rounds):
    """A classic group, with its fault."""

    # Members come and go.

    def first_members(self) -> Iterator[Event]:
        yield self.event(
            self.now, "group", group=self.group_id, partition=self.offsets_partition, change="created", state="Empty",
            generation=0, members=0,
        )  # fmt: skip
        joining = [
            self._new_member(number, f"{self.group_id}-instance-{number}" if self.static else None)
            for number in range(self.size)
        ]
        for member in joining:
            yield from self._enter(member)
        yield from self.rebalance("NEW_MEMBER", joining[0].member_id, "add", joining=joining, initial=True)

    def _enter(self, member: Member) -> Iterator[Event]:
        """Make a member part of the group; the caller begins the round at once."""
        if member.instance_id is None:
            yield self._member_event(self.now, member, "pending", "hand-out-id")
            answer = self._join_answer(member, "", [], error=79)
            yield self._exchange(
                member, self.now + 0.0001, self.now - 0.0001, "JoinGroup", 9, self._join_request(member, ""), answer
            )
            self.now += 0.002
        self.members.append(member)
        yield self._member_event(self.now, member, "added", "add")

    def join(self, member: Member, **how: Any) -> Iterator[Event]:
        """Let a member join a Stable group."""
        yield from self._enter(member)
        yield from self.rebalance("NEW_MEMBER", member.member_id, "add", joining=[member], **how)

    def leave(self, member: Member, reason: str | None = None, **how: Any) -> Iterator[Event]:
        """Let a member leave; `reason` is the one in its request."""
        self.members.remove(member)
        yield self._member_event(self.now, member, "left", "leave")
        request = {
            "group_id": self.group_id, "member_id": "",
            "members": [
                {"member_id": member.member_id, "group_instance_id": member.instance_id, "reason": reason or "closed"}
            ],
        }  # fmt: skip
        answer = {
            "throttle_time_ms": 0, "error_code": 0,
            "members": [
                {"member_id": member.member_id, "group_instance_id": member.instance_id, "error_code": 0}
            ],
        }  # fmt: skip
        yield self._exchange(
            member, self.now + 0.0001, self.now - 0.0002, "LeaveGroup", 5, request, answer, member_id=""
        )
        cause = "MEMBER_LEFT" if reason is None else "POLL_TIMEOUT_REASON"
        self.now += 0.0001
        yield from self.rebalance(cause, member.member_id, "leave", **how)

    def expire(self, member: Member) -> Iterator[Event]:
        """Expire a member's session; it has been silent long enough."""
        self.members.remove(member)
        yield self._member_event(self.now, member, "expired", "expire")
        yield from self.rebalance("SESSION_EXPIRED", member.member_id, "expire")

    def take_over(self, old: Member) -> Iterator[Event]:
        """Restart a static member: the new id takes the place of the old one, and the generation stays."""
        new = self._new_member(int(old.client_id.rsplit("-", 1)[1]), old.instance_id)
        new.owned, new.next_heartbeat, new.next_commit = old.owned, self.now + 1.0, self.now + 1.0
        self.members[self.members.index(old)] = new
        if self.leader == old.member_id:
            self.leader = new.member_id
        yield self._member_event(self.now, old, "fenced", "take-over-stable")
        yield self._member_event(self.now, new, "replaced", "take-over-stable")
        answer = self._join_answer(new, self.leader, [])
        yield self._exchange(
            new, self.now + 0.0002, self.now - 0.0002, "JoinGroup", 9, self._join_request(new, ""), answer
        )

    # The fault of the group.

    def fault_events(self) -> Iterator[Event]:
        return self._FAULTS.get(self.fault, ClassicGroup._no_fault)(self)

    def _no_fault(self) -> Iterator[Event]:
        if self.static:
            old = self._victim()
            yield from self.take_over(old)
            yield from self.steady(self.now + 5)
            # The old process is still running and learns that it is fenced.
            yield self.heartbeat(old, self.now, error=82, generation=self.generation)
        yield from self.steady(self.now + 30)

    def _restart(self, member: Member, away: float) -> Iterator[Event]:
        yield from self.leave(member)
        yield from self.steady(self.now + away)
        number = int(member.client_id.rsplit("-", 1)[1])
        yield from self.join(self._new_member(number))

    def _storm(self) -> Iterator[Event]:
        began, first = self.now, self.generation + 1
        for _ in range(self.rng.randint(4, 8)):
            flapping = self._victim()
            yield from self._restart(flapping, self.rng.uniform(8, 15))
            yield from self.steady(self.now + self.rng.uniform(10, 30))
        self.add_fault("storm", first_generation=first, last_generation=self.generation, began=began, at=self.now)

    def _slow_member(self) -> Iterator[Event]:
        late = self._victim()
        delay = self.rng.uniform(10, 25)
        new = self._new_member(self._serial)
        yield from self._enter(new)
        self.add_fault("slow_member", member_id=late.member_id, generation=self.generation + 1, ms=delay * 1000)
        yield from self.rebalance(
            "NEW_MEMBER", new.member_id, "add", joining=[new], slow={late.member_id: delay}
        )  # fmt: skip

    def _slow_leader(self) -> Iterator[Event]:
        delay = self.rng.uniform(5, 12)
        self.add_fault("slow_leader", member_id=self.leader, generation=self.generation + 1, ms=delay * 1000)
        yield from self.join(self._new_member(self._serial), leader_s=delay)

    def _expiry(self) -> Iterator[Event]:
        silent = self._victim()
        last = silent.next_heartbeat - HEARTBEAT_S
        yield from self.steady(last + self.session_timeout_ms / 1000, silent=silent)
        self.add_fault("session_expired", member_id=silent.member_id, silent_since=last, at=self.now)
        yield from self.expire(silent)

    def _poll_timeout(self) -> Iterator[Event]:
        member = self._victim()
        self.add_fault("poll_timeout", member_id=member.member_id, at=self.now)
        yield from self.leave(member, "consumer poll timeout has expired.")

    def _bounce(self) -> Iterator[Event]:
        member = self._victim()
        self.add_fault("bounce", client_id=member.client_id, at=self.now)
        yield from self._restart(member, 6.0)

    def _near_miss(self) -> Iterator[Event]:
        member = self._victim()
        began = member.next_heartbeat - HEARTBEAT_S
        yield from self.steady(began + self.session_timeout_ms / 1000 * 0.8, silent=member)
        member.next_heartbeat = self.now
        self.add_fault("near_miss", member_id=member.member_id, at=self.now)

    def _commit_regression(self) -> Iterator[Event]:
        yield from self.steady(self.now + 20)
        member = next(each for each in self.members if each.owned)
        topic, partition = each = member.owned[0]
        back = self.committed[each] - 1 - int(self.rng.uniform(0, self.committed[each] / 2))
        self.add_fault("commit_regression", topic=topic, partition=partition, offset=back, at=self.now)
        yield from self._commit(member, self.now, {each: back})
        # It reads the same records again.
        self.offsets[each] = back
        self.now += 0.01

    def _commit_gap(self) -> Iterator[Event]:
        yield from self.steady(self.now + 20)
        member = next(each for each in self.members if each.owned)
        began = self.now
        yield from self.steady(self.now + 240, uncommitted=member)
        for topic, partition in member.owned:
            self.add_fault("commit_gap", topic=topic, partition=partition, began=began, at=self.now)

    def _broken_round(self) -> Iterator[Event]:
        if self.generation < 4:
            # Otherwise the generation could not go back and still be positive.
            for _ in range(3):
                yield from self.steady(self.now + 200)
                yield from self.join(self._new_member(self._serial))
            yield from self.steady(self.now + 200)
        yield from self.join(self._new_member(self._serial), broken=self.fault)

    def _stranger(self) -> Iterator[Event]:
        member = self._victim()
        generation = self.generation
        yield from self.leave(member)
        yield from self.steady(self.now + 5)
        # The right answer first, then the violation.
        yield self.heartbeat(member, self.now, error=25, generation=generation)
        self.add_fault("violation", invariant="I6", member_id=member.member_id, at=self.now + 1)
        yield from self.steady(self.now + 1)
        yield self.heartbeat(member, self.now, generation=generation)

    def _fenced(self) -> Iterator[Event]:
        old = self._victim()
        yield from self.take_over(old)
        yield from self.steady(self.now + 5)
        yield self.heartbeat(old, self.now, error=82, generation=self.generation)
        self.add_fault("violation", invariant="I8", member_id=old.member_id, at=self.now + 1)
        yield from self.steady(self.now + 1)
        yield self.heartbeat(old, self.now, generation=self.generation)

    _FAULTS: Final = {
        Fault.STORM: _storm,
        Fault.SLOW_MEMBER: _slow_member,
        Fault.SLOW_LEADER: _slow_leader,
        Fault.EXPIRY: _expiry,
        Fault.POLL_TIMEOUT: _poll_timeout,
        Fault.BOUNCE: _bounce,
        Fault.NEAR_MISS: _near_miss,
        Fault.COMMIT_REGRESSION: _commit_regression,
        Fault.COMMIT_GAP: _commit_gap,
        Fault.TWO_OWNERS: _broken_round,
        Fault.GENERATION_BACK: _broken_round,
        Fault.TWO_LEADERS: _broken_round,
        Fault.NO_CAUSE: _broken_round,
        Fault.SILENT_CHANGE: _broken_round,
        Fault.STRANGER_ACCEPTED: _stranger,
        Fault.FENCED_ACCEPTED: _fenced,
    }
