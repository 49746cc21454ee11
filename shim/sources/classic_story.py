"""`ClassicStory`: the story of one group of the classic protocol, from the lines of its coordinators.

A rebalance is from `Preparing` to `Stabilized`, which answers the requests to join, and to `Assignment received`. A log
lacks protocol, assignments, the order in which members joined, and members of before it: they stay empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.sources.reasons import Because, bare, because, ids_in, refined
from kafka_shim.sources.signs import Sign, SignName
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.members import client_id_of

Event = dict[str, Any]

_AT_ONCE_MS: Final = 50
"""Lines of one request come within this time."""
_FOLLOWUP_MS: Final = 3_000
"""Members of a cooperative group join again within this time to give up partitions."""
_FOLLOWUPS: Final = 2
_ENDS: Final[dict[str, str]] = {
    Cause.SESSION_EXPIRED: "expired",
    Cause.MEMBER_LEFT: "left",
    Cause.POLL_TIMEOUT_REASON: "left",
    Cause.ADMIN_REMOVED: "left",
    Cause.PENDING_SYNC_EXPIRED: "removed",
}
"""Changes of the members that end, and begin a rebalance so."""
_OF_LINES: Final = {
    SignName.EXPIRED: Cause.SESSION_EXPIRED,
    SignName.LEFT: Cause.MEMBER_LEFT,
    SignName.JOINED: Cause.NEW_MEMBER,
    SignName.STATIC_JOINED: Cause.NEW_MEMBER,
}
"""The cause that a line about a member is, for a broker without reasons."""
_METHODS: Final = {SignName.ASSIGNED: "assignment", SignName.LEFT: "departure"}
"""Names of methods that differ from the name of their sign."""


@dataclass(slots=True)
class Round:
    """A rebalance under way. `ends` are members that left or expired in it, each with its time."""

    cause: str
    trigger: str
    started: int
    ended: int | None = None
    ends: list[tuple[str, int]] = field(default_factory=list)
    not_rejoined: tuple[str, ...] = ()
    is_initial: bool = False
    """True if the group was empty: no member had partitions."""


class ClassicStory:
    """Turns the signs of one group into events. `members` are the present members, as far as its lines name them, each
    with its instance id.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.state = ""
        self.generation: int | None = None
        self.members: dict[str, str] = {}
        self.leader = ""
        self._pending: dict[str, None] = {}
        self._round: Round | None = None
        self._assigned: int | None = None
        self._followups = 0
        self.topic_created: int | None = None
        """The time at which a broker last created the log of a partition, in milliseconds."""
        self._end: Sign | None = None
        """The newest line about a member that came, left or expired."""
        self._held: Sign | None = None

    @property
    def is_held(self) -> bool:
        """True while the beginning of a rebalance waits for the line after it."""
        return self._held is not None

    def held_until(self, ms: int) -> int:
        """Return the time up to which a line after the held one may belong to it."""
        return 0 if self._held is None else (self._held.time or 0) + ms

    def flush(self) -> Iterator[Event]:
        """Yield the events of the line that is held."""
        waiting, self._held = self._held, None
        if waiting is not None:
            yield from self._begin(waiting)

    def take(self, sign: Sign) -> Iterator[Event]:
        """Yield the events of the next sign of the group."""
        if self._held is not None and sign.name is not SignName.LEFT:
            yield from self.flush()
        take = getattr(self, f"_{_METHODS.get(sign.name, sign.name.lower())}", None)
        if take is not None:
            yield from take(sign)
        # In 3.x the line about the departure comes after the rebalance that it began.
        yield from self.flush() if sign.name is SignName.LEFT else ()

    def event(self, kind: str, sign: Sign, **fields: Any) -> Event:
        """Return an event of the group, at the time and the place of a line."""
        at = (sign.time or 0) / 1000
        common = {"event": kind, "mono": at, "wall": at, "inferred": True, "where": sign.where, "group": self.group}
        return common | fields

    # Rounds

    def _preparing(self, sign: Sign) -> Iterator[Event]:
        grounds = because(sign.fields.get("cause", ""))
        if grounds.cause == Cause.MEMBER_LEFT and not grounds.reason and not self._has_gone(grounds.members[0], sign):
            self._held = sign
            return
        yield from self._begin(sign)

    def _begin(self, sign: Sign) -> Iterator[Event]:
        old = int(sign.fields["old"])
        grounds = self._cause(because(sign.fields.get("cause", "")), sign)
        trigger = grounds.members[0] if grounds.members else ""
        if old == 0:
            if self.generation:
                # A new life of the name: the end of the old one has no line.
                self.members = {member: its for member, its in self.members.items() if member == trigger}
            self.state, self._followups = "Empty", 0
        if grounds.cause == Cause.NEW_MEMBER and trigger not in self.members:
            yield from self._add(trigger, sign, grounds.instance)
        elif grounds.cause == Cause.STATIC_REPLACED and grounds.instance and trigger not in self.members:
            yield from self._replace(trigger, grounds.instance, sign)
        change = _ENDS.get(grounds.cause)
        for member in grounds.members if change is not None else ():
            # Some releases have no other line about it, and a log may lack it.
            if not self._has_gone(member, sign):
                yield from self._goes(member, change or "", sign)
        self._followups = self._followups + 1 if grounds.cause == Cause.COOPERATIVE_FOLLOWUP else 0
        self._round = Round(grounds.cause, trigger, sign.time or 0, is_initial=self.state == "Empty")
        self.generation = old
        yield self._state("PreparingRebalance", sign)

    def _has_gone(self, member: str, sign: Sign) -> bool:
        """True if a line just before says that a member left or expired."""
        end = self._end
        is_near = end is not None and (sign.time or 0) - (end.time or 0) <= _AT_ONCE_MS
        return end is not None and is_near and end.member == member and member not in self.members

    def _cause(self, grounds: Because, sign: Sign) -> Because:
        """Return the cause of a rebalance with all that lines around say of it."""
        end = self._end if self._end is not None and (sign.time or 0) - (self._end.time or 0) <= _AT_ONCE_MS else None
        if not grounds.cause and end is not None and not sign.fields.get("cause"):
            # 2.0 and Redpanda have no reason, but a line about the member before.
            return Because(_OF_LINES[end.name], (end.member,))
        if grounds.cause in (Cause.MEMBER_LEFT, Cause.ADMIN_REMOVED) and end is not None and end.name is SignName.LEFT:
            reason = grounds.reason or bare(end.fields.get("reason", ""))
            cause = refined(grounds.cause, reason)
            if bare(end.fields.get("instance", "")) and not reason:
                # A static member does not leave; an administrator sends LeaveGroup for it.
                cause = Cause.ADMIN_REMOVED
            return grounds._replace(cause=cause, reason=reason, members=grounds.members or (end.member,))
        soon = self._assigned is not None and (sign.time or 0) - self._assigned <= _FOLLOWUP_MS
        # A group that was empty has no partitions to give up, and a topic that was just created is a reason of its own.
        soon = soon and not (self._round is not None and self._round.is_initial)
        soon = soon and (self.topic_created or 0) < (self._assigned or 0)
        # A leader also joins again when topics changed, and kafka-python's soon after an assignment.
        is_rejoin = grounds.cause == Cause.SUBSCRIPTION_CHANGED and not grounds.reason
        if is_rejoin and soon and self._followups < _FOLLOWUPS:
            return grounds._replace(cause=Cause.COOPERATIVE_FOLLOWUP)
        return grounds

    def _state(self, to: str, sign: Sign) -> Event:
        before, self.state = self.state, to
        current = self._round
        return self.event(
            "state",
            sign,
            **{"from": before},
            to=to,
            generation=self._known_generation,
            cause=(current.cause or "") if current is not None else None,
            trigger=current.trigger if current is not None else "",
            rule="",
        )

    @property
    def _known_generation(self) -> int:
        return -1 if self.generation is None else self.generation

    def _stabilized(self, sign: Sign) -> Iterator[Event]:
        at = sign.time or 0
        for member in list(self._pending):
            yield from self._add(member, sign)
        current = self._round or Round("", "", at)
        self._round = current
        current.ended = at
        self.generation = int(sign.fields["generation"])
        late = (member for member, time in current.ends if at - time <= _AT_ONCE_MS)
        size = {"size": int(sign.fields["members"])} if "members" in sign.fields else {}
        yield self.event(
            "round",
            sign,
            generation=self.generation,
            cause=current.cause,
            trigger=current.trigger,
            started=current.started / 1000,
            ended=at / 1000,
            waited_for=[],
            dropped=list(dict.fromkeys((*current.not_rejoined, *late))),
            leader=self.leader if self.leader in self.members else "",
            protocol="",
            members=list(self.members),
            **size,
        )
        yield self._state("CompletingRebalance", sign)

    def _assignment(self, sign: Sign) -> Iterator[Event]:
        at = sign.time or 0
        current = self._round or Round("", "", at, at)
        self._round = current
        self.generation = int(sign.fields["generation"])
        self.leader = sign.member or self.leader
        self._assigned = at
        yield self.event(
            "assignment",
            sign,
            generation=self.generation,
            cause=current.cause,
            trigger=current.trigger,
            leader=sign.member,
            leader_ms=float(at - (at if current.ended is None else current.ended)),
            assignments={},
        )
        yield self._state("Stable", sign)

    def _empty(self, sign: Sign) -> Iterator[Event]:
        self.generation = int(sign.fields["generation"])
        self.members.clear()
        yield self._state("Empty", sign)

    def _leader_elected(self, sign: Sign) -> Iterator[Event]:
        self.leader = sign.fields["leader"]
        yield from ()

    # Members

    def _change(self, member: str, change: str, sign: Sign, instance: str = "", **more: Any) -> Event:
        instance = instance or bare(sign.fields.get("instance", "")) or self.members.get(member, "")
        client_id = sign.fields.get("client_id") or ("" if instance else client_id_of(member))
        for name, field_ in (("session_ms", "session_timeout_ms"), ("rebalance_ms", "rebalance_timeout_ms")):
            if name in sign.fields:
                more[field_] = int(sign.fields[name])
        reason = bare(sign.fields.get("reason", ""))
        if reason:
            more["reason"] = reason
        return self.event(
            "member",
            sign,
            member_id=member,
            instance_id=instance or None,
            client_id=client_id,
            client_host=sign.fields.get("client_host", ""),
            change=change,
            rule="",
            **more,
        )

    def _add(self, member: str, sign: Sign, instance: str = "") -> Iterator[Event]:
        self._pending.pop(member, None)
        if member and member not in self.members:
            event = self._change(member, "added", sign, instance)
            self.members[member] = event["instance_id"] or ""
            yield event

    def _replace(self, member: str, instance: str, sign: Sign) -> Iterator[Event]:
        """A static member has a new id."""
        old = next((each for each, its in self.members.items() if its == instance), None)
        if old is not None:
            yield self._change(old, "fenced", sign, instance)
            del self.members[old]
        yield self._change(member, "replaced", sign, instance)
        self.members[member] = instance

    def _goes(self, member: str, change: str, sign: Sign) -> Iterator[Event]:
        yield self._change(member, change, sign)
        self.members.pop(member, None)
        if self._round is not None and self._round.ended is None:
            self._round.ends.append((member, sign.time or 0))

    def _id_given(self, sign: Sign) -> Iterator[Event]:
        self._pending[sign.member] = None
        yield self._change(sign.member, "pending", sign)

    def _joined(self, sign: Sign) -> Iterator[Event]:
        self._end = sign
        yield from self._add(sign.member, sign)

    _static_joined = _joined

    def _static_replaced(self, sign: Sign) -> Iterator[Event]:
        instance, new = bare(sign.fields["instance"]), sign.fields.get("new")
        self.members.setdefault(sign.member, instance)
        if new is not None:
            yield from self._replace(new, instance, sign)
        else:
            # The line has no id of the new process: it keeps the old one until a later line has it.
            yield self._change(sign.member, "replaced", sign, instance)

    def _fenced(self, sign: Sign) -> Iterator[Event]:
        yield self._change(sign.member, "refused", sign)

    def _instance_owned(self, sign: Sign) -> Iterator[Event]:
        """The only request that a broker's log says was refused."""
        request = {"member_epoch": 0, "rebalance_timeout_ms": -1, "instance_id": bare(sign.fields["instance"])}
        yield self.event(
            "exchange",
            sign,
            conn=0,
            node=-1,
            api="ConsumerGroupHeartbeat",
            version=0,
            correlation_id=0,
            client_id="",
            member=sign.member,
            arrived=(sign.time or 0) / 1000,
            request=request,
            answer={},
            error=int(ErrorCode.UNRELEASED_INSTANCE_ID),
        )

    def _expired(self, sign: Sign) -> Iterator[Event]:
        self._end = sign
        yield from self._goes(sign.member, "expired", sign)

    def _departure(self, sign: Sign) -> Iterator[Event]:
        end = self._end
        if end is not None and end.name is SignName.EXPIRED and end.member == sign.member and sign.member:
            # Redpanda removes a member at the end of its session, with a line of its own.
            return
        self._end = sign
        yield from self._goes(sign.member, "left", sign)

    def _not_rejoined(self, sign: Sign) -> Iterator[Event]:
        ids = (sign.member,) if sign.member else ids_in(sign.fields.get("members", ""))
        if self._round is not None:
            self._round.not_rejoined += ids
        for member in ids:
            yield from self._goes(member, "removed", sign)

    _not_synced = _not_rejoined

    def _pending_expired(self, sign: Sign) -> Iterator[Event]:
        self._pending.pop(sign.member, None)
        yield from ()

    _pending_left = _pending_expired

    def _member_loaded(self, sign: Sign) -> Iterator[Event]:
        if sign.member not in self.members:
            event = self._change(sign.member, "loaded", sign)
            self.members[sign.member] = event["instance_id"] or ""
            yield event

    # Coordinators

    def _group(self, change: str, sign: Sign) -> Event:
        return self.event(
            "group",
            sign,
            partition=int(sign.fields.get("partition", -1)),
            change=change,
            state=self.state,
            generation=self._known_generation,
            members=int(sign.fields.get("members", len(self.members))),
        )

    def _loaded(self, sign: Sign) -> Iterator[Event]:
        if "generation" in sign.fields:
            self.generation = int(sign.fields["generation"])
        # A round that was under way is lost.
        self._round = None
        yield self._group("loaded", sign)

    def _unloaded(self, sign: Sign) -> Iterator[Event]:
        yield self._group("unloaded", sign)

    def _dead(self, sign: Sign) -> Iterator[Event]:
        self.state, self._round = "Dead", None
        self.members.clear()
        yield self._group("expired", sign)

    def _groups_deleted(self, sign: Sign) -> Iterator[Event]:
        self.state, self._round = "Dead", None
        self.members.clear()
        yield self._group("deleted", sign)
