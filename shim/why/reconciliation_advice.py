"""Advice for a group with epochs (KIP-848): remedies for its rebalances.

Heartbeat interval and session timeout are the coordinator's settings here, for all groups or for one (resource GROUP).
Remedies are simulated as those of classic groups are (`advice.judge`), but not in share and streams groups: there each
is likely, or cannot be seen from here.

Sources: KIP-848, KIP-345 (static members).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafka_shim.trace import clients
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import Library
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.trace.reconciliation import HANDING_OVER, INTERVAL, NOT_ASSIGNED, Reconciliation
from kafka_shim.why.advice import advise_outside, flapping
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.finding import LONG_S, Finding
from kafka_shim.why.findings import findings_of
from kafka_shim.why.member_remedies import by_client, stalled, unseen
from kafka_shim.why.memberships import absences_of, libraries_of
from kafka_shim.why.names import Names
from kafka_shim.why.past import Change, client_of, past_of
from kafka_shim.why.remedies import CANNOT_SEE, PROCESS, PROCESSING, Advice, Play, Remedy, judge, round_ms
from kafka_shim.why.upgrades import with_upgrades
from kafka_shim.why.work import settings_of

SESSION: Final = "consumer.session.timeout.ms"
HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
_SLOW_SECONDS: Final = 1.0
NOTICED_S: Final = 0.2
"""A shorter wait for the assignment interval is not worth a word."""
_MANY: Final = 3
_LONG: Final = 2.0
"""A rebalance of up to so many heartbeat intervals is normal."""


def advise(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names, play: Play | None) -> Advice:
    """Return the advice for these rebalances. With `play`, remedies that can be simulated are kept only if they
    help.
    """
    findings = findings_of(history, rebalances)
    remedies = advise_outside(history, findings, names)
    for finding in findings:
        remedies += _OF_FINDINGS.get(finding.code, _nothing)(history, finding, names)
    for suggest in (_slow_to_revoke, _never_revoked, _heartbeats, _intervals):
        remedies += suggest(history, [each for each in rebalances if isinstance(each, Reconciliation)], names)
    if history.kind != "consumer":
        play = None
    order = {finding.code: number for number, finding in reversed(list(enumerate(findings)))}
    remedies.sort(key=lambda remedy: order.get(remedy.code, len(order)))
    remedies = with_upgrades(history, rebalances, findings, remedies)
    judged = judge(remedies, past_of(history, rebalances), play)
    return Advice(tuple(findings), tuple(judged), _useless(history, judged))


def _useless(history: GroupHistory, remedies: Sequence[Remedy]) -> tuple[str, ...]:
    # A refused classic member may need one of these.
    needed = {each.key for each in remedies}
    libraries = libraries_of(history)
    names = [
        settings_of(each, libraries, history.protocol_type)
        for each in (clients.ASSIGNORS, clients.SESSION)
        if each not in needed
    ]
    ignored = [each for each in names if each]
    them = "it" if len(ignored) == 1 else "them"
    return (f"{' and '.join(ignored)} (a consumer ignores {them} here)",) if ignored else ()


def _nothing(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    return []


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
        remedies.append(
            Remedy(
                who=names(member_id),
                side="client",
                setting=PROCESSING,
                key="processing",
                code=Diagnosis.SLOW_REVOCATION,
                seen=f"up to {max(seconds):.1f} s",
                proposed="shorter than a second",
                why=f"it finishes this work before it gives partitions up, {typical:.1f} s after the request",
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
        gaps = absences_of(history, client_of(member))
        remedies.append(
            Remedy(
                who=names(member.member_id),
                side="client",
                setting=clients.POLL_INTERVAL,
                key=clients.POLL_INTERVAL,
                code=Cause.REBALANCE_TIMEOUT,
                seen=unseen(history) if interval is None else str(interval),
                proposed="longer than its longest batch"
                if interval is None
                else str(round_ms(interval + 1500 * max(gaps, default=interval / 1000))),
                why="it had not given up its partitions by then, and was removed",
                price="their next owners wait as long",
                change=None if interval is None else Change(poll_interval=interval / 1000),
            )
        )
    return remedies


def _missed_polls(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    member = history.member(finding.members[-1])
    interval = member.rebalance_timeout_ms or 0
    # librdkafka falls silent instead of leaving.
    has_expired = any(each.how == "expired" for each in member.memberships)
    session = history.sessions.get(member.member_id, 0.0) if has_expired else 0.0
    longest = interval / 1000 + session + finding.seconds
    if not interval:
        return [
            Remedy(
                who=finding.client,
                side="client",
                setting=clients.POLL_INTERVAL,
                key=clients.POLL_INTERVAL,
                code=finding.code,
                seen=unseen(history),
                proposed="longer than its longest work between two polls",
                why=f"it left, and was back under its id {finding.seconds:.1f} s later, so it was not restarted",
                price="records that it holds wait as long for another member",
            )
        ]
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=clients.POLL_INTERVAL,
            key=clients.POLL_INTERVAL,
            code=finding.code,
            seen=str(interval),
            proposed=str(round_ms(1500 * longest)),
            why=f"it did not poll for up to {longest:.1f} s, and was out of the group from the interval on",
            price="a rebalance may wait as long for it",
            change=Change(poll_interval=interval / 1000),
        )
    ]


def _paused(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    gaps = [gap for member_id in finding.members for gap in absences_of(history, client_of(history.member(member_id)))]
    if not gaps:
        return _dead(history, finding, names)
    return [_longer_session(history, finding, max(gaps), f"came back {max(gaps):.1f} s after it was expelled")]


def _dead(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    member = history.member(finding.members[-1])
    session = history.sessions.get(member.member_id, 0.0)
    gaps = absences_of(history, client_of(member))
    # A static consumer that died is refused until its session ends: a longer one would only keep it out for longer.
    if member.away is not None and gaps and finding.code == Cause.SESSION_EXPIRED:
        why = f"was away for {max(gaps):.1f} s longer than its session, which a static member may be away"
        return [_longer_session(history, finding, max(gaps), why)]
    seen = f"silent, and back {min(gaps):.1f} s later" if gaps else "silent, and did not come back"
    if finding.code == Diagnosis.GHOST:
        seen = "silent; a new process of it came before its session was over"
    still = f" of {session:g} s" if session else ""
    return [
        Remedy(
            who=finding.client,
            side="operator",
            setting=PROCESS,
            key="process",
            code=finding.code,
            seen=seen,
            proposed="find out why it died",
            why=f"its partitions stood still for the session timeout{still}",
            grade=CANNOT_SEE,
        )
    ]


def _longer_session(history: GroupHistory, finding: Finding, gap: float, why: str) -> Remedy:
    session = max(history.sessions.get(each, 0.0) for each in finding.members)
    proposed = round_ms(1000 * session + 1500 * gap)
    return Remedy(
        who=history.group,
        side="broker",
        setting=f"{history.kind}.{clients.SESSION}",
        key=SESSION.replace("consumer", history.kind),
        code=finding.code,
        seen=f"{session * 1000:.0f}" if session else unseen(history),
        proposed=str(proposed),
        why=f"{finding.client} {why}",
        price=f"a process that did die is missed {proposed / 1000:.0f} s later",
        change=Change(session_timeout=proposed / 1000) if session else None,
    )


def _restarts(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    if finding.is_passing:
        return [replace(remedy, code=finding.code) for remedy in flapping(finding)]
    departures = [each for each in finding.rebalances if each.cause == Cause.MEMBER_LEFT]
    members = [history.member(triggers[-1].trigger) for triggers in by_client(history, departures).values()]
    back = [gap for member in members if not member.instance_id for gap in absences_of(history, client_of(member))]
    if not back:
        return []
    if history.kind == "share" or all(member.library is Library.FRANZ_GO for member in members):
        # A share group has no static members. franz-go leaves without its instance id, is refused, and its successor
        # waits for its session.
        remedies = flapping(finding) if finding.code == Diagnosis.FLAPPING else []
        return [replace(remedy, code=finding.code) for remedy in remedies]
    return [
        Remedy(
            who="all",
            side="client",
            setting=clients.INSTANCE,
            key=clients.INSTANCE,
            code=finding.code,
            optional=finding.code != Diagnosis.FLAPPING,
            seen="none",
            proposed="one for each process, the same after a restart",
            why=f"members left and were back within {max(back):.1f} s",
            price="a process that is shut down for good is missed only after its session timeout",
            change=Change(static=True),
        )
    ]


def _stalled(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    if not finding.stalled:
        return []
    return [replace(remedy, code=finding.code) for remedy in stalled(finding)]


_OF_FINDINGS: Final[Mapping[str, Callable[[GroupHistory, Finding, Names], list[Remedy]]]] = {
    Cause.POLL_TIMEOUT_REASON: _missed_polls,
    Cause.SESSION_EXPIRED: _dead,
    Diagnosis.CRASH_LOOP: _dead,
    Diagnosis.GHOST: _dead,
    Diagnosis.PAUSED_MEMBER: _paused,
    Diagnosis.SLOW_REVOCATION: _stalled,
    Diagnosis.FLAPPING: _restarts,
    Diagnosis.ROLLING_RESTART: _restarts,
    Diagnosis.DEPLOY: _restarts,
    Diagnosis.RESTART: _restarts,
}


def _heartbeats(history: GroupHistory, rebalances: Sequence[Reconciliation], names: Names) -> list[Remedy]:
    """Suggest a shorter heartbeat interval if most of a rebalance waits for the next heartbeat."""
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
            setting=HEARTBEAT,
            key=HEARTBEAT,
            code=Diagnosis.SELDOM_HEARTBEATS,
            optional=True,
            seen=str(interval),
            proposed=str(halved := max(1000, round_ms(interval / 2))),
            why=f"members hear of a rebalance only by a heartbeat: each rebalance waited {typical:.1f} s for one",
            price="twice as many heartbeats; group.consumer.min.heartbeat.interval.ms must allow it",
            change=Change(heartbeat_interval=halved / 1000),
        )
    ]


def _intervals(history: GroupHistory, rebalances: Sequence[Reconciliation], names: Names) -> list[Remedy]:
    """Suggest no assignment interval if most rebalances waited for it, or one for long."""
    waits = sorted(sum(phase.seconds for phase in each.phases if phase.name == INTERVAL) for each in rebalances)
    if not waits:
        return []
    typical, longest = waits[len(waits) // 2], waits[-1]
    if longest <= LONG_S and (len(waits) < _MANY or typical < NOTICED_S):
        return []
    setting = f"{history.kind}.assignment.interval.ms"
    return [
        Remedy(
            who=history.group,
            side="broker",
            setting=setting,
            key=setting,
            optional=True,
            seen=f"at least {round_ms(1000 * longest)}",
            proposed="0",
            why=f"rebalances waited up to {longest:.1f} s for the interval between two assignments",
            price="members that come one after the other cause one rebalance each",
        )
    ]
