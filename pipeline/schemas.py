"""The columns of the sources and of every table: names, types and what they mean. It does not know how they are made.

A table is declared as tuples of name, Spark SQL type and meaning; the schema Spark uses and the table in
`docs/pipeline-tables.md` (`pipeline/documents.py`) both come from that. Times are UTC timestamps, durations are
milliseconds in columns that end in `_ms` or are `ms`. Tables about groups have `day` and `bucket`, by which their files
are partitioned: the day of the row's time and a hash of the group.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql.types import StructType

BUCKETS: Final = 8
"""How many buckets groups are hashed into."""


class Column(NamedTuple):
    """A column: its Spark SQL type, and what it says."""

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A table: what a row is, and its columns."""

    row: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The schema as Spark SQL has it."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def schema(self) -> StructType:
        """The schema as Spark has it."""
        schema = StructType.fromDDL(self.ddl)
        assert isinstance(schema, StructType)
        return schema

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


_C = Column
_GROUP = _C("group", "string", "group id")
_MEMBER = _C("member_id", "string", "member id")
_GENERATION = _C("generation", "int", "generation of the group")
_KIND = _C("kind", "string", "kind of the group: classic, consumer (KIP-848), share or streams")
_TRACE = _C("trace", "string", "the trace it was seen in: folder and name of its files, less the rotation number")
_SEQ = _C("seq", "bigint", "sequence number of the event in its trace")
_AT = _C("at", "timestamp", "when it happened")
_TOPIC = _C("topic", "string", "topic")
_PARTITION = _C("partition", "int", "partition of the topic")
_DAY = _C("day", "date", "day of the row's time, UTC; files are partitioned by it")
_BUCKET = _C("bucket", "int", "hash of the group; files are partitioned by it")

OFFSET_TYPE: Final = "array<struct<topic: string, partition: int, offset: bigint, error: int>>"
ASSIGNMENT_TYPE: Final = "array<struct<member_id: string, topic: string, partitions: array<int>>>"

EVENTS: Final = Table(
    "One event of a trace, all kinds in one schema; what a kind lacks is null.",
    (
        _TRACE,
        _C("file", "string", "name of the file"),
        _C("position", "bigint", "where its line begins in the file, bytes"),
        _SEQ,
        _C("event", "string", "kind of the event; null for a line that could not be read"),
        _C("wall", "double", "when, seconds of Unix time"),
        _C("mono", "double", "when, seconds of the coordinator's monotonic clock"),
        _GROUP,
        _MEMBER,
        _C("instance_id", "string", "group instance id"),
        _C("client_id", "string", "client id"),
        _C("client_host", "string", "address of the client"),
        _C("node", "int", "node id of the broker"),
        _C("conn", "bigint", "number of the connection"),
        _C("api", "string", "name of the API"),
        _C("version", "int", "version of the request"),
        _C("correlation_id", "int", "correlation id of the request"),
        _C("arrived", "double", "when the request arrived, monotonic seconds"),
        _C("error", "int", "error code"),
        _GENERATION,
        _C("offsets_partition", "int", "partition of __consumer_offsets"),
        _C("change", "string", "what changed, of events that say so"),
        _C("from", "string", "state before"),
        _C("to", "string", "state after"),
        _C("cause", "string", "cause of the rebalance"),
        _C("trigger", "string", "member that brought the rebalance about"),
        _C("rule", "string", "rule that decided"),
        _C("started", "double", "start of the round, monotonic seconds"),
        _C("ended", "double", "end of the round's first half, monotonic seconds"),
        _C("waited_for", "array<struct<member_id: string, ms: double>>", "how long each member took to join"),
        _C("dropped", "array<string>", "members that went in the round"),
        _C("leader", "string", "member id of the leader"),
        _C("leader_ms", "double", "how long the leader thought, milliseconds"),
        _C("protocol", "string", "protocol selected"),
        _C("members", "array<string>", "members of the generation, or those a JoinGroup answer lists"),
        _C("assignments", ASSIGNMENT_TYPE, "what each member was assigned, if the assignment could be read"),
        _C("offsets", OFFSET_TYPE, "offsets committed, expired, fetched, deleted or listed, or ends of partitions"),
        _C("inferred", "boolean", "whether a relay concluded it; null in a coordinator's own trace"),
        _C("session_timeout_ms", "int", "session timeout a JoinGroup asks for"),
        _C("rebalance_timeout_ms", "int", "rebalance timeout a JoinGroup asks for"),
        _C("reason", "string", "reason a client gave for joining or leaving"),
        _C("request", "string", "the request as JSON, with option `bodies`"),
        _C("answer", "string", "the answer as JSON, with option `bodies`"),
        _C("unreadable", "string", "why the line could not be read; null for all others"),
    ),
)

LOG_RECORDS: Final = Table(
    "One record of a segment of __consumer_offsets, or one piece of a segment that could not be read.",
    (
        _C("log", "string", "the log it is of: copies of a log, of several brokers, have the same"),
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
            " `record_offset` to `offset`; null for damage",
        ),
        _C("record_type", "smallint", "record type by number"),
        _C("value_version", "smallint", "version of the value; null for a tombstone"),
        _C("tombstone", "boolean", "whether the value is null"),
        _GROUP,
        _TOPIC,
        _PARTITION,
        _C("offset", "bigint", "committed offset"),
        _C("leader_epoch", "int", "leader epoch committed, -1 for none"),
        _C("metadata", "string", "metadata committed"),
        _C("commit_timestamp", "bigint", "timestamp of the commit, milliseconds of Unix time"),
        _C("expire_timestamp", "bigint", "when the commit expires, of version 1; -1 for none"),
        _MEMBER,
        _C("value", "string", "values of other types, as JSON; bytes nobody could read as hexadecimal"),
        _C("producer_id", "bigint", "producer id of the batch, -1 for none"),
        _C("producer_epoch", "smallint", "producer epoch of the batch"),
        _C("transactional", "boolean", "whether the record counts only once its transaction is committed"),
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
            _C("generation", "int", "generation the request names, or a JoinGroup is answered with"),
            _C("leader", "string", "leader in the answer of a JoinGroup"),
            _C("protocol", "string", "protocol in the answer of a JoinGroup"),
            _C("members", "array<string>", "members in the answer of a JoinGroup, or that a LeaveGroup names"),
            _C("offsets", OFFSET_TYPE, "offsets an answer has"),
            _C("session_timeout_ms", "int", "session timeout a JoinGroup asks for"),
            _C("rebalance_timeout_ms", "int", "rebalance timeout a JoinGroup asks for"),
            _C("reason", "string", "reason given"),
            _C("file", "string", "file of the trace"),
            _C("position", "bigint", "where the line begins in it"),
            *_KEYED,
        ),
    ),
    "membership": Table(
        "One member from when it came to when it went.",
        (
            _TRACE,
            _GROUP,
            _MEMBER,
            _C("instance_id", "string", "group instance id"),
            _C("client_id", "string", "client id"),
            _C("client_host", "string", "address of the client"),
            _C("joined_at", "timestamp", "when it was added; null if before the trace"),
            _C("left_at", "timestamp", "when it went; null if it was there at the end of the trace"),
            _C("how", "string", "left, expired, removed or fenced"),
            _C("ms", "double", "how long it was there"),
            *_KEYED,
        ),
    ),
    "rounds": Table(
        "One rebalance of a group, from PreparingRebalance to Stable; of a group of another kind than classic, one"
        " group epoch, until the last member has come to its target assignment.",
        (
            _TRACE,
            _SEQ,
            _GROUP,
            _KIND,
            _GENERATION,
            _C("cause", "string", "why, one of the causes of the trace"),
            _C("trigger", "string", "member that brought it about"),
            _C("started_at", "timestamp", "start"),
            _C("joined_at", "timestamp", "when the joins were answered, or the target was computed"),
            _C(
                "stable_at",
                "timestamp",
                "when the leader had assigned, or the last member came to its target; null if another round came first",
            ),
            _C("join_ms", "double", "first half: start until the joins were answered, or the target was computed"),
            _C("leader_ms", "double", "second half: the leader's thinking time"),
            _C("total_ms", "double", "start until Stable, or until the joins were answered if it never was"),
            _C(
                "blamed",
                "string",
                "member that joined last, or came to the epoch last, its partitions given up",
            ),
            _C("blamed_ms", "double", "how long it took from the start"),
            _C("behind_ms", "double", "how long it took longer than the last but one"),
            _C(
                "initial_delay_ms",
                "double",
                "at the end of the first half, how long nobody was waited for any more: an empty group's"
                " group.initial.rebalance.delay.ms",
            ),
            _C("waited_for", "array<struct<member_id: string, ms: double>>", "all members, slowest first"),
            _C("dropped", "array<string>", "members that went during the round"),
            _C("leader", "string", "leader"),
            _C("protocol", "string", "protocol selected"),
            _C("cooperative", "boolean", "whether members keep their partitions through the round, by its name"),
            _C("members", "array<string>", "members of the generation"),
            _C("size", "int", "how many they are"),
            _C("inferred", "boolean", "whether a relay concluded it; null in a coordinator's own trace"),
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
            _C("generation", "int", "generation it came into"),
            _C("protocol", "string", "protocol selected"),
            _C("cooperative", "boolean", "whether it kept its partitions meanwhile"),
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
            _GROUP,
            _TOPIC,
            _PARTITION,
            _MEMBER,
            _C("from_generation", "int", "first generation"),
            _C("to_generation", "int", "last generation"),
            _KIND,
            _C("owned_from", "timestamp", "when the assignment took effect"),
            _C("owned_until", "timestamp", "when it was given up; null if it was owned at the end of the trace"),
            _C("ms", "double", "how long"),
            _C("ended_by", "string", "rejoin (eager), revoked (cooperative) or gone"),
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
            _C("kept", "int", "partitions whose owner is that of the generation before"),
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
            _C("offset", "bigint", "offset committed"),
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
            _C("offset", "bigint", "offset after the change; null if there is none"),
            _C("previous", "bigint", "offset before; null if there was none"),
            _C("delta", "bigint", "offset less previous"),
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
            _C("offset", "bigint", "offset committed"),
            _C("end_offset", "bigint", "last end offset known at that time"),
            _C("known_at", "timestamp", "when that was"),
            _C("lag", "bigint", "end_offset less offset; 0 for a commit beyond the end known by then"),
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
                *("topic", "partition", "offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp"),
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
            _C("detail", "string", "what was seen"),
            *_KEYED,
        ),
    ),
    "quarantine": Table(
        "Something that could not be read.",
        (
            _C("source", "string", "trace or segments"),
            _C("file", "string", "path of the file"),
            _C("position", "bigint", "where in the file, bytes"),
            _C("offset", "bigint", "log offset claimed; null for traces"),
            _C("bytes", "bigint", "how much; null for traces"),
            _C("reason", "string", "why"),
        ),
    ),
    "gaps": Table(
        "A stretch of a trace or of a log that should be there and is not.",
        (
            _C("source", "string", "trace or segments"),
            _C("origin", "string", "the trace, or the partition of the log"),
            _C("first", "bigint", "first sequence number or log offset that is missing"),
            _C("last", "bigint", "last that is missing"),
            _C("reason", "string", "what was seen"),
        ),
    ),
}
"""Every table by name, in the order they are made."""

PARTITIONED: Final = frozenset(name for name, table in TABLES.items() if _BUCKET in table.columns)
"""The tables whose files are partitioned by day and bucket."""

STEADY: Final = {"events": "commit_events", "requests": "renewals"}
"""Where rows of a table lie that groups at rest bring about: commits, and requests of `STEADY_APIS`. That is
nearly all there is, so it lies apart from the rest of its table, and jobs about rebalances never read it."""
EPOCH_HEARTBEATS: Final = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
"""What members of the other kinds of groups send, to join and to leave too: their epoch says which."""
STEADY_APIS: Final = ("Heartbeat", "OffsetCommit", *EPOCH_HEARTBEATS)

PLACES: Final = {
    "events": "events",
    "commit_events": "events",
    "requests": "requests",
    "renewals": "requests",
    "quarantine": "quarantine",
    "log_quarantine": "quarantine",
    "log_gaps": "gaps",
    "trace_gaps": "gaps",
    "log_records": "log_records",
    "trace_history": "offset_history",
    "log_history": "offset_history",
}
"""What is written apart from the rest of its table, and the table it is read with."""
