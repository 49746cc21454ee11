"""What to do about the rebalances of a consumer group (KIP-848): which setting, on which side, to which value.

Decides which remedies its history suggests. Heartbeat interval and session timeout are the coordinator's settings here,
for all groups or for one (resource GROUP). Remedies are played as those of classic groups are (`advice.judge`), but not
in share and streams groups: there each is likely, or cannot be seen from here.

Sources: KIP-848, KIP-345 (static members).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_shim.groups.causes import Cause
from kafka_shim.why.advice import CANNOT_SEE, Advice, Play, Remedy, absences, by_client, judge, round_ms
from kafka_shim.why.history import GroupHistory
from kafka_shim.why.names import Names
from kafka_shim.why.past import Change, client_of, past_of
from kafka_shim.why.rebalance import Rebalance
from kafka_shim.why.reconciliation import HANDING_OVER, NOT_ASSIGNED, Reconciliation

_SLOW_SECONDS: Final = 1.0
_LONG: Final = 2.0
"""Heartbeat intervals that a rebalance may take before they are worth a word."""


def advise(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names, play: Play | None) -> Advice:
    """What to do about these rebalances. With a `play`, every remedy that can be replayed shows that it helps."""
    remedies: list[Remedy] = []
    for suggest in (_slow_to_revoke, _never_revoked, _sessions, _restarts, _heartbeats):
        remedies += suggest(history, [each for each in rebalances if isinstance(each, Reconciliation)], names)
    if history.kind != "consumer":
        play = None
    return Advice(
        tuple(judge(remedies, past_of(history, rebalances), play)),
        ("partition.assignment.strategy and session.timeout.ms (a consumer ignores them here)",),
    )


def _slow_to_revoke(history: GroupHistory, rebalances: Sequence[Reconciliation], names: Names) -> list[Remedy]:
    waits: dict[str, list[float]] = {}
    for each in rebalances:
        if each.slow is not None and each.slow.called is not None:
            waits.setdefault(each.slow.member_id, []).append(each.slow.seconds - each.slow.called)
    remedies = []
    for member_id, seconds in waits.items():
        typical = sorted(seconds)[len(seconds) // 2]
        if typical < _SLOW_SECONDS:
            continue
        batch = history.member(member_id).batch
        remedies.append(
            Remedy(
                who=names(member_id),
                side="client",
                setting="max.poll.records",
                seen=f"{batch[0]:.0f} (inferred from its commits)" if batch else "not visible on the wire",
                proposed=str(max(1, int(batch[0] / 10))) if batch else "a tenth",
                why=f"it gives partitions up only when it polls, {typical:.1f} s after it was told",
                change=Change(think={client_of(history.member(member_id)): typical / 10}),
            )
        )
    return remedies


def _never_revoked(history: GroupHistory, rebalances: Sequence[Reconciliation], names: Names) -> list[Remedy]:
    removed = [each for each in rebalances if each.cause == Cause.REBALANCE_TIMEOUT]
    remedies = []
    for triggers in by_client(history, removed).values():
        member = history.member(triggers[-1].trigger)
        interval = member.rebalance_timeout_ms
        gaps = absences(history, member)
        remedies.append(
            Remedy(
                who=names(member.member_id),
                side="client",
                setting="max.poll.interval.ms",
                seen="not visible on the wire" if interval is None else str(interval),
                proposed="longer than its longest batch"
                if interval is None
                else str(round_ms(interval + 1500 * max(gaps, default=interval / 1000))),
                why="it had not given up its partitions by then, and was removed",
                price="who gets them waits as long",
                change=None if interval is None else Change(poll_interval=interval / 1000),
            )
        )
    return remedies


def _sessions(history: GroupHistory, rebalances: Sequence[Reconciliation], names: Names) -> list[Remedy]:
    expired = [each for each in rebalances if each.cause == Cause.SESSION_EXPIRED]
    remedies = []
    for triggers in by_client(history, expired).values():
        member = history.member(triggers[-1].trigger)
        session = history.sessions.get(member.member_id, 0.0)
        gaps = [gap for gap in absences(history, member) if gap < 2 * session]
        if gaps:
            proposed = round_ms(1000 * session + 1500 * max(gaps))
            remedies.append(
                Remedy(
                    who=history.group,
                    side="broker",
                    setting="consumer.session.timeout.ms",
                    seen=f"{session * 1000:.0f}",
                    proposed=str(proposed),
                    why=f"{names(member.member_id)} came back {max(gaps):.1f} s after it was expelled",
                    price=f"a process that did die is missed {proposed / 1000:.0f} s later",
                    change=Change(session_timeout=proposed / 1000) if session else None,
                )
            )
            continue
        still = f" of {session:g} s" if session else ""
        remedies.append(
            Remedy(
                who=names(member.member_id),
                side="operator",
                setting="the process itself",
                seen="silent, and did not come back",
                proposed="find out why it died",
                why=f"its partitions stood still for the session timeout{still}",
                grade=CANNOT_SEE,
            )
        )
    return remedies


def _restarts(history: GroupHistory, rebalances: Sequence[Reconciliation], names: Names) -> list[Remedy]:
    left = [each for each in rebalances if each.cause == Cause.MEMBER_LEFT]
    members = [history.member(triggers[-1].trigger) for triggers in by_client(history, left).values()]
    back = [gap for member in members if not member.instance_id for gap in absences(history, member)]
    if not back:
        return []
    return [
        Remedy(
            who="all",
            side="client",
            setting="group.instance.id",
            seen="none",
            proposed="one for each process, the same after a restart",
            why=f"members left and were back within {max(back):.1f} s",
            price="a process that is shut down for good is missed only after its session timeout",
            change=Change(static=True),
        )
    ]


def _heartbeats(history: GroupHistory, rebalances: Sequence[Reconciliation], names: Names) -> list[Remedy]:
    """Where most of a rebalance is waiting for the next heartbeat."""
    interval = history.heartbeat_interval_ms
    waits = sorted(
        sum(phase.seconds for phase in each.phases if phase.name in (NOT_ASSIGNED, HANDING_OVER))
        for each in rebalances
        if each.moved is not None and each.moved.moved
    )
    if interval is None or interval <= 1000 or not waits:
        return []
    typical = waits[len(waits) // 2]
    if typical < _SLOW_SECONDS or 1000 * typical > _LONG * interval:
        return []
    return [
        Remedy(
            who=history.group,
            side="broker",
            setting="consumer.heartbeat.interval.ms",
            seen=str(interval),
            proposed=str(halved := max(1000, round_ms(interval / 2))),
            why=f"members hear of a rebalance by a heartbeat alone: {typical:.1f} s of each was waiting for one",
            price="twice as many heartbeats; group.consumer.min.heartbeat.interval.ms must allow it",
            change=Change(heartbeat_interval=halved / 1000),
        )
    ]
