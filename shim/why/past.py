"""The past of a group in the form in which it can be played again, and what may be changed in it.

Decides how stays of members follow from a history, and what each change does to them. Playing is `lab/replaying.py`'s.
Pure: plain data in, plain data out. Times are seconds from the first event on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, NamedTuple

from kafka_shim.groups.causes import Cause
from kafka_shim.why.history import GroupHistory, Life, Member
from kafka_shim.why.rebalance import Rebalance
from kafka_shim.why.reconciliation import Reconciliation

STAYS: Final = 300
"""Of a group with more stays, the last ones are played."""
SESSION_TIMEOUT_S: Final = 45.0
_COOPERATIVE: Final = "cooperative-sticky"
MISSED_POLL: Final = "missed-poll"
"""How a member went that said it had not polled in time."""


class Stay(NamedTuple):
    """A member of `client` from `joined` to `left`, None if it stayed. `how`: left, expired, removed, fenced, or
    `MISSED_POLL`. `think` is how long it takes to join again when called. `place` is whose next life it is; see
    `placed`."""

    client: str
    joined: float
    left: float | None
    how: str
    instance_id: str | None = None
    think: float = 0.0
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is different in a play. Timeouts are seconds; `think` is by client."""

    static: bool = False
    cooperative: bool = False
    think: Mapping[str, float] = field(default_factory=dict)
    poll_interval: float | None = None
    session_timeout: float | None = None
    initial_delay: float | None = None
    heartbeat_interval: float | None = None


@dataclass(frozen=True)
class Past:
    """A group as it was. `topics` are partitions by name, `assignor` is range, roundrobin or cooperative-sticky.

    One of `consumers` is of KIP-848: there `assignor` counts for nothing, `think` is how long a member takes to give up
    partitions, and session timeout and heartbeat interval are the coordinator's.
    """

    stays: tuple[Stay, ...]
    topics: Mapping[str, int]
    assignor: str = "range"
    session_timeout: float = SESSION_TIMEOUT_S
    initial_delay: float = 3.0
    heartbeat_interval: float = 3.0
    consumers: bool = False

    def changed(self, change: Change) -> Past:
        """The same past with what would have been otherwise. A member that would not have been lost stays on until the
        next stay of its client ends."""
        stays = self.stays
        if change.poll_interval is not None:
            stays = _joined_up(stays, MISSED_POLL, None)
        if change.session_timeout is not None:
            stays = _joined_up(stays, "expired", change.session_timeout - self.session_timeout)
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


def past_of(history: GroupHistory, rebalances: Sequence[Rebalance]) -> Past:
    """The past of a group over these rebalances."""
    begin = rebalances[0].started if rebalances else history.first
    thinks = _thinks(rebalances)
    members = [each for each in history.members.values() if each.lives]
    stays = placed(
        _stay(each, life, begin, thinks)
        for each in members
        for life in each.lives
        if life.gone is None or life.gone >= begin
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
    )


def assignor_of(protocol: str) -> str:
    """The assignor by which a group with this one is played."""
    return _COOPERATIVE if "cooperative" in protocol else "roundrobin" if protocol == "roundrobin" else "range"


def placed(stays: Iterable[Stay]) -> tuple[Stay, ...]:
    """The stays in the order in which they began, each with its place: that of the last stay of its client that had
    ended by then, else a new one. Clients may have several members at a time."""
    free: dict[str, list[tuple[float, str]]] = {}
    places: dict[str, int] = {}
    found = []
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
        found.append(stay._replace(place=place))
    return tuple(found)


def client_of(member: Member) -> str:
    """What a member's process is known by from one life to the next: instance id, else client id and host."""
    return member.instance_id or f"{member.client_id}{member.client_host}"


def _stay(member: Member, life: Life, begin: float, thinks: Mapping[str, float]) -> Stay:
    # A consumer (KIP-848) is removed because it did not give up its partitions in time, which it does when it polls.
    how = MISSED_POLL if "poll timeout" in life.reason or life.how == "removed" else life.how
    return Stay(
        client=client_of(member),
        joined=max(0.0, life.joined - begin),
        left=None if life.gone is None else max(0.0, life.gone - begin),
        how=how,
        instance_id=member.instance_id,
        think=thinks.get(member.member_id, 0.0),
    )


def _thinks(rebalances: Iterable[Rebalance]) -> dict[str, float]:
    """How long members take to join again, by id: the median of their waits, but for the one who brings it about.
    Of consumers (KIP-848): how long they take to give up partitions once they were told."""
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
    """Stays that ended as `how` joined with the next stay in the same place, if that began `within` seconds."""
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
            and (within is None or stay.joined - before.left <= within)
        ):
            result[index] = before._replace(left=stay.left, how=stay.how)
        else:
            last[stay.place] = len(result)
            result.append(stay)
    # Who was lost and did not come back in this past would have stayed.
    return tuple(each._replace(left=None, how="") if each.how == how and within is None else each for each in result)
