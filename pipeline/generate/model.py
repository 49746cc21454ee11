"""Plays one classic group and says what a coordinator's trace says of it.

Decides when members join, sync, heartbeat, commit and go, and what the trace has about it. Time is a number; all chance
comes from the random generator handed in. The events are (mono, kind, fields as JSON text); sequence number and wall
time are put on by whoever merges groups into a trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from random import Random
from typing import Any, Final, TypeAlias

from pipeline.generate.faults import Fault

Emitted: TypeAlias = tuple[float, str, str]
Partition: TypeAlias = tuple[str, int]

HEARTBEAT_S: Final = 3.0
COMMIT_S: Final = 5.0
STEADY_S: Final = 60.0
REBALANCE_TIMEOUT_MS: Final = 300_000
QUIET_S: Final = 900.0
"""Groups rebalance at most once in this time, but for storms and what follows from one change."""

_dumps = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(slots=True)
class Member:
    client_id: str
    member_id: str
    host: str
    conn: int
    instance_id: str | None
    correlation: int = 0
    next_heartbeat: float = 0.0
    next_commit: float = 0.0
    owned: list[Partition] = field(default_factory=list)
    heartbeat_text: str = ""


@dataclass(slots=True)
class Commit:
    """An accepted commit, for the segments."""

    at: float
    group: str
    offsets: list[tuple[str, int, int]]


class Group:
    """One group from its first member to the end of time."""

    def __init__(self, index: int, node: int, fault: Fault, start: float, duration: float, seed: int) -> None:
        rng = self.rng = Random(f"{seed} group {index}")
        self.group_id = f"group-{index:05d}"
        self.node = node
        self.fault = fault
        self.start = start + rng.uniform(0, min(30.0, duration / 10))
        self.end = start + duration
        self.cooperative = rng.random() < 0.5
        self.protocol = "cooperative-sticky" if self.cooperative else rng.choice(["range", "roundrobin"])
        # A fault that needs a second member, or a static one, gets its way.
        self.size = rng.randint(2, 6) if fault is Fault.NONE else rng.randint(3, 6)
        self.static = fault is Fault.FENCED_ACCEPTED or (fault is Fault.NONE and rng.random() < 0.2)
        self.session_timeout_ms = 45_000 if rng.random() < 0.8 else 10_000
        topics = [f"topic-{rng.randrange(40):02d}" for _ in range(rng.choice([1, 1, 2]))]
        self.partitions: list[Partition] = [
            (topic, number) for topic in dict.fromkeys(topics) for number in range(rng.choice([4, 6, 12]))
        ]
        self.offsets: dict[Partition, int] = {each: rng.randrange(1_000_000) for each in self.partitions}
        self.committed: dict[Partition, int] = {}
        self.pace = rng.uniform(1.0, 200.0)
        self.offsets_partition = index % 50
        self.generation = 0
        self.state = "Empty"
        self.leader = ""
        self.cause: str | None = None
        self.trigger = ""
        self.members: list[Member] = []
        self.commits: list[Commit] = []
        self.listed: list[dict[str, Any]] = []
        self.now = self.start
        self._serial = 0

    # What is listed and emitted.

    def note(self, kind: str, **what: Any) -> None:
        """Put a fault on the list."""
        self.listed.append({"kind": kind, "group": self.group_id, **what})

    def event(self, at: float, kind: str, **fields: Any) -> Emitted:
        return at, kind, _dumps(fields)[1:-1]

    def _exchange(
        self, member: Member, at: float, arrived: float, api: str, version: int, request: dict[str, Any],
        answer: dict[str, Any], *, said_id: str | None = None,
    ) -> Emitted:  # fmt: skip
        member.correlation += 1
        return self.event(
            at, "exchange", conn=member.conn, node=self.node, api=api, version=version,
            correlation_id=member.correlation, client_id=member.client_id,
            group="" if api == "OffsetFetch" else self.group_id,
            member=(member.member_id if said_id is None else said_id) or None, arrived=arrived,
            request=request, answer=answer, error=answer.get("error_code", 0),
        )  # fmt: skip

    def _member_event(self, at: float, member: Member, change: str, rule: str) -> Emitted:
        return self.event(
            at, "member", group=self.group_id, member_id=member.member_id, instance_id=member.instance_id,
            client_id=member.client_id, client_host=member.host, change=change, rule=rule,
        )  # fmt: skip

    def _state(self, at: float, to: str, rule: str) -> Emitted:
        before, self.state = self.state, to
        return self.event(
            at, "state", group=self.group_id, **{"from": before}, to=to, generation=self.generation, cause=self.cause,
            trigger=self.trigger, rule=rule,
        )  # fmt: skip

    # Who there is.

    def _new_member(self, number: int, instance_id: str | None = None) -> Member:
        self._serial += 1
        client_id = f"{self.group_id}-client-{number}"
        prefix = instance_id or client_id
        return Member(
            client_id=client_id,
            member_id=f"{prefix}-{self.rng.getrandbits(64):016x}",
            host=f"/10.{self.node}.{int(self.group_id[-5:]) % 250}.{number}",
            conn=int(self.group_id[-5:]) * 1000 + self._serial,
            instance_id=instance_id,
        )

    def heartbeat(self, member: Member, at: float, error: int = 0, generation: int | None = None) -> Emitted:
        if error == 0 and generation is None and member.heartbeat_text:
            # By far the most frequent event: the text but for its numbers is made once a generation.
            member.correlation += 1
            head, tail = member.heartbeat_text.split("\0")
            return at, "exchange", f'{head}{member.correlation},"arrived":{at - 0.0002:.6f},{tail}'
        member.correlation += 1
        request = {
            "group_id": self.group_id, "generation_id": self.generation if generation is None else generation,
            "member_id": member.member_id, "group_instance_id": member.instance_id,
        }  # fmt: skip
        head = _dumps(
            {
                "conn": member.conn, "node": self.node, "api": "Heartbeat", "version": 4,
                "client_id": member.client_id, "group": self.group_id, "member": member.member_id,
            }
        )[1:-1] + ',"correlation_id":'  # fmt: skip
        answer = {"throttle_time_ms": 0, "error_code": error}
        tail = f'"request":{_dumps(request)},"answer":{_dumps(answer)},"error":{error}'
        if error == 0 and generation is None:
            member.heartbeat_text = f"{head}\0{tail}"
        return at, "exchange", f'{head}{member.correlation},"arrived":{at - 0.0002:.6f},{tail}'

    def _commit(self, member: Member, at: float, offsets: dict[Partition, int]) -> Iterator[Emitted]:
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                {
                    "partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1,
                    "committed_metadata": "",
                }
            )  # fmt: skip
        yield self.event(
            at, "commit", group=self.group_id, partition=self.offsets_partition, member_id=member.member_id,
            generation=self.generation, error=0,
            offsets=[{"topic": t, "partition": p, "offset": offset} for (t, p), offset in offsets.items()],
        )  # fmt: skip
        request = {
            "group_id": self.group_id, "generation_id_or_member_epoch": self.generation,
            "member_id": member.member_id, "group_instance_id": member.instance_id, "retention_time_ms": -1,
            "topics": [{"name": topic, "partitions": each} for topic, each in topics.items()],
        }  # fmt: skip
        answer = {
            "throttle_time_ms": 0,
            "topics": [
                {
                    "name": topic,
                    "partitions": [{"partition_index": p["partition_index"], "error_code": 0} for p in each],
                }
                for topic, each in topics.items()
            ],
        }
        yield self._exchange(member, at + 0.0004, at - 0.0002, "OffsetCommit", 9, request, answer)
        self.committed.update(offsets)
        self.commits.append(Commit(at, self.group_id, [(t, p, offset) for (t, p), offset in offsets.items()]))

    def _fetch_offsets(self, member: Member, at: float, lie: bool = False) -> Emitted:
        topics: dict[str, list[dict[str, Any]]] = {}
        for index, each in enumerate(member.owned):
            offset = self.committed.get(each, -1) + (12_345 if lie and index == 0 else 0)
            topics.setdefault(each[0], []).append(
                {
                    "partition_index": each[1], "committed_offset": offset, "committed_leader_epoch": -1,
                    "metadata": "", "error_code": 0,
                }
            )  # fmt: skip
        named = [{"name": topic, "partitions": each} for topic, each in topics.items()]
        request = {
            "group_id": "", "topics": None, "require_stable": True,
            "groups": [{"group_id": self.group_id, "member_id": member.member_id, "member_epoch": self.generation}],
        }  # fmt: skip
        answer = {
            "throttle_time_ms": 0, "topics": [], "error_code": 0,
            "groups": [{"group_id": self.group_id, "topics": named, "error_code": 0}],
        }  # fmt: skip
        return self._exchange(member, at, at - 0.0003, "OffsetFetch", 9, request, answer, said_id="")

    # Steady state.

    def steady(
        self, until: float, silent: Member | None = None, uncommitted: Member | None = None
    ) -> Iterator[Emitted]:
        """Heartbeats and commits until then; `silent` sends nothing, `uncommitted` no commits."""
        while self.now < until:
            stop = min(self.now + STEADY_S, until)
            found: list[Emitted] = []
            for member in self.members:
                heard = member is not silent
                while member.next_heartbeat < stop:
                    if heard:
                        found.append(self.heartbeat(member, member.next_heartbeat))
                    member.next_heartbeat += HEARTBEAT_S + self.rng.uniform(0, 0.02)
                while member.next_commit < stop:
                    if heard and member is not uncommitted and member.owned:
                        found += self._commit(member, member.next_commit, self._progress(member))
                    member.next_commit += COMMIT_S + self.rng.uniform(0, 0.02)
            found.sort(key=itemgetter(0))
            yield from found
            # After whatever was still being answered at the end.
            self.now = stop + 0.001

    def _progress(self, member: Member) -> dict[Partition, int]:
        for each in member.owned:
            self.offsets[each] += int(self.pace * self.rng.uniform(0.5, 1.5)) + 1
        return {each: self.offsets[each] for each in member.owned}

    # Rounds.

    def rebalance(self, cause: str, trigger: str, rule: str, **how: Any) -> Iterator[Emitted]:
        """A round from PreparingRebalance to Stable, and the one that follows from it in a cooperative group.

        `how` is that of `_round`.
        """
        yield from sorted(self._round(cause, trigger, rule, **how), key=itemgetter(0))
        if self.cooperative and (freed := self._unassigned()):
            # Those that gave partitions up join again, and the partitions find their owners.
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
    ) -> Iterator[Emitted]:
        """`joining` are new members, whose requests began it; `slow` says how late a member joins, in seconds."""
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
            told = max(started, min(member.next_heartbeat, started + HEARTBEAT_S)) + rng.uniform(0.0005, 0.002)
            late = (slow or {}).get(member.member_id, rng.uniform(0.002, 0.05))
            joins.append((told + late, member))
            beat = told
            while beat < told + late:
                # However busy its application is, a consumer heartbeats in the background.
                yield self.heartbeat(member, beat, error=27)
                beat += HEARTBEAT_S
        joins.sort(key=lambda each: each[0])
        ended = joins[-1][0] + (3.0 if initial else 0.001)
        self.generation += -2 if broken is Fault.GENERATION_BACK else 1
        if broken is Fault.GENERATION_BACK:
            self.note("violation", invariant="I2", generation=self.generation, at=ended)
        ids = [member.member_id for member in self.members]
        if self.leader not in ids:
            self.leader = joins[0][1].member_id
        written_cause: str = cause
        if broken is Fault.NO_CAUSE:
            written_cause = ""
            self.note("violation", invariant="I9", generation=self.generation, at=ended)
        else:
            self.note("rebalance", cause=cause, generation=self.generation, at=ended)
        waited = sorted(((round((at - started) * 1000, 3), m.member_id) for at, m in joins), reverse=True)
        yield self.event(
            ended, "round", group=self.group_id, generation=self.generation, cause=written_cause, trigger=trigger,
            started=started, ended=ended, waited_for=[{"member_id": m, "ms": ms} for ms, m in waited], dropped=[],
            leader=self.leader, protocol=self.protocol, members=ids,
        )  # fmt: skip
        yield self._state(ended, "CompletingRebalance", rule)
        everybody = [
            {"member_id": m.member_id, "group_instance_id": m.instance_id, "metadata": 60} for m in self.members
        ]
        usurper = next((m for m in self.members if m.member_id != self.leader), None)
        for arrived, member in joins:
            leads = member.member_id == self.leader
            if broken is Fault.TWO_LEADERS and member is usurper:
                leads = True
                self.note("violation", invariant="I7", member_id=member.member_id, generation=self.generation, at=ended)
            answer = self._join_answer(member, member.member_id if leads else self.leader, everybody if leads else [])
            yield self._exchange(
                member, ended + 0.0002, arrived, "JoinGroup", 9, self._join_request(member, member.member_id), answer
            )
        synced = ended + (leader_s if leader_s is not None else rng.uniform(0.003, 0.02))
        yield from self._sync(synced, ended, written_cause, broken)
        self.now = synced + 0.01

    def _join_request(self, member: Member, member_id: str) -> dict[str, Any]:
        return {
            "group_id": self.group_id, "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "member_id": member_id,
            "group_instance_id": member.instance_id, "protocol_type": "consumer",
            "protocols": [{"name": self.protocol, "metadata": 60}], "reason": "",
        }  # fmt: skip

    def _join_answer(
        self, member: Member, leader: str, members: list[dict[str, Any]], error: int = 0
    ) -> dict[str, Any]:
        return {
            "throttle_time_ms": 0, "error_code": error, "generation_id": -1 if error else self.generation,
            "protocol_type": None if error else "consumer", "protocol_name": None if error else self.protocol,
            "leader": leader, "skip_assignment": False, "member_id": member.member_id, "members": members,
        }  # fmt: skip

    def _sync(self, synced: float, ended: float, cause: str, broken: Fault) -> Iterator[Emitted]:
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
            self.note(
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
            given = [{"member_id": m.member_id, "assignment": 40} for m in self.members] if leads else []
            request = {
                "group_id": self.group_id, "generation_id": self.generation, "member_id": member.member_id,
                "group_instance_id": member.instance_id, "protocol_type": "consumer", "protocol_name": self.protocol,
                "assignments": given,
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
                    self.note("violation", invariant="I11", topic=topic, partition=partition, at=synced)
                yield self._fetch_offsets(member, synced + 0.005, lie)
                lie = False

    def _assign(self) -> None:
        """Eager groups deal all partitions out anew; cooperative ones move as few as balance needs, in two rounds."""
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
            # What is taken away is free in the next round only.
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
        """Who gave up partitions that nobody has now; empty if nothing is left over."""
        return self.members[0].member_id if self._free() else ""

    # Comings and goings.

    def first_members(self) -> Iterator[Emitted]:
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

    def _enter(self, member: Member) -> Iterator[Emitted]:
        """Up to where the member is in the group; the round is to follow at once."""
        if member.instance_id is None:
            yield self._member_event(self.now, member, "pending", "hand-out-id")
            answer = self._join_answer(member, "", [], error=79)
            yield self._exchange(
                member, self.now + 0.0001, self.now - 0.0001, "JoinGroup", 9, self._join_request(member, ""), answer
            )
            self.now += 0.002
        self.members.append(member)
        yield self._member_event(self.now, member, "added", "add")

    def join(self, member: Member, **how: Any) -> Iterator[Emitted]:
        """A member joins the group that is Stable."""
        yield from self._enter(member)
        yield from self.rebalance("NEW_MEMBER", member.member_id, "add", joining=[member], **how)

    def leave(self, member: Member, reason: str | None = None, **how: Any) -> Iterator[Emitted]:
        """A member says good-bye; `reason` is what it says."""
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
        yield self._exchange(member, self.now + 0.0001, self.now - 0.0002, "LeaveGroup", 5, request, answer, said_id="")
        cause = "MEMBER_LEFT" if reason is None else "POLL_TIMEOUT_REASON"
        self.now += 0.0001
        yield from self.rebalance(cause, member.member_id, "leave", **how)

    def expire(self, member: Member) -> Iterator[Emitted]:
        """A member's session ends; it was silent long enough before."""
        self.members.remove(member)
        yield self._member_event(self.now, member, "expired", "expire")
        yield from self.rebalance("SESSION_EXPIRED", member.member_id, "expire")

    def take_over(self, old: Member) -> Iterator[Emitted]:
        """A static member restarts: the new id gets the old one's place, and the generation goes on."""
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

    # The life of the group.

    def run(self) -> Iterator[Emitted]:
        """All its events, in order of time."""
        yield from self.first_members()
        trouble = self.start + (self.end - self.start) * self.rng.uniform(0.3, 0.4)
        yield from self.steady(trouble)
        yield from self._TROUBLES.get(self.fault, Group._ordinary)(self)
        # Ordinary life goes on: a deployment now and then, well apart.
        while self.now + 2 * QUIET_S < self.end:
            yield from self.steady(self.now + QUIET_S * self.rng.uniform(1.0, 1.8))
            if self.rng.random() < 0.3 and self.now + QUIET_S < self.end:
                yield from self._scale()
        yield from self.steady(self.end)

    def _victim(self) -> Member:
        """A member that does not lead."""
        return self.rng.choice([member for member in self.members if member.member_id != self.leader])

    def _scale(self) -> Iterator[Emitted]:
        if len(self.members) > 2 and self.rng.random() < 0.5:
            yield from self.leave(self._victim())
        else:
            number = self._serial
            yield from self.join(
                self._new_member(number, f"{self.group_id}-instance-{number}" if self.static else None)
            )

    def _ordinary(self) -> Iterator[Emitted]:
        if self.static:
            old = self._victim()
            yield from self.take_over(old)
            yield from self.steady(self.now + 5)
            # The old process is still there and is told that it is fenced.
            yield self.heartbeat(old, self.now, error=82, generation=self.generation)
        yield from self.steady(self.now + 30)

    def _restart(self, member: Member, away: float) -> Iterator[Emitted]:
        yield from self.leave(member)
        yield from self.steady(self.now + away)
        number = int(member.client_id.rsplit("-", 1)[1])
        yield from self.join(self._new_member(number))

    def _storm(self) -> Iterator[Emitted]:
        began, first = self.now, self.generation + 1
        for _ in range(self.rng.randint(4, 8)):
            flapping = self._victim()
            yield from self._restart(flapping, self.rng.uniform(8, 15))
            yield from self.steady(self.now + self.rng.uniform(10, 30))
        self.note("storm", first_generation=first, last_generation=self.generation, began=began, at=self.now)

    def _slow_member(self) -> Iterator[Emitted]:
        late = self._victim()
        delay = self.rng.uniform(10, 25)
        new = self._new_member(self._serial)
        yield from self._enter(new)
        self.note("slow_member", member_id=late.member_id, generation=self.generation + 1, ms=delay * 1000)
        yield from self.rebalance(
            "NEW_MEMBER", new.member_id, "add", joining=[new], slow={late.member_id: delay}
        )  # fmt: skip

    def _slow_leader(self) -> Iterator[Emitted]:
        delay = self.rng.uniform(5, 12)
        self.note("slow_leader", member_id=self.leader, generation=self.generation + 1, ms=delay * 1000)
        yield from self.join(self._new_member(self._serial), leader_s=delay)

    def _expiry(self) -> Iterator[Emitted]:
        silent = self._victim()
        last = silent.next_heartbeat - HEARTBEAT_S
        yield from self.steady(last + self.session_timeout_ms / 1000, silent=silent)
        self.note("session_expired", member_id=silent.member_id, silent_since=last, at=self.now)
        yield from self.expire(silent)

    def _poll_timeout(self) -> Iterator[Emitted]:
        member = self._victim()
        self.note("poll_timeout", member_id=member.member_id, at=self.now)
        yield from self.leave(member, "consumer poll timeout has expired.")

    def _bounce(self) -> Iterator[Emitted]:
        member = self._victim()
        self.note("bounce", client_id=member.client_id, at=self.now)
        yield from self._restart(member, 6.0)

    def _near_miss(self) -> Iterator[Emitted]:
        member = self._victim()
        began = member.next_heartbeat - HEARTBEAT_S
        yield from self.steady(began + self.session_timeout_ms / 1000 * 0.8, silent=member)
        member.next_heartbeat = self.now
        self.note("near_miss", member_id=member.member_id, at=self.now)

    def _commit_regression(self) -> Iterator[Emitted]:
        yield from self.steady(self.now + 20)
        member = next(each for each in self.members if each.owned)
        topic, partition = each = member.owned[0]
        back = self.committed[each] - 1 - int(self.rng.uniform(0, self.committed[each] / 2))
        self.note("commit_regression", topic=topic, partition=partition, offset=back, at=self.now)
        yield from self._commit(member, self.now, {each: back})
        # It reads the same records once more.
        self.offsets[each] = back
        self.now += 0.01

    def _commit_gap(self) -> Iterator[Emitted]:
        yield from self.steady(self.now + 20)
        member = next(each for each in self.members if each.owned)
        began = self.now
        yield from self.steady(self.now + 240, uncommitted=member)
        for topic, partition in member.owned:
            self.note("commit_gap", topic=topic, partition=partition, began=began, at=self.now)

    def _broken_round(self) -> Iterator[Emitted]:
        if self.generation < 4:
            # So that a generation can go back and still be one.
            for _ in range(3):
                yield from self.steady(self.now + 200)
                yield from self.join(self._new_member(self._serial))
            yield from self.steady(self.now + 200)
        yield from self.join(self._new_member(self._serial), broken=self.fault)

    def _stranger(self) -> Iterator[Emitted]:
        member = self._victim()
        generation = self.generation
        yield from self.leave(member)
        yield from self.steady(self.now + 5)
        # First as it should be, then as it must not be.
        yield self.heartbeat(member, self.now, error=25, generation=generation)
        self.note("violation", invariant="I6", member_id=member.member_id, at=self.now + 1)
        yield from self.steady(self.now + 1)
        yield self.heartbeat(member, self.now, generation=generation)

    def _fenced(self) -> Iterator[Emitted]:
        old = self._victim()
        yield from self.take_over(old)
        yield from self.steady(self.now + 5)
        yield self.heartbeat(old, self.now, error=82, generation=self.generation)
        self.note("violation", invariant="I8", member_id=old.member_id, at=self.now + 1)
        yield from self.steady(self.now + 1)
        yield self.heartbeat(old, self.now, generation=self.generation)

    _TROUBLES: Final = {
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
