"""`docs/states.md` and `docs/trace.md`, written from the tables they describe.

Decides only how the tables look on a page. Run `python -m kafka_shim.groups.documents DOCS_FOLDER` after a change; a
test checks that the committed pages are fresh.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from kafka_shim.groups import causes, trace
from kafka_shim.groups.classic.states import COUNTED, ERRORS, GUARDS, MEANING, RULES, TRANSITIONS, Rule, State


def states_page() -> str:
    """The classic group's state machine."""
    return _page(
        "# States of a classic group",
        "Generated from `shim/groups/classic/states.py` by `python -m kafka_shim.groups.documents docs`.",
        "A group is made Empty. From where it may go where, and what brings it there;"
        " [the page](page.md#states-rules-and-timers) of a server draws the same, with the state that a group is in and"
        " the rules behind each arrow:",
        "![The states of a classic group, each arrow with what leads along it]"
        "(pictures/page-machine-classic-light.webp)",
        _table(
            ["from", "to"],
            (
                [before.value, ", ".join(after.value for after in State if after in TRANSITIONS[before])]
                for before in State
            ),
        ),
        "What a request or a timer does, by the state it finds the group in.",
        _table(
            ["trigger", *(state.value for state in State)],
            ([trigger.value, *(f"`{rule.value}`" for rule in row.values())] for trigger, row in RULES.items()),
        ),
        "## Guards",
        "What is refused whatever the state, unless the group is Dead.",
        _table(["where", "what is refused", "requests"], GUARDS),
        "What counts towards `group.max.size`; whoever is counted already has room.",
        _table(list(COUNTED), [[counted.value for counted in COUNTED.values()]]),
        "## Rules",
        "The names are those of the field `rule` in the trace. A *round* is the join round under way in"
        " PreparingRebalance; *the initial one* is that of a group that was Empty.",
        _table(
            ["rule", "error", "what it does"],
            ([f"`{rule.value}`", str(int(ERRORS[rule])), MEANING[rule]] for rule in Rule),
        ),
    )


def trace_page() -> str:
    """The trace's schema."""
    return _page(
        "# The trace",
        "Generated from `shim/groups/trace.py` and `shim/groups/causes.py`"
        " by `python -m kafka_shim.groups.documents docs`.",
        f"`kafka-shim serve --trace PATH` writes JSON Lines, one event a line, schema version {trace.SCHEMA_VERSION}."
        " A reader ignores fields and events it does not know; what is here does not change its meaning within a"
        " version.",
        'An `exchange` of OffsetCommit has the `partitions` of a topic by field, as `{"partition_index": [0, 1],'
        ' "committed_metadata": ["", ""], ...}`, in `request` and in `answer`; but for the names of topics, no field'
        " that its version lacks; and offsets only if the answer has an error, as the `commit` event before has those"
        " that were accepted. That is all that version 2 changed: in version 1 it was as all other exchanges are"
        " still, which have an array of objects, and the fields of all versions.",
        "Every event has",
        _fields(trace.EVERY_EVENT),
        *RECORDED,
        _fields(trace.OF_A_RELAY),
        "## Terms",
        "\n".join(f"- {term}" for term in TERMS),
        "## Events",
        *(part for name, event in trace.EVENTS.items() for part in _event(name, event)),
        "## Causes",
        "Every rebalance has exactly one. The set is closed.",
        _table(["cause", "what happened"], ([f"`{cause}`", causes.MEANING[cause]] for cause in causes.Cause)),
    )


TERMS: Final = (
    "A *round* starts when a group enters PreparingRebalance and ends when it is Stable. The `round` event comes at the"
    " end of its first half, when the joins are answered, and `assignment` at its end.",
    "The *blame* for a round's first half is the member first in `waited_for`: it joined last. The leader's time to"
    " think is `leader_ms`.",
    "A member's *pause*, as far as a coordinator sees it, lasts from the arrival of its JoinGroup to the answer of its"
    " SyncGroup, which are `arrived` and `mono` of two `exchange` events.",
)

RECORDED: Final = (
    "## Recorded in front of a real cluster",
    "`kafka-shim trace record --upstream HOST:PORT` writes the same events from outside: it is a hop that clients of a"
    " real cluster go through. Its `exchange` events are what went by, and so are `end_offsets`, from answers of"
    " ListOffsets and Fetch. The events of a coordinator are concluded: `member`, `round`, `assignment`, `commit`"
    " and `group`, and of consumer, share and streams groups `epoch`, `target`, `reconciliation` and `state`. A classic"
    " group has no `state` event, and there is no `timer`, `parked` or `partition` event.",
    "- The cause of a round is the first sign of it: somebody new joins, a member joins again, one leaves, or has been"
    " silent for its session timeout and is not in the next generation. If the first sign is REBALANCE_IN_PROGRESS (27)"
    " in an answer, what began the round did not come through the relay, and `cause` is empty.\n"
    "- `started` is when that sign came, or when the session timeout was over. `waited_for` has the members whose"
    " JoinGroup came through the relay; `members` all in the answer to the leader.\n"
    "- The event of a member that goes comes when the next round ends. A group is `expired` when a lower"
    " generation begins and nobody was left in it.\n"
    "- Of groups with epochs: a member that joins, leaves or subscribes to something else makes an epoch, and so does"
    " one that hears UNKNOWN_MEMBER_ID (25). An epoch of which answers speak and that nothing of the kind made is put"
    " down to a member that did not give partitions up in its rebalance timeout, or left out three heartbeats, the"
    " longest silent first, since how long a session is does not show; else to topics, if an answer has partitions"
    " that nobody had before; else its `cause` is empty.\n"
    "- There are two `target` events of an epoch: the first, when it was computed, has no assignments, and the second,"
    " when the group has come to rest, those of all members. A member waits (`UNRELEASED_PARTITIONS`) if it has fewer"
    " partitions of its topics than Kafka's assignors give it; whom for are those who are to give some up, or have"
    " not heard of the epoch.\n"
    "- `partition` of a `commit` or `group` event is -1 and `rule` is empty, or with epochs the kind of the group:"
    " what else they would say does not show from outside. `node` is -1"
    " on a connection to the bootstrap address whose broker is not clear. The `release` of the first"
    " line is empty, and its `nodes` are those seen by then.",
    "Such an event also has",
)

PAGES: Final[dict[str, Callable[[], str]]] = {"states.md": states_page, "trace.md": trace_page}
"""Every generated page, by its name in the documentation's folder."""


def _event(name: str, event: trace.Event) -> tuple[str, str, str]:
    return f"### `{name}`", event.when, _fields(event.fields)


def _fields(fields: Iterable[trace.EventField]) -> str:
    return _table(
        ["field", "type", "meaning"],
        ([f"`{name}`", type_.replace("|", " or "), meaning] for name, type_, meaning in fields),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _page(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for page_name, page in PAGES.items():
        (Path(sys.argv[1]) / page_name).write_text(page())
