"""The answer to "why did it rebalance": a verdict, the last rebalances, patterns, and what to do.

Decides what of a history is told and in which order: the verdict in a sentence first, then evidence with sequence
numbers. `text.py` and `as_json` say the same in two forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from kafka_shim.groups.causes import Cause
from kafka_shim.why.advice import Advice, Play, advise
from kafka_shim.why.causes import clause
from kafka_shim.why.epochs import Epochs
from kafka_shim.why.history import GroupHistory
from kafka_shim.why.moves import by_topic
from kafka_shim.why.names import Names
from kafka_shim.why.past import client_of
from kafka_shim.why.rebalance import Rebalance
from kafka_shim.why.reconciliation import Reconciliation
from kafka_shim.why.reconciliation_advice import advise as advise_consumer_group

STORM_REBALANCES: Final = 6
STORM_GAP_S: Final = 120.0
"""Rebalances at most this far apart belong together; so has it `pipeline/jobs/rebalances.py`."""
_GROWS: Final = frozenset({Cause.NEW_MEMBER})
_SHRINKS: Final = frozenset({Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED})
_TURNS: Final = 2
"""So many of a storm are not that a member comes, and so many not that one goes."""
_PATTERN: Final = 3


@dataclass(frozen=True)
class Pattern:
    """The same client brought about a rebalance for the same cause `count` times, every `period` seconds (median)."""

    cause: str
    who: str
    count: int
    period: float
    first_seq: int
    last_seq: int


@dataclass(frozen=True)
class Explanation:
    """Of one group: the rebalances in question, oldest first, and what they amount to."""

    history: GroupHistory
    rebalances: tuple[Rebalance, ...]
    patterns: tuple[Pattern, ...]
    advice: Advice
    names: Names
    storm: bool

    @property
    def last(self) -> Rebalance:
        """The newest rebalance."""
        return self.rebalances[-1]

    def reason(self, rebalance: Rebalance) -> str:
        """Why a rebalance happened, as a clause."""
        return clause(rebalance.cause, self.who(rebalance.trigger))

    def who(self, member_id: str) -> str:
        """A member's name, with its host where it is known."""
        if not member_id:
            return "nobody"
        host = self.history.members[member_id].client_host.lstrip("/") if member_id in self.history.members else ""
        return f"{self.names(member_id)} ({host})" if host else self.names(member_id)

    @property
    def verdict(self) -> str:
        """What it amounts to, in a sentence."""
        count = len(self.rebalances)
        seconds = self.rebalances[-1].started - self.rebalances[0].started
        times = "once" if count == 1 else f"{count} times in {span(seconds)}"
        head = f"STORM: {count} rebalances in {span(seconds)}" if self.storm else f"Rebalanced {times}"
        if self.patterns:
            pattern = self.patterns[0]
            return f"{head}, {pattern.count} of them because {clause(pattern.cause, pattern.who)}."
        slow = Counter(each.slow.member_id for each in self.rebalances if each.slow is not None)
        if count > 1 and slow:
            member, rounds = slow.most_common(1)[0]
            if self.history.epochs is not None:
                return f"{head}; {self.names(member)} was slow to give up partitions in {rounds} of them."
            waits = [each.slow.seconds for each in self.rebalances if each.slow and each.slow.member_id == member]
            worst = f"{'' if rounds == 1 else 'up to '}{span(max(waits))}"
            return f"{head}; {self.names(member)} joined last in {rounds} of them, after {worst}."
        return f"{head}, last because {self.reason(self.last)}."


def explain(history: GroupHistory, rebalances: Sequence[Rebalance], play: Play | None = None) -> Explanation | None:
    """Why the group rebalanced these times; None if it never did."""
    if not rebalances:
        return None
    names = Names()
    for member_id, member in history.members.items():
        names.introduce(member_id, member.instance_id or member.client_id)
        names(member_id)
    patterns = _patterns(history, rebalances, names)
    # A group that was of another kind before is helped as the kind it is.
    alike = [each for each in rebalances if isinstance(each, Reconciliation) is (history.epochs is not None)]
    advise_it = advise if history.epochs is None else advise_consumer_group
    advice = advise_it(history, alike, names, play)
    return Explanation(
        history=history,
        rebalances=tuple(rebalances),
        patterns=patterns,
        advice=advice,
        names=names,
        storm=_is_storm(rebalances),
    )


def _is_storm(rebalances: Sequence[Rebalance]) -> bool:
    """Whether there are six or more together. Members that only come, or only go, one after the other, are none."""
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
    found: dict[tuple[str, str], list[Rebalance]] = {}
    for each in rebalances:
        if each.trigger in history.members and not each.initial:
            client = client_of(history.members[each.trigger])
            found.setdefault((each.cause, client), []).append(each)
    patterns = []
    for (cause, _), same in found.items():
        if len(same) >= _PATTERN and cause != Cause.COOPERATIVE_FOLLOWUP:
            gaps = sorted(b.started - a.started for a, b in pairwise(same))
            member = history.members[same[0].trigger]
            who = member.instance_id or member.client_id or names(member.member_id)
            period = gaps[len(gaps) // 2]
            patterns.append(Pattern(cause, who, len(same), period, same[0].first_seq, same[-1].last_seq))
    # What made a member go explains that it came back.
    patterns.sort(key=lambda pattern: (pattern.cause == Cause.NEW_MEMBER, -pattern.count))
    return tuple(patterns)


def span(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < 5970:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


# As JSON


def as_json(explanation: Explanation) -> dict[str, Any]:
    """All of an explanation as JSON has it. Times are seconds of Unix time, lengths are seconds."""
    history = explanation.history
    return {
        "group": history.group,
        "kind": history.kind,
        "state": history.state,
        "generation": history.generation,
        "protocol": history.protocol,
        "verdict": explanation.verdict,
        "storm": explanation.storm,
        "patterns": [vars(pattern) for pattern in explanation.patterns],
        "rebalances": [_rebalance_json(explanation, each) for each in explanation.rebalances],
        "remedies": [
            {
                name: getattr(remedy, name)
                for name in ("who", "side", "setting", "seen", "proposed", "why", "grade", "price")
            }
            | {
                "before": None if remedy.before is None else remedy.before._asdict(),
                "after": None if remedy.after is None else remedy.after._asdict(),
            }
            for remedy in explanation.advice.remedies
        ],
        "would_not_help": list(explanation.advice.would_not_help),
    } | ({} if history.epochs is None else _epochs_json(history.epochs, history))


def _epochs_json(epochs: Epochs, history: GroupHistory) -> dict[str, Any]:
    """Of a consumer group: what each member has and is to have, and whom its reconciliation waits for."""
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
        "seconds": each.seconds,
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
        "partition_seconds": each.partition_seconds,
        "faults": each.faults,
        "first_seq": each.first_seq,
        "last_seq": each.last_seq,
    } | (
        {
            "assignor": each.protocol,
            "waits": [{"member": wait.member_id, "for": wait.holder} for wait in each.waits],
        }
        if isinstance(each, Reconciliation)
        else {}
    )
