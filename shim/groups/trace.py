"""Trace events: the schema of every one of them.

Decides what an event says. It does not know who emits one: rules build theirs in `events.py`, `offset_events.py` and in
the folder of their kind of group; sequence number and times are put on by the sink. `docs/trace.md` is generated from
`EVENTS`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kafka_shim.apis.consumer_protocol import assignment_from_bytes

SCHEMA_VERSION: Final = 2


class EventField(NamedTuple):
    """A field of an event: its JSON type, `|null` where it may be null, and what it says."""

    name: str
    type: str
    meaning: str


class Event(NamedTuple):
    """A kind of event: when it is emitted, and its fields."""

    when: str
    fields: tuple[EventField, ...]


_F = EventField
_GROUP = _F("group", "string", "group id")
_PARTITION = _F("partition", "integer", "partition of `__consumer_offsets`")
_RULE = _F("rule", "string", "the rule that decided, as named in `docs/states.md`")
_GENERATION = _F("generation", "integer", "generation after the event")
_CAUSE = _F("cause", "string", "why the group rebalanced, one of the causes below")
_TRIGGER = _F("trigger", "string", "id of the member that brought the rebalance about; empty if nobody did")

EVERY_EVENT: Final = (
    _F("event", "string", "kind of the event"),
    _F("seq", "integer", "sequence number in this trace, without gaps"),
    _F("mono", "number", "seconds on the coordinator's monotonic clock"),
    _F("wall", "number", "seconds of Unix time"),
)

OF_A_RELAY: Final = (_F("inferred", "boolean", "true: concluded from requests and answers; only a relay writes it"),)
"""Fields that events of `kafka-shim trace record` have beside their own, and no others."""

EVENTS: Final[dict[str, Event]] = {
    "trace": Event(
        "The first line of every file of a trace. A file that has grown to its limit is renamed to its name and a"
        " number, 1 for the oldest, and the next one begun.",
        (
            _F("schema", "integer", "version of this schema"),
            _F("run", "string", "which run of the coordinator it is, a random id"),
            _F("file", "integer", "number of the file in this run, from 1 on"),
            _F("release", "string", "the release of Kafka the coordinator poses as"),
            _F("nodes", "array", "objects of `node`, `host` and `port`, the brokers"),
        ),
    ),
    "exchange": Event(
        "A request was answered. `arrived` to `mono` is how long it took, time parked included.",
        (
            _F("conn", "integer", "number of the connection"),
            _F("node", "integer", "node id of the broker"),
            _F("api", "string", "name of the API"),
            _F("version", "integer", "version of the request"),
            _F("correlation_id", "integer", "correlation id of the request"),
            _F("client_id", "string", "client id of the request's header"),
            _F("group", "string|null", "group id, if the request has one"),
            _F("member", "string|null", "member id the request speaks for; that of the answer if it gave one out"),
            _F("arrived", "number", "when the request arrived, seconds on the monotonic clock"),
            _F("request", "object", "the request's fields; bytes as their length"),
            _F("answer", "object", "the answer's fields; bytes as their length"),
            _F("error", "integer", "error code of the answer, 0 for none"),
        ),
    ),
    "parked": Event(
        "A request was parked: its answer comes later, in an `exchange` of the same connection and correlation id.",
        (
            _F("conn", "integer", "number of the connection"),
            _F("node", "integer", "node id of the broker"),
            _F("api", "string", "name of the API"),
            _F("correlation_id", "integer", "correlation id of the request"),
            _F("group", "string", "group id"),
            _F("member", "string", "member id of the request"),
        ),
    ),
    "fault": Event(
        "A laboratory did something to a request, or to its answer, on purpose. What came of it follows.",
        (
            _GROUP,
            _F("member", "string", "member id the request speaks for, empty if it has none"),
            _F("client_id", "string", "client id of the request's header"),
            _F("conn", "integer", "number of the connection"),
            _F("api", "string", "name of the API"),
            _F("action", "string", "error, delay, drop, swallow, close, duplicate, half-open or slow"),
            _F("error", "integer", "the error code that was answered, 0 for none"),
        ),
    ),
    "partition": Event(
        "A partition of `__consumer_offsets` changed hands.",
        (
            _PARTITION,
            _F("node", "integer", "node id of the broker"),
            _F("change", "string", "loading, active, failed or unloaded"),
            _F("groups", "integer", "how many groups it has here"),
            _F("unknown_records", "integer", "records of unknown types that were skipped when loading"),
        ),
    ),
    "group": Event(
        "A group came or went.",
        (
            _GROUP,
            _PARTITION,
            _F("change", "string", "created, deleted, expired (Empty and without offsets), loaded or unloaded"),
            _F("state", "string", "its state"),
            _GENERATION,
            _F("members", "integer", "how many members it has"),
        ),
    ),
    "state": Event(
        "A group changed state. `cause` and `trigger` are those of the rebalance it is in.",
        (
            _GROUP,
            _F("from", "string", "state before"),
            _F("to", "string", "state after"),
            _GENERATION,
            _F("cause", "string|null", "why the group rebalances; null if it never did here"),
            _TRIGGER,
            _RULE,
        ),
    ),
    "member": Event(
        "A member came, went or changed its id.",
        (
            _GROUP,
            _F("member_id", "string", "member id"),
            _F("instance_id", "string|null", "group instance id of a static member"),
            _F("client_id", "string", "client id, empty where unknown"),
            _F("client_host", "string", "address of the client, empty where unknown"),
            _F(
                "change",
                "string",
                "pending (id handed out), added, replaced (took over a static member's place), fenced (lost it),"
                " left, expired, or removed (did not rejoin, had no room, or an admin client removed it)",
            ),
            _RULE,
        ),
    ),
    "round": Event(
        "A join round ended and the next generation began.",
        (
            _GROUP,
            _GENERATION,
            _CAUSE,
            _TRIGGER,
            _F("started", "number", "when the rebalance started, seconds on the monotonic clock"),
            _F("ended", "number", "when the round ended, seconds on the monotonic clock"),
            _F("waited_for", "array", "objects of `member_id` and `ms` from the start until it joined, longest first"),
            _F("dropped", "array", "ids of members that went during the round or did not rejoin"),
            _F("leader", "string", "member id of the leader"),
            _F("protocol", "string", "the protocol selected"),
            _F("members", "array", "ids of the generation's members"),
        ),
    ),
    "assignment": Event(
        "The leader handed in the assignments; the group is Stable.",
        (
            _GROUP,
            _GENERATION,
            _CAUSE,
            _TRIGGER,
            _F("leader", "string", "member id of the leader"),
            _F("leader_ms", "number", "milliseconds from the end of the round to the leader's SyncGroup"),
            _F(
                "assignments",
                "object",
                "by member id: partitions by topic if the protocol type is consumer, else the number of bytes",
            ),
        ),
    ),
    "epoch": Event(
        "A group epoch of a consumer group (KIP-848) began: a new target assignment is due.",
        (
            _GROUP,
            _F("generation", "integer", "the group epoch"),
            _F("cause", "string|null", "why"),
            _TRIGGER,
        ),
    ),
    "target": Event(
        "The target assignment of a consumer group (KIP-848) was computed: what each member is to have in the end.",
        (
            _GROUP,
            _F("generation", "integer", "the group epoch it is of"),
            _F("assignor", "string", "the assignor that made the assignment"),
            _F("assignments", "object", "by member id, of those whose target is another now: partitions by topic"),
        ),
    ),
    "reconciliation": Event(
        "A member of a consumer group (KIP-848) came nearer to its target assignment.",
        (
            _GROUP,
            _F("member_id", "string", "member id"),
            _F("generation", "integer", "its member epoch; -2 for a static member that is away"),
            _F("state", "string", "STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS or UNKNOWN"),
            _F("assigned", "object", "partitions it may use, by topic"),
            _F("revoking", "object", "partitions it is to give up first, by topic"),
            _F("waits_for", "array", "ids of members that have partitions it waits for"),
        ),
    ),
    "delegation": Event(
        "A member was requested to compute the target assignment of its group, or that came to something. Only a server"
        " with `--experimental client-assignors` has it; as all of the experiment, it may change within a version.",
        (
            _GROUP,
            _F("generation", "integer", "the group epoch that it is for"),
            _F("member_id", "string", "member id"),
            _F("assignor", "string", "the assignor of the member"),
            _F(
                "change",
                "string",
                "requested, prepared (it has fetched what it computes with), installed, timed out (after its rebalance"
                " timeout), member gone, or overtaken (the coordinator has assigned)",
            ),
        ),
    ),
    "timer": Event(
        "A timer was armed, fired or was cancelled. A heartbeat, which only moves a deadline, does not show here.",
        (
            _F("change", "string", "armed, fired or cancelled"),
            _F(
                "kind",
                "string",
                "session, pending-member, join, sync, rebalance, regex, delegation, offset-expiry or transaction",
            ),
            _PARTITION,
            _F("group", "string", "group id, empty for a partition's own timer; of a transaction its transactional id"),
            _F("member_id", "string", "member id, empty for a group's own timer"),
            _F("deadline", "number|null", "when it fires, seconds on the monotonic clock; null once fired"),
        ),
    ),
    "commit": Event(
        "Offsets were committed, or the whole commit was refused. Those of a transaction are committed when it ends.",
        (
            _GROUP,
            _PARTITION,
            _F("member_id", "string", "member id of the request, empty for a commit from outside the group"),
            _F("generation", "integer", "generation of the request, -1 for a commit from outside the group"),
            _F("error", "integer", "error code of the group, 0 for none"),
            _F("offsets", "array", "what was accepted: objects of `topic`, `partition` and `offset`"),
        ),
    ),
    "end_offsets": Event(
        "Where partitions end, for those whose end has changed since the event before, every few seconds at most.",
        (_F("offsets", "array", "objects of `topic`, `partition` and `offset`, that of the next record to come"),),
    ),
    "transaction_offsets": Event(
        "Offsets of a group became part of a transaction, or the transaction has ended. What is committed then is in a"
        " `commit` event too, with no member, unless others were committed since.",
        (
            _GROUP,
            _PARTITION,
            _F("producer_id", "integer", "id of the producer whose transaction it is"),
            _F("producer_epoch", "integer", "its epoch when it sent the offsets"),
            _F("change", "string", "pending, committed or aborted"),
            _F("offsets", "array", "objects of `topic`, `partition` and `offset`"),
        ),
    ),
    "offsets_expired": Event(
        "Offsets of a group went away because their retention was over.",
        (
            _GROUP,
            _PARTITION,
            _F("offsets", "array", "objects of `topic` and `partition`"),
        ),
    ),
}
"""Every kind of event by name."""


def readable_assignment(protocol_type: str | None, data: bytes) -> dict[str, list[int]] | int:
    """Topics and partitions of a consumer's assignment; the number of bytes of what cannot be read."""
    if protocol_type == "consumer":
        decoded = assignment_from_bytes(data)
        if decoded is not None:
            return {assigned.topic: list(assigned.partitions) for assigned in decoded.assigned_partitions}
    return len(data)


def problems(event: dict[str, Any]) -> list[str]:
    """What is wrong with an event's fields by the schema; `seq`, `mono` and `wall` may be missing."""
    kind = EVENTS.get(event["event"])
    if kind is None:
        return [f"unknown event {event['event']!r}"]
    found = []
    for name, type_, _ in kind.fields:
        if name not in event:
            found.append(f"{event['event']} lacks {name}")
        elif not any(_IS[part](event[name]) for part in type_.split("|")):
            found.append(f"{event['event']}.{name} is no {type_}: {event[name]!r}")
    names = {field.name for field in (*EVERY_EVENT, *OF_A_RELAY, *kind.fields)}
    return found + [f"{event['event']} has {name} too" for name in event if name not in names]


_IS: Final = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}
