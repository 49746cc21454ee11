"""Logs of brokers and clients as rows of `kafka_shim.pipeline.schemas.EVENTS`, all `inferred`.

Spark reads the lines by `read.text`: in stores, packed by gzip or zstd, the parts of a large file in parallel. `Scan`
keeps the lines that the patterns of `kafka_shim.sources` know, with the byte at which each begins: Spark tells the part
of the file, so the lengths of the parts before are added. It searches by RE2, in Python: Java's regular expressions
take a hundred times as long for this many words. `Stories` makes events of the lines, by the readers of `kafka-shim why
--log`: all lines of a group come to one task, with those that name no group. The events of a group are a trace of its
own. What a log does not show is null.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from heapq import merge
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udtf

from kafka_shim.pipeline.decode import events
from kafka_shim.pipeline.schemas import EVENTS, LOG
from kafka_shim.pipeline.sources.places import Place, Unreadable
from kafka_shim.sources.client_program import PROGRAM
from kafka_shim.sources.layouts import Layouts
from kafka_shim.sources.lines import LONGEST_LINE, PIECE
from kafka_shim.sources.mixture import NAMELESS, PROGRAMS, Mixture
from kafka_shim.sources.patterns import Scanner
from kafka_shim.sources.reading import sign_of, undoubled
from kafka_shim.sources.signs import Sign, SignName

_SIGNS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("file", "group_name", "reason")),
        *((name, pa.int64()) for name in ("block", "at", "time", "bytes")),
        ("is_client", pa.bool_()),
        ("sign", pa.binary()),
    ]
)
_DDL: Final = (
    "file string, group_name string, reason string, block bigint, at bigint, time bigint, bytes bigint,"
    " is_client boolean, sign binary"
)
_LONGEST: Final = str(64 << 20)
"""Hadoop skips longer lines, so that a file without line ends does not fill the memory."""
_PATTERN: Final = re.compile(r"[\\\[\]{}*?]")
_MAGIC: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_QUOTED: Final = 200
_AT_ONCE: Final = 4096
_UNKNOWN: Final = ("", -1)
"""The values of fields that a log does not show."""


def files(path: Place) -> Iterator[Place]:
    """Yield the files at a path or in its folders, without those that Spark takes for hidden. Raises `Unreadable`."""
    if path.info()[0] == "file":
        yield path
        return
    for each in path.children():
        if not each.name.startswith((".", "_")):
            yield from files(each)


def lines_of(spark: SparkSession, paths: Sequence[str], zone: tzinfo) -> DataFrame:
    """Return the lines of these files that are about groups, and the length of each part of a file.

    Stamps without a zone are read in `zone`. A line has its sign, or a `reason` if it cannot be read; `at` is the byte
    at which it begins in its part.
    """
    reader = spark.read.option("lineSep", "\n").option("mapreduce.input.linerecordreader.line.maxlength", _LONGEST)
    # Spark takes a path for a pattern.
    lines = reader.text([_PATTERN.sub(r"\\\g<0>", path) for path in paths])
    table = lines.select("value", "_metadata.file_path", "_metadata.file_block_start").asTable()
    return _applied(table, lambda: Scan(zone), _DDL)


def events_of(lines: DataFrame, buckets: int) -> DataFrame:
    """Return the events of these lines, which must be persisted. Raises `Unreadable` if none is about a group."""
    names_group = F.max(F.col("is_client") & F.col("group_name").isNotNull()).alias("names_group")
    unread = F.max(F.concat("file", F.lit(": "), "reason")).alias("unread")
    about = lines.agg(F.count("sign").alias("signs"), names_group, unread).collect()[0]
    if not about.signs:
        raise Unreadable(
            "no line of a group coordinator is in these logs, and none of a client about its group: they are not logs"
            " of Kafka, another broker was the coordinator, or the level of the loggers is WARN"
            + (f"; {about.unread}" if about.unread else "")
        )
    of_file = Window.partitionBy("file")
    before = F.sum("bytes").over(of_file.orderBy("block").rangeBetween(Window.unboundedPreceding, -1))
    groups = F.collect_set(F.when(F.col("is_client"), F.col("group_name"))).over(of_file)
    placed = lines.withColumns({"at": F.col("at") + F.coalesce(before, F.lit(0)), "groups": groups})
    # The lines of a client before its group is named are about it too.
    nameless = F.array(F.lit(None if about.names_group else NAMELESS).cast("string"), F.lit(None).cast("string"))
    of_client = F.when(F.size("groups") > 0, F.col("groups")).otherwise(F.array_distinct(nameless))
    names = F.when(F.col("is_client"), of_client).otherwise(F.array("group_name"))
    of_groups = placed.where("bytes is null").withColumn("group_id", F.explode(names))
    of_group = F.array(F.pmod(F.hash("group_id"), F.lit(buckets)))
    every = F.when(F.col("reason").isNull(), F.sequence(F.lit(0), F.lit(buckets - 1))).otherwise(F.array(F.lit(0)))
    routed = of_groups.withColumn("bucket", F.explode(F.when(F.col("group_id").isNull(), every).otherwise(of_group)))
    routed = routed.select("bucket", "group_id", "file", "at", "time", "sign", "reason")
    table = routed.asTable().partitionBy("bucket").orderBy("group_id", "time", "file", "at")
    return _applied(table, Stories, EVENTS.ddl)


def _applied(table: Any, make: Callable[[], Any], schema: str) -> DataFrame:
    """Apply an object that `make` makes for each part of the table: `batch` for each batch of rows, `end` after all."""

    class Call:
        def __init__(self) -> None:
            self._made = make()

        def eval(self, batch: Any) -> Any:
            yield from self._made.batch(batch)

        def terminate(self) -> Any:
            yield from self._made.end()

    function: Any = arrow_udtf(Call, returnType=schema)
    result: DataFrame = function(table)
    return result


class Scan:
    """Selection of the lines about groups; lines come in the order of their file."""

    def __init__(self, zone: tzinfo) -> None:
        self._pattern: Final = Scanner(anchor for program in PROGRAMS for anchor in program.anchors).pattern
        self._layouts: Final = Layouts(zone)
        self._part = ("", 0)
        self._file = ""
        self._at = 0
        self._time: int | None = None
        self._before = b""

    def batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the lines about groups in a batch, and those of parts that ended."""
        rows: list[dict[str, Any]] = []
        parts = [batch.column(name) for name in ("file_path", "file_block_start")]
        ends = {each for column in parts for each in pc.run_end_encode(column).run_ends.to_pylist()}
        begin = 0
        for end in sorted(ends):
            part = (parts[0][begin].as_py(), parts[1][begin].as_py())
            if part != self._part:
                rows += self._ended()
                self._part, self._file = part, Place(unquote(part[0])).address
                self._at, self._time, self._before = 0, None, b""
            rows += self._rows(batch.column("value").slice(begin, end - begin).cast(pa.binary()))
            begin = end
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=_SIGNS)

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the row of the last part."""
        yield pa.RecordBatch.from_pylist(self._ended(), schema=_SIGNS)

    def _ended(self) -> list[dict[str, Any]]:
        return [self._row(bytes=self._at)] if self._file else []

    def _row(self, **values: Any) -> dict[str, Any]:
        return {"file": self._file, "block": self._part[1], **values}

    def _rows(self, lines: pa.BinaryArray) -> Iterator[dict[str, Any]]:
        lengths = pc.binary_length(lines).to_numpy() + 1
        at = self._at + np.cumsum(lengths) - lengths
        if not self._at and not self._part[1] and lines[0].as_py().startswith(_MAGIC):
            yield self._row(at=0, reason="packed, but its name does not end in .gz or .zst: rename it")
        for index in pc.indices_nonzero(pc.match_substring_regex(lines, self._pattern)).to_pylist():
            raw = lines[index].as_py()
            before = lines[index - 1].as_py() if index else self._before
            yield from self._line(raw if len(raw) <= PIECE else raw[:LONGEST_LINE], before, int(at[index]))
        self._at += int(lengths.sum())
        self._before = lines[-1].as_py()

    def _line(self, raw: bytes, before: bytes, at: int) -> Iterator[dict[str, Any]]:
        line = self._layouts.line(self._file, at, raw, before)
        line = line._replace(time=self._time) if line.time is None else line
        self._time = line.time
        sign = sign_of(line, raw, PROGRAMS)
        if sign.name is SignName.UNKNOWN:
            text = raw[:_QUOTED].decode("utf-8", "replace")
            yield self._row(at=at, reason=f"a line about groups without a known pattern or a time: {text}")
        elif sign.name is not SignName.NOTHING:
            is_client = PROGRAM in sign.fields
            yield self._row(
                at=at, time=line.time, group_name=sign.group or None, is_client=is_client, sign=pickle.dumps(sign)
            )


class Stories:
    """The events of groups. Lines that name no group come first, then those of each group, by time."""

    def __init__(self) -> None:
        self._of_brokers: list[Sign] = []
        self._of_clients: list[Sign] = []
        self._group: str | None = None
        self._own: list[Sign] = []

    def batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the groups that ended, and of lines that could not be read."""
        for row in batch.to_pylist():
            if row["reason"] is not None:
                yield _unread(row)
                continue
            if row["group_id"] != self._group:
                yield from self.end()
                self._group, self._own = row["group_id"], []
            sign: Sign = pickle.loads(row["sign"])
            sign = sign._replace(line=sign.line._replace(number=row["at"]))
            common = self._of_clients if PROGRAM in sign.fields else self._of_brokers
            (common if self._group is None else self._own).append(sign)

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the last group."""
        of_story: list[dict[str, Any]] = []
        for seq, event in enumerate(self._events(), 1):
            of_story.append({**event, "seq": seq})
            if len(of_story) == _AT_ONCE:
                yield from _rows(of_story, f"{LOG}{self._group}")
                of_story = []
        yield from _rows(of_story, f"{LOG}{self._group}")

    def _events(self) -> Iterator[dict[str, Any]]:
        if self._group is None:
            return
        signs = [self._own]
        nameless = set()
        if self._group != NAMELESS and any(PROGRAM not in each.fields for each in self._own):
            # A client that names no group gives reasons to the broker's lines; its own story is of no group.
            signs += [self._of_brokers, self._of_clients]
            nameless = {each.line.file for each in self._of_clients}
        ordered = undoubled(merge(*signs, key=lambda each: each.time or 0))
        for event in Mixture(None if self._group == NAMELESS else self._group).events(ordered):
            if event["where"].rpartition(":")[0] not in nameless:
                yield event


def _rows(of_story: list[dict[str, Any]], trace: str) -> Iterator[pa.RecordBatch]:
    places = [event["where"].rpartition(":") for event in of_story]
    of_event = {
        "file": pa.array([file for file, _, _ in places]),
        "position": pa.array([int(at) for _, _, at in places]),
    }
    lines = [orjson.dumps(_fields(event)) for event in of_story]
    # With bodies no line takes the way of a stable group's, which has fewer columns.
    for rows in events.decode(lines, range(len(lines)), trace, "", bodies=True):
        numbers = rows.column("position")
        columns = [of_event[name].take(numbers) if name in of_event else rows.column(name) for name in EVENTS.names]
        yield pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _fields(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event of a log without the fields that the log does not show."""
    fields = {name: value for name, value in event.items() if value not in _UNKNOWN}
    if event["event"] == "round":
        # Only the broker's number of members, or the leader, says that all are known.
        is_whole = event["size"] == len(event["members"]) if "size" in event else bool(event["leader"])
        fields |= {"members": event["members"] if is_whole else None}
    if event["event"] == "exchange":
        fields["request"] = {name: value for name, value in event["request"].items() if value not in _UNKNOWN}
        for name in ("version", "correlation_id", *(["arrived"] if event["arrived"] == event["wall"] else [])):
            fields.pop(name)
    return fields


def _unread(row: dict[str, Any]) -> pa.RecordBatch:
    values = {"file": row["file"], "position": row["at"], "unreadable": row["reason"]}
    return pa.RecordBatch.from_pylist([values], schema=events.SCHEMA)
