"""What a classic group does, concluded from the requests and answers of its members.

Decides which `member`, `round`, `assignment` and `group` events a trace gets from outside. All of them are marked
`inferred`. A round is concluded once its answers are there: the leader's lists the members. Until then the exchanges of
these answers wait, so that a trace has them in the order a coordinator would write them. Why a round began is decided
in `rebalance_causes.py`. It does not know connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic.reasons import why_left
from kafka_shim.groups.trace import readable_assignment
from kafka_shim.relay.proxied_connection import PendingRequest
from kafka_shim.relay.rebalance_causes import (
    Member,
    PossibleCause,
    first,
    protocols_of,
    rejoined,
    silence,
)

CAUSES: Final = 64
"""Possible causes kept of one rebalance: those that come later are not its cause."""
HANDED_OUT: Final = 1000
CONCLUDE_AFTER_S: Final = 0.2
"""Seconds after which a round is concluded from the answers there are."""

Event = dict[str, Any]


class _GenerationAnswers:
    """A generation whose answers are coming in."""

    def __init__(self, generation: int, ended: float) -> None:
        self.generation = generation
        self.ended = ended
        self.joined: list[tuple[PendingRequest, Any]] = []
        self.exchanges: list[Event] = []

    @property
    def leaders_answer(self) -> Any:
        return next((answer for _, answer in self.joined if answer.member_id == answer.leader), None)


class Group:
    """One classic group. `emit` takes events without their times."""

    def __init__(self, group_id: str, emit: Callable[[Event], None]) -> None:
        self.group_id = group_id
        self.generation: int | None = None
        self.leader = ""
        self.protocol_type = ""
        self.members: dict[str, Member] = {}
        self.gathering: _GenerationAnswers | None = None
        self._emit = emit
        self._possible_causes: list[PossibleCause] = []
        self._joins: dict[PendingRequest, None] = {}
        self._handed_out: dict[str, None] = {}
        self._gone: list[PossibleCause] = []
        self._round: Event = {}
        self._lost: list[PendingRequest] = []
        self._assigned: int | None = None
        self._syncing: dict[str, None] = {}
        self._sync: PendingRequest | None = None

    # What members send

    def on_request(self, pending: PendingRequest) -> None:
        """A request of a member was read."""
        request = pending.request
        if pending.api == "JoinGroup":
            self._joins[pending] = None
            self._see(self._cause_of_join(pending, self.members.get(request.member_id)))
        elif pending.api == "SyncGroup":
            if self.gathering is not None and self.gathering.generation == request.generation_id:
                self.conclude()
            if request.generation_id == self.generation and request.member_id in self.members:
                self._syncing[request.member_id] = None
                if request.assignments:
                    self._sync = pending

    def forget(self, pending: PendingRequest) -> None:
        """The connection of a JoinGroup is gone: its answer will not be seen, but the member may be in the round."""
        if pending in self._joins:
            del self._joins[pending]
            if len(self._lost) < CAUSES:
                self._lost.append(pending)

    def _see(self, found: PossibleCause | None) -> None:
        if found is not None and len(self._possible_causes) < CAUSES:
            self._possible_causes.append(found)

    def _cause_of_join(self, pending: PendingRequest, member: Member | None) -> PossibleCause | None:
        join, at = pending.request, pending.arrived
        if member is not None:
            cause = rejoined(member, protocols_of(join), join.protocol_type, self.leader == member.member_id)
            return None if cause is None else PossibleCause(at, cause, member.member_id, pending)
        if join.member_id:
            return PossibleCause(at, Cause.NEW_MEMBER, join.member_id, pending)
        if join.group_instance_id is not None:
            is_member = any(each.instance_id == join.group_instance_id for each in self.members.values())
            return PossibleCause(at, Cause.STATIC_REPLACED if is_member else Cause.NEW_MEMBER, "", pending)
        # From version 4 on it gets only an id, and joins with that.
        return PossibleCause(at, Cause.NEW_MEMBER, "", pending) if pending.version < 4 else None

    # What members are answered

    def join_answered(self, pending: PendingRequest, answer: Any, now: float, exchange: Event) -> None:
        """A JoinGroup was answered; `exchange` is its event."""
        self._joins.pop(pending, None)
        if answer.error_code:
            self._join_refused(pending, answer, now)
            self._emit(exchange)
            return
        gathering = self.gathering
        if gathering is None or gathering.generation != answer.generation_id:
            self.conclude()
            if answer.generation_id == self.generation and self.members:
                self._came_late(pending, answer, now)
                self._emit(exchange)
                return
            gathering = self.gathering = _GenerationAnswers(answer.generation_id, now)
        gathering.joined.append((pending, answer))
        gathering.exchanges.append(exchange)
        if not self._joins and gathering.leaders_answer is not None:
            self.conclude()

    def _join_refused(self, pending: PendingRequest, answer: Any, now: float) -> None:
        self.conclude()
        self._withdraw(pending)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._handed_out[answer.member_id] = None
            if len(self._handed_out) > HANDED_OUT:
                del self._handed_out[next(iter(self._handed_out))]
            self._member(answer.member_id, pending, "pending")
        elif answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._see(PossibleCause(now, None))

    def _withdraw(self, pending: PendingRequest) -> None:
        self._possible_causes = [found for found in self._possible_causes if found.of is not pending]

    def _came_late(self, pending: PendingRequest, answer: Any, now: float) -> None:
        """A JoinGroup was answered with the generation there is: a static member is back, or nothing has changed."""
        self._withdraw(pending)
        self.leader = answer.leader or self.leader
        self._take_over(answer.member_id, pending.request.group_instance_id)
        member = self.members.get(answer.member_id)
        self._enter(answer.member_id, pending, now)
        if member is None:
            self._member(answer.member_id, pending, "added")

    def on_answer(self, pending: PendingRequest, answer: Any, now: float) -> None:
        """Any other request of a member was answered."""
        self.conclude()
        request = pending.request
        if pending.api == "LeaveGroup":
            self._left(pending, answer)
        elif pending.api in ("Heartbeat", "SyncGroup"):
            if answer.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID):
                self._see(PossibleCause(now, None))
                if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS and pending.api == "Heartbeat":
                    self.renew_session(request.member_id, pending.arrived)
            elif not answer.error_code:
                self._in_generation(pending, request.member_id, request.generation_id)
                if pending.api == "SyncGroup":
                    self._synced(request)
                else:
                    self.renew_session(request.member_id, pending.arrived)

    def renew_session(self, member_id: str, at: float) -> None:
        """A member's session begins anew."""
        member = self.members.get(member_id)
        if member is not None:
            member.last_seen = at

    def _in_generation(self, pending: PendingRequest, member_id: str, generation: int) -> None:
        """An answer shows that a member is in a generation, perhaps since before anything was seen."""
        if self.generation is None:
            self.generation = generation
        if member_id not in self.members and generation == self.generation:
            self.members[member_id] = Member(member_id, pending.request.group_instance_id)

    def _synced(self, request: Any) -> None:
        member = self.members.get(request.member_id)
        if member is not None:
            member.sync_s = None
        sync = self._sync
        generation = request.generation_id
        if sync is None or generation != self.generation or sync.request.generation_id != generation:
            return
        if self._assigned == generation or self._round.get("generation") != generation:
            return
        self._assigned = generation
        for member_id in self._syncing:
            # The assignment renews the sessions of all that wait for it, gone or not; a later SyncGroup renews none.
            # It did so before its answer was seen here, and not before it was sent.
            self.renew_session(member_id, sync.arrived)
        assignments = {each.member_id: each.assignment for each in sync.request.assignments}
        self._emit_event(
            "assignment",
            generation=generation,
            cause=self._round["cause"],
            trigger=self._round["trigger"],
            leader=sync.request.member_id,
            leader_ms=round(max(sync.arrived - self._round["ended"], 0.0) * 1000, 3),
            assignments={
                member_id: readable_assignment(self.protocol_type, assignments.get(member_id, b""))
                for member_id in self.members
            },
        )

    def _left(self, pending: PendingRequest, answer: Any) -> None:
        errors = [each.error_code for each in answer.members] or [0] * len(pending.request.members)
        for identity, error in zip(pending.request.members, errors, strict=False):
            if error or answer.error_code:
                continue
            member_id = identity.member_id or self._static_id(identity.group_instance_id)
            member = self.members.pop(member_id, None)
            self._member(member_id, pending, "left" if identity.member_id else "removed", member)
            if member_id in self._handed_out and member is None:
                del self._handed_out[member_id]
                continue
            found = PossibleCause(pending.arrived, why_left(identity), member_id)
            self._see(found)
            if len(self._gone) < CAUSES:
                self._gone.append(found)
        if not self.members:
            # Nobody is answered in the round that follows; what comes after it has another cause.
            self._possible_causes.clear()
            self._gone.clear()

    def deleted(self) -> None:
        """The group was deleted."""
        self.conclude()
        self._emit_event(
            "group", partition=-1, change="deleted", state="Dead", generation=self.generation or 0, members=0
        )

    def _static_id(self, instance_id: str | None) -> str:
        found = (each.member_id for each in self.members.values() if each.instance_id == instance_id is not None)
        return next(found, "")

    # Rounds

    def conclude(self) -> None:
        """Conclude the round whose answers are there, if there is one."""
        gathering, self.gathering = self.gathering, None
        if gathering is None:
            return
        leaders = gathering.leaders_answer
        answer = leaders if leaders is not None else gathering.joined[0][1]
        joined = {answer.member_id: pending for pending, answer in gathering.joined}
        waiting = [pending for pending in self._joins if pending.arrived <= gathering.ended]
        for pending in (*self._lost, *waiting):
            if member_id := pending.request.member_id or self._static_id(pending.request.group_instance_id):
                joined.setdefault(member_id, pending)
        if leaders is not None:
            listed = {each.member_id: each.group_instance_id for each in leaders.members}
            joined = {member_id: pending for member_id, pending in joined.items() if member_id in listed}
        else:
            listed = {member_id: pending.request.group_instance_id for member_id, pending in joined.items()}
        if self.generation is not None and gathering.generation <= self.generation and not self.members:
            self._emit_event(
                "group", partition=-1, change="expired", state="Empty", generation=self.generation, members=0
            )
        for member_id, instance_id in listed.items():
            self._take_over(member_id, instance_id)
        missing = [member for member in self.members.values() if member.member_id not in listed]
        # A JoinGroup may pass while the answers of the round before are on their way here: it begins the next one.
        late = self._joins.keys() - joined.values()
        self._possible_causes, early = (
            [s for s in self._possible_causes if s.of in late],
            [s for s in self._possible_causes if s.of not in late],
        )
        cause, trigger, started = self._why(early, gathering, missing, listed, joined)
        self._dismiss(missing, gathering.ended)
        for member_id, instance_id in listed.items():
            joining = joined.get(member_id)
            if member_id not in self.members:
                self._member(member_id, joining, "added", None, instance_id)
            self._enter(member_id, joining, gathering.ended, instance_id)
        waited = sorted(
            (
                (round(max(pending.arrived - started, 0.0) * 1000, 3), member_id)
                for member_id, pending in joined.items()
            ),
            reverse=True,
        )
        went = [found.trigger for found in self._gone if found.at > started]
        dropped = [*went, *(member.member_id for member in missing)]
        self.generation = gathering.generation
        self.leader = answer.leader
        self.protocol_type = gathering.joined[0][0].request.protocol_type
        self._round = {"generation": gathering.generation, "cause": cause, "trigger": trigger, "ended": gathering.ended}
        self._emit_event(
            "round",
            generation=gathering.generation,
            cause=cause,
            trigger=trigger,
            started=started,
            ended=gathering.ended,
            waited_for=[{"member_id": member_id, "ms": ms} for ms, member_id in waited],
            dropped=[member_id for member_id in dropped if member_id != trigger],
            leader=answer.leader,
            protocol=answer.protocol_name or "",
            members=list(listed),
        )
        self._gone.clear()
        self._lost.clear()
        self._syncing.clear()
        for exchange in gathering.exchanges:
            self._emit(exchange)

    def _why(
        self,
        possible: list[PossibleCause],
        gathering: _GenerationAnswers,
        missing: list[Member],
        listed: dict[str, str | None],
        joined: dict[str, PendingRequest],
    ) -> tuple[str, str, float]:
        """The cause, who brought the round about, and when it began."""
        # Of what happened at the same moment, silence came first: the rest is what it led to.
        found = first([*silence(missing, gathering.ended), *possible])
        began = min([pending.arrived for pending in joined.values()])
        if found is None:
            found = PossibleCause(began, None)
        cause, trigger = found.cause, found.trigger
        if cause is not None and not trigger:
            trigger = next((member_id for member_id, pending in joined.items() if pending is found.of), "")
        if cause is None:
            unseen = [member_id for member_id in listed if member_id not in self.members and member_id not in joined]
            if unseen:
                cause, trigger = Cause.NEW_MEMBER, unseen[0]
        return "" if cause is None else cause.value, trigger, min(found.at, gathering.ended)

    def _dismiss(self, missing: list[Member], ended: float) -> None:
        for member in missing:
            expires = member.expires()
            change = "expired" if expires is not None and expires <= ended else "removed"
            del self.members[member.member_id]
            self._member(member.member_id, None, change, member)

    def _take_over(self, member_id: str, instance_id: str | None) -> None:
        """A static member with another id than the one before has its place."""
        old = self._static_id(instance_id)
        if instance_id is None or not old or old == member_id:
            return
        member = self.members.pop(old)
        self._member(old, None, "fenced", member)
        self.members[member_id] = new = Member(member_id, instance_id)
        new.client_id, new.client_host = member.client_id, member.client_host
        self._member(member_id, None, "replaced", new)

    def _enter(
        self, member_id: str, pending: PendingRequest | None, now: float, instance_id: str | None = None
    ) -> None:
        """A member is in the generation; `pending` is its JoinGroup, if it was seen."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Member(member_id, instance_id)
        self._handed_out.pop(member_id, None)
        if pending is None:
            return
        join = pending.request
        member.instance_id = join.group_instance_id
        member.client_id, member.client_host = pending.client_id, pending.connection.client_host
        member.last_seen = now
        member.session_s = join.session_timeout_ms / 1000
        if join.rebalance_timeout_ms >= 0:
            member.sync_s = now + join.rebalance_timeout_ms / 1000
        member.protocols = protocols_of(join)

    # Events

    def _member(
        self,
        member_id: str,
        pending: PendingRequest | None,
        change: str,
        member: Member | None = None,
        instance_id: str | None = None,
    ) -> None:
        join = pending.request if pending is not None and pending.api == "JoinGroup" else None
        host = pending.connection.client_host if pending is not None else ""
        self._emit_event(
            "member",
            member_id=member_id,
            instance_id=member.instance_id if member else join.group_instance_id if join else instance_id,
            client_id=member.client_id if member else pending.client_id if join and pending else "",
            client_host=member.client_host if member else host if join else "",
            change=change,
            rule="",
        )

    def _emit_event(self, event: str, **fields: Any) -> None:
        self._emit({"event": event, "group": self.group_id, **fields, "inferred": True})
