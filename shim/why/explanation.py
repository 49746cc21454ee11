"""`Explanation`: the answer to "why did it rebalance": a verdict, the last rebalances, patterns, and advice.

The verdict is one sentence; the evidence has sequence numbers. `text.py` and `as_json` print the same content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from kafka_shim.trace import clients
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.epochs import Epochs
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.moves import by_topic
from kafka_shim.trace.rebalance import HEARTBEAT_SECONDS, Rebalance
from kafka_shim.trace.reconciliation import INTERVAL, Reconciliation
from kafka_shim.why.advice import advise
from kafka_shim.why.causes import ENDED_BY_TEST, clause, unsaid
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.finding import CONSUMER_HEARTBEAT_MS, LONG_S, Finding
from kafka_shim.why.instance_ids import fights_of
from kafka_shim.why.limits import limits_of
from kafka_shim.why.memberships import libraries_of
from kafka_shim.why.names import Names, names_of
from kafka_shim.why.past import client_of, tell_apart
from kafka_shim.why.reconciliation_advice import NOTICED_S
from kafka_shim.why.reconciliation_advice import advise as advise_consumer_group
from kafka_shim.why.remedies import Advice, Play, Remedy, span
from kafka_shim.why.verdicts import clause_of
from kafka_shim.why.waits import waits_of
from kafka_shim.why.work import settings_of

STORM_REBALANCES: Final = 6
STORM_GAP_S: Final = 120.0
"""Rebalances at most this far apart belong together; `pipeline/jobs/rebalances.py` has the same value."""
_GROWS: Final = frozenset({Cause.NEW_MEMBER})
_SHRINKS: Final = frozenset({Cause.MEMBER_LEFT, Cause.MEMBER_GONE, Cause.SESSION_EXPIRED})
_TURNS: Final = 2
"""A storm needs this many rebalances that are not joins, and this many that are not leaves."""
_PATTERN: Final = 3
NOTHING_SHOWS: Final = "nothing that the events here show, but some are missing"
NO_REBALANCE_SHOWS: Final = "No rebalance shows"
_OPEN: Final = frozenset({Cause.MEMBER_GONE, Diagnosis.UNKNOWN})
"""Findings that say neither that something went wrong, nor that nothing did."""


@dataclass(frozen=True)
class Pattern:
    """The same client triggered a rebalance for the same cause `count` times, every `period` seconds (median)."""

    cause: str
    who: str
    count: int
    period: float
    first_seq: int
    last_seq: int
    lines: tuple[str, ...] = ()
    """The first and the last line of a log."""


@dataclass(frozen=True)
class Explanation:
    """Rebalances of one group, oldest first, with their patterns and advice."""

    history: GroupHistory
    rebalances: tuple[Rebalance, ...]
    patterns: tuple[Pattern, ...]
    advice: Advice
    names: Names
    storm: bool
    limits: tuple[str, ...] = ()
    """Questions that its source cannot answer, each with the source that can."""

    @property
    def last(self) -> Rebalance:
        """The newest rebalance."""
        return self.rebalances[-1]

    @property
    def is_open(self) -> bool:
        """True if records of `__consumer_offsets` show no trouble, but leave open whether there was any."""
        history = self.history
        if not history.is_of_topic or any(each.code not in _OPEN for each in self.troubles):
            return False
        return bool(self.troubles) or not (history.is_of_lines or history.epochs is not None)

    @property
    def is_calm(self) -> bool:
        """True if there is nothing to do: no member waited long, was refused, or lost its work."""
        if self.is_open:
            return False
        return not self.advice.remedies and not self.troubles and self.unexplained <= LONG_S

    @property
    def calm(self) -> bool | None:
        """`is_calm`, None if its source leaves that open: it has no signs of trouble, or lacks events."""
        return None if self.is_open or (self.is_calm and self.history.missing.has_gaps) else self.is_calm

    @property
    def troubles(self) -> list[Finding]:
        """The findings that are trouble, the costliest first."""
        return [each for each in self.advice.findings if each.is_trouble]

    @property
    def unexplained(self) -> float:
        """The longest wait in a rebalance, beyond a heartbeat interval, that no trouble explains; in seconds."""
        rebalance = self._least_explained
        return 0.0 if rebalance is None else self._unexplained(rebalance)

    @property
    def _least_explained(self) -> Rebalance | None:
        """The rebalance with that wait."""
        explained = {id(rebalance) for finding in self.troubles for rebalance in finding.rebalances}
        return max((each for each in self.rebalances if id(each) not in explained), key=self._unexplained, default=None)

    def _unexplained(self, rebalance: Rebalance) -> float:
        """The wait in a rebalance beyond its heartbeats; with epochs each phase may take a heartbeat interval."""
        if not isinstance(rebalance, Reconciliation):
            return max(0.0, _waited(rebalance) - self._beat(rebalance))
        interval = (self.history.heartbeat_interval_ms or CONSUMER_HEARTBEAT_MS) / 1000
        return sum(max(0.0, phase.seconds - interval) for phase in rebalance.phases if phase.name != INTERVAL)

    def _beat(self, rebalance: Rebalance) -> float:
        """The seconds between two heartbeats of the last to join a classic group: the default if they do not show, and
        no more than that, since a shorter interval would spare the rest.
        """
        last = self.history.members.get(rebalance.joins[0].member_id) if rebalance.joins else None
        return min(last.beat or HEARTBEAT_SECONDS, HEARTBEAT_SECONDS) if last else HEARTBEAT_SECONDS

    @property
    def advice_text(self) -> str:
        """The sentence in place of remedies, if there are none."""
        if self.is_open:
            return (
                "these records do not show whether anything went wrong. Add the broker's log (--log server.log): it"
                " says why members went, and how long the group waited."
            )
        if self.troubles:
            return "why knows no setting that would have spared this."
        rebalance = self._least_explained
        if rebalance is not None and self._unexplained(rebalance) > LONG_S:
            return self._without_reason(rebalance)
        longest = max(self.rebalances, key=_waited, default=None)
        if longest is not None and _waited(longest) > LONG_S:
            calm = f"{NOTHING_SHOWS}." if self.history.missing.sentences else "no change is needed."
            return f"{calm} {self._made_of(longest)}{self._interval(self.rebalances)}"
        return f"{self._nothing} joining and leaving cost these rebalances.{self._interval(self.rebalances)}"

    @property
    def _nothing(self) -> str:
        """The word for calm; with a limit, if events are missing."""
        return f"{NOTHING_SHOWS};" if self.history.missing.sentences else "nothing;"

    def _made_of(self, rebalance: Rebalance) -> str:
        """Sentences about the parts of the time of a long rebalance, and about the setting for that of heartbeats."""
        whole = span(rebalance.seconds)
        if isinstance(rebalance, Reconciliation):
            setting = f"{self.history.kind}.{clients.HEARTBEAT}"
            return (
                f"The {whole} that members waited are heartbeat intervals; {setting} shortens them, for more requests."
            )
        parts, heartbeats = waits_of(rebalance, self.names)
        name = settings_of(clients.HEARTBEAT, libraries_of(self.history), self.history.protocol_type)
        name = name or "a shorter heartbeat interval"
        text = f"The longest rebalance took {whole}: {', '.join(parts)}."
        if heartbeats is None:
            return f"{text} Members learn of it by their next heartbeat: {name} may shorten it, for more requests."
        if heartbeats > NOTICED_S:
            return f"{text} {name} shortens the wait for a heartbeat, for more requests."
        return text

    def _without_reason(self, rebalance: Rebalance) -> str:
        """Sentences about a long wait: its parts are known, its reason is not."""
        parts, _ = waits_of(rebalance, self.names)
        return f"why knows no reason for this wait of {span(rebalance.seconds)}: {', '.join(parts)}."

    def _interval(self, rebalances: Sequence[Rebalance]) -> str:
        """A sentence about the longest wait for the assignment interval, empty if there was none."""
        waits = [phase.seconds for each in rebalances for phase in each.phases if phase.name == INTERVAL]
        longest = max(waits, default=0.0)
        if longest < NOTICED_S:
            return ""
        return f" Up to {span(longest)} was the wait for {self.history.kind}.assignment.interval.ms."

    @property
    def note(self) -> str:
        """A sentence beside the remedies about the wait for the assignment interval; empty if none is due."""
        settings = {each.setting for each in self.advice.remedies}
        is_said = f"{self.history.kind}.assignment.interval.ms" in settings
        return "" if is_said else self._interval(self.rebalances).strip()

    def findings_of(self, rebalance: Rebalance) -> list[Finding]:
        """Return the findings about one rebalance, the costliest first."""
        return [each for each in self.advice.findings if any(other is rebalance for other in each.rebalances)]

    def remedies_of(self, rebalance: Rebalance) -> list[Remedy]:
        """Return the remedies for one rebalance: for its findings; of a long one those without a finding too."""
        findings = self.findings_of(rebalance)
        codes = {each.code for each in self.advice.findings}
        is_long = isinstance(rebalance, Reconciliation) and rebalance.seconds > LONG_S
        return [
            remedy
            for remedy in self.advice.remedies
            if (is_long and remedy.code not in codes)
            or any(remedy.code == each.code and remedy.who in (each.client, *_SHARED) for each in findings)
        ]

    def lines_of(self, remedy: Remedy) -> list[str]:
        """Return the lines of a log that a remedy rests on: the first of each rebalance of its findings, a few."""
        of_code = (each for each in self.advice.findings if each.code == remedy.code)
        findings = [each for each in of_code if remedy.who in (each.client, *_SHARED)]
        rebalances = [each for finding in findings for each in finding.rebalances if each.lines]
        return [each.lines[0] for each in rebalances[:_LINES]]

    def advice_of(self, rebalance: Rebalance) -> str:
        """Return the sentence in place of remedies for one rebalance, if it has none."""
        if any(each is rebalance for finding in self.troubles for each in finding.rebalances):
            return "why knows no setting that would have spared this."
        if self._unexplained(rebalance) > LONG_S:
            return self._without_reason(rebalance)
        return f"{self._nothing} joining and leaving cost this rebalance.{self._interval([rebalance])}"

    def reason(self, rebalance: Rebalance) -> str:
        """Return the cause of a rebalance, as a clause."""
        if not rebalance.cause and rebalance.lines:
            return unsaid(rebalance.lines[0])
        if rebalance.by_test:
            return ENDED_BY_TEST.format(who=self.who(rebalance.trigger))
        return clause(rebalance.cause, self.who(rebalance.trigger), self.history.protocol_type)

    def who(self, member_id: str) -> str:
        """Return a member's name, with its host if it is known."""
        if not member_id:
            return "nobody"
        host = self.history.members[member_id].client_host.lstrip("/") if member_id in self.history.members else ""
        return f"{self.names(member_id)} ({host})" if host else self.names(member_id)

    @property
    def verdict(self) -> str:
        """The summary, in one sentence."""
        findings = self.advice.findings
        head = self._head()
        if not findings:
            return f"{head}."
        return f"{head}: {'; and '.join(self._clauses())}."

    def _clauses(self) -> list[str]:
        """The clauses of the costliest findings; the number of rebalances without a cause, if others have one."""
        findings = self.advice.findings
        causes = [each for each in findings if each.code != Diagnosis.UNKNOWN]
        unknown = [each for each in findings if each.code == Diagnosis.UNKNOWN]
        if not causes:
            return [clause_of(each) for each in unknown]
        troubles = [each for each in causes if each.is_trouble]
        clauses = [clause_of(each) for each in (troubles[: 2 - len(unknown)] or causes[:1])]
        among = f"for {len(unknown[0].rebalances)} of them " if unknown and len(self.rebalances) > 1 else ""
        return clauses + [among + clause_of(each) for each in unknown]

    def _head(self) -> str:
        is_whole = not self.history.missing.has_gaps
        if not self.rebalances:
            return "It did not rebalance" if is_whole else NO_REBALANCE_SHOWS
        count = len(self.rebalances)
        seconds = max(each.started + each.seconds for each in self.rebalances) - self.rebalances[0].started
        least = "" if is_whole else "at least "
        if self.storm:
            return f"STORM: {least}{count} rebalances in {span(seconds)}"
        return f"Rebalanced {least}once" if count == 1 else f"Rebalanced {least}{count} times in {span(seconds)}"


_LINES: Final = 5
_SHARED: Final = ("all", "broker")
"""The side of a remedy that is for no single member."""


def _waited(rebalance: Rebalance) -> float:
    """Return the seconds of a rebalance without its initial delay."""
    return 0.0 if rebalance.initial else rebalance.seconds


def explain(history: GroupHistory, rebalances: Sequence[Rebalance], play: Play | None = None) -> Explanation | None:
    """Explain these rebalances of a group; None if there are none and no request was refused."""
    outside = history.refusals.refused or history.refusals.commits or history.holders.of or fights_of(history)
    if not rebalances and not outside:
        return None
    tell_apart(history)
    names = names_of(history)
    patterns = _patterns(history, rebalances, names)
    # If the group was of another kind before, the advice is for its present kind.
    alike = [each for each in rebalances if isinstance(each, Reconciliation) is (history.epochs is not None)]
    advise_it = advise if history.epochs is None else advise_consumer_group
    advice = advise_it(history, alike, names, play)
    shut_down = {
        id(each) for finding in advice.findings if finding.code == Diagnosis.SHUTDOWN for each in finding.rebalances
    }
    return Explanation(
        history=history,
        rebalances=tuple(rebalances),
        patterns=patterns,
        advice=advice,
        names=names,
        storm=_is_storm([each for each in rebalances if id(each) not in shut_down]),
        limits=limits_of(history, rebalances, advice.findings, names),
    )


def _is_storm(rebalances: Sequence[Rebalance]) -> bool:
    """True for six or more rebalances close together, unless members only join, or only leave, one after the other."""
    together: list[Rebalance] = []
    for each in rebalances:
        if each.initial or each.cause == Cause.COOPERATIVE_FOLLOWUP:
            continue
        if together and each.started - together[-1].started - together[-1].seconds > STORM_GAP_S:
            together = []
        together.append(each)
        turns = [sum(each.cause not in causes for each in together) for causes in (_GROWS, _SHRINKS)]
        if len(together) >= STORM_REBALANCES and min(turns) >= _TURNS:
            return True
    return False


def _patterns(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> tuple[Pattern, ...]:
    by_cause: dict[tuple[str, str], list[Rebalance]] = {}
    for each in rebalances:
        if each.trigger in history.members and not each.initial and not each.by_test:
            client = client_of(history.members[each.trigger])
            by_cause.setdefault((each.cause, client), []).append(each)
    patterns = []
    for (cause, _), same in by_cause.items():
        if len(same) >= _PATTERN and cause != Cause.COOPERATIVE_FOLLOWUP:
            gaps = sorted(b.started - a.started for a, b in pairwise(same))
            member = history.members[same[0].trigger]
            who = member.instance_id or member.client_id or names(member.member_id)
            period = gaps[len(gaps) // 2]
            lines = (*same[0].lines[:1], *same[-1].lines[-1:])
            patterns.append(Pattern(cause, who, len(same), period, same[0].first_seq, same[-1].last_seq, lines))
    # The cause of a member's departure also explains its return.
    patterns.sort(key=lambda pattern: (pattern.cause == Cause.NEW_MEMBER, -pattern.count))
    return tuple(patterns)


# As JSON


def as_json(explanation: Explanation, most: int | None = None) -> dict[str, Any]:
    """Return the whole explanation as JSON, but of the rebalances only the newest, at `most` so many. Times are seconds
    of Unix time, durations are seconds.
    """
    history, rebalances = explanation.history, explanation.rebalances
    rebalances = rebalances if most is None else rebalances[-most:]
    return {
        "group": history.group,
        "kind": history.kind,
        "state": history.state,
        "generation": history.generation,
        "protocol": history.protocol,
        "verdict": explanation.verdict,
        "storm": explanation.storm,
        "patterns": [vars(pattern) for pattern in explanation.patterns],
        "rebalances": [_rebalance_json(explanation, each) for each in rebalances],
        "findings": [_finding_json(each) for each in explanation.advice.findings],
        "remedies": [
            _remedy_json(each) | {"lines": explanation.lines_of(each)} for each in explanation.advice.remedies
        ],
        "calm": explanation.calm,
        "advice": "" if explanation.advice.remedies else explanation.advice_text,
        "would_not_help": list(explanation.advice.would_not_help),
        "cannot_tell": list(explanation.limits),
        "missing": list(history.missing.sentences),
    } | ({} if history.epochs is None else _epochs_json(history.epochs, history))


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "trouble": finding.is_trouble,
        "client": finding.client,
        "members": list(finding.members),
        "text": clause_of(finding),
        "count": finding.count,
        "cost": finding.cost,
        "generations": [each.generation for each in finding.rebalances],
    }


def _remedy_json(remedy: Remedy) -> dict[str, Any]:
    return {
        name: getattr(remedy, name)
        for name in ("who", "side", "setting", "seen", "proposed", "why", "grade", "price", "code")
    } | {
        "sources": list(remedy.sources),
        "before": None if remedy.before is None else remedy.before._asdict(),
        "after": None if remedy.after is None else remedy.after._asdict(),
    }


def _epochs_json(epochs: Epochs, history: GroupHistory) -> dict[str, Any]:
    """Return the members of a group with epochs with their assignments, and the members that its reconciliation waits
    for.
    """
    return {
        "members": {
            member_id: {
                "epoch": epochs.has(member_id).epoch,
                "state": epochs.has(member_id).state,
                "assigned": by_topic(epochs.has(member_id).assigned),
                "revoking": by_topic(epochs.has(member_id).revoking),
                "target": by_topic(epochs.target_of(member_id)),
                "waits_for": epochs.has(member_id).waits_for,
            }
            for member_id in history.present
        },
        "waiting": [{"member": member_id or None, "what": what} for member_id, what in epochs.waiting()],
    }


def _rebalance_json(explanation: Explanation, each: Rebalance) -> dict[str, Any]:
    return {
        "generation_before": each.generation_before,
        "generation": each.generation,
        "started": each.started,
        "over": each.over,
        "seconds": None if each.is_snapshot else each.seconds,
        "cause": each.cause or None,
        "trigger": each.trigger or None,
        "reason": explanation.reason(each),
        "initial": each.initial,
        "eager": each.eager,
        "inferred": each.inferred,
        "phases": [{"name": phase.name, "seconds": phase.seconds, "members": phase.members} for phase in each.phases],
        "joins": [{"member": join.member_id, "seconds": join.seconds, "called": join.called} for join in each.joins],
        "slow": None if each.slow is None else each.slow.member_id,
        "dropped": each.dropped,
        "moved": None if each.moved is None else {"moved": each.moved.moved, "needed": each.moved.needed},
        "member_seconds": each.member_seconds,
        "partition_seconds": None if each.lacks_standstill else each.partition_seconds,
        "faults": each.faults,
        "findings": [
            {
                "code": finding.code,
                "client": finding.client,
                "text": clause_of(finding, each),
                "trouble": finding.is_trouble,
            }
            for finding in explanation.findings_of(each)
        ],
        "remedies": (remedies := [_remedy_json(remedy) for remedy in explanation.remedies_of(each)]),
        "advice": "" if remedies else explanation.advice_of(each),
        "first_seq": each.first_seq,
        "last_seq": each.last_seq,
        "lines": each.lines,
    } | (
        {
            "assignor": each.protocol,
            "waits": [{"member": wait.member_id, "for": wait.holder} for wait in each.waits],
        }
        if isinstance(each, Reconciliation)
        else {}
    )
