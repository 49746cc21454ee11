"""`Past`: a group's past as input for a simulation, and the changes that can be applied to it.

`lab/replaying.py` simulates it. Pure: plain data in, plain data out. Times are seconds since the first event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from statistics import median
from typing import Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.history import ENDED_BY_TEST, GroupHistory
from kafka_shim.trace.members import Member, Membership
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.trace.reconciliation import Reconciliation

STAYS: Final = 300
"""Of a group with more stays, only the last ones are simulated."""
SESSION_TIMEOUT_S: Final = 45.0
_SIGN_S: Final = 0.5
"""A session begins so long after the last sign of life at most."""
_SILENT: Final = ("expired", "removed")
_COOPERATIVE: Final = "cooperative-sticky"
MISSED_POLL: Final = "missed-poll"
"""The `how` of a member that left because it had not polled in time."""


class Stay(NamedTuple):
    """A member of `client` from `joined` to `left`, None if it stayed. `how`: left, expired, removed, fenced, or
    `MISSED_POLL`. `think` is its time to join again. Successive stays of one process share a `place`; see `placed`.

    `tried` is the time of its first request to join, if that was refused. If `is_dead`, it ended with its process: the
    next stay in its place is that of a new process.
    """

    client: str
    joined: float
    left: float | None
    how: str
    instance_id: str | None = None
    think: float = 0.0
    place: str = ""
    tried: float | None = None
    is_dead: bool = False


@dataclass(frozen=True, kw_only=True)
class Change:
    """Changes to a past. Timeouts are seconds; `think` is by client."""

    static: bool = False
    cooperative: bool = False
    think: Mapping[str, float] = field(default_factory=dict)
    poll_interval: float | None = None
    session_timeout: float | None = None
    initial_delay: float | None = None
    heartbeat_interval: float | None = None


@dataclass(frozen=True)
class Past:
    """A group's past. `topics` are partitions by name, `assignor` is range, roundrobin or cooperative-sticky.

    If `consumers`, it is of KIP-848: `assignor` is ignored, `think` is a member's time to revoke partitions, and
    session timeout and heartbeat interval are the coordinator's.
    """

    stays: tuple[Stay, ...]
    topics: Mapping[str, int]
    assignor: str = "range"
    session_timeout: float = SESSION_TIMEOUT_S
    initial_delay: float = 3.0
    heartbeat_interval: float = 3.0
    consumers: bool = False
    seen: int | None = None
    """The number of its rebalances that were seen; None if only its last stays are here."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The broker's limits, by setting, as far as they are known: a simulation refuses whoever is beyond them."""

    def changed(self, change: Change) -> Past:
        """Return the past with a change. A member that would not have been removed stays until the next stay of its
        client ends.
        """
        stays = self.stays
        if change.poll_interval is not None:
            stays = _joined_up(stays, MISSED_POLL, None)
        if change.session_timeout is not None:
            stays = self._with_sessions(change.session_timeout - self.session_timeout)
        if change.think:
            stays = tuple(each._replace(think=change.think.get(each.client, each.think)) for each in stays)
        if change.static:
            stays = tuple(each._replace(instance_id=each.instance_id or each.place) for each in stays)
        return replace(
            self,
            stays=stays,
            assignor=_COOPERATIVE if change.cooperative else self.assignor,
            session_timeout=change.session_timeout or self.session_timeout,
            initial_delay=self.initial_delay if change.initial_delay is None else change.initial_delay,
            heartbeat_interval=change.heartbeat_interval or self.heartbeat_interval,
        )

    def _with_sessions(self, longer: float) -> tuple[Stay, ...]:
        """Return the stays with sessions that are longer by some seconds. A process that lived stays if it is back by
        then. A dead one does not: it is missed later, and the coordinator judges its successor. A static member of the
        classic protocol takes the place of the dead one at once.
        """
        stays = tuple(
            each._replace(is_dead=each.is_dead and (self.consumers or not each.instance_id)) for each in self.stays
        )
        stays = _joined_up(stays, "expired", longer)
        return tuple(
            each._replace(left=max(each.joined, each.left + longer))
            if each.how == "expired" and each.left is not None
            else each
            for each in stays
        )


def past_of(history: GroupHistory, rebalances: Sequence[Rebalance]) -> Past:
    """Return the past of a group over these rebalances."""
    begin = rebalances[0].started if rebalances else history.first
    thinks = _thinks(rebalances)
    members = [each for each in history.members.values() if each.memberships]
    stays = placed(
        _stay(history, each, membership, begin, thinks)
        for each in members
        for membership in each.memberships
        if membership.ended is None or membership.ended >= begin
    )
    topics: dict[str, int] = {}
    for rebalance in rebalances:
        for topic, number in rebalance.owned_after:
            topics[topic] = max(topics.get(topic, 0), number + 1)
    consumers = history.kind == "consumer"
    timeouts = [each.session_timeout_ms for each in members if each.session_timeout_ms]
    if consumers:
        timeouts = [round(1000 * seconds) for seconds in history.sessions.values()]
    initial = [each.seconds for each in rebalances if each.initial and not consumers]
    return Past(
        stays=stays[-STAYS:],
        topics=topics,
        assignor=assignor_of(history.protocol),
        session_timeout=max(timeouts) / 1000 if timeouts else SESSION_TIMEOUT_S,
        initial_delay=min(initial, default=0.0),
        heartbeat_interval=(history.heartbeat_interval_ms or 5000) / 1000 if consumers else 3.0,
        consumers=consumers,
        seen=sum(1 for each in rebalances if each.members) if len(stays) <= STAYS else None,
        limits=broker_limits_of(history),
    )


def broker_limits_of(history: GroupHistory) -> dict[str, int]:
    """Return the limits of the group's broker, by setting. The trace begins with them; where it does not, a client that
    was refused for the size of the group shows that size.
    """
    limits = dict(history.broker_limits)
    setting = "group.max.size" if history.epochs is None else f"group.{history.kind}.max.size"
    full = [each.first for each in history.refusals.refused.values() if each.error == ErrorCode.GROUP_MAX_SIZE_REACHED]
    if full and setting not in limits and not history.missing.has_gaps:
        limits[setting] = max(1, *(_members_at(history, at) for at in full))
    return limits


def _members_at(history: GroupHistory, at: float) -> int:
    memberships = (each for member in history.members.values() for each in member.memberships)
    return sum(each.joined <= at and (each.ended is None or each.ended > at) for each in memberships)


def assignor_of(protocol: str) -> str:
    """Return the assignor to simulate a group with this protocol."""
    return _COOPERATIVE if "cooperative" in protocol else "roundrobin" if protocol == "roundrobin" else "range"


def placed(stays: Iterable[Stay]) -> tuple[Stay, ...]:
    """Sort stays by their start and give each a place. A stay reuses the place of its client's latest finished stay, or
    gets a new one: a client may have several members at a time.
    """
    free: dict[str, list[tuple[float, str]]] = {}
    places: dict[str, int] = {}
    results = []
    for stay in sorted(stays, key=lambda each: each.joined):
        ended = [each for each in free.get(stay.client, []) if each[0] <= stay.joined]
        if ended:
            free[stay.client].remove(max(ended))
            place = max(ended)[1]
        else:
            number = places[stay.client] = places.get(stay.client, 0) + 1
            place = stay.client if number == 1 else f"{stay.client} ({number})"
        if stay.left is not None:
            free.setdefault(stay.client, []).append((stay.left, place))
        results.append(stay._replace(place=place))
    return tuple(results)


def client_of(member: Member) -> str:
    """Return the identity of a member's process across its memberships: instance id, or client id, host and place. In a
    log a member of KIP-848 has no client id; its member id is that of its process.
    """
    place = "" if member.place == 1 else f" ({member.place})"
    return member.instance_id or f"{member.client_id or member.member_id}{member.client_host}{place}"


def tell_apart(history: GroupHistory) -> None:
    """Give members of one client id and host that were in the group at the same time a place each. A new member takes
    the place of one before it: on its connection, or that had died, or else that ended last.
    """
    if history.is_of_log:
        _fill_hosts(history)
    places: dict[tuple[str, str], _Places] = {}
    for member in sorted(
        history.members.values(), key=lambda each: each.memberships[0].joined if each.memberships else 0
    ):
        if member.instance_id:
            continue
        key = member.client_id or member.member_id, member.client_host
        if key not in places:
            places[key] = _Places(history)
        places[key].take(member)


class _Places:
    """The places of the members of one client, taken in the order of their joins. A member that is over stays so."""

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._count = 0
        self._members: list[Member] = []
        """In the order of their joins; the heaps have their numbers here."""
        self._ending: list[tuple[float, int]] = []
        """A heap of the members that have an end, by the earliest time at which they may be over."""
        self._acting: list[int] = []
        """Members that may have been over by now, and were not."""
        self._over: defaultdict[int | None, list[tuple[float, int, int]]] = defaultdict(list)
        """By connection, heaps of the members that are over: the last end first, then the lowest place."""
        self._last: list[tuple[float, int, int]] = []
        """A heap of all of these."""
        self._replaced: set[int] = set()

    def take(self, member: Member) -> None:
        """Give the next member its place."""
        self._look(member.memberships[0].joined if member.memberships else 0.0)
        before = self._first(self._over[member.conn]) or self._first(self._last)
        if before is None:
            self._count += 1
            member.place = self._count
        else:
            _, member.place, number = before
            self._replaced.add(number)
        self._members.append(member)
        if member.ended is not None:
            heappush(self._ending, (_earliest_end(self._history, member), len(self._members) - 1))

    def _look(self, at: float) -> None:
        """Find the members that are over by now."""
        while self._ending and self._ending[0][0] <= at:
            self._acting.append(heappop(self._ending)[1])
        acting, self._acting = self._acting, []
        for number in acting:
            member = self._members[number]
            if _is_over(self._history, member, at):
                entry = -(member.ended or 0.0), member.place, number
                heappush(self._over[member.conn], entry)
                heappush(self._last, entry)
            else:
                self._acting.append(number)

    def _first(self, heap: list[tuple[float, int, int]]) -> tuple[float, int, int] | None:
        while heap and heap[0][2] in self._replaced:
            heappop(heap)
        return heap[0] if heap else None


def _fill_hosts(history: GroupHistory) -> None:
    """Give the members of a client id its host, if it has only one: few lines of a log have hosts."""
    hosts: dict[str, set[str]] = {}
    for member in history.members.values():
        hosts.setdefault(member.client_id, set()).update({member.client_host} - {""})
    for member in history.members.values():
        if len(hosts[member.client_id]) == 1:
            (member.client_host,) = hosts[member.client_id]


def _is_over(history: GroupHistory, member: Member, at: float) -> bool:
    """True if a member had ended by then, or had fallen silent, so that its session ran out later."""
    if member.ended is None:
        return False
    if member.ended <= at:
        return True
    was_silent = member.how in _SILENT and member.ended - _session(history, member) <= at + _SIGN_S
    return was_silent and not _has_acted(history, member, at)


def _session(history: GroupHistory, member: Member) -> float:
    # The first timer of a classic member is that of its rebalance.
    return (member.session_timeout_ms or 0) / 1000 or history.sessions.get(member.member_id, SESSION_TIMEOUT_S)


def _earliest_end(history: GroupHistory, member: Member) -> float:
    """Return a time before which `_is_over` is False for a member that has ended."""
    ended = member.ended or 0.0
    # A second more than the rule has: sums of floats differ.
    return min(ended, ended - _session(history, member) - _SIGN_S - 1.0) if member.how in _SILENT else ended


def _has_acted(history: GroupHistory, member: Member, since: float) -> bool:
    """True if a consumer of a group with epochs gave a sign of life after that time: not all listeners hear of timers,
    so its session may be unknown.
    """
    return any(
        times.get(member.member_id, 0.0) > since
        for each in history.rebalances
        if isinstance(each, Reconciliation)
        for times in (each.settled, each.revocation_sent)
    )


def _stay(
    history: GroupHistory, member: Member, membership: Membership, begin: float, thinks: Mapping[str, float]
) -> Stay:
    # A consumer (KIP-848) is removed because it did not revoke its partitions in time, which it does when it polls.
    how = MISSED_POLL if "poll timeout" in membership.reason or membership.how == "removed" else membership.how
    # It went at once, as with a LeaveGroup.
    how = "left" if how == ENDED_BY_TEST else how
    tries = (
        each
        for each in history.holders.of.values()
        if each.heir == member.member_id and each.accepted == membership.joined
    )
    # A static consumer that has left for a while leaves its place to a new process.
    is_away = member.away is not None
    return Stay(
        client=client_of(member),
        joined=max(0.0, membership.joined - begin),
        left=None if membership.ended is None else max(0.0, membership.ended - begin),
        how=how,
        instance_id=member.instance_id,
        think=thinks.get(member.member_id, 0.0),
        tried=next((max(0.0, each.first - begin) for each in tries), None),
        is_dead=how == "expired" and membership.ended == member.ended and member.lingered is None and not is_away,
    )


def _thinks(rebalances: Iterable[Rebalance]) -> dict[str, float]:
    """Return members' times to join again, by id: the median of their waits, without rebalances that they started by
    joining. For consumers (KIP-848): their times to revoke partitions.
    """
    waits: dict[str, list[float]] = {}
    for rebalance in rebalances:
        if isinstance(rebalance, Reconciliation):
            for member, sent in rebalance.revocation_sent.items():
                if member in rebalance.released and member not in rebalance.dropped:
                    waits.setdefault(member, []).append(rebalance.released[member] - sent)
        for join in rebalance.joins:
            if join.member_id != rebalance.trigger or rebalance.cause != Cause.NEW_MEMBER:
                waits.setdefault(join.member_id, []).append(join.seconds)
    return {member: median(seconds) for member, seconds in waits.items()}


def _joined_up(stays: Sequence[Stay], how: str, within: float | None) -> tuple[Stay, ...]:
    """Join stays that ended as `how` with the next stay in the same place, if that began `within` seconds."""
    last: dict[str, int] = {}
    result: list[Stay] = []
    for stay in stays:
        index = last.get(stay.place)
        before = None if index is None else result[index]
        if (
            index is not None
            and before is not None
            and before.how == how
            and before.left is not None
            and not before.is_dead
            and (within is None or stay.joined - before.left <= within)
        ):
            result[index] = before._replace(left=stay.left, how=stay.how)
        else:
            last[stay.place] = len(result)
            result.append(stay)
    # A member that was removed and did not return would have stayed.
    return tuple(each._replace(left=None, how="") if each.how == how and within is None else each for each in result)
