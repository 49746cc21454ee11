"""The work of one classic group: heartbeats and commits, and rounds from PreparingRebalance to Stable.

`classic_group.py` decides when members come and go, and which violation a round contains.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final

from kafka_shim.pipeline.generate.faults import Fault
from kafka_shim.pipeline.generate.schedule import Schedule
from kafka_shim.pipeline.generate.trace_events import Event, Member, Partition

HEARTBEAT_S: Final = 3.0
COMMIT_S: Final = 5.0
STEADY_S: Final = 60.0


class Rounds(Schedule):
    """A classic group at work."""

    # Stable operation.

    def steady(self, until: float, silent: Member | None = None, uncommitted: Member | None = None) -> Iterator[Event]:
        """Yield heartbeats and commits until then; `silent` sends nothing, `uncommitted` no commits."""
        while self.now < until:
            stop = min(self.now + STEADY_S, until)
            events: list[Event] = []
            for member in self.members:
                sends = member is not silent
                while member.next_heartbeat < stop:
                    if sends:
                        events.append(self.heartbeat(member, member.next_heartbeat))
                    member.next_heartbeat += HEARTBEAT_S + self.rng.uniform(0, 0.02)
                while member.next_commit < stop:
                    if sends and member is not uncommitted and member.owned:
                        events += self._commit(member, member.next_commit, self._progress(member))
                    member.next_commit += COMMIT_S + self.rng.uniform(0, 0.02)
            events.sort(key=itemgetter(0))
            yield from events
            # An answer may be later than its request: go on after the last one.
            self.now = stop + 0.001

    def _progress(self, member: Member) -> dict[Partition, int]:
        for each in member.owned:
            self.offsets[each] += int(self.pace * self.rng.uniform(0.5, 1.5)) + 1
        return {each: self.offsets[each] for each in member.owned}

    # Rounds.

    def rebalance(self, cause: str, trigger: str, rule: str, **how: Any) -> Iterator[Event]:
        """Yield a round from PreparingRebalance to Stable, and in a cooperative group the round that follows from it.

        `how` is that of `_round`.
        """
        yield from sorted(self._round(cause, trigger, rule, **how), key=itemgetter(0))
        if self.cooperative and (freed := self._unassigned()):
            # Members that gave up partitions join again, and these partitions get new owners.
            self.now += self.rng.uniform(0.05, 0.2)
            yield from self.rebalance("COOPERATIVE_FOLLOWUP", freed, "rejoin")

    def _round(
        self,
        cause: str,
        trigger: str,
        rule: str,
        *,
        joining: list[Member] | None = None,
        slow: dict[str, float] | None = None,
        leader_s: float | None = None,
        broken: Fault = Fault.NONE,
        initial: bool = False,
    ) -> Iterator[Event]:
        """Yield one round.

        `joining` are new members, whose requests began it; `slow` is by how many seconds a member joins late.
        """
        rng = self.rng
        started = self.now
        self.cause, self.trigger = cause, trigger
        yield self._state(started, "PreparingRebalance", rule)
        joining = joining or []
        joins: list[tuple[float, Member]] = []
        for member in self.members:
            if member in joining:
                joins.append((started + 0.00001 * (joining.index(member) + 1), member))
                continue
            noticed_at = max(started, min(member.next_heartbeat, started + HEARTBEAT_S)) + rng.uniform(0.0005, 0.002)
            late = (slow or {}).get(member.member_id, rng.uniform(0.002, 0.05))
            joins.append((noticed_at + late, member))
            beat = noticed_at
            while beat < noticed_at + late:
                # A consumer heartbeats in the background even while its application is busy.
                yield self.heartbeat(member, beat, error=27)
                beat += HEARTBEAT_S
        joins.sort(key=lambda each: each[0])
        ended = joins[-1][0] + (3.0 if initial else 0.001)
        self.generation += -2 if broken is Fault.GENERATION_BACK else 1
        if broken is Fault.GENERATION_BACK:
            self.add_fault("violation", invariant="I2", generation=self.generation, at=ended)
        ids = [member.member_id for member in self.members]
        if self.leader not in ids:
            self.leader = joins[0][1].member_id
        written_cause: str = cause
        if broken is Fault.NO_CAUSE:
            written_cause = ""
            self.add_fault("violation", invariant="I9", generation=self.generation, at=ended)
        else:
            self.add_fault("rebalance", cause=cause, generation=self.generation, at=ended)
        waited = sorted(((round((at - started) * 1000, 3), m.member_id) for at, m in joins), reverse=True)
        yield self.event(
            ended, "round", group=self.group_id, generation=self.generation, cause=written_cause, trigger=trigger,
            started=started, ended=ended, waited_for=[{"member_id": m, "ms": ms} for ms, m in waited], dropped=[],
            leader=self.leader, protocol=self.protocol, members=ids,
        )  # fmt: skip
        yield self._state(ended, "CompletingRebalance", rule)
        all_members = [
            {"member_id": m.member_id, "group_instance_id": m.instance_id, "metadata": 60} for m in self.members
        ]
        usurper = next((m for m in self.members if m.member_id != self.leader), None)
        for arrived, member in joins:
            leads = member.member_id == self.leader
            if broken is Fault.TWO_LEADERS and member is usurper:
                leads = True
                self.add_fault(
                    "violation", invariant="I7", member_id=member.member_id, generation=self.generation, at=ended
                )
            answer = self._join_answer(member, member.member_id if leads else self.leader, all_members if leads else [])
            yield self._exchange(
                member, ended + 0.0002, arrived, "JoinGroup", 9, self._join_request(member, member.member_id), answer
            )
        synced = ended + (leader_s if leader_s is not None else rng.uniform(0.003, 0.02))
        yield from self._sync(synced, ended, written_cause, broken)
        self.now = synced + 0.01

    def _sync(self, synced: float, ended: float, cause: str, broken: Fault) -> Iterator[Event]:
        self._assign()
        assignments: dict[str, dict[str, list[int]]] = {}
        for member in self.members:
            by_topic = assignments.setdefault(member.member_id, {})
            for topic, partition in member.owned:
                by_topic.setdefault(topic, []).append(partition)
        if broken is Fault.TWO_OWNERS:
            giver = next(m for m in self.members if m.owned)
            taker = next(m for m in self.members if m is not giver)
            topic, partition = giver.owned[0]
            assignments[taker.member_id].setdefault(topic, []).append(partition)
            self.add_fault(
                "violation", invariant="I1", topic=topic, partition=partition, generation=self.generation, at=synced
            )
        yield self.event(
            synced, "assignment", group=self.group_id, generation=self.generation, cause=cause, trigger=self.trigger,
            leader=self.leader, leader_ms=round((synced - ended) * 1000, 3),
            assignments=assignments,
        )  # fmt: skip
        yield self._state(synced, "Stable", "assign")
        for index, member in enumerate(self.members):
            leads = member.member_id == self.leader
            shares = [{"member_id": m.member_id, "assignment": 40} for m in self.members] if leads else []
            request = {
                "group_id": self.group_id, "generation_id": self.generation, "member_id": member.member_id,
                "group_instance_id": member.instance_id, "protocol_type": "consumer", "protocol_name": self.protocol,
                "assignments": shares,
            }  # fmt: skip
            answer = {
                "throttle_time_ms": 0, "error_code": 0, "protocol_type": "consumer", "protocol_name": self.protocol,
                "assignment": 40,
            }  # fmt: skip
            yield self._exchange(member, synced + 0.0003, synced - 0.0001, "SyncGroup", 5, request, answer)
            member.next_heartbeat = synced + HEARTBEAT_S * (0.5 + index / (2 * len(self.members)))
            member.next_commit = max(member.next_commit, synced + 0.5 + self.rng.uniform(0, 1.0))
            member.heartbeat_text = ""
        lie = broken is Fault.SILENT_CHANGE
        for member in self.members:
            if member.owned:
                if lie:
                    topic, partition = member.owned[0]
                    self.add_fault("violation", invariant="I11", topic=topic, partition=partition, at=synced)
                yield self._fetch_offsets(member, synced + 0.005, lie)
                lie = False

    def _assign(self) -> None:
        """Assign the partitions: eager groups from scratch; cooperative ones move as few as balance needs, in two
        rounds."""
        count = len(self.members)
        if not self.cooperative:
            ordered = sorted(self.members, key=lambda member: member.member_id)
            for index, member in enumerate(ordered):
                member.owned = self.partitions[index::count]
            return
        free = self._free()
        least, extra = divmod(len(self.partitions), count)
        for member in sorted(self.members, key=lambda member: -len(member.owned)):
            quota = least + (1 if extra > 0 else 0)
            if len(member.owned) >= quota:
                extra -= quota - least
            # A revoked partition is free only in the next round.
            member.owned = member.owned[:quota]
        for member in sorted(self.members, key=lambda member: len(member.owned)):
            while free and len(member.owned) < least:
                member.owned.append(free.pop())
        for member in self.members:
            if free and len(member.owned) == least:
                member.owned.append(free.pop())

    def _free(self) -> list[Partition]:
        owned = {each for member in self.members for each in member.owned}
        return [each for each in self.partitions if each not in owned]

    def _unassigned(self) -> str:
        """Return a member for the follow-up round if partitions have no owner; empty if all have one."""
        return self.members[0].member_id if self._free() else ""
