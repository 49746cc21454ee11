"""The processes in a group: their coming and going, as the requests of their members show it.

Decides whether a process comes back, dies again and again, passes through, or takes the place of another; and whether a
member missed a poll, or is expelled before its first heartbeat. It names no finding.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

from kafka_shim.trace.clients import Library, shows_poll_interval
from kafka_shim.trace.history import MISSED_POLL, GroupHistory
from kafka_shim.trace.members import Member, Membership
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.memberships import EVEN_S, closing_of, late_by, memberships_by_client
from kafka_shim.why.past import client_of
from kafka_shim.why.work import has_partitions

RETURN_S = 300.0
"""A process that is back within this time was restarted; one that is back later was stopped and started."""
START_S = 10.0
"""Members that join within this time of the first are those of the group's start."""
LOOP = 3
"""A process that dies, comes or is restarted so often has a pattern."""
_REPLACED_S = 60.0
"""A member that joins within this time of the departure of another may be its replacement."""
_AT_ONCE_S = 0.1
"""Seconds between two requests that cross on their way."""
_TOGETHER_S = 2.0
"""Seconds between two departures of members that one command shuts down."""
POLL_INTERVAL_MS = 300_000
"""The default of `max.poll.interval.ms`."""
_SHORTEST_S = 5.0
_ALIKE = 0.02
"""Departures of one process so long after an assignment, and alike up to this part, have a poll interval in common."""
_COMMIT_S = 5.0
"""The default of `auto.commit.interval.ms`: polls show by commits, so that the last one may be later by as much."""
_LATE = (0.95, 2.5)
"""A member whose last poll was so long before its departure, in poll intervals and in seconds more, missed the poll."""


_Stay: TypeAlias = tuple[float, float, str]
"""Begin and end of a member's time in the group, and its id."""


class Processes:
    """The processes of a group over these rebalances. `lives` are the memberships of each, by its name.

    `closing` is the time from which on all shut down. `passing` are the members that came for a short time, `visits` by
    member id all visits of a process that comes again and again and never leaves, `turnover` by member id the process
    that left and was back or replaced soon, `replacing` the members that took the place of another.
    """

    def __init__(self, history: GroupHistory, rebalances: Sequence[Rebalance]) -> None:
        self.history = history
        self.rebalances = rebalances
        self.lives = memberships_by_client(history)
        self._members: dict[str, list[Member]] = {}
        for each in history.members.values():
            self._members.setdefault(client_of(each), []).append(each)
        self._departures = sorted(
            (each.ended, each.member_id)
            for lives in self.lives.values()
            for each in lives
            if each.how == "left" and each.ended is not None
        )
        self.closing = closing_of(history)
        self.replacing: set[str] = set()
        self.passing = self._passing()
        self.visits = self._visits()
        self.turnover = self._turnover()

    def before(self, member: Member, at: float) -> Membership | None:
        """Return the newest earlier membership of a member's process that was over by then."""
        over = [each for each in self.lives[client_of(member)] if each.ended is not None and each.ended <= at]
        return max(over, key=lambda each: each.ended or 0.0, default=None)

    def after(self, member: Member, at: float) -> Membership | None:
        """Return the next membership of a member's process, if it came back soon."""
        later = [each for each in self.lives[client_of(member)] if at <= each.joined < at + RETURN_S]
        return min(later, key=lambda each: each.joined, default=None)

    def is_return(self, member: Member | None, rebalance: Rebalance) -> bool:
        return member is not None and self.before(member, rebalance.started) is not None

    def is_paused(self, member: Member) -> bool:
        """True if the process of an expelled member was alive: it went on to send requests."""
        return member.lingered is not None

    def polls_too_seldom(self, member: Member) -> bool:
        """True if a process that missed a poll was expelled, and went on with no heartbeat but a request of its poll: a
        member sends no heartbeat before its first poll in a generation.
        """
        missed = any(MISSED_POLL in each.reason for each in self.lives[client_of(member)])
        return missed and member.lingered_by in ("JoinGroup", "SyncGroup")

    def beats_too_seldom(self, member: Member) -> bool:
        """True if a process was expelled several times before its first heartbeat, which came equally late each time:
        a pause comes between heartbeats, at any time, and is of any length.
        """
        if self.history.epochs is not None:
            return False
        gaps = [late_by(each) for each in self._members[client_of(member)] if each.how == "expired"]
        late = [each for each in gaps if each is not None]
        if len(late) < LOOP or max(late) - min(late) >= EVEN_S:
            return False
        return len(late) >= len(gaps) - 1 and not self.polls_too_seldom(member)

    def is_stuck(self, member: Member, departure: float) -> bool:
        """True if a member that is not back left just when its poll interval was over."""
        if self.history.is_of_log:
            return self._is_stuck_in_log(member, departure)
        interval = (member.rebalance_timeout_ms or 0) / 1000
        if member.polled is None or not interval or not shows_poll_interval(member.library) or member.reason:
            return False
        if not has_partitions(self.history.protocol_type):
            return False
        if member.library in (Library.FRANZ_GO, Library.SARAMA, Library.KAFKAJS, Library.JAVA):
            return False
        if departure >= self.closing and self._left_with_others(member.member_id, departure):
            return False
        return _LATE[0] * interval <= departure - member.polled <= interval + _LATE[1] + _COMMIT_S

    def _is_stuck_in_log(self, member: Member, departure: float) -> bool:
        """True if a member left without a reason when a poll interval was over: the one in a line, the default, or one
        that the departures of its process have in common.
        """
        if member.reason or member.instance_id or self._left_with_others(member.member_id, departure):
            return False
        idle = self._idle(departure)
        if idle is None:
            return False
        intervals = [(member.rebalance_timeout_ms or POLL_INTERVAL_MS) / 1000]
        if member.rebalance_timeout_ms is None:
            ends = (each.ended for each in self.lives[client_of(member)] if each.how == "left" and not each.reason)
            idles = [each for each in map(self._idle, filter(None, ends)) if each is not None and each >= _SHORTEST_S]
            alike = [each for each in idles if abs(each - idle) <= _ALIKE * idle]
            intervals += [min(alike)] if len(alike) >= LOOP else []
        return any(_LATE[0] * each <= idle <= each + _LATE[1] for each in intervals)

    def _idle(self, departure: float) -> float | None:
        """Return the seconds from the last assignment before a departure, at which all members were alive."""
        for each in reversed(self.history.rebalances):
            if each.assigned and each.assigned <= departure:
                return departure - each.assigned
        return None

    def _left_with_others(self, member_id: str, departure: float) -> bool:
        """True if other members left at about the same time: they were shut down together."""
        begin = bisect_right(self._departures, -_TOGETHER_S, key=lambda each: each[0] - departure)
        for number in range(begin, len(self._departures)):
            ended, other = self._departures[number]
            if ended - departure >= _TOGETHER_S:
                return False
            if other != member_id:
                return True
        return False

    def is_loop(self, member: Member) -> bool:
        """True if a process died again and again."""
        return sum(each.how == "expired" for each in self.lives[client_of(member)]) >= LOOP

    def _visits(self) -> dict[str, list[Member]]:
        """Return the members of processes that came at least three times and never left, by member id. Each was silent
        when the next came: of two processes with one client id, the older takes part in the rebalance of the newer.
        """
        if self.history.epochs is not None:
            return {}
        by_client: dict[tuple[str, str], list[Member]] = {}
        for each in self.history.members.values():
            if each.instance_id is None and each.joined is not None:
                by_client.setdefault((each.client_id, each.client_host), []).append(each)
        visits: dict[str, list[Member]] = {}
        for members in by_client.values():
            members.sort(key=lambda each: each.joined or 0.0)
            silent = all(
                each.how == "expired"
                and each.lingered is None
                and (each.beaten or each.joined or 0.0) <= (after.joined or 0.0) + _AT_ONCE_S
                for each, after in pairwise(members)
            )
            is_over = members[-1].how == "expired" and members[-1].lingered is None
            ended = members if is_over else members[:-1]
            if silent and len(ended) >= LOOP:
                visits |= {each.member_id: ended for each in ended}
        return visits

    def _passing(self) -> tuple[str, ...]:
        """Return the members of different names that came for a short time, while no other member came or went; at
        least three, the newest last.
        """
        started = self.rebalances[0].started if self.rebalances else 0.0
        stays = [each for lives in self.lives.values() for each in lives]
        changes = sorted([each.joined for each in stays] + [each.ended for each in stays if each.ended])
        passing = [
            each
            for each in (lives[0] for lives in self.lives.values() if len(lives) == 1)
            if each.how == "left"
            and each.ended is not None
            and each.joined > started
            and each.ended - each.joined < _REPLACED_S
            and bisect_right(changes, each.joined) >= bisect_left(changes, each.ended)
        ]
        return (
            tuple(each.member_id for each in sorted(passing, key=lambda each: each.joined))
            if len(passing) >= LOOP
            else ()
        )

    def _turnover(self) -> dict[str, str]:
        """Return the members that left and were back or replaced soon: by member id, the process."""
        pairs: dict[str, str] = {}
        started = self.rebalances[0].started if self.rebalances else 0.0
        new = sorted(
            (each.joined, each.ended or float("inf"), each.member_id)
            for lives in self.lives.values()
            for each in lives[:1]
            if each.joined > started
        )
        for client, lives in self.lives.items():
            for number, each in enumerate(lives):
                if each.how != "left" or each.ended is None or MISSED_POLL in each.reason:
                    continue
                if self.is_stuck(self.history.members[each.member_id], each.ended):
                    continue
                if number + 1 < len(lives):
                    if lives[number + 1].joined - each.ended < RETURN_S:
                        pairs[each.member_id] = client
                    continue
                # A replacement may come before the old process leaves, but later than that came, and it stays longer;
                # the members of a group's start are none, and a group that is shut down has none.
                closing = each.ended >= self.closing and self._left_with_others(each.member_id, each.ended)
                earliest = each.ended if closing else max(started, each.joined) + START_S
                newcomer = _newcomer(new, each.ended, earliest)
                if newcomer is not None:
                    *_, member = new.pop(newcomer)
                    pairs[each.member_id] = pairs[member] = client
                    self.replacing.add(member)
        return pairs


def _newcomer(new: Sequence[_Stay], departure: float, earliest: float) -> int | None:
    """Return the index of the stay that began nearest to a departure, and later than `earliest` if before it; the
    lesser stay of two as near. `new` is in order.
    """
    begin = bisect_left(new, departure, key=itemgetter(0))
    best: tuple[float, _Stay, int] | None = None
    for numbers, outlasts in ((range(begin, len(new)), departure), (range(begin - 1, -1, -1), departure + _TOGETHER_S)):
        for number in numbers:
            at, until, _ = new[number]
            distance = abs(at - departure)
            if distance >= _REPLACED_S or (best is not None and distance > best[0]):
                break
            if at < departure and at <= earliest:
                break
            if until > outlasts and (best is None or (distance, new[number]) < best[:2]):
                best = distance, new[number], number
    return None if best is None else best[2]
