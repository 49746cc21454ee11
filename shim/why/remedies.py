"""Remedies: a setting, its values and its reason; and the simulation that shows whether it would have helped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafka_shim.why.finding import Finding
from kafka_shim.why.past import Change, Past

REPLAYED: Final = "replayed"
LIKELY: Final = "likely"
CANNOT_SEE: Final = "cannot see"

PROCESS: Final = "the process itself"
PROCESSING: Final = "the work between two polls, and in rebalance callbacks"
ASSIGNOR: Final = "the leader's assignor"
INITIAL_DELAY: Final = "group.initial.rebalance.delay.ms"
MAX_SIZE: Final = "group.max.size"
REMOTE_ASSIGNOR: Final = "group.remote.assignor"
RIGHTS: Final = "the rights of the client"
PROTOCOL: Final = "group.protocol"
UPGRADE: Final = "the version"


_UNALIKE: Final = 1
"""A simulation of the past as it was may have so many rebalances more or fewer than were seen."""


class Played(NamedTuple):
    """Result of a simulation: rebalances, moved partitions, and partition-seconds without an owner; and the members
    that the broker refused, as its limits demand.
    """

    rebalances: int
    moved: int
    partition_seconds: float
    refused: int = 0


Play = Callable[[Past], Played]
"""Simulates a past."""


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """Change `setting` of `who`, on `side` (client, broker or operator), from `seen` to `proposed`; `why` is one
    sentence.

    `grade` is its certainty: replayed, likely, or cannot see. `before` and `after` are the compared simulations. `key`
    is the setting by Kafka's name, `code` the finding that calls for it. An `optional` remedy is dropped if its
    simulation is not better.
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
    key: str = ""
    code: str = ""
    optional: bool = False
    sources: tuple[str, ...] = ()
    """Addresses of its sources, for a known fault."""


@dataclass(frozen=True)
class Advice:
    """Findings, the costliest first; their remedies in the same order; and settings that `would_not_help`."""

    findings: tuple[Finding, ...]
    remedies: tuple[Remedy, ...]
    would_not_help: tuple[str, ...]


def judge(remedies: Sequence[Remedy], past: Past, play: Play | None) -> list[Remedy]:
    """Simulate the remedies that have a `Change`. One that is not better is only likely, or dropped if optional. An
    optional one that no finding calls for needs the proof of the simulation. Nothing is proved if the past, simulated
    as it was, has other rebalances than were seen, or if the change makes the broker refuse a member.
    """
    if play is None or not past.stays or not past.topics:
        return [each for each in remedies if each.code or not each.optional or each.change is None]
    before = play(past) if any(remedy.change for remedy in remedies) else None
    is_alike = before is None or past.seen is None or abs(before.rebalances - past.seen) <= _UNALIKE
    judged = []
    for remedy in remedies:
        if remedy.change is None or before is None:
            judged.append(remedy)
            continue
        after = play(past.changed(remedy.change))
        quieter = after.rebalances < before.rebalances and after.partition_seconds <= 1.05 * before.partition_seconds
        shorter = after.rebalances <= before.rebalances and after.partition_seconds < 0.9 * before.partition_seconds
        is_better = after.rebalances > 0 and after.refused <= before.refused and (quieter or shorter)
        if is_better and is_alike:
            judged.append(replace(remedy, grade=REPLAYED, before=before, after=after))
        elif not remedy.optional or (is_better and remedy.code):
            judged.append(remedy)
    return judged


def process(finding: Finding, *, seen: str, proposed: str, why: str) -> list[Remedy]:
    """Send the reader to the process: no setting helps."""
    return [
        Remedy(
            who=finding.client,
            side="operator",
            setting=PROCESS,
            key="process",
            seen=seen,
            proposed=proposed,
            why=why,
            grade=CANNOT_SEE,
        )
    ]


def span(seconds: float) -> str:
    """Format a duration for people."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < 5970:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def round_ms(ms: float) -> int:
    """Round up to two digits, as people write settings."""
    digit = 1
    while ms / digit > 100:
        digit *= 10
    return int(-(-ms // digit)) * digit
