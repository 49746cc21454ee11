"""What to do about the rebalances of a group: which setting, on which side, from which value to which.

Decides which remedies a history suggests and which well-known ones would not help. A remedy that can be played again
comes with the `Change` that it is; `judge` plays it, and drops it when it does not help. What the wire does not show
(`max.poll.records`, the time a record takes) is inferred from commits and says so.

Sources: KIP-62 (max.poll.interval.ms), KIP-345 (static members), KIP-429 (cooperative), KIP-134 (initial delay).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from kafka_shim.groups.causes import Cause
from kafka_shim.why.history import GroupHistory, Life, Member
from kafka_shim.why.names import Names
from kafka_shim.why.past import Change, Past, client_of, past_of
from kafka_shim.why.rebalance import HEARTBEAT_SECONDS, Rebalance

REPLAYED: Final = "replayed"
LIKELY: Final = "likely"
CANNOT_SEE: Final = "cannot see"

_SLOW_SHARE: Final = 0.5
_SLOW_SECONDS: Final = 1.0
_MANY: Final = 3
_TOGETHER_S: Final = 10.0


class Played(NamedTuple):
    """What happened in a play: rebalances, partitions that moved, and partition-seconds without an owner."""

    rebalances: int
    moved: int
    partition_seconds: float


Play = Callable[[Past], Played]
"""Plays a past on a simulator."""


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """`setting` of `who`, on `side` (client, broker or operator), from `seen` to `proposed`; `why` in one sentence.

    `grade` is how sure it is: replayed, likely, or cannot see. `before` and `after` are the plays compared.
    """

    who: str
    side: str
    setting: str
    seen: str
    proposed: str
    why: str
    grade: str = LIKELY
    price: str = ""
    change: Change | None = None
    before: Played | None = None
    after: Played | None = None


@dataclass(frozen=True)
class Advice:
    """Remedies, best first, and settings that `would_not_help`, each with its reason."""

    remedies: tuple[Remedy, ...]
    would_not_help: tuple[str, ...]


def advise(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names, play: Play | None) -> Advice:
    """What to do about these rebalances. With a `play`, every remedy that can be replayed shows that it helps."""
    found: list[Remedy] = []
    for suggest in (_missed_polls, _slow_members, _sessions, _restarts, _eager, _starts, _leader):
        found += suggest(history, rebalances, names)
    return Advice(tuple(judge(found, past_of(history, rebalances), play)), _useless(history, rebalances, names))


def judge(remedies: Sequence[Remedy], past: Past, play: Play | None) -> list[Remedy]:
    """Play the remedies that can be played: the best comes first, and one that does not help is dropped."""
    if play is None or not past.stays or not past.topics:
        return list(remedies)
    before = play(past) if any(remedy.change for remedy in remedies) else None
    played, others = [], []
    for remedy in remedies:
        if remedy.change is None or before is None:
            others.append(remedy)
            continue
        after = play(past.changed(remedy.change))
        # A cooperative group has a rebalance more for what moves, and stands still for less.
        quieter = after.rebalances < before.rebalances and after.partition_seconds <= 1.05 * before.partition_seconds
        if quieter or after.partition_seconds < 0.9 * before.partition_seconds:
            played.append(replace(remedy, grade=REPLAYED, before=before, after=after))
    played.sort(key=lambda remedy: remedy.after.partition_seconds if remedy.after is not None else 0.0)
    return played + others


# What a history suggests


def _missed_polls(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> list[Remedy]:
    missed = [each for each in rebalances if each.cause == Cause.POLL_TIMEOUT_REASON]
    remedies = []
    for client, triggers in by_client(history, missed).items():
        member = history.member(triggers[-1].trigger)
        gaps = _absences(history, client)
        interval = member.rebalance_timeout_ms
        if interval is None:
            continue
        longest = max(gaps, default=0.0) + interval / 1000
        proposed = round_ms(1500 * longest)
        name = names(member.member_id)
        batch = member.batch
        if batch is not None:
            records = max(1, int(batch[0] * 2 * interval / 3000 / max(batch[1], longest)))
            remedies.append(
                Remedy(
                    who=name,
                    side="client",
                    setting="max.poll.records",
                    seen=f"{batch[0]:.0f} (inferred from its commits)",
                    proposed=str(records),
                    why=f"a batch then takes two thirds of the {interval / 1000:.0f} s it may",
                    change=Change(poll_interval=interval / 1000),
                )
            )
        remedies.append(
            Remedy(
                who=name,
                side="client",
                setting="max.poll.interval.ms",
                seen=str(interval),
                proposed=str(proposed),
                why=f"its longest absence from poll was {longest:.1f} s",
                price=f"a rebalance may wait {proposed / 1000:.0f} s for it",
                change=Change(poll_interval=proposed / 1000),
            )
        )
    return remedies


def _slow_members(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> list[Remedy]:
    slow = [each for each in rebalances if each.slow is not None and each.slow.member_id != _newcomer(each)]
    waits: dict[str, list[float]] = {}
    for each in slow:
        assert each.slow is not None
        waits.setdefault(each.slow.member_id, []).append(each.slow.seconds)
    remedies = []
    for member_id, seconds in waits.items():
        if len(seconds) < _SLOW_SHARE * sum(1 for each in rebalances if member_id in each.members and not each.initial):
            continue
        member, typical = history.member(member_id), sorted(seconds)[len(seconds) // 2]
        if typical < _SLOW_SECONDS:
            continue
        target = max(0.1, typical / 10)
        called = [each.slow.called for each in slow if each.slow is not None and each.slow.member_id == member_id]
        late = sorted(each for each in called if each is not None)
        call = late[len(late) // 2] if late else 0.0
        if call > max(HEARTBEAT_SECONDS, typical / 2):
            remedies.append(_seldom_heartbeats(member, call, typical, names))
            continue
        # What is left of it is the interval that clients have by default.
        if typical - min(call, HEARTBEAT_SECONDS) < _SLOW_SECONDS:
            continue
        batch = member.batch
        seen = f"{batch[0]:.0f} (inferred from its commits)" if batch else "not visible on the wire"
        proposed = str(max(1, int(batch[0] / 10))) if batch else "a tenth"
        remedies.append(
            Remedy(
                who=names(member_id),
                side="client",
                setting="max.poll.records",
                seen=seen,
                proposed=proposed,
                why=f"it sees a rebalance only when it polls; a round then waits {target:.1f} s, not {typical:.1f} s",
                change=Change(think={client_of(member): target}),
            )
        )
    return remedies


def _seldom_heartbeats(member: Member, called: float, typical: float, names: Names) -> Remedy:
    return Remedy(
        who=names(member.member_id),
        side="client",
        setting="heartbeat.interval.ms",
        seen=f"about {called * 1000:.0f}",
        proposed=str(round_ms(called * 250)),
        why=f"it learns of a rebalance by a heartbeat, {called:.1f} s after the start",
        price="more heartbeats",
        change=Change(think={client_of(member): max(0.1, typical - 0.75 * called)}),
    )


def _sessions(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> list[Remedy]:
    expired = [each for each in rebalances if each.cause == Cause.SESSION_EXPIRED]
    remedies = []
    for client, triggers in by_client(history, expired).items():
        member = history.member(triggers[-1].trigger)
        gaps = [gap for gap in _absences(history, client) if gap < 2 * (member.session_timeout_ms or 0) / 1000]
        if not gaps or member.session_timeout_ms is None:
            timeout = (member.session_timeout_ms or 0) / 1000
            remedies.append(
                Remedy(
                    who=names(member.member_id),
                    side="operator",
                    setting="the process itself",
                    seen="silent, and did not come back",
                    proposed="find out why it died",
                    why=f"its partitions stood still for the session timeout of {timeout:g} s",
                    grade=CANNOT_SEE,
                )
            )
            continue
        proposed = round_ms(member.session_timeout_ms + 1500 * max(gaps))
        remedies.append(
            Remedy(
                who=names(member.member_id),
                side="client",
                setting="session.timeout.ms",
                seen=str(member.session_timeout_ms),
                proposed=str(proposed),
                why=f"it came back {max(gaps):.1f} s after it was expelled: it was paused, not dead",
                price=f"a process that did die is missed {proposed / 1000:.0f} s later",
                change=Change(session_timeout=proposed / 1000),
            )
        )
    return remedies


def _restarts(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> list[Remedy]:
    left = [each for each in rebalances if each.cause == Cause.MEMBER_LEFT]
    clients = [
        client
        for client in by_client(history, left)
        if _absences(history, client) and not history.member(_last_of(history, client)).instance_id
    ]
    if not clients:
        return []
    timeout = max((each.session_timeout_ms or 0) for each in history.members.values()) / 1000
    back = max(gap for client in clients for gap in _absences(history, client))
    if timeout and back >= timeout:
        return []
    return [
        Remedy(
            who="all",
            side="client",
            setting="group.instance.id",
            seen="none",
            proposed="one for each process, the same after a restart",
            why=f"{len(clients)} left and were back within {back:.1f} s, before a session of {timeout:g} s is over",
            price="a process that is shut down for good is missed only after its session timeout",
            change=Change(static=True),
        )
    ]


def _eager(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> list[Remedy]:
    stopped = [each for each in rebalances if each.eager and each.owned_before and each.moved is not None]
    kept = sum(len(each.owned_after) - (each.moved.moved if each.moved else 0) for each in stopped)
    if not stopped or not kept or "cooperative" in history.protocol:
        return []
    return [
        Remedy(
            who="all",
            side="client",
            setting="partition.assignment.strategy",
            seen=history.protocol,
            proposed="cooperative-sticky, by two rolling restarts",
            why="who keeps a partition goes on with it during a rebalance",
            change=Change(cooperative=True),
        )
    ]


def _starts(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> list[Remedy]:
    """Members that start one by one, each with a rebalance of its own."""
    new = [each for each in rebalances if each.cause == Cause.NEW_MEMBER]
    initial = next((each for each in new if each.initial), None)
    if initial is None:
        return []
    followers = [each for each in new if 0.0 < each.started - initial.started < _TOGETHER_S]
    if len(followers) < _MANY:
        return []
    delay = initial.seconds
    proposed = round_ms(1000 * (followers[-1].started - initial.started + delay))
    return [
        Remedy(
            who="broker",
            side="broker",
            setting="group.initial.rebalance.delay.ms",
            seen=f"{delay * 1000:.0f}",
            proposed=str(proposed),
            why=f"{len(followers)} members came within {proposed / 1000:.0f} s of the first, each with a rebalance",
            price=f"an empty group starts {proposed / 1000:.0f} s later",
            change=Change(initial_delay=proposed / 1000),
        )
    ]


def _leader(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> list[Remedy]:
    thinking = [
        (phase.seconds, each.leader)
        for each in rebalances
        for phase in each.phases
        if phase.name == "leader thinks" and phase.seconds > max(1.0, each.seconds / 2)
    ]
    if not thinking:
        return []
    seconds, leader = max(thinking)
    return [
        Remedy(
            who=names(leader),
            side="client",
            setting="the leader's assignor",
            seen=f"{seconds:.1f} s",
            proposed="find out what it waits for (metadata of topics, a long pause, a starved processor)",
            why="all members wait for the leader's SyncGroup",
            grade=CANNOT_SEE,
        )
    ]


def _useless(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> tuple[str, ...]:
    causes = {each.cause for each in rebalances}
    notes = []
    if Cause.SESSION_EXPIRED not in causes:
        timeout = max((each.session_timeout_ms or 0 for each in history.members.values()), default=0)
        notes.append(f"session.timeout.ms ({timeout / 1000:g} s: no session ran out)")
    if Cause.POLL_TIMEOUT_REASON not in causes:
        interval = max((each.rebalance_timeout_ms or 0 for each in history.members.values()), default=0)
        notes.append(f"max.poll.interval.ms ({interval / 1000:g} s: no member says that it missed it)")
    elif Cause.MEMBER_LEFT not in causes:
        notes.append("group.instance.id (who misses its poll leaves all the same)")
    return tuple(notes)


# Helpers


def _newcomer(rebalance: Rebalance) -> str:
    return rebalance.trigger if rebalance.cause == Cause.NEW_MEMBER else ""


def by_client(history: GroupHistory, rebalances: Sequence[Rebalance]) -> dict[str, list[Rebalance]]:
    """The rebalances that members of each client brought about."""
    found: dict[str, list[Rebalance]] = {}
    for rebalance in rebalances:
        if rebalance.trigger in history.members:
            found.setdefault(client_of(history.members[rebalance.trigger]), []).append(rebalance)
    return found


def _lives(history: GroupHistory, client: str) -> list[Life]:
    found = [life for each in history.members.values() if client_of(each) == client for life in each.lives]
    return sorted(found, key=lambda life: life.joined)


def _last_of(history: GroupHistory, client: str) -> str:
    return _lives(history, client)[-1].member_id


def absences(history: GroupHistory, member: Member) -> list[float]:
    """Seconds from when a member of the same client went until the next one of it joined."""
    return _absences(history, client_of(member))


def _absences(history: GroupHistory, client: str) -> list[float]:
    lives = _lives(history, client)
    return [
        after.joined - before.gone
        for before, after in pairwise(lives)
        if before.gone is not None and after.joined >= before.gone
    ]


def round_ms(ms: float) -> int:
    """Rounded up to two digits, as people write settings."""
    digit = 1
    while ms / digit > 100:
        digit *= 10
    return int(-(-ms // digit)) * digit
