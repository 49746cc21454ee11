"""Remedies for one member of a classic group: it missed a poll, was slow, silent, paused or dead, or was not let in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from kafka_shim.apis.readable import readable
from kafka_shim.apis.wire.errors import ErrorCode, error_name
from kafka_shim.trace import clients
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import Library, shows_poll_interval
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.members import Member
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.finding import LONG_S, Finding
from kafka_shim.why.memberships import absences_of, memberships_of
from kafka_shim.why.names import Names
from kafka_shim.why.past import Change, broker_limits_of, client_of
from kafka_shim.why.remedies import (
    MAX_SIZE,
    PROCESS,
    PROCESSING,
    PROTOCOL,
    REMOTE_ASSIGNOR,
    RIGHTS,
    Remedy,
    process,
    round_ms,
    span,
)
from kafka_shim.why.static_remedies import after_unreleased
from kafka_shim.why.work import has_partitions, setting_of, work_of

_GROUP_ID: Final = "group.id"
MIN_SESSION: Final = "group.min.session.timeout.ms"
MAX_SESSION: Final = "group.max.session.timeout.ms"
_BEFORE_JOINING: Final = "the work before it joins again, such as to stop its tasks"


def missed_polls(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    if not has_partitions(finding.protocol_type):
        return _late_worker(finding, history.member(finding.members[-1]))
    member, library = history.member(finding.members[-1]), finding.library
    interval = member.rebalance_timeout_ms if shows_poll_interval(library) else None
    gaps = absences_of(history, client_of(member))
    longest = max(gaps, default=0.0) + (interval or 0) / 1000
    remedies = []
    batch, records = _batch(history, member), setting_of(clients.POLL_RECORDS, library, finding.protocol_type)
    if records is not None and batch is not None and interval is not None:
        fewer = max(1, int(batch[0] * 2 * interval / 3000 / max(batch[1], longest)))
        remedies.append(
            Remedy(
                who=finding.client,
                side="client",
                setting=records,
                key=clients.POLL_RECORDS,
                seen=f"{batch[0]:.0f} (inferred from its commits)",
                proposed=str(fewer),
                why=f"a batch then takes two thirds of the {interval / 1000:.0f} s it may",
                change=Change(poll_interval=interval / 1000),
            )
        )
    setting = setting_of(clients.POLL_INTERVAL, library, finding.protocol_type)
    if setting is not None:
        # A member that did not come back was absent for a time that does not show.
        proposed = round_ms(1500 * longest) if interval is not None and gaps else None
        remedies.append(
            Remedy(
                who=finding.client,
                side="client",
                setting=setting,
                key=clients.POLL_INTERVAL,
                seen=unseen(history) if interval is None else str(interval),
                proposed="longer than its longest batch" if proposed is None else str(proposed),
                why=f"its longest absence from poll was {longest:.1f} s"
                if gaps and interval is not None
                else f"it left when the interval was over{'' if history.is_of_log else ', and its process still runs'}",
                price="a rebalance may wait as long for it",
                change=None if proposed is None else Change(poll_interval=proposed / 1000),
            )
        )
    return remedies


def unseen(history: GroupHistory) -> str:
    """Return the words for a value that the source does not show."""
    return "not in the log" if history.is_of_log else "not visible on the wire"


def _late_worker(finding: Finding, member: Member) -> list[Remedy]:
    """Return the remedy for a member of another type that left since it did not take part in the group in time."""
    setting = setting_of(clients.POLL_INTERVAL, finding.library, finding.protocol_type)
    interval = member.rebalance_timeout_ms
    if setting is None:
        return process(
            finding,
            seen=f"busy for its rebalance timeout{'' if interval is None else f' of {interval / 1000:g} s'}",
            proposed="find out what kept it from the group",
            why="it left by itself when the timeout was over, and its process still runs",
        )
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=setting,
            key=setting,
            seen="unknown" if interval is None else str(interval),
            proposed="longer than its longest start or stop of tasks",
            why="it left when this time was over, and its process still runs",
            price="a rebalance may wait as long for it",
        )
    ]


def stalled(finding: Finding) -> list[Remedy]:
    """Return the remedy for a process that stood still for less than its session."""
    return process(
        finding,
        seen=f"no heartbeat for {finding.seconds:.1f} s",
        proposed="find out what stopped it: garbage collection, too little processor time, a blocked event loop",
        why="members wait until it runs again; its session had not run out",
    )


def slow_member(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    if finding.stalled:
        return stalled(finding)
    if not finding.members:
        return _nameless(finding)
    member, library = history.member(finding.members[-1]), finding.library
    target = max(0.1, finding.seconds / 10)
    change = Change(think={client_of(member): target})
    setting = setting_of(clients.POLL_RECORDS, library, finding.protocol_type)
    # These join again without a poll: only a rebalance callback holds them up.
    if setting is None or library in (Library.AIOKAFKA, Library.FRANZ_GO):
        return [
            Remedy(
                who=finding.client,
                side="client",
                setting=PROCESSING if has_partitions(finding.protocol_type) else _BEFORE_JOINING,
                key="processing",
                seen=f"up to {finding.seconds:.1f} s",
                proposed="shorter than a second",
                why="it joins again only when this work is over; all members wait for it until then",
                change=change,
            )
        ]
    batch = _batch(history, member)
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=setting,
            key=clients.POLL_RECORDS,
            seen=f"{batch[0]:.0f} (inferred from its commits)" if batch else unseen(history),
            proposed=str(max(1, int(batch[0] / 10))) if batch else "a tenth",
            why=f"it joins again only when it polls; the group then waits {target:.1f} s, not {finding.seconds:.1f} s",
            change=change,
        )
    ]


def _nameless(finding: Finding) -> list[Remedy]:
    return [
        Remedy(
            who="all",
            side="client",
            setting=PROCESSING if has_partitions(finding.protocol_type) else _BEFORE_JOINING,
            key="processing",
            seen=f"up to {finding.seconds:.1f} s",
            proposed="shorter than a second",
            why="a member joins again only when this work is over; the log does not say which one was last",
        )
    ]


def slow_revocation(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=PROCESSING,
            key="processing",
            seen=f"up to {finding.seconds:.1f} s",
            proposed="shorter than a second",
            why="it joins again, and the partitions it gave up get an owner, only when this work is over",
        )
    ]


def seldom_heartbeats(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    setting = setting_of(clients.HEARTBEAT, finding.library, finding.protocol_type)
    if setting is None:
        return []
    member, called = history.member(finding.members[-1]), finding.seconds
    if finding.expelled:
        session_ms = member.session_timeout_ms or 0
        return [
            Remedy(
                who=finding.client,
                side="client",
                setting=setting,
                key=clients.HEARTBEAT,
                seen=f"about {called * 1000:.0f}" if 1000 * called > session_ms else f"more than {session_ms}",
                proposed=str(session_ms // 3),
                why=f"a third of its session of {session_ms / 1000:g} s, which is over before the next heartbeat",
                price="more heartbeats",
                change=Change(session_timeout=1.5 * called),
            )
        ]
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=setting,
            key=clients.HEARTBEAT,
            seen=f"about {called * 1000:.0f}",
            proposed=str(round_ms(called * 250)),
            why=f"it learns of a rebalance by a heartbeat, {called:.1f} s after the start"
            + ("" if member.beat else "; if its interval is shorter already, its process stood still"),
            price="more heartbeats",
            change=Change(think={client_of(member): max(0.1, called / 4)}),
        )
    ]


def dead(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    member = history.member(finding.members[-1])
    timeout = (member.session_timeout_ms or 0) / 1000
    later = [each.joined for each in memberships_of(history, client_of(member)) if each.joined > (member.ended or 0.0)]
    if member.instance_id and later and timeout and finding.code == Cause.SESSION_EXPIRED:
        return _away(history, finding, later[0] - (member.ended or 0.0))
    back = "silent, and did not come back"
    if later:
        back = f"silent, and back {later[0] - (member.ended or 0.0):.1f} s later"
    elif history.is_of_log and member.ended is not None:
        rest = history.last - member.ended
        back = (
            f"silent, and not back when the log ends, {span(rest)} later"
            if rest > LONG_S
            else "silent; the log ends then"
        )
    if finding.code == Diagnosis.CRASH_LOOP:
        return _loop(history, finding, timeout)
    return process(
        finding,
        seen=back,
        proposed=_search(finding),
        why=f"its {work_of(finding.protocol_type)} stood still for the session timeout of {timeout:g} s"
        if timeout
        else f"its {work_of(finding.protocol_type)} stood still for its session timeout",
    )


def _search(finding: Finding) -> str:
    """Return the advice for a process that fell silent. A log does not tell a death from a pause."""
    if finding.code == Diagnosis.PAUSED_MEMBER:
        return "find out what paused it"
    return "find out why it died, or stood still" if finding.is_of_log else "find out why it died"


def _loop(history: GroupHistory, finding: Finding, timeout: float) -> list[Remedy]:
    """Return the remedies for a process that comes again and again and never leaves. A crash and a script that does not
    close its consumer send the same.
    """
    until = f" of {timeout:g} s" if timeout else ""
    close = "close the consumer" if has_partitions(finding.protocol_type) else "let it leave"
    stands = "stands" if work_of(finding.protocol_type) == "work" else "stand"
    remedies = process(
        finding,
        seen=f"fell silent {finding.count} times, without a LeaveGroup",
        proposed=f"{close} when it is done; if it crashes, find out why it died",
        why=f"the group waits for it, and its {work_of(finding.protocol_type)} {stands} still, until its session{until}"
        " ends",
    )
    setting = setting_of(clients.INSTANCE, finding.library, finding.protocol_type)
    members = [history.member(each) for each in finding.members]
    absences = [(after.joined or 0.0) - (before.beaten or before.joined or 0.0) for before, after in pairwise(members)]
    is_soon = bool(absences) and timeout > 0 and min(absences) < timeout
    if setting is None or not is_soon or any(each.instance_id for each in members):
        return remedies
    why = "if it comes back within its session it takes its old place, and no member waits"
    return [*remedies, _own_instance(finding, setting, why)]


def _away(history: GroupHistory, finding: Finding, gap: float) -> list[Remedy]:
    """A static member was restarted, but not within its session."""
    member = history.member(finding.members[-1])
    setting = setting_of(clients.SESSION, finding.library, finding.protocol_type)
    if setting is None:
        return []
    why = f"it was back {gap:.1f} s after its session; within it, the restart of a static member costs nothing"
    return _longer_session(history, finding, setting, member.session_timeout_ms or 0, gap, why)


def after_pause(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    member = history.member(finding.members[-1])
    setting = setting_of(clients.SESSION, finding.library, finding.protocol_type)
    if setting is None:
        return dead(history, finding, names)
    late = sum(each.count for each in history.refusals.commits.values() if each.member_id in finding.members)
    loss = f"; {late} of its commits came too late, and other members read those records again" if late else ""
    if finding.seconds:
        why = f"it was back {finding.seconds:.1f} s after it was expelled: paused, not dead{loss}"
    else:
        why = f"it joined again as soon as it learned that it was expelled: paused, not dead{loss}"
    return _longer_session(history, finding, setting, member.session_timeout_ms, finding.seconds, why)


def own_group(history: GroupHistory, finding: Finding, *, proposed: str, why: str) -> list[Remedy]:
    """Suggest another group id."""
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=setting_of(clients.GROUP, finding.library, finding.protocol_type) or clients.GROUP,
            key=clients.GROUP,
            seen=readable(history.group),
            proposed=proposed,
            why=why,
        )
    ]


def after_refused_commits(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    if finding.is_outside:
        return own_group(
            history,
            finding,
            proposed="another for a consumer with assign(); to set offsets, stop the members first",
            why="while a group has members, only these may commit",
        )
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=PROCESSING,
            key="processing",
            seen=f"{finding.count} late commits" if finding.count > 1 else "a late commit",
            proposed="a commit before the partitions are given up, in the callback for revoked partitions",
            why="their records are read again by the next owner",
        )
    ]


def _longer_session(
    history: GroupHistory, finding: Finding, setting: str, session_ms: int | None, gap: float, why: str
) -> list[Remedy]:
    """Suggest a session that is longer than the seconds of absence after the present one, which a log may not have."""
    if session_ms is None:
        return [
            Remedy(
                who=finding.client,
                side="client",
                setting=setting,
                key=clients.SESSION,
                seen="unknown",
                proposed=f"{round_ms(1500 * gap)} more than now" if gap else "longer than it stood still",
                why=why,
                price="the death of a process is detected later by as much",
            )
        ]
    proposed = round_ms(session_ms + 1500 * gap)
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=setting,
            key=clients.SESSION,
            seen=str(session_ms),
            proposed=str(proposed),
            why=why,
            price=f"the death of a process is detected up to {proposed / 1000:.0f} s later"
            + _beyond(history.broker_limits.get(MAX_SESSION), proposed),
            change=Change(session_timeout=proposed / 1000),
        )
    ]


def _beyond(most: int | None, proposed: int) -> str:
    """Return the words for a session that the broker does not accept as it is, or perhaps not."""
    if most is not None and proposed > most:
        return f"; the broker refuses it until {MAX_SESSION} is more than {most}"
    return f"; the trace does not show {MAX_SESSION}, the broker's limit" if most is None else ""


def ghost(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    member = history.member(finding.members[-1])
    setting = setting_of(clients.INSTANCE, finding.library, finding.protocol_type)
    came_back = any(each.joined > (member.joined or 0.0) for each in memberships_of(history, client_of(member)))
    if setting is None or not came_back or member.instance_id:
        return dead(history, finding, names)
    why = f"a new process then takes the place of the old one; the group waited {finding.seconds:.1f} s for it"
    return [_own_instance(finding, setting, why, Change(static=True))]


def _own_instance(finding: Finding, setting: str, why: str, change: Change | None = None) -> Remedy:
    """Suggest a group instance id."""
    return Remedy(
        who=finding.client,
        side="client",
        setting=setting,
        key=clients.INSTANCE,
        seen="none",
        proposed="one for each process, the same after a restart",
        why=why,
        price="a process that is shut down for good is missed only after its session timeout",
        change=change,
    )


def after_refusal(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    if finding.error == ErrorCode.UNRELEASED_INSTANCE_ID:
        return after_unreleased(history, finding)
    refused = next(
        each
        for each in history.refusals.refused.values()
        if each.error == finding.error and each.client_id == finding.client
    )
    limits = broker_limits_of(history)
    max_size = MAX_SIZE if history.epochs is None else f"group.{history.kind}.max.size"
    common = set.intersection(*(set(history.members[each].protocols) for each in history.present), set()) or {
        history.protocol
    }
    side, key, seen, proposed = {
        ErrorCode.INVALID_SESSION_TIMEOUT: (
            "client",
            clients.SESSION,
            str(refused.session_timeout_ms),
            _bounds(limits),
        ),
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
            "client",
            clients.ASSIGNORS,
            ", ".join(refused.protocols),
            f"one that all members have: {', '.join(sorted(common - {''})) or 'see the other members'}",
        )
        if history.epochs is None
        else (
            "client",
            PROTOCOL,
            "classic",
            "consumer, as its group; or group.consumer.migration.policy=bidirectional at the broker",
        ),
        ErrorCode.UNSUPPORTED_ASSIGNOR: (
            "client",
            REMOTE_ASSIGNOR,
            ", ".join(refused.protocols),
            "one of the broker's group.consumer.assignors (uniform and range by default)",
        ),
        ErrorCode.GROUP_MAX_SIZE_REACHED: (
            "broker",
            max_size,
            f"{limits[max_size]}, and reached" if max_size in limits else "reached",
            "more, or fewer members in the group",
        ),
        ErrorCode.GROUP_ID_NOT_FOUND: (
            "client",
            PROTOCOL,
            "consumer",
            "classic, as its group; or group.consumer.migration.policy=bidirectional at the broker",
        ),
        ErrorCode.GROUP_AUTHORIZATION_FAILED: ("operator", RIGHTS, "none for this group", "READ on the group"),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("operator", RIGHTS, "none for a topic", "READ on its topics"),
    }.get(ErrorCode(finding.error), ("client", "process", "its request", "see the error in its log"))
    if refused.protocol_type and history.protocol_type not in ("", refused.protocol_type):
        key, seen = _GROUP_ID, f"{history.group}, a group of type {history.protocol_type}"
        side, proposed = "client", f"another for a {refused.protocol_type}"
    return [
        Remedy(
            who=finding.client,
            side=side,
            setting=PROCESS if key == "process" else setting_of(key, finding.library, history.protocol_type) or key,
            key=key,
            seen=seen,
            proposed=proposed,
            why=f"it is answered {error_name(finding.error)} and is in no generation",
        )
    ]


def _bounds(limits: Mapping[str, int]) -> str:
    """Return the words for the session timeouts that a broker accepts."""
    if MIN_SESSION not in limits:
        return "within group.min and group.max.session.timeout.ms of the broker (6000 to 1800000 by default)"
    return f"from {limits[MIN_SESSION]} to {limits[MAX_SESSION]}, as {MIN_SESSION} and group.max demand"


def twice(history: GroupHistory, finding: Finding, names: Names) -> list[Remedy]:
    return [
        Remedy(
            who=finding.client,
            side="client",
            setting=setting_of(clients.INSTANCE, finding.library, finding.protocol_type) or clients.INSTANCE,
            key=clients.INSTANCE,
            seen=f"{finding.client}, of two running processes",
            proposed="another for each process",
            why=f"two processes with one name fence each other: {finding.count} requests were refused",
        )
    ]


def by_client(history: GroupHistory, rebalances: Sequence[Rebalance]) -> dict[str, list[Rebalance]]:
    """Return the rebalances that members of each client triggered."""
    triggered: dict[str, list[Rebalance]] = {}
    for rebalance in rebalances:
        if rebalance.trigger in history.members:
            triggered.setdefault(client_of(history.members[rebalance.trigger]), []).append(rebalance)
    return triggered


def _batch(history: GroupHistory, member: Member) -> tuple[float, float] | None:
    """Return the batch of a member, or of an earlier membership of its process."""
    same = [each for each in history.members.values() if client_of(each) == client_of(member)]
    return next((each.batch for each in (member, *reversed(same)) if each.batch is not None), None)
