"""The places that each table and each answer is computed from, so that a run can compute a single one of them.

Steps wait for these places; places of raw rows come from the lines of a trace and from segments, before all steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from kafka_shim.pipeline.schemas import PLACES, STEADY, TABLES

_HISTORY: Final = ("trace_history", "log_history")
_EVENTS: Final = ("events", "lives")

TABLE_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "lives": ("events",),
    "membership": _EVENTS,
    "rounds": _EVENTS,
    "assignments": _EVENTS,
    "ownership": _EVENTS,
    "partition_pauses": ("ownership",),
    "member_pauses": ("requests",),
    "commits": ("commit_events",),
    "trace_gaps": ("events", "requests", "commit_events", "renewals"),
    "trace_history": (*_EVENTS, "commit_events", "requests"),
    "lag": ("events", "requests", *_HISTORY),
    "violations": (*_EVENTS, "requests", "commit_events", "renewals", "membership", "ownership", *_HISTORY),
}
"""By place of a derived table."""

ANSWER_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "storms": ("rounds",),
    "blame": ("rounds", "membership"),
    "causes": ("rounds",),
    "cost": ("rounds", "member_pauses", "partition_pauses"),
    "migration": ("rounds", "membership", "partition_pauses"),
    "heartbeat_gaps": ("requests", "renewals"),
    "descriptions": ("rounds", "requests"),
    "regressions": _HISTORY,
    "commit_gaps": _HISTORY,
    "agreement": _HISTORY,
    "replays": ("migration", "membership", "ownership", "requests"),
}
"""By answer."""

LINES: Final = {
    "others": ("events", "requests", *STEADY.values(), "trace_quarantine"),
    "commits": (STEADY["events"], "trace_quarantine"),
    "renewals": (STEADY["requests"], "trace_quarantine"),
}
"""By kind of lines of a trace (`kafka_shim.pipeline.decode.events.Lines`): the places of their rows.

The kind is that of the line by its looks: a commit that another program has formatted is among the others.
"""


def places_for(questions: Iterable[str]) -> frozenset[str]:
    """Return the places and answers to compute for these tables and answers. Raises ValueError for another name."""
    chosen: set[str] = set()
    for name in questions:
        if name not in TABLES and name not in ANSWER_NEEDS:
            raise ValueError(f"there is no question {name}: there are {', '.join(sorted({*TABLES, *ANSWER_NEEDS}))}")
        _add(chosen, [place for place, table in PLACES.items() if table == name] or [name])
    return frozenset(chosen)


def _add(chosen: set[str], names: Collection[str]) -> None:
    for name in names:
        if name not in chosen:
            chosen.add(name)
            _add(chosen, ANSWER_NEEDS.get(name) or TABLE_NEEDS.get(name, ()))
