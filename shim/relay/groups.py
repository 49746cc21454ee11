"""What a classic group does, concluded from the requests and answers of its members.

Decides which `member`, `round`, `assignment` and `group` events a trace gets from outside. All of them are marked
`inferred`. A round is told once its answers are there: the leader's lists the members. Until then the exchanges of
these answers wait, so that a trace has them in the order a coordinator would write them. Why a round began is decided
in `signs.py`. It does not know connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic.reasons import why_left
from kafka_shim.groups.trace import readable_assignment
from kafka_shim.relay.line import Asked
from kafka_shim.relay.signs import (
    Member,
    Sign,
    first,
    protocols_of,
    rejoined,
    silence,
)

SIGNS: Final = 64
"""Signs kept of one rebalance: those that come later are not its cause."""
HANDED_OUT: Final = 1000
TOLD_AT_LEAST_S: Final = 0.2
"""After this time a round is told with the answers there are."""

Event = dict[str, Any]


class _Telling:
    """A generation whose answers are coming in."""

    def __init__(self, generation: int, ended: float) -> None:
        self.generation = generation
        self.ended = ended
        self.joined: list[tuple[Asked, Any]] = []
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
        self.telling: _Telling | None = None
        self._emit = emit
        self._signs: list[Sign] = []
        self._joins: dict[Asked, None] = {}
        self._handed_out: dict[str, None] = {}
        self._gone: list[Sign] = []
        self._round: Event = {}
        self._lost: list[Asked] = []
        self._assigned: int | None = None
        self._syncing: dict[str, None] = {}
        self._sync: Asked | None = None

    # What members send

    def asked(self, asked: Asked) -> None:
        """A request of a member was read."""
        request = asked.request
        if asked.api == "JoinGroup":
            self._joins[asked] = None
            self._see(self._sign_of_join(asked, self.members.get(request.member_id)))
        elif asked.api == "SyncGroup":
            if self.telling is not None and self.telling.generation == request.generation_id:
                self.tell()
            if request.generation_id == self.generation and request.member_id in self.members:
                self._syncing[request.member_id] = None
                if request.assignments:
                    self._sync = asked

    def forget(self, asked: Asked) -> None:
        """The connection of a JoinGroup is gone: its answer will not be seen, but the member may be in the round."""
        if asked in self._joins:
            del self._joins[asked]
            if len(self._lost) < SIGNS:
                self._lost.append(asked)

    def _see(self, sign: Sign | None) -> None:
        if sign is not None and len(self._signs) < SIGNS:
            self._signs.append(sign)

    def _sign_of_join(self, asked: Asked, member: Member | None) -> Sign | None:
        join, at = asked.request, asked.arrived
        if member is not None:
            cause = rejoined(member, protocols_of(join), join.protocol_type, self.leader == member.member_id)
            return None if cause is None else Sign(at, cause, member.member_id, asked)
        if join.member_id:
            return Sign(at, Cause.NEW_MEMBER, join.member_id, asked)
        if join.group_instance_id is not None:
            known = any(each.instance_id == join.group_instance_id for each in self.members.values())
            return Sign(at, Cause.STATIC_REPLACED if known else Cause.NEW_MEMBER, "", asked)
        # From version 4 on it is only given an id, and joins with that.
        return Sign(at, Cause.NEW_MEMBER, "", asked) if asked.version < 4 else None

    # What members are answered

    def join_answered(self, asked: Asked, answer: Any, now: float, exchange: Event) -> None:
        """A JoinGroup was answered; `exchange` is its event."""
        self._joins.pop(asked, None)
        if answer.error_code:
            self._join_refused(asked, answer, now)
            self._emit(exchange)
            return
        telling = self.telling
        if telling is None or telling.generation != answer.generation_id:
            self.tell()
            if answer.generation_id == self.generation and self.members:
                self._came_late(asked, answer, now)
                self._emit(exchange)
                return
            telling = self.telling = _Telling(answer.generation_id, now)
        telling.joined.append((asked, answer))
        telling.exchanges.append(exchange)
        if not self._joins and telling.leaders_answer is not None:
            self.tell()

    def _join_refused(self, asked: Asked, answer: Any, now: float) -> None:
        self.tell()
        self._withdraw(asked)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._handed_out[answer.member_id] = None
            if len(self._handed_out) > HANDED_OUT:
                del self._handed_out[next(iter(self._handed_out))]
            self._member(answer.member_id, asked, "pending")
        elif answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._see(Sign(now, None))

    def _withdraw(self, asked: Asked) -> None:
        self._signs = [sign for sign in self._signs if sign.of is not asked]

    def _came_late(self, asked: Asked, answer: Any, now: float) -> None:
        """A JoinGroup was answered with the generation there is: a static member is back, or nothing has changed."""
        self._withdraw(asked)
        self.leader = answer.leader or self.leader
        self._take_over(answer.member_id, asked.request.group_instance_id)
        known = self.members.get(answer.member_id)
        self._enter(answer.member_id, asked, now)
        if known is None:
            self._member(answer.member_id, asked, "added")

    def answered(self, asked: Asked, answer: Any, now: float) -> None:
        """Any other request of a member was answered."""
        self.tell()
        request = asked.request
        if asked.api == "LeaveGroup":
            self._left(asked, answer)
        elif asked.api in ("Heartbeat", "SyncGroup"):
            if answer.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID):
                self._see(Sign(now, None))
                if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS and asked.api == "Heartbeat":
                    self.heard(request.member_id, asked.arrived)
            elif not answer.error_code:
                self._in_generation(asked, request.member_id, request.generation_id)
                if asked.api == "SyncGroup":
                    self._synced(request, now)
                else:
                    self.heard(request.member_id, asked.arrived)

    def heard(self, member_id: str, at: float) -> None:
        """A member's session begins anew."""
        member = self.members.get(member_id)
        if member is not None:
            member.heard = at

    def _in_generation(self, asked: Asked, member_id: str, generation: int) -> None:
        """A member is told that it is in a generation: perhaps it has been since before anything was seen."""
        if self.generation is None:
            self.generation = generation
        if member_id not in self.members and generation == self.generation:
            self.members[member_id] = Member(member_id, asked.request.group_instance_id)

    def _synced(self, request: Any, now: float) -> None:
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
            self.heard(member_id, now)
        given = {each.member_id: each.assignment for each in sync.request.assignments}
        self._say(
            "assignment",
            generation=generation,
            cause=self._round["cause"],
            trigger=self._round["trigger"],
            leader=sync.request.member_id,
            leader_ms=round(max(sync.arrived - self._round["ended"], 0.0) * 1000, 3),
            assignments={
                member_id: readable_assignment(self.protocol_type, given.get(member_id, b""))
                for member_id in self.members
            },
        )

    def _left(self, asked: Asked, answer: Any) -> None:
        errors = [each.error_code for each in answer.members] or [0] * len(asked.request.members)
        for identity, error in zip(asked.request.members, errors, strict=False):
            if error or answer.error_code:
                continue
            member_id = identity.member_id or self._static_id(identity.group_instance_id)
            member = self.members.pop(member_id, None)
            self._member(member_id, asked, "left" if identity.member_id else "removed", member)
            if member_id in self._handed_out and member is None:
                del self._handed_out[member_id]
                continue
            sign = Sign(asked.arrived, why_left(identity), member_id)
            self._see(sign)
            if len(self._gone) < SIGNS:
                self._gone.append(sign)
        if not self.members:
            # The round that follows has nobody to tell; what comes after it has another cause.
            self._signs.clear()
            self._gone.clear()

    def deleted(self) -> None:
        """The group was deleted."""
        self.tell()
        self._say("group", partition=-1, change="deleted", state="Dead", generation=self.generation or 0, members=0)

    def _static_id(self, instance_id: str | None) -> str:
        found = (each.member_id for each in self.members.values() if each.instance_id == instance_id is not None)
        return next(found, "")

    # Rounds

    def tell(self) -> None:
        """Tell the round whose answers are there, if there is one."""
        telling, self.telling = self.telling, None
        if telling is None:
            return
        leaders = telling.leaders_answer
        answer = leaders if leaders is not None else telling.joined[0][1]
        joined = {answer.member_id: asked for asked, answer in telling.joined}
        waiting = [asked for asked in self._joins if asked.arrived <= telling.ended]
        for asked in (*self._lost, *waiting):
            if member_id := asked.request.member_id or self._static_id(asked.request.group_instance_id):
                joined.setdefault(member_id, asked)
        if leaders is not None:
            listed = {each.member_id: each.group_instance_id for each in leaders.members}
            joined = {member_id: asked for member_id, asked in joined.items() if member_id in listed}
        else:
            listed = {member_id: asked.request.group_instance_id for member_id, asked in joined.items()}
        if self.generation is not None and telling.generation <= self.generation and not self.members:
            self._say("group", partition=-1, change="expired", state="Empty", generation=self.generation, members=0)
        for member_id, instance_id in listed.items():
            self._take_over(member_id, instance_id)
        missing = [member for member in self.members.values() if member.member_id not in listed]
        # A JoinGroup may pass while the answers of the round before are on their way here: it begins the next one.
        late = self._joins.keys() - joined.values()
        self._signs, early = [s for s in self._signs if s.of in late], [s for s in self._signs if s.of not in late]
        cause, trigger, started = self._why(early, telling, missing, listed, joined)
        self._dismiss(missing, telling.ended)
        for member_id, instance_id in listed.items():
            joining = joined.get(member_id)
            if member_id not in self.members:
                self._member(member_id, joining, "added", None, instance_id)
            self._enter(member_id, joining, telling.ended, instance_id)
        waited = sorted(
            ((round(max(asked.arrived - started, 0.0) * 1000, 3), member_id) for member_id, asked in joined.items()),
            reverse=True,
        )
        went = [sign.trigger for sign in self._gone if sign.at > started]
        dropped = [*went, *(member.member_id for member in missing)]
        self.generation = telling.generation
        self.leader = answer.leader
        self.protocol_type = telling.joined[0][0].request.protocol_type
        self._round = {"generation": telling.generation, "cause": cause, "trigger": trigger, "ended": telling.ended}
        self._say(
            "round",
            generation=telling.generation,
            cause=cause,
            trigger=trigger,
            started=started,
            ended=telling.ended,
            waited_for=[{"member_id": member_id, "ms": ms} for ms, member_id in waited],
            dropped=[member_id for member_id in dropped if member_id != trigger],
            leader=answer.leader,
            protocol=answer.protocol_name or "",
            members=list(listed),
        )
        self._gone.clear()
        self._lost.clear()
        self._syncing.clear()
        for exchange in telling.exchanges:
            self._emit(exchange)

    def _why(
        self,
        signs: list[Sign],
        telling: _Telling,
        missing: list[Member],
        listed: dict[str, str | None],
        joined: dict[str, Asked],
    ) -> tuple[str, str, float]:
        """The cause, who brought the round about, and when it began."""
        # Of what happened at the same moment, silence came first: the rest is what it led to.
        sign = first([*silence(missing, telling.ended), *signs])
        began = min([asked.arrived for asked in joined.values()])
        if sign is None:
            sign = Sign(began, None)
        cause, trigger = sign.cause, sign.trigger
        if cause is not None and not trigger:
            trigger = next((member_id for member_id, asked in joined.items() if asked is sign.of), "")
        if cause is None:
            unseen = [member_id for member_id in listed if member_id not in self.members and member_id not in joined]
            if unseen:
                cause, trigger = Cause.NEW_MEMBER, unseen[0]
        return "" if cause is None else cause.value, trigger, min(sign.at, telling.ended)

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

    def _enter(self, member_id: str, asked: Asked | None, now: float, instance_id: str | None = None) -> None:
        """A member is in the generation; `asked` is its JoinGroup, if it was seen."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Member(member_id, instance_id)
        self._handed_out.pop(member_id, None)
        if asked is None:
            return
        join = asked.request
        member.instance_id = join.group_instance_id
        member.client_id, member.client_host = asked.client_id, asked.line.client_host
        member.heard = now
        member.session_s = join.session_timeout_ms / 1000
        if join.rebalance_timeout_ms >= 0:
            member.sync_s = now + join.rebalance_timeout_ms / 1000
        member.protocols = protocols_of(join)

    # Events

    def _member(
        self,
        member_id: str,
        asked: Asked | None,
        change: str,
        member: Member | None = None,
        instance_id: str | None = None,
    ) -> None:
        join = asked.request if asked is not None and asked.api == "JoinGroup" else None
        host = asked.line.client_host if asked is not None else ""
        self._say(
            "member",
            member_id=member_id,
            instance_id=member.instance_id if member else join.group_instance_id if join else instance_id,
            client_id=member.client_id if member else asked.client_id if join and asked else "",
            client_host=member.client_host if member else host if join else "",
            change=change,
            rule="",
        )

    def _say(self, event: str, **fields: Any) -> None:
        self._emit({"event": event, "group": self.group_id, **fields, "inferred": True})
