"""The columns of the sources and of every table: names, types and what they mean. It does not know how they are made.

A table is declared as tuples of name, Spark SQL type and meaning; the schema Spark uses and the table in
`docs/pipeline.md` (`python -m pipeline.documents`) both come from that. Times are UTC timestamps, durations are
milliseconds in columns that end in `_ms`. Every table but those of small results has `day` and `bucket`, by which its
files are partitioned: the day of the row's time and a hash of the group.
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
        return StructType.fromDDL(self.ddl)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


_C = Column
_GROUP = _C("group", "string", "group id")
_MEMBER = _C("member_id", "string", "member id")
_GENERATION = _C("generation", "int", "generation of the group")
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
        _C("offsets", OFFSET_TYPE, "offsets committed, expired, fetched, deleted or listed"),
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
        _C("file", "string", "path of the segment"),
        _C("position", "bigint", "where its batch begins in the file, bytes"),
        _C("offsets_partition", "int", "partition of __consumer_offsets, by the folder's name; null if it has no number"),
        _C("record_offset", "bigint", "offset of the record in the log; of damage, the one its batch claims"),
        _C("timestamp", "bigint", "timestamp of the record, milliseconds of Unix time"),
        _C("kind", "string", "record type by name; `control` for the end of a transaction; null for damage"),
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
