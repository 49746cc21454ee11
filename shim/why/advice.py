"""Advice for a classic group: remedies for its findings, and settings that would not help.

Each remedy names a setting in the spelling of its member's client, its side (client, broker or operator) and both
values. A remedy with a `Change` can be simulated. Values that the requests do not show (`max.poll.records`, the time of
a record) are inferred from commits, and the advice says so.

Sources: KIP-62 (max.poll.interval.ms), KIP-345 (static members), KIP-429 (cooperative), KIP-134 (initial delay).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafka_shim.trace import clients
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import has_cooperative
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.finding import Finding
from kafka_shim.why.findings import findings_of
from kafka_shim.why.member_remedies import (
    after_pause,
    after_refusal,
    after_refused_commits,
    by_client,
    dead,
    ghost,
    missed_polls,
    own_group,
    seldom_heartbeats,
    slow_member,
    slow_revocation,
    twice,
)
from kafka_shim.why.memberships import absences_of, last_of, libraries_of, members_by_library, memberships_of
from kafka_shim.why.names import Names
from kafka_shim.why.past import Change, past_of
from kafka_shim.why.remedies import ASSIGNOR, CANNOT_SEE, INITIAL_DELAY, Advice, Play, Remedy, judge, process, round_ms
from kafka_shim.why.upgrades import with_upgrades
from kafka_shim.why.work import has_partitions, setting_of, settings_of

_MANY: Final = 3
_TOGETHER_S: Final = 10.0


def advise(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names, play: Play | None) -> Advice:
    """Return the advice for these rebalances. With `play`, remedies that can be simulated are simulated."""
    findings = findings_of(history, rebalances)
    remedies = [
        replace(remedy, code=finding.code)
        for finding in findings
        for remedy in _REMEDIES.get(finding.code, _nothing)(history, finding, names)
    ]
    if any(finding.is_trouble for finding in findings):
        remedies += _eager(history, rebalances)
    remedies = with_upgrades(history, rebalances, findings, remedies)
    judged = judge(remedies, past_of(history, rebalances), play)
    return Advice(tuple(findings), tuple(judged), _useless(history, findings, rebalances, judged))


def advise_outside(history: GroupHistory, findings: Sequence[Finding], names: Names) -> list[Remedy]:
    """Return the remedies for refused requests, in groups of any kind."""
    outside = (Diagnosis.JOIN_REFUSED, Diagnosis.DUPLICATE_INSTANCE_ID, Diagnosis.COMMIT_REFUSED)
    return [
        replace(remedy, code=finding.code)
        for finding in findings
        if finding.code in outside
        for remedy in _REMEDIES[finding.code](history, finding, names)
    ]


def _nothing(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    return []


def _restarts(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    if finding.is_passing:
        return flapping(finding)
    departures = [each for each in finding.rebalances if each.cause == Cause.MEMBER_LEFT]
    libraries = {library for _, library in members_by_library(history)}
    setting = next((setting_of(clients.INSTANCE, each, history.protocol_type) for each in libraries), None)
    going = [
        client
        for client in by_client(history, departures)
        if absences_of(history, client) and not history.member(last_of(history, client)).instance_id
    ]
    if not going:
        return []
    timeout = max((each.session_timeout_ms or 0) for each in history.members.values()) / 1000
    back = max(gap for client in going for gap in absences_of(history, client))
    if setting is None or (timeout and back >= timeout):
        return flapping(finding) if finding.code == Diagnosis.FLAPPING else []
    within = f", within a session of {timeout:g} s" if timeout else ""
    # The name of its newest member may have a number, which is not that of the process.
    who = names(memberships_of(history, going[0])[0].member_id) if len(going) == 1 else f"{len(going)} processes"
    return [
        Remedy(
            who="all",
            side="client",
            setting=setting,
            key=clients.INSTANCE,
            seen="none",
            proposed="one for each process, the same after a restart",
            why=f"{who} left and came back after at most {back:.1f} s{within}",
            price="a process that is shut down for good is missed only after its session timeout",
            change=Change(static=True),
            optional=finding.code != Diagnosis.FLAPPING,
        )
    ]


def flapping(finding: Finding) -> list[Remedy]:
    """Return the remedy for a process that comes and goes where static membership does not help: the client lacks it,
    or the process is away for longer than its session.
    """
    return process(
        finding,
        seen=f"{finding.count} short stays" if finding.is_passing else f"left and came back {finding.count} times",
        proposed="keep it running"
        + (", or let it read without a group" if has_partitions(finding.protocol_type) else ""),
        why="each departure and each return is a rebalance of all members",
    )


def _eager(history: GroupHistory, rebalances: Sequence[Rebalance]) -> list[Remedy]:
    stopped = [each for each in rebalances if each.eager and each.owned_before and each.moved is not None]
    unmoved = sum(len(each.owned_after) - (each.moved.moved if each.moved else 0) for each in stopped)
    libraries = {library for each, library in members_by_library(history) if each.protocols}
    # The libraries of the members are in no record.
    if (
        history.is_of_log
        or not stopped
        or not unmoved
        or "cooperative" in history.protocol
        or not all(map(has_cooperative, libraries))
    ):
        return []
    return [
        Remedy(
            who="all",
            side="client",
            setting=settings_of(clients.ASSIGNORS, libraries, history.protocol_type) or clients.ASSIGNORS,
            key=clients.ASSIGNORS,
            seen=history.protocol,
            proposed="cooperative-sticky, by two rolling restarts",
            why="a member consumes the partitions it keeps during a rebalance",
            change=Change(cooperative=True),
            optional=True,
        )
    ]


def _starts(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    """Suggest a longer initial delay if members start one by one, each with a rebalance, and stay."""
    new = [
        each
        for each in finding.rebalances
        if each.cause == Cause.NEW_MEMBER and (each.initial or history.member(each.trigger).how != "expired")
    ]
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
            setting=INITIAL_DELAY,
            key=INITIAL_DELAY,
            # The delay itself does not show, but the first rebalance lasted no less.
            seen=f"at most {delay * 1000:.0f}",
            proposed=str(proposed),
            why=f"{len(followers)} members came within {proposed / 1000:.0f} s of the first, each with a rebalance",
            price=f"an empty group starts {proposed / 1000:.0f} s later",
            change=Change(initial_delay=proposed / 1000),
            optional=True,
        )
    ]


def _leader(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=ASSIGNOR,
            key="assignor",
            seen=f"{finding.seconds:.1f} s",
            proposed="find out what it waits for"
            f" ({'metadata of topics, ' if has_partitions(history.protocol_type) else ''}a long pause, a starved"
            " processor)",
            why="all members wait for the leader's SyncGroup",
            grade=CANNOT_SEE,
        )
    ]


def _groups(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    return own_group(
        history,
        finding,
        proposed="one group for each set of topics, or the same topics in all members",
        why="a topic without an owner is not read, and the group does not say so; or the topic does not exist"
        if finding.topics
        else "the assignor of the leader gives partitions to members that do not subscribe to them",
    )


_REMEDIES: Final[Mapping[str, Callable[[GroupHistory, Finding, Names], list[Remedy]]]] = {
    Cause.POLL_TIMEOUT_REASON: missed_polls,
    Cause.SESSION_EXPIRED: dead,
    Diagnosis.CRASH_LOOP: dead,
    Diagnosis.PAUSED_MEMBER: after_pause,
    Diagnosis.GHOST: ghost,
    Diagnosis.JOIN_REFUSED: after_refusal,
    Diagnosis.COMMIT_REFUSED: after_refused_commits,
    Diagnosis.DUPLICATE_INSTANCE_ID: twice,
    Diagnosis.SLOW_MEMBER: slow_member,
    Diagnosis.SLOW_REVOCATION: slow_revocation,
    Cause.REBALANCE_TIMEOUT: slow_member,
    Diagnosis.SELDOM_HEARTBEATS: seldom_heartbeats,
    Diagnosis.SLOW_LEADER: _leader,
    Diagnosis.DIFFERENT_SUBSCRIPTIONS: _groups,
    Diagnosis.FLAPPING: _restarts,
    Diagnosis.ROLLING_RESTART: _restarts,
    Diagnosis.DEPLOY: _restarts,
    Diagnosis.RESTART: _restarts,
    Diagnosis.START: _starts,
}


def _useless(
    history: GroupHistory, findings: Sequence[Finding], rebalances: Sequence[Rebalance], remedies: Sequence[Remedy]
) -> tuple[str, ...]:
    # A refused member may need another session timeout without any session that ran out.
    if any(each.key == clients.SESSION for each in remedies):
        return ()
    codes = {each.code for each in findings} | {each.cause for each in rebalances}
    if codes & {Cause.SESSION_EXPIRED, Diagnosis.PAUSED_MEMBER, Diagnosis.GHOST, Diagnosis.CRASH_LOOP}:
        return ()
    # A session may run out in a rebalance that has another cause.
    begin = rebalances[0].started if rebalances else history.first
    ends = [each for member in history.members.values() for each in member.memberships if each.how == "expired"]
    if any((each.ended or 0.0) >= begin for each in ends):
        return ()
    session = settings_of(clients.SESSION, libraries_of(history), history.protocol_type)
    return (f"{session} (no session ran out)",) if session else ()
