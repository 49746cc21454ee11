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
from kafka_shim.why.history import GroupHistory, Member
from kafka_shim.why.rebalance import Rebalance

STAYS: Final = 300
"""Of a group with more stays, the last ones are played."""
SESSION_TIMEOUT_S: Final = 45.0
MISSED_POLL: Final = "missed-poll"
"""How a member went that said it had not polled in time."""


class Stay(NamedTuple):
    """A member of `client` from `joined` to `left`, None if it stayed. `how`: left, expired, removed, fenced, or
    `MISSED_POLL`. `think` is how long it takes to join again when called."""

    client: str
    joined: float
    left: float | None
    how: str
    instance_id: str | None
    think: float


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is different in a play. Timeouts are seconds; `think` is by client."""

    static: bool = False
    cooperative: bool = False
    think: Mapping[str, float] = field(default_factory=dict)
    poll_interval: float | None = None
    session_timeout: float | None = None
    initial_delay: float | None = None


@dataclass(frozen=True)
class Past:
    """A group as it was. `topics` are partitions by name."""

    stays: tuple[Stay, ...]
    topics: Mapping[str, int]
    cooperative: bool
    session_timeout: float
    initial_delay: float

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
            stays = tuple(each._replace(instance_id=each.instance_id or each.client) for each in stays)
        return replace(
            self,
            stays=stays,
            cooperative=self.cooperative or change.cooperative,
            session_timeout=change.session_timeout or self.session_timeout,
            initial_delay=self.initial_delay if change.initial_delay is None else change.initial_delay,
        )


def past_of(history: GroupHistory, rebalances: Sequence[Rebalance]) -> Past:
    """The past of a group over these rebalances."""
    begin = rebalances[0].started if rebalances else history.first
    thinks = _thinks(rebalances)
    members = [each for each in history.members.values() if each.joined is not None]
    stays = sorted(
        (_stay(each, begin, thinks) for each in members if each.gone is None or each.gone >= begin),
        key=lambda stay: stay.joined,
    )
    topics: dict[str, int] = {}
    for rebalance in rebalances:
        for topic, number in rebalance.owned_after:
            topics[topic] = max(topics.get(topic, 0), number + 1)
    timeouts = [each.session_timeout_ms for each in members if each.session_timeout_ms]
    initial = [each.seconds for each in rebalances if each.initial]
    return Past(
        stays=tuple(stays[-STAYS:]),
        topics=topics,
        cooperative="cooperative" in history.protocol,
        session_timeout=max(timeouts) / 1000 if timeouts else SESSION_TIMEOUT_S,
        initial_delay=min(initial, default=0.0),
    )


def client_of(member: Member) -> str:
    """What a member's process is known by from one life to the next: instance id, else client id and host."""
    return member.instance_id or f"{member.client_id}{member.client_host}"


def _stay(member: Member, begin: float, thinks: Mapping[str, float]) -> Stay:
    assert member.joined is not None
    how = MISSED_POLL if "poll timeout" in member.reason else member.how
    return Stay(
        client=client_of(member),
        joined=max(0.0, member.joined - begin),
        left=None if member.gone is None else max(0.0, member.gone - begin),
        how=how,
        instance_id=member.instance_id,
        think=thinks.get(member.member_id, 0.0),
    )


def _thinks(rebalances: Iterable[Rebalance]) -> dict[str, float]:
    """How long members take to join again, by id: the median of their waits, but for the one who brings it about."""
    waits: dict[str, list[float]] = {}
    for rebalance in rebalances:
        for join in rebalance.joins:
            if join.member_id != rebalance.trigger or rebalance.cause != Cause.NEW_MEMBER:
                waits.setdefault(join.member_id, []).append(join.seconds)
    return {member: median(seconds) for member, seconds in waits.items()}


def _joined_up(stays: Sequence[Stay], how: str, within: float | None) -> tuple[Stay, ...]:
    """Stays that ended as `how` joined with the next stay of the same client, if that began `within` seconds."""
    last: dict[str, int] = {}
    result: list[Stay] = []
    for stay in stays:
        place = last.get(stay.client)
        before = None if place is None else result[place]
        if (
            place is not None
            and before is not None
            and before.how == how
            and before.left is not None
            and (within is None or stay.joined - before.left <= within)
        ):
            result[place] = before._replace(left=stay.left, how=stay.how)
        else:
            last[stay.client] = len(result)
            result.append(stay)
    # Who was lost and did not come back in this past would have stayed.
    return tuple(each._replace(left=None, how="") if each.how == how and within is None else each for each in result)
