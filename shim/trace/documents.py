"""Generator of `docs/trace.md` from the schema. `kafka_shim.groups.documents` writes the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kafka_shim.trace import causes, schema
from kafka_shim.trace.events import SCHEMA_VERSION


def trace_page() -> str:
    """Return the page of the trace's schema."""
    return page(
        "# The trace",
        "A trace is the record of a run: every request, answer, change of a group and timer, with its time. This page"
        " lists its events and their fields, and is generated from `shim/trace/events.py` and `shim/trace/causes.py`"
        " by `python -m kafka_shim.groups.documents docs`.",
        f"`kafka-shim serve --trace PATH` writes JSON Lines, one event a line, schema version {SCHEMA_VERSION}."
        " A reader ignores unknown fields and events; fields and events keep their meaning within a"
        " version.",
        'An `exchange` of OffsetCommit has the `partitions` of a topic by field, as `{"partition_index": [0, 1],'
        ' "committed_metadata": ["", ""], ...}`, in `request` and in `answer`; but for the names of topics, no field'
        " that its version lacks; and offsets only if the answer has an error, as the `commit` event before has those"
        " that were accepted. That is all that version 2 changed: in version 1 it was as all other exchanges are"
        " still, which have an array of objects, and the fields of all versions.",
        "Every event has",
        _fields(schema.EVERY_EVENT),
        *RECORDED,
        _fields(schema.OF_A_RELAY),
        *FROM_LOGS,
        _fields(schema.OF_A_LOG),
        "## Terms",
        "\n".join(f"- {term}" for term in TERMS),
        "## Events",
        *(part for name, event in schema.EVENTS.items() for part in _event(name, event)),
        "## Causes",
        "Every rebalance has exactly one. The set is closed.",
        table(["cause", "what happened"], ([f"`{cause}`", causes.MEANING[cause]] for cause in causes.Cause)),
    )


TERMS: Final = (
    "A *round* starts when a group enters PreparingRebalance and ends when it is Stable. The `round` event comes at the"
    " end of its first half, when the joins are answered, and `assignment` at its end.",
    "The first member in `waited_for` joined last: it is the *blame* for a round's first half. The leader's time for"
    " the assignment is `leader_ms`.",
    "A member's *pause*, as far as a coordinator sees it, lasts from the arrival of its JoinGroup to the answer of its"
    " SyncGroup, which are `arrived` and `mono` of two `exchange` events.",
)

RECORDED: Final = (
    "## Recorded in front of a real cluster",
    "`kafka-shim trace record --upstream HOST:PORT` writes the same events from outside: clients of a real"
    " cluster connect through it. Its `exchange` events are the observed requests; `end_offsets` come from answers to"
    " ListOffsets and Fetch. The events of a coordinator are inferred: `member`, `round`, `assignment`, `commit`"
    " and `group`, and of consumer, share and streams groups `epoch`, `target`, `reconciliation` and `state`. A classic"
    " group has no `state` event, and there is no `timer`, `parked` or `partition` event.",
    "- The cause of a round is its first sign: a new member joins, a member joins again, one leaves, or one was"
    " silent for its session timeout and is not in the next generation. If the first sign is REBALANCE_IN_PROGRESS (27)"
    " in an answer, the trigger did not pass the relay, and `cause` is empty.\n"
    "- `started` is when that sign came, or when the session timeout was over. `waited_for` has the members whose"
    " JoinGroup came through the relay; `members` all in the answer to the leader.\n"
    "- The event of a member that goes comes when the next round ends. A group is `expired` when a lower"
    " generation begins after its last member left.\n"
    "- Of groups with epochs: a member that joins, leaves or changes its subscription starts an epoch, and so does"
    " one that receives UNKNOWN_MEMBER_ID (25). An epoch in answers without such a trigger is attributed to a member"
    " that did not revoke partitions within its rebalance timeout, or missed three heartbeats, the longest silent"
    " first, since session timeouts are not visible; else to topics, if an answer has partitions that no member had"
    " before; else its `cause` is empty.\n"
    "- There are two `target` events of an epoch: the first, when it was computed, has no assignments, and the second,"
    " when the group is stable, those of all members. A member waits (`UNRELEASED_PARTITIONS`) if it has fewer"
    " partitions of its topics than Kafka's assignors give it; it waits for members that have to revoke some, or"
    " have not received the epoch.\n"
    "- `partition` of a `commit` or `group` event is -1 and `rule` is empty, or with epochs the kind of the group:"
    " their other values are not visible from outside. `node` is -1"
    " on a connection to the bootstrap address whose broker is not clear. The `release` of the first"
    " line is empty, and its `nodes` are those seen by then.",
    "Such an event also has",
)

FROM_LOGS: Final = (
    "## From the logs of brokers and from `__consumer_offsets`",
    "`kafka-shim trace from-log FILES` writes the same events from the lines of a broker's log, without requests:"
    " `member`, `group`, of classic groups `state`, `round` and `assignment`, of groups with epochs `epoch` and"
    " `target`.",
    "- A field that a log lacks is empty: `protocol`, `assignments`, `waited_for`, the `run`, `release` and `nodes` of"
    " the first line. `generation` is -1 if it is unknown, and `cause` is empty if no line has it. `mono` is `wall`,"
    " and `rule` is empty.\n"
    "- `members` of a `round` are those that lines have named since the log began; `size` is their number, which Kafka"
    " has logged since 2.8. `dropped` has members that did not rejoin, and those whose end let the round end.\n"
    "- A log has no client id: `client_id` is the part of the member id before the UUID. The new id of a static member"
    " that was replaced is in no line of Kafka 3.0 and later unless a rebalance began: its event has the old id.\n"
    "- Logs of clients add `exchange` events, with the few fields that a line has: joins, and requests that were"
    " refused.\n"
    "- `kafka-shim trace from-offsets` writes them from the records of `__consumer_offsets`. A classic group has one"
    " record for each generation, so `started` of its `round` is `ended`; groups with epochs have `reconciliation` too,"
    " and `assignor` is empty unless a member names it. `change` of a member that is no more there is `gone`, and the"
    " cause MEMBER_GONE. A `group` that is `deleted` may have expired.",
    "Such an event also has",
)


def _event(name: str, event: schema.Described) -> tuple[str, str, str]:
    return f"### `{name}`", event.when, _fields(event.fields)


def _fields(fields: Iterable[schema.EventField]) -> str:
    return table(
        ["field", "type", "meaning"],
        ([f"`{each.name}`", each.type.replace("|", " or "), each.meaning] for each in fields),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def page(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"
