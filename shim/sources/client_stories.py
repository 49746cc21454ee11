"""`ClientStory`: the story of a group from the logs of its clients alone, as events of the trace.

A client sees a rebalance from its own request to join until its next generation. The reason shows only in the log of
the client that began it: the others are called back (`group is already rebalancing`) and do not know why. Then the
event has no cause, and `cannot_tell` says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.sources.client_requests import ClientRequests
from kafka_shim.sources.client_rounds import Members, Round, rounds_of, time_of
from kafka_shim.sources.clients import OVERRUN, SHORTEST_SESSION_MS, Client, ClientLogs, is_expulsion, is_overrun
from kafka_shim.sources.java_consumer import JAVA_CONSUMER
from kafka_shim.sources.signs import Sign, SignName
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import Library
from kafka_shim.trace.members import client_id_of

NO_CAUSE: Final = "why the group rebalanced; add the broker's log"
NO_NAMES: Final = "generations and member ids; set debug=cgrp, or add the broker's log"
NO_IDS: Final = "generations and member ids; add the broker's log"
_ORIGINS: Final[Mapping[SignName, Cause]] = {
    SignName.METADATA_CHANGED: Cause.LEADER_REJOINED,
    SignName.SUBSCRIPTION_CHANGED: Cause.SUBSCRIPTION_CHANGED,
    SignName.REVOKED_AND_JOINS: Cause.COOPERATIVE_FOLLOWUP,
}
"""Signs of a client that began a rebalance."""

_OF_MEMBERS: Final = (
    *(SignName.FOLLOWS, SignName.ASKS_AGAIN, SignName.METADATA_CHANGED, SignName.SUBSCRIPTION_CHANGED),
    *(SignName.REVOKED_AND_JOINS, SignName.SYNCED),
)
"""Signs of a client in the group: before its first request to join they show that the log begins later than it."""
_TWO_POLLS: Final = (SignName.POLL_EXPIRED, SignName.POLL_EXPIRED)


class _Origin(NamedTuple):
    """The beginning of a rebalance."""

    at: int
    cause: str
    member: str
    sign: Sign


class ClientStory:
    """The events of one group, by the logs of its clients. `cannot_tell` has the limits of these, each once.

    `beside` is true if a broker's log tells of rebalances and members: then clients add requests that it has not.
    """

    def __init__(self, logs: ClientLogs, group: str, *, beside: bool = False) -> None:
        self.group = group
        self.cannot_tell: list[str] = []
        self._beside = beside
        of_group = [each for each in logs.clients if each.group == group]
        self._clients = of_group or [each for each in logs.clients if not each.group]
        self._members = Members(self._clients)
        self._requests = ClientRequests(self._clients, self._members)
        self._has_epochs = any(each.program == JAVA_CONSUMER.name for each in self._clients)
        self._asks = {id(each): sorted(time_of(ask) for ask in each.asks if ask.time) for each in self._clients}
        self._calls = sorted(
            time_of(sign)
            for client in self._clients
            for sign in (*client.asks, *client.of(SignName.FOLLOWS))
            if sign.time is not None
        )
        self._origins = sorted(self._all_origins(), key=lambda each: each.at)
        self._present: set[str] = set()
        self._events: list[tuple[int, dict[str, Any]]] = []

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events in the order of time, without numbers."""
        rounds = rounds_of(self._clients, self._members)
        if not self._beside:
            before: Round | None = None
            for now in rounds:
                self._round(before, now)
                before = now
        self._all_requests(rounds)
        if not self._beside:
            self._departures()
            if not rounds:
                self._nameless()
            else:
                self._last_expulsions(rounds[-1])
        for at, event in sorted(self._events, key=lambda each: each[0]):
            yield {"mono": at / 1000, "wall": at / 1000, "group": self.group, **event, "inferred": True}

    def _all_requests(self, rounds: Sequence[Round]) -> None:
        if not self._has_epochs:
            for now in rounds:
                asks = {member_id: self._asked_at(member_id, now) for member_id in now.joins}
                for sign, event in self._requests.joins(now, asks):
                    self._emit(sign, event)
        for sign, event in self._requests.others():
            self._emit(sign, event)

    # Rebalances

    def _round(self, before: Round | None, now: Round) -> None:
        empty = None if before is None or self._has_epochs else self._emptied(before, now)
        since = empty if empty is not None else 0 if before is None else before.ended
        origin = self._origin(before, now, since)
        calls = self._calls[bisect_right(self._calls, since) : bisect_right(self._calls, now.ended)][:1]
        began = min([*calls, now.ended, *([origin.at] if origin is not None else [])])
        sign = now.first if origin is None else origin.sign
        cause, trigger = ("", "") if origin is None else (origin.cause, origin.member)
        # In the first generation of the logs it is the return of an expelled member.
        is_back = before is None and cause == Cause.SESSION_EXPIRED
        if is_back:
            self._member(trigger, "expired", sign)
        if before is not None and not self._has_epochs:
            self._expire([each for each in before.members if each not in now.members], sign, began)
        self._add([each for each in now.members if each not in self._present], sign, now.ended if is_back else began)
        fields = {"generation": now.generation, "cause": cause, "trigger": trigger}
        if self._has_epochs:
            self._epoch(now, sign, began, fields)
        else:
            is_middle = is_back or any(self._was_member(each) for each in now.joins)
            is_first = (before is None and not is_middle) or empty is not None
            old = 0 if before is None else before.generation
            self._state("Empty" if is_first else "Stable", "PreparingRebalance", sign, began, fields, old)
            self._generation(now, began, fields)
        for member_id, holder in now.replaces.items():
            self._present.discard(holder)
            self._present.add(member_id)
            self._member(holder, "fenced", now.joins[member_id])
            self._member(member_id, "replaced", now.joins[member_id])

    def _generation(self, now: Round, began: int, fields: dict[str, Any]) -> None:
        joins = [each for each in now.joins if each not in now.replaces]
        waits = [{"member_id": each, "ms": max(0, self._asked_at(each, now) - began)} for each in joins]
        protocol = next((each.fields["protocol"] for each in now.joins.values() if "protocol" in each.fields), "")
        event = {
            "event": "round",
            **fields,
            "started": began / 1000,
            "ended": now.ended / 1000,
            "waited_for": sorted(waits, key=lambda each: -int(str(each["ms"]))),
            "dropped": [],
            "leader": now.leader,
            "protocol": protocol,
            "members": now.members,
        }
        self._emit(now.first, event)
        sign = now.assignment or now.first
        leader = {"leader": now.leader, "leader_ms": float(max(0, time_of(sign) - now.ended))}
        self._emit(sign, {"event": "assignment", **fields, **leader, "assignments": now.assignments})

    def _epoch(self, now: Round, sign: Sign, began: int, fields: dict[str, Any]) -> None:
        self._emit(sign, {"event": "epoch", **fields}, began)
        target = {"event": "target", "generation": now.generation, "assignor": "", "assignments": {}}
        self._emit(now.first, target)
        for member_id, its_sign in now.joins.items():
            rest = {"generation": now.generation, "state": "STABLE", "assigned": {}, "revoking": {}, "waits_for": []}
            self._emit(its_sign, {"event": "reconciliation", "member_id": member_id, **rest})

    def _state(
        self, old: str, new: str, sign: Sign, at: int, fields: Mapping[str, Any], generation: int | None = None
    ) -> None:
        event = {**fields, "event": "state", "from": old, "to": new, "rule": ""}
        self._emit(sign, event | ({} if generation is None else {"generation": generation}), at)

    def _emptied(self, before: Round, now: Round) -> int | None:
        """Tell that all members of a generation left, and return the time; None if they did not. No client sees that
        the group is empty, and only the leader's list of members is whole: some logs may be missing.
        """
        memberships = [self._members.membership(each) for each in before.assignments if each not in now.members]
        signs = [each.ending.sign for each in memberships if each is not None and each.ending is not None]
        if not signs or len(signs) < len(before.assignments):
            return None
        last = max(signs, key=time_of)
        trigger = next(each.member_id for each in memberships if each and each.ending and each.ending.sign is last)
        fields = {"cause": Cause.MEMBER_LEFT, "trigger": trigger}
        self._state("Stable", "PreparingRebalance", last, time_of(last), fields, before.generation)
        self._state("PreparingRebalance", "Empty", last, time_of(last), fields, before.generation + 1)
        return time_of(last)

    def _all_origins(self) -> Iterator[_Origin]:
        for client in self._clients:
            for each in client.memberships:
                if each.ending is not None and each.generations and each.ending.sign.time is not None:
                    cause = Cause.POLL_TIMEOUT_REASON if each.ending.reason == OVERRUN else Cause.MEMBER_LEFT
                    yield _Origin(each.ending.sign.time, cause, each.member_id, each.ending.sign)
            for sign in client.of(*_ORIGINS):
                if sign.time is not None:
                    yield _Origin(sign.time, _ORIGINS[sign.name], self._members.at(client, sign), sign)

    def _origin(self, before: Round | None, now: Round, since: int) -> _Origin | None:
        """Return the beginning of a rebalance, None if no client knows it."""
        start = bisect_right(self._origins, since, key=lambda each: each.at)
        first = next((each for each in self._origins[start : start + 1] if each.at <= now.ended), None)
        newcomer = min(self._newcomers(before, now, since), default=None, key=lambda each: each.at)
        silent = None if before is None or self._has_epochs else self._silent(before, now)
        if before is None and newcomer is not None and first is None and not self._has_epochs:
            expelled = self._expelled_before(newcomer)
            if expelled is not None:
                return expelled
        if silent is not None and first is None:
            at = newcomer.at if newcomer is not None else now.ended
            return _Origin(at, Cause.SESSION_EXPIRED, silent, now.first)
        if first is None or (newcomer is not None and newcomer.at < first.at):
            first = newcomer
        if first is None:
            self._note(NO_CAUSE)
        return first

    def _newcomers(self, before: Round | None, now: Round, since: int) -> Iterator[_Origin]:
        for member_id, sign in now.joins.items():
            client = self._members.client(member_id)
            if client is None or (before is not None and member_id in before.members) or member_id in now.replaces:
                continue
            if before is None and self._was_member(member_id):
                continue
            asks = self._asks[id(client)]
            first = bisect_right(asks, since)
            if first < len(asks) and asks[first] <= now.ended:
                yield _Origin(asks[first], Cause.NEW_MEMBER, member_id, sign)

    def _was_member(self, member_id: str) -> bool:
        """True if a client was in the group before the first request to join that its log has."""
        client = self._members.client(member_id)
        if client is None:
            return False
        names = (SignName.ASKS_TO_JOIN, *_OF_MEMBERS)
        return next((each.name for each in client.signs if each.name in names), names[0]) is not names[0]

    def _silent(self, before: Round, now: Round) -> str | None:
        """Return a member that is gone, though its own log, which is there, does not tell of its end."""
        for member_id in before.members:
            membership = self._members.membership(member_id)
            if member_id not in now.members and membership is not None and membership.ending is None:
                return member_id
        return None

    def _expelled_before(self, newcomer: _Origin) -> _Origin | None:
        """Return the expulsion of a member that joins again in the first generation of the logs."""
        client = self._members.client(newcomer.member)
        for membership in () if client is None else client.memberships:
            sign = membership.expulsion
            if sign is not None and is_expulsion(sign) and not membership.generations and time_of(sign) <= newcomer.at:
                return _Origin(time_of(sign), Cause.SESSION_EXPIRED, membership.member_id, sign)
        return None

    def _last_expulsions(self, last: Round) -> None:
        """Tell of sessions that ran out after the last generation of the logs."""
        if self._has_epochs:
            return
        for member_id in last.members:
            membership = self._members.membership(member_id)
            sign = None if membership is None or membership.ending is not None else membership.expulsion
            if sign is not None and is_expulsion(sign) and time_of(sign) > last.ended:
                self._member(member_id, "expired", sign)
                fields = {"cause": Cause.SESSION_EXPIRED, "trigger": member_id}
                self._state("Stable", "PreparingRebalance", sign, time_of(sign), fields, last.generation)

    def _asked_at(self, member_id: str, now: Round) -> int:
        """Return the time of a member's last request to join before this generation."""
        client, end = self._members.client(member_id), time_of(now.joins[member_id])
        asks = [] if client is None else self._asks[id(client)]
        before = bisect_right(asks, end)
        return asks[before - 1] if before else end

    # Members

    def _add(self, member_ids: Sequence[str], sign: Sign, at: int) -> None:
        for member_id in member_ids:
            self._present.add(member_id)
            self._member(member_id, "added", sign, at)

    def _expire(self, member_ids: Sequence[str], sign: Sign, at: int) -> None:
        """Tell of members that are gone; those with an end in their own log have left by then."""
        for member_id in member_ids:
            self._present.discard(member_id)
            membership = self._members.membership(member_id)
            if membership is None or membership.ending is None or time_of(membership.ending.sign) > at:
                self._member(member_id, "expired", sign, at)

    def _member(self, member_id: str, change: str, sign: Sign, at: int | None = None) -> None:
        client = self._members.client(member_id)
        event = {
            "event": "member",
            "member_id": member_id,
            "instance_id": (client.instance or None) if client is not None else None,
            "client_id": client.name if client is not None else client_id_of(member_id),
            "client_host": "",
            "change": change,
            "rule": "",
        }
        self._emit(sign, event, at)

    def _departures(self) -> None:
        for client in self._clients:
            for membership in client.memberships:
                if membership.ending is not None and membership.ending.sign.time and membership.generations:
                    self._departure(client, membership.member_id, membership.ending.sign, membership.ending.reason)

    def _departure(self, client: Client, member_id: str, sign: Sign, reason: str) -> None:
        leaver = {"member_id": member_id, "group_instance_id": None, "reason": reason}
        self._emit(sign, self._requests.exchange(client, sign, "LeaveGroup", member_id, {"members": [leaver]}))
        self._member(member_id, "left", sign)

    def _nameless(self) -> None:
        """Tell of clients without ids and generations, as librdkafka's without debug=cgrp: the ends of memberships.

        The name of the client stands for the member id, and generations count from 1.
        """
        ends: list[tuple[Sign, Cause, Client]] = []
        for client in self._clients:
            # A fenced client stops, and its session is over a session timeout later.
            fenced = min((time_of(each) for each in client.of(SignName.REPLACED)), default=None)
            ends += [(each, cause, client) for each, cause in _ends(client) if fenced is None or time_of(each) < fenced]
        if ends:
            has_debug = any(client.library is Library.LIBRDKAFKA for _, _, client in ends)
            self._note(NO_NAMES if has_debug else NO_IDS)
        since: dict[str, int] = {}
        for number, (sign, cause, client) in enumerate(sorted(ends, key=lambda each: time_of(each[0]))):
            member_id = client.name
            # Its process was there between two ends: the time between them is no absence.
            back, since[member_id] = since.get(member_id), time_of(sign)
            common = {"instance_id": None, "client_id": member_id, "client_host": "", "rule": ""}
            interval = {"rebalance_timeout_ms": client.poll_interval_ms} if client.poll_interval_ms >= 0 else {}
            self._emit(sign, {"event": "member", "member_id": member_id, "change": "added", **common, **interval}, back)
            if cause is Cause.POLL_TIMEOUT_REASON:
                leaver = {"member_id": member_id, "group_instance_id": None, "reason": OVERRUN}
                self._emit(sign, self._requests.exchange(client, sign, "LeaveGroup", member_id, {"members": [leaver]}))
            change = "left" if cause is Cause.POLL_TIMEOUT_REASON else "expired"
            self._emit(sign, {"event": "member", "member_id": member_id, "change": change, **common})
            if sign.name is SignName.THROWN_OUT:
                refused = {"member_id": member_id}
                error = ErrorCode.UNKNOWN_MEMBER_ID
                self._emit(sign, self._requests.exchange(client, sign, "Heartbeat", member_id, refused, error))
            fields = {"cause": cause, "trigger": member_id}
            self._state("Stable", "PreparingRebalance", sign, time_of(sign), fields, number)
            self._state("PreparingRebalance", "Empty", sign, time_of(sign), fields, number + 1)

    def _emit(self, sign: Sign, event: dict[str, Any], at: int | None = None) -> None:
        self._events.append((time_of(sign) if at is None else at, event | {"where": sign.where}))

    def _note(self, text: str) -> None:
        if text not in self.cannot_tell:
            self.cannot_tell.append(text)


def _ends(client: Client) -> Iterator[tuple[Sign, Cause]]:
    """Yield the ends of the memberships of a client without generations, each once, and their causes.

    A lost session may show twice: by the client's own clock, and when the coordinator does not know its member id.
    """
    last: tuple[Sign, Cause] | None = None
    for sign in client.signs:
        cause = _cause_of(sign) if sign.time is not None else None
        if cause is None:
            continue
        is_same = last is not None and last[1] is cause and (last[0].name, sign.name) != _TWO_POLLS
        if last is None or not is_same or time_of(sign) - time_of(last[0]) >= SHORTEST_SESSION_MS:
            yield sign, cause
        last = sign, cause


def _cause_of(sign: Sign) -> Cause | None:
    """Return the cause of a rebalance that the end of a membership gives, None if a sign shows no such end."""
    if sign.name is SignName.POLL_EXPIRED or is_overrun(sign):
        return Cause.POLL_TIMEOUT_REASON
    return Cause.SESSION_EXPIRED if is_expulsion(sign) else None
