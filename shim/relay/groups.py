"""Events of a classic group, inferred from the requests and answers of its members.

Emits `member`, `round`, `assignment` and `group` events, all marked `inferred`. A round ends when the leader's answer,
which lists the members, has passed. Until then the exchange events of its answers wait, so that the trace has them in
the order of a coordinator's trace. `rebalance_causes.py` finds the cause of a round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic.events import differing_subscriptions, readable_assignment, topics_of, why_left
from kafka_shim.groups.classic.subscriptions import CONSUMER
from kafka_shim.relay.proxied_connection import PendingRequest
from kafka_shim.relay.rebalance_causes import (
    Member,
    PossibleCause,
    cause_of_rejoin,
    causes_of_silence,
    earliest_cause,
    protocols_of,
)
from kafka_shim.trace.causes import Cause

MAX_CAUSES: Final = 64
"""At most this many possible causes of one rebalance are kept: later ones are not its cause."""
MAX_MEMBER_IDS: Final = 1000
CONCLUDE_AFTER_S: Final = 0.2
"""Seconds after which a round ends with the answers seen so far."""

Event = dict[str, Any]


class _GenerationAnswers:
    """A generation with answers of which some have passed."""

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
        self._assigned_ids: dict[str, None] = {}
        self._departures: list[PossibleCause] = []
        self._round: Event = {}
        self._unseen: list[PendingRequest] = []
        self._assigned: int | None = None
        self._syncing: dict[str, None] = {}
        self._sync: PendingRequest | None = None

    # Requests

    def on_request(self, pending: PendingRequest) -> None:
        """Handle a request of a member."""
        request = pending.request
        if pending.api == "JoinGroup":
            self._joins[pending] = None
            self._add_cause(self._cause_of_join(pending, self.members.get(request.member_id)))
        elif pending.api == "SyncGroup":
            if self.gathering is not None and self.gathering.generation == request.generation_id:
                self.conclude()
            if request.generation_id == self.generation and request.member_id in self.members:
                self._syncing[request.member_id] = None
                if request.assignments:
                    self._sync = pending

    def forget(self, pending: PendingRequest) -> None:
        """Forget a JoinGroup on a closed connection: its answer will not be seen, but the member may be in the
        round.
        """
        if pending in self._joins:
            del self._joins[pending]
            if len(self._unseen) < MAX_CAUSES:
                self._unseen.append(pending)

    def _add_cause(self, cause: PossibleCause | None) -> None:
        if cause is not None and len(self._possible_causes) < MAX_CAUSES:
            self._possible_causes.append(cause)

    def _cause_of_join(self, pending: PendingRequest, member: Member | None) -> PossibleCause | None:
        join, at = pending.request, pending.arrived
        if member is not None:
            cause = cause_of_rejoin(member, protocols_of(join), join.protocol_type, self.leader == member.member_id)
            return None if cause is None else PossibleCause(at, cause, member.member_id, pending)
        if join.member_id:
            return PossibleCause(at, Cause.NEW_MEMBER, join.member_id, pending)
        if join.group_instance_id is not None:
            is_member = any(each.instance_id == join.group_instance_id for each in self.members.values())
            return PossibleCause(at, Cause.STATIC_REPLACED if is_member else Cause.NEW_MEMBER, "", pending)
        # From version 4 on the member only gets an id, and joins again with it.
        return PossibleCause(at, Cause.NEW_MEMBER, "", pending) if pending.version < 4 else None

    # Answers

    def on_join_answer(self, pending: PendingRequest, answer: Any, now: float, exchange: Event) -> None:
        """Handle the answer to a JoinGroup; `exchange` is its event."""
        self._joins.pop(pending, None)
        if answer.error_code:
            self._join_refused(pending, answer, now)
            self._emit(exchange)
            return
        gathering = self.gathering
        if gathering is None or gathering.generation != answer.generation_id:
            self.conclude()
            if answer.generation_id == self.generation and self.members:
                self._on_late_answer(pending, answer, now)
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
            self._assigned_ids[answer.member_id] = None
            if len(self._assigned_ids) > MAX_MEMBER_IDS:
                del self._assigned_ids[next(iter(self._assigned_ids))]
            self._member(answer.member_id, pending, "pending")
        elif answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._add_cause(PossibleCause(now, None))

    def _withdraw(self, pending: PendingRequest) -> None:
        self._possible_causes = [each for each in self._possible_causes if each.of is not pending]

    def _on_late_answer(self, pending: PendingRequest, answer: Any, now: float) -> None:
        """Handle a JoinGroup answered with the present generation: a static member returned, or nothing changed."""
        self._withdraw(pending)
        self.leader = answer.leader or self.leader
        self._replace_static(answer.member_id, pending.request.group_instance_id)
        member = self.members.get(answer.member_id)
        self._put(answer.member_id, pending, now)
        if member is None:
            self._member(answer.member_id, pending, "added")

    def on_answer(self, pending: PendingRequest, answer: Any, now: float) -> None:
        """Handle the answer to any other request of a member."""
        self.conclude()
        request = pending.request
        if pending.api == "LeaveGroup":
            self._on_left(pending, answer)
        elif pending.api in ("Heartbeat", "SyncGroup"):
            if answer.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID):
                self._add_cause(PossibleCause(now, None))
                if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS and pending.api == "Heartbeat":
                    self.renew_session(request.member_id, pending.arrived)
            elif not answer.error_code:
                self._in_generation(pending, request.member_id, request.generation_id)
                if pending.api == "SyncGroup":
                    self._on_synced(request)
                else:
                    self.renew_session(request.member_id, pending.arrived)

    def renew_session(self, member_id: str, at: float) -> None:
        """Restart a member's session."""
        member = self.members.get(member_id)
        if member is not None:
            member.last_seen = at

    def _in_generation(self, pending: PendingRequest, member_id: str, generation: int) -> None:
        """Add a member of a generation that began before the trace."""
        if self.generation is None:
            self.generation = generation
        if member_id not in self.members and generation == self.generation:
            self.members[member_id] = Member(member_id, pending.request.group_instance_id)

    def _on_synced(self, request: Any) -> None:
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
            # The assignment renews the sessions of all members that wait for it, on open connections or not; a later
            # SyncGroup renews none. It did so after it was sent and before its answer was seen here.
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
            **self._subscriptions(),
        )

    def _subscriptions(self) -> dict[str, dict[str, list[str]]]:
        if self.protocol_type != CONSUMER:
            return {}
        return differing_subscriptions(
            {each.member_id: topics_of(each.protocols or ()) for each in self.members.values()}
        )

    def _on_left(self, pending: PendingRequest, answer: Any) -> None:
        errors = [each.error_code for each in answer.members] or [0] * len(pending.request.members)
        for identity, error in zip(pending.request.members, errors, strict=False):
            if error or answer.error_code:
                continue
            member_id = identity.member_id or self._static_id(identity.group_instance_id)
            member = self.members.pop(member_id, None)
            self._member(member_id, pending, "left" if identity.member_id else "removed", member)
            if member_id in self._assigned_ids and member is None:
                del self._assigned_ids[member_id]
                continue
            cause = PossibleCause(pending.arrived, why_left(identity), member_id)
            self._add_cause(cause)
            if len(self._departures) < MAX_CAUSES:
                self._departures.append(cause)
        if not self.members:
            # The round that follows answers no member; later requests have another cause.
            self._possible_causes.clear()
            self._departures.clear()

    def on_deleted(self) -> None:
        """Emit the event of the deleted group."""
        self.conclude()
        self._emit_event(
            "group", partition=-1, change="deleted", state="Dead", generation=self.generation or 0, members=0
        )

    def _static_id(self, instance_id: str | None) -> str:
        ids = (each.member_id for each in self.members.values() if each.instance_id == instance_id is not None)
        return next(ids, "")

    # Rounds

    def conclude(self) -> None:
        """End the round after its answers, if there is one."""
        gathering, self.gathering = self.gathering, None
        if gathering is None:
            return
        leaders = gathering.leaders_answer
        answer = leaders if leaders is not None else gathering.joined[0][1]
        joined = {answer.member_id: pending for pending, answer in gathering.joined}
        waiting = [pending for pending in self._joins if pending.arrived <= gathering.ended]
        for pending in (*self._unseen, *waiting):
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
            self._replace_static(member_id, instance_id)
        missing = [member for member in self.members.values() if member.member_id not in listed]
        # A JoinGroup may pass while the answers of the round before are on their way here: it begins the next one.
        late = self._joins.keys() - joined.values()
        self._possible_causes, early = (
            [each for each in self._possible_causes if each.of in late],
            [each for each in self._possible_causes if each.of not in late],
        )
        cause, trigger, started = self._cause_of_round(early, gathering, missing, listed, joined)
        self._remove_missing(missing, gathering.ended)
        for member_id, instance_id in listed.items():
            joining = joined.get(member_id)
            if member_id not in self.members:
                self._member(member_id, joining, "added", None, instance_id)
            self._put(member_id, joining, gathering.ended, instance_id)
        waited = sorted(
            (
                (round(max(pending.arrived - started, 0.0) * 1000, 3), member_id)
                for member_id, pending in joined.items()
            ),
            reverse=True,
        )
        departures = [each.trigger for each in self._departures if each.at > started]
        dropped = [*departures, *(member.member_id for member in missing)]
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
        self._departures.clear()
        self._unseen.clear()
        self._syncing.clear()
        for exchange in gathering.exchanges:
            self._emit(exchange)

    def _cause_of_round(
        self,
        possible: list[PossibleCause],
        gathering: _GenerationAnswers,
        missing: list[Member],
        listed: dict[str, str | None],
        joined: dict[str, PendingRequest],
    ) -> tuple[str, str, float]:
        """Return cause, trigger and start time of the round."""
        # Of causes at the same moment, silence came first: the others are its consequences.
        earliest = earliest_cause([*causes_of_silence(missing, gathering.ended), *possible])
        began = min([pending.arrived for pending in joined.values()])
        if earliest is None:
            earliest = PossibleCause(began, None)
        cause, trigger = earliest.cause, earliest.trigger
        if cause is not None and not trigger:
            trigger = next((member_id for member_id, pending in joined.items() if pending is earliest.of), "")
        if cause is None:
            unseen = [member_id for member_id in listed if member_id not in self.members and member_id not in joined]
            if unseen:
                cause, trigger = Cause.NEW_MEMBER, unseen[0]
        return "" if cause is None else cause.value, trigger, min(earliest.at, gathering.ended)

    def _remove_missing(self, missing: list[Member], ended: float) -> None:
        for member in missing:
            expires = member.expires()
            change = "expired" if expires is not None and expires <= ended else "removed"
            del self.members[member.member_id]
            self._member(member.member_id, None, change, member)

    def _replace_static(self, member_id: str, instance_id: str | None) -> None:
        """Let a static member with a new id replace the member with its instance id."""
        old = self._static_id(instance_id)
        if instance_id is None or not old or old == member_id:
            return
        member = self.members.pop(old)
        self._member(old, None, "fenced", member)
        self.members[member_id] = new = Member(member_id, instance_id)
        new.client_id, new.client_host = member.client_id, member.client_host
        self._member(member_id, None, "replaced", new)

    def _put(self, member_id: str, pending: PendingRequest | None, now: float, instance_id: str | None = None) -> None:
        """Put a member into the generation; `pending` is its JoinGroup, if it was seen."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Member(member_id, instance_id)
        self._assigned_ids.pop(member_id, None)
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
