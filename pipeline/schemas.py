"""The columns of the sources and of every table: names, Spark SQL types and meanings.

Spark's schemas and the page `docs/pipeline-tables.md` (`pipeline/documents.py`) are both made from these tuples. Times
are UTC timestamps; durations are milliseconds, in columns named `ms` or `..._ms`. Tables about groups have `day`, the
day of the row's time, and `bucket`, a hash of the group; their files are partitioned by both.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints, is_typeddict

from pyspark.sql.types import StructType

from kafka_shim.trace import schema as trace

BUCKETS: Final = 8
"""Number of buckets for the hash of the group."""


class Column(NamedTuple):
    """A column: its name, its Spark SQL type and its meaning."""

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A table: the meaning of a row, and the columns."""

    row: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The schema in Spark SQL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def schema(self) -> StructType:
        """The schema as a Spark type."""
        schema = StructType.fromDDL(self.ddl)
        assert isinstance(schema, StructType)
        return schema

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


LOG: Final = "log of "
"""The beginning of the name of a trace that is made of logs, before the group."""

_C = Column
_GROUP = _C("group_id", "string", "group id")
_MEMBER = _C("member_id", "string", "member id")
_GENERATION = _C("generation", "int", "generation of the group")
_KIND = _C("kind", "string", "kind of the group: classic, consumer (KIP-848), share or streams")
_TRACE = _C(
    "trace",
    "string",
    "trace of the row: the run of the server that the first line of each file names; of files without one, folder and"
    f" name, without the rotation number; of logs, `{LOG}` and the group",
)
_FIRST_RUN = _C("first_run", "string", "first of the traces that follow each other in the history of the group")
_SEQ = _C("seq", "bigint", "sequence number of the event in its trace")
_AT = _C("happened_at", "timestamp", "when it happened")
_TOPIC = _C("topic", "string", "topic")
_PARTITION = _C("partition", "int", "partition of the topic")
_DAY = _C("day", "date", "day of the row's time, UTC; files are partitioned by it")
_BUCKET = _C("bucket", "int", "hash of the group; files are partitioned by it")

OFFSET_TYPE: Final = "array<struct<topic: string, partition: int, offset: bigint, error: int>>"
ASSIGNMENT_TYPE: Final = "array<struct<member_id: string, topic: string, partitions: array<int>>>"


_SPARK: Final = {str: "string", int: "int", float: "double", bool: "boolean"}
TRACE_FIELDS: Final = {
    field.name: field
    for fields in (trace.EVERY_EVENT, trace.OF_A_LOG, *(kind.fields for kind in trace.EVENTS.values()))
    for field in fields
}
"""The fields of the trace by name."""


def _spark(hint: Any) -> str:
    """Return the Spark SQL type of a field of the trace."""
    if is_typeddict(hint):
        fields = ", ".join(f"{name}: {_spark(each)}" for name, each in get_type_hints(hint).items())
        return f"struct<{fields}>"
    if get_origin(hint) is list:
        return f"array<{_spark(*get_args(hint))}>"
    if get_origin(hint) is UnionType:
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    return _SPARK[hint]


def _field(name: str, *, type: str = "", meaning: str = "") -> Column:
    """Return the column of a field of the trace, with its type and meaning if there are no others."""
    field = TRACE_FIELDS[name]
    return Column(name, type or _spark(field.python), meaning or field.meaning)


EVENTS: Final = Table(
    "One event of a trace, all kinds in one schema; columns that a kind lacks are null.",
    (
        _TRACE,
        _C("file", "string", "name of the file"),
        _C("position", "bigint", "where its line begins in the file, bytes"),
        _field("seq", type="bigint"),
        _field("event", meaning="kind of the event; null for a line that could not be read"),
        _field("wall"),
        _field("mono"),
        _GROUP,
        _MEMBER,
        _field("instance_id", meaning="group instance id"),
        _field("client_id", meaning="client id"),
        _field("client_host"),
        _field("node"),
        _field("conn", type="bigint"),
        _field("api"),
        _field("version"),
        _field("correlation_id"),
        _field("arrived"),
        _field("error", meaning="error code, 0 for none"),
        _field("generation", meaning="generation or group epoch; of a `reconciliation` the member epoch"),
        _C("offsets_partition", "int", TRACE_FIELDS["partition"].meaning),
        _field("change", meaning="kind of the change, in events that have one"),
        _C("from_state", "string", TRACE_FIELDS["from"].meaning),
        _C("to_state", "string", TRACE_FIELDS["to"].meaning),
        _field("cause", meaning="cause of the rebalance"),
        _field("trigger"),
        _field("rule"),
        _field("started"),
        _field("ended"),
        _field("waited_for", meaning="how long each member took to join"),
        _field("dropped"),
        _field("leader"),
        _field("leader_ms"),
        _field("waits_ms", meaning="milliseconds that its assignment waits for the assignment interval; null if none"),
        _field("protocol"),
        _C("members", "array<string>", "members of the generation, or those a JoinGroup answer lists"),
        _field("size"),
        _C("assignments", ASSIGNMENT_TYPE, "assignment of each member, if it could be read"),
        _C("offsets", OFFSET_TYPE, "offsets committed, expired, fetched, deleted or listed, or ends of partitions"),
        _field("inferred"),
        _C("session_timeout_ms", "int", "session timeout in a JoinGroup"),
        _C("rebalance_timeout_ms", "int", "rebalance timeout in a JoinGroup"),
        _C("reason", "string", "reason a client gave for joining or leaving"),
        _C("request", "string", "the request as JSON, with option `bodies`"),
        _C("answer", "string", "the answer as JSON, with option `bodies`"),
        _C("unreadable", "string", "why the line could not be read; null for all others"),
    ),
)

NO_COLUMN: Final = frozenset(
    {
        *("schema", "run", "release", "nodes", "limits"),
        *("state", "groups", "unknown_records", "action", "kind", "deadline"),
        *("assignor", "assigned", "revoking", "waits_for"),
        *("producer_id", "producer_epoch", "nth", "subscriptions"),
        *("where", "software", "left_out"),
    }
)
"""Fields of the trace without a column of their name. Of a `target` and a `reconciliation`, `decode/events.py` has some
in other columns."""

LOG_RECORDS: Final = Table(
    "One record of a segment of __consumer_offsets, or one piece of a segment that could not be read.",
    (
        _C("log", "string", "log of the record; the same for all copies of a log on several brokers"),
        _C("file", "string", "path of the segment"),
        _C("position", "bigint", "where its batch begins in the file, bytes"),
        _C(
            "offsets_partition",
            "int",
            "partition of __consumer_offsets, by the folder's name; null if it has no number",
        ),
        _C("record_offset", "bigint", "offset of the record in the log; of damage, the one its batch claims"),
        _C("timestamp", "bigint", "timestamp of the record, milliseconds of Unix time"),
        _C(
            "kind",
            "string",
            "record type by name; `control` for the end of a transaction, `gap` for offsets that are missing, from"
            " `record_offset` to `committed_offset`; null for damage",
        ),
        _C("record_type", "smallint", "record type by number"),
        _C("value_version", "smallint", "version of the value; null for a tombstone"),
        _C("tombstone", "boolean", "whether the value is null"),
        _GROUP,
        _TOPIC,
        _PARTITION,
        _C("committed_offset", "bigint", "committed offset"),
        _C("leader_epoch", "int", "leader epoch committed, -1 for none"),
        _C("metadata", "string", "metadata committed"),
        _C("commit_timestamp", "bigint", "timestamp of the commit, milliseconds of Unix time"),
        _C("expire_timestamp", "bigint", "when the commit expires, of version 1; -1 for none"),
        _MEMBER,
        _C("value", "string", "values of other types, as JSON; unreadable bytes as hexadecimal"),
        _C("producer_id", "bigint", "producer id of the batch, -1 for none"),
        _C("producer_epoch", "smallint", "producer epoch of the batch"),
        _C("transactional", "boolean", "whether the record takes effect only when its transaction is committed"),
        _C("control", "string", "how a transaction ended: COMMIT or ABORT"),
        _C("codec", "string", "compression of the batch"),
        _C("reason", "string", "why this could not be read; null for records"),
        _C("damaged_bytes", "bigint", "how many bytes could not be read"),
    ),
)

_KEYED: Final = (_DAY, _BUCKET)

TABLES: Final[dict[str, Table]] = {
    "events": Table(
        "One event of a trace that is not an exchange, with the columns of the source less those of requests.",
        (
            *(
                column
                for column in EVENTS.columns
                if column.name
                not in {
                    *("api", "version", "correlation_id", "arrived", "session_timeout_ms", "rebalance_timeout_ms"),
                    *("reason", "request", "answer", "unreadable", "conn"),
                }
            ),
            _AT,
            *_KEYED,
        ),
    ),
    "requests": Table(
        "One request about a group and its answer.",
        (
            _TRACE,
            _SEQ,
            _AT,
            _C("arrived_at", "timestamp", "when the request arrived"),
            _C("ms", "double", "from its arrival to its answer"),
            _GROUP,
            _MEMBER,
            _C("instance_id", "string", "group instance id"),
            _C("client_id", "string", "client id"),
            _C("node", "int", "node id of the broker"),
            _C("conn", "bigint", "number of the connection"),
            _C("api", "string", "name of the API"),
            _C("version", "int", "version of the request"),
            _C("correlation_id", "int", "correlation id"),
            _C("error", "int", "error code of the answer"),
            _C("generation", "int", "generation in the request, or in the answer of a JoinGroup"),
            _C("leader", "string", "leader in the answer of a JoinGroup"),
            _C("protocol", "string", "protocol in the answer of a JoinGroup"),
            _C("members", "array<string>", "members in the answer of a JoinGroup, or in a LeaveGroup"),
            _C("offsets", OFFSET_TYPE, "offsets in the answer"),
            _C("session_timeout_ms", "int", "session timeout in a JoinGroup"),
            _C("rebalance_timeout_ms", "int", "rebalance timeout in a JoinGroup"),
            _C("reason", "string", "reason given"),
            _C("file", "string", "file of the trace"),
            _C("position", "bigint", "where the line begins in it"),
            *_KEYED,
        ),
    ),
    "lives": Table(
        "One life of a group with several: from its creation, or from its loading after a restart or a move, to the"
        " next.",
        (
            _TRACE,
            _GROUP,
            _FIRST_RUN,
            _C("turn", "int", "place among the lives of the group"),
            _C("life", "int", "number of times that the group was created until then"),
            _C("since", "bigint", "first sequence number"),
            _C("until", "bigint", "sequence number after the last; null if it is the last life in the trace"),
            _AT,
            *_KEYED,
        ),
    ),
    "membership": Table(
        "One stay of a member, from its join to its end. A member may come back under its id.",
        (
            _TRACE,
            _FIRST_RUN,
            _GROUP,
            _MEMBER,
            _C("instance_id", "string", "group instance id"),
            _C("client_id", "string", "client id"),
            _C("client_host", "string", "address of the client"),
            _C("joined_at", "timestamp", "when it joined; null if before the trace"),
            _C("left_at", "timestamp", "when it left; null if it was still a member at the end of the trace"),
            _C("last_run", "string", "run that it left in, whose clock may be another; null while it is a member"),
            _C("how", "string", "left, expired, removed, fenced, or ended with the group"),
            _C("ms", "double", "how long it was a member"),
            *_KEYED,
        ),
    ),
    "rounds": Table(
        "One rebalance of a group, from PreparingRebalance to Stable; of a group of another kind than classic, one"
        " group epoch, until the last member reached its target assignment.",
        (
            _TRACE,
            _SEQ,
            _GROUP,
            _KIND,
            _GENERATION,
            _C("cause", "string", "why, one of the causes of the trace"),
            _C("trigger", "string", "member that caused it"),
            _C("started_at", "timestamp", "start"),
            _C("joined_at", "timestamp", "when the joins were answered, or the target was computed"),
            _C(
                "stable_at",
                "timestamp",
                "when the leader had assigned, or the last member reached its target; null if another round came first",
            ),
            _C("join_ms", "double", "first half: start until the joins were answered, or the target was computed"),
            _C("leader_ms", "double", "second half: the time the leader took to assign"),
            _C(
                "total_ms",
                "double",
                "start until Stable, or until the joins were answered if it never became Stable; null if a log does not"
                " show the end of an epoch",
            ),
            _C(
                "blamed",
                "string",
                "member that joined last, or was the last to give up its partitions and reach the epoch",
            ),
            _C("blamed_ms", "double", "how long it took from the start"),
            _C("behind_ms", "double", "how much longer it took than the last member but one"),
            _C(
                "initial_delay_ms",
                "double",
                "how long the first half went on after the last join: an empty group's"
                " group.initial.rebalance.delay.ms",
            ),
            _C(
                "interval_ms",
                "double",
                "how long the target had to wait for the assignment interval, at most the first half; 0 for classic"
                " groups; null if a relay inferred the epoch, since answers do not show the wait",
            ),
            _C("waited_for", "array<struct<member_id: string, ms: double>>", "all members, slowest first"),
            _C("dropped", "array<string>", "members that left during the round"),
            _C("leader", "string", "leader"),
            _C("protocol", "string", "protocol selected"),
            _C(
                "cooperative",
                "boolean",
                "whether members keep their partitions through the round, by its name; null if a log does not show it",
            ),
            _C("members", "array<string>", "members of the generation; null if a log does not name them all"),
            _C("size", "int", "number of members; null if a log does not show it"),
            _C("inferred", "boolean", "whether a relay or a log inferred it; null in a coordinator's own trace"),
            _C("file", "string", "file of the trace"),
            _C("position", "bigint", "where the round event begins in it"),
            *_KEYED,
        ),
    ),
    "member_pauses": Table(
        "One pause of a member of a classic group: from the arrival of its JoinGroup to the answer of its SyncGroup.",
        (
            _TRACE,
            _GROUP,
            _MEMBER,
            _C("client_id", "string", "client id"),
            _C("generation", "int", "generation that it joined"),
            _C("protocol", "string", "protocol selected"),
            _C("cooperative", "boolean", "whether it kept its partitions during the pause"),
            _C("started_at", "timestamp", "arrival of the first JoinGroup"),
            _C("ended_at", "timestamp", "answer of the SyncGroup"),
            _C("ms", "double", "how long"),
            _C("joins", "int", "how many JoinGroups it took"),
            *_KEYED,
        ),
    ),
    "ownership": Table(
        "One member owning one partition, without interruption.",
        (
            _TRACE,
            _FIRST_RUN,
            _GROUP,
            _TOPIC,
            _PARTITION,
            _MEMBER,
            _C("from_generation", "int", "first generation"),
            _C("to_generation", "int", "last generation"),
            _KIND,
            _C("owned_from", "timestamp", "when the assignment took effect"),
            _C("owned_until", "timestamp", "when it was given up; null if it was still owned at the end of the trace"),
            _C("ms", "double", "how long"),
            _C(
                "ended_by",
                "string",
                "rejoin (eager), revoked (cooperative) or gone (with its member, or with the group)",
            ),
            _C("cooperative", "boolean", "by the protocol's name; of other kinds than classic always"),
            *_KEYED,
        ),
    ),
    "partition_pauses": Table(
        "One time a partition had no owner, between two that did. Members of a share group share its partitions, so it"
        " has none.",
        (
            _TRACE,
            _GROUP,
            _KIND,
            _TOPIC,
            _PARTITION,
            _C("from_member", "string", "owner before"),
            _C("to_member", "string", "owner after"),
            _C("moved", "boolean", "whether they differ"),
            _C("generation", "int", "generation it was assigned in again"),
            _C("cooperative", "boolean", "by the protocol's name"),
            _C("started_at", "timestamp", "given up"),
            _C("ended_at", "timestamp", "assigned again"),
            _C("ms", "double", "how long"),
            *_KEYED,
        ),
    ),
    "assignments": Table(
        "One generation's assignment, of classic groups.",
        (
            _TRACE,
            _SEQ,
            _GROUP,
            _GENERATION,
            _AT,
            _C("protocol", "string", "protocol selected"),
            _C("members", "int", "members of the generation"),
            _C("partitions", "int", "partitions assigned"),
            _C("least", "int", "partitions of the member with the fewest"),
            _C("most", "int", "partitions of the member with the most"),
            _C("kept", "int", "partitions that kept their owner of the generation before"),
            _C("moved", "int", "partitions that had another owner before"),
            _C("best_kept", "int", "the most that a balanced assignment could have kept, subscriptions being equal"),
            _C("stickiness", "double", "kept / best_kept, at most 1; null if nothing could be kept"),
            *_KEYED,
        ),
    ),
    "commits": Table(
        "One partition's offset of one commit; a refused commit is one row without a partition.",
        (
            _TRACE,
            _SEQ,
            _AT,
            _GROUP,
            _MEMBER,
            _C("generation", "int", "generation of the request, -1 from outside the group"),
            _C("error", "int", "error code, 0 if accepted"),
            _TOPIC,
            _PARTITION,
            _C("committed_offset", "bigint", "offset committed"),
            *_KEYED,
        ),
    ),
    "offset_history": Table(
        "One change of a committed offset, and how it differs from the one before.",
        (
            _C("source", "string", "trace or segments"),
            _GROUP,
            _TOPIC,
            _PARTITION,
            _AT,
            _C("what", "string", "commit, expired, deleted or tombstone"),
            _C("committed_offset", "bigint", "offset after the change; null if there is none"),
            _C("previous", "bigint", "offset before; null if there was none"),
            _C("delta", "bigint", "offset minus previous"),
            _C("gap_ms", "double", "since the change before"),
            _MEMBER,
            _C("origin", "string", "trace, or folder of the segments"),
            _C("position", "bigint", "sequence number in the trace, or offset in the log"),
            *_KEYED,
        ),
    ),
    "lag": Table(
        "One commit where an end offset of its partition was known by then.",
        (
            _GROUP,
            _TOPIC,
            _PARTITION,
            _AT,
            _C("committed_offset", "bigint", "offset committed"),
            _C("end_offset", "bigint", "last end offset known at the time of the commit"),
            _C("known_at", "timestamp", "time of that end offset"),
            _C("lag", "bigint", "end_offset minus offset; 0 for a commit beyond the end known by then"),
            _C(
                "newest_end_offset",
                "bigint",
                "newest end offset known at all, of the last commit of a partition; null for the others",
            ),
            _C("behind", "bigint", "newest_end_offset minus offset, at least 0: how far behind the group is now"),
            *_KEYED,
        ),
    ),
    "log_records": Table(
        "One record of a segment other than a committed offset: groups, members, assignments, ends of transactions.",
        tuple(
            column
            for column in LOG_RECORDS.columns
            if column.name
            not in {
                *(
                    "topic",
                    "partition",
                    "committed_offset",
                    "leader_epoch",
                    "metadata",
                    "commit_timestamp",
                    "expire_timestamp",
                ),
                *("reason", "damaged_bytes"),
            }
        ),
    ),
    "violations": Table(
        "One time an invariant did not hold.",
        (
            _C("invariant", "string", "I1 ... I11"),
            _TRACE,
            _SEQ,
            _AT,
            _GROUP,
            _C("subject", "string", "the member, partition or generation it is about"),
            _C("detail", "string", "observation"),
            *_KEYED,
        ),
    ),
    "quarantine": Table(
        "Something that could not be read.",
        (
            _C("source", "string", "trace, segments or log"),
            _C("file", "string", "path of the file"),
            _C("position", "bigint", "where in the file, bytes"),
            _C("log_offset", "bigint", "log offset claimed; null for traces"),
            _C("bytes", "bigint", "how much; null for traces"),
            _C("reason", "string", "why"),
        ),
    ),
    "gaps": Table(
        "A missing stretch of a trace or of a log.",
        (
            _C("source", "string", "trace or segments"),
            _C("origin", "string", "the trace, or the partition of the log"),
            _C("first", "bigint", "first sequence number or log offset that is missing"),
            _C("last", "bigint", "last that is missing"),
            _C("reason", "string", "observation"),
        ),
    ),
}
"""Every table by name, in the order in which they are built."""

PARTITIONED: Final = frozenset(name for name, table in TABLES.items() if _BUCKET in table.columns)
"""The tables with files partitioned by day and bucket."""

STEADY: Final = {"events": "commit_events", "requests": "renewals"}
"""By table: the place for commits and for requests of `STEADY_APIS`, which stable groups send.

They are nearly all rows, so they have a place of their own, and jobs about rebalances never read it.
"""
EPOCH_HEARTBEATS: Final = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
"""Heartbeats of the other kinds of groups; members also join and leave by them, as the member epoch says."""
STEADY_APIS: Final = ("Heartbeat", "OffsetCommit", *EPOCH_HEARTBEATS)

PLACES: Final = {
    "events": "events",
    "commit_events": "events",
    "requests": "requests",
    "renewals": "requests",
    "trace_quarantine": "quarantine",
    "log_quarantine": "quarantine",
    "log_gaps": "gaps",
    "trace_gaps": "gaps",
    "log_records": "log_records",
    "trace_history": "offset_history",
    "log_history": "offset_history",
}
"""Parts of tables that are written separately, and the table that includes each."""

UNITED: Final = {
    table: tuple(place for place, of in PLACES.items() if of == table)
    for table in ("offset_history", "gaps", "quarantine")
}
"""Tables from traces and from segments, with their places. In lake formats each is one table beside its places."""
