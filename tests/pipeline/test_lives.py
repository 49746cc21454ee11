"""Members and groups have lives: a recording of our server and real consumers, against a plain reader of the trace.

`recordings/README.md` describes how the recording was made.
"""

from __future__ import annotations

import gzip
import json
import shutil
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from kafka_shim.pipeline.needs import places_for
from kafka_shim.pipeline.run import build, sort_out
from kafka_shim.pipeline.sources.shim_trace import ShimTrace
from kafka_shim.pipeline.warehouse import Warehouse
from tests.once import made_once

RECORDING = Path(__file__).parent / "recordings" / "lives"
BEHIND = "-behind"
"""The end of the names of runs and groups in the copy of the recording with other clocks."""
WENT = ("left", "expired", "removed", "fenced")


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.open(file, "rt")]


class PlainReader:
    """The answers of a trace, read event by event in the order of runs and sequence numbers."""

    def __init__(self, runs: list[list[dict[str, Any]]]) -> None:
        self.owned: dict[tuple[str, str, int], tuple[str, float]] = {}
        self.intervals: list[tuple[Any, ...]] = []
        self.there: dict[tuple[str, str], float | None] = {}
        self.stays: list[tuple[Any, ...]] = []
        self.rounds: list[tuple[str, int, str]] = []
        self.regressions: list[tuple[Any, ...]] = []
        self.committed: dict[tuple[str, str, int], int] = {}
        self._fenced: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
        for run in runs:
            deleted = [(e["group"], e["mono"]) for e in run if e["event"] == "group" and e["change"] == "deleted"]
            created = [(e["group"], e["mono"]) for e in run if e["event"] == "group" and e["change"] == "created"]
            self._changed_kind = {*deleted} & {*created}
            for event in run:
                getattr(self, f"_{event['event']}", lambda event: None)(event)

    def _end(self, at: float, group: str, member: str | None = None) -> list[tuple[str, str, int]]:
        of = [key for key, (owner, _) in self.owned.items() if key[0] == group and member in (None, owner)]
        for key in of:
            owner, since = self.owned.pop(key)
            self.intervals.append((*key, owner, round(since, 3), round(at, 3)))
        return of

    def _group(self, event: dict[str, Any]) -> None:
        if event["change"] not in ("created", "deleted", "expired"):
            return
        group, at = event["group"], event["wall"]
        self._end(at, group)
        if (group, event["mono"]) not in self._changed_kind:
            self.committed = {key: offset for key, offset in self.committed.items() if key[0] != group}
            for key in [key for key in self.there if key[0] == group]:
                self.stays.append((*key, self.there.pop(key), at, "ended"))

    def _member(self, event: dict[str, Any]) -> None:
        group, member, at = event["group"], event["member_id"], event["wall"]
        if event["change"] in ("added", "replaced"):
            self.there.setdefault((group, member), at)
        if event["change"] in WENT and (group, member) in self.there:
            self.stays.append((group, member, self.there.pop((group, member)), at, event["change"]))
        if event["change"] in WENT:
            partitions_of_it = self._end(at, group, member)
            if event["change"] == "fenced":
                self._fenced[group, event["instance_id"]] = partitions_of_it
        if event["change"] == "replaced":
            for key in self._fenced.pop((group, event["instance_id"]), []):
                self.owned[key] = (member, at)

    def _round(self, event: dict[str, Any]) -> None:
        self.rounds.append((event["group"], event["generation"], event["cause"]))
        assert event["protocol"] == "range"
        started = event["wall"] - event["mono"] + event["started"]
        for each in event["waited_for"]:
            self._end(started + each["ms"] / 1000, event["group"], each["member_id"])
        self._end(started, event["group"])

    def _epoch(self, event: dict[str, Any]) -> None:
        self.rounds.append((event["group"], event["generation"], event["cause"]))

    def _assignment(self, event: dict[str, Any]) -> None:
        for member, topics in event["assignments"].items():
            for topic, numbers in topics.items():
                for number in numbers:
                    self.owned[event["group"], topic, number] = (member, event["wall"])

    def _reconciliation(self, event: dict[str, Any]) -> None:
        group, member, at = event["group"], event["member_id"], event["wall"]
        now = {(group, topic, number) for topic, numbers in event["assigned"].items() for number in numbers}
        for key, (owner, since) in list(self.owned.items()):
            if key[0] == group and owner == member and key not in now:
                del self.owned[key]
                self.intervals.append((*key, owner, round(since, 3), round(at, 3)))
        for key in now:
            self.owned.setdefault(key, (member, at))

    def _exchange(self, event: dict[str, Any]) -> None:
        if event["api"] == "DeleteTopics":
            deleted = {each["name"] for each in event["answer"]["responses"]}
            self.committed = {key: offset for key, offset in self.committed.items() if key[1] not in deleted}

    def _commit(self, event: dict[str, Any]) -> None:
        for each in event["offsets"]:
            key = (event["group"], each["topic"], each["partition"])
            if each["offset"] < self.committed.get(key, -1):
                self.regressions.append((*key, each["offset"]))
            self.committed[key] = each["offset"]


@pytest.fixture(scope="module")
def story() -> dict[str, Any]:
    story: dict[str, Any] = json.loads((RECORDING / "story.json").read_text())
    return story


@pytest.fixture(scope="module")
def runs() -> list[list[dict[str, Any]]]:
    runs = [lines_of(file) for file in (RECORDING / "trace").iterdir()]
    return sorted(runs, key=lambda run: run[0]["wall"])


@pytest.fixture(scope="module")
def plain(runs: list[list[dict[str, Any]]]) -> PlainReader:
    return PlainReader(runs)


def write_traces(runs: list[list[dict[str, Any]]], folder: Path) -> list[str]:
    """Write the recording twice; return the folders.

    First as it is, with a file that is there packed and not, and a stale copy. Then as three nodes would have written
    it, the clocks of the second and third an hour and two behind, with other names of runs and groups.
    """
    here = folder / "recorded" / "trace"
    shutil.copytree(RECORDING / "trace", here)
    whole = gzip.decompress((here / "trace.jsonl.gz").read_bytes())
    (here / "trace.jsonl").write_bytes(whole)
    (here / "trace-copy.jsonl").write_bytes(whole[: whole.index(b"\n", len(whole) // 2) + 1])
    for number, run in enumerate(runs):
        place = folder / f"b{number}" / "trace" / "trace.jsonl"
        place.parent.mkdir(parents=True)
        lines = [{**event, "wall": event["wall"] - number * 3600} for event in run]
        lines[0]["run"] += BEHIND
        lines = [event | ({"group": event["group"] + BEHIND} if event.get("group") else {}) for event in lines]
        place.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in lines))
    return [str(here), *(str(folder / f"b{number}" / "trace") for number in range(len(runs)))]


@pytest.fixture(scope="module")
def every(spark: SparkSession, shared: Path, runs: list[list[dict[str, Any]]]) -> Warehouse:
    """Tables of the recording, and of its copy with other clocks."""
    folder = shared / "lives"
    warehouse = Warehouse(spark, str(folder / "out"), only=places_for(["violations", "partition_pauses", "rounds"]))

    def make() -> None:
        inputs = sort_out(write_traces(runs, folder / "in"))
        with warehouse.change("run"):
            build(warehouse, inputs)

    made_once(folder, make)
    warehouse.refresh()
    return warehouse


def recorded(warehouse: Warehouse, name: str) -> list[Row]:
    """Return the rows of the recording as it is."""
    return [row for row in warehouse.read(name).collect() if not row.group_id.endswith(BEHIND)]


def seconds(at: Any) -> float | None:
    return None if at is None else round(at.timestamp(), 3)


def owners(rows: list[Row]) -> dict[str, dict[str, str]]:
    by_group: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.owned_until is None:
            partition = f"{row.topic}-{row.partition}"
            assert partition not in by_group.setdefault(row.group_id, {}), f"{partition} has two owners"
            by_group[row.group_id][partition] = row.member_id
    return by_group


def test_owners_at_the_end_are_those_of_the_clients(every: Warehouse, story: dict[str, Any]) -> None:
    assert owners(recorded(every, "ownership")) == story["owners"]


def test_ownership_is_that_of_the_plain_reader(every: Warehouse, plain: PlainReader) -> None:
    ended = [
        (row.group_id, row.topic, row.partition, row.member_id, seconds(row.owned_from), seconds(row.owned_until))
        for row in recorded(every, "ownership")
        if row.owned_until is not None
    ]
    assert sorted(ended) == sorted(plain.intervals)


def test_an_empty_group_pauses_its_partitions(every: Warehouse, story: dict[str, Any]) -> None:
    began, ended = story["empty"]
    pauses = [row for row in recorded(every, "partition_pauses") if row.group_id == "orders" and row.ms > 2000]
    assert {row.partition for row in pauses} == {0, 1, 2, 3}
    assert all(began - 1 < row.started_at.timestamp() < row.ended_at.timestamp() < ended for row in pauses)


def test_a_member_has_several_stays_under_its_id(every: Warehouse, plain: PlainReader, story: dict[str, Any]) -> None:
    rows = recorded(every, "membership")
    stays = [(r.group_id, r.member_id, seconds(r.joined_at), seconds(r.left_at), r.how) for r in rows]
    ended = [(group, member, round(a, 3), round(b, 3), how) for group, member, a, b, how in plain.stays]
    still = [(group, member, round(a or 0, 3), None, None) for (group, member), a in plain.there.items()]
    assert sorted(stays, key=str) == sorted([*ended, *still], key=str)
    assert [how for _, member, *_, how in sorted(stays, key=str) if member == story["back"]] == ["expired", None]
    assert [how for _, member, *_, how in stays if member == story["replaced"][0]] == ["fenced"]


def test_rounds_are_those_of_the_plain_reader(every: Warehouse, plain: PlainReader) -> None:
    rows = recorded(every, "rounds")
    assert sorted((row.group_id, row.generation, row.cause) for row in rows) == sorted(plain.rounds)
    assert all(row.stable_at is not None for row in rows)


def test_real_lives_break_no_invariant(every: Warehouse, plain: PlainReader) -> None:
    violations = every.read("violations").where(F.col("group_id") != f"short{BEHIND}")
    assert violations.collect() == []
    # A group and its topic were deleted: the next commit is lower, and follows none.
    assert plain.regressions == []
    history = sorted(recorded(every, "offset_history"), key=attrgetter("happened_at"))
    assert [row for row in history if (row.delta or 0) < 0] == []
    assert {(row.group_id, row.topic, row.partition): row.committed_offset for row in history} == plain.committed


def test_clocks_of_nodes_do_not_order_a_group(every: Warehouse, story: dict[str, Any]) -> None:
    behind = [row for row in every.read("ownership").collect() if row.group_id.endswith(BEHIND)]
    # A group that was deleted and created again is ordered by time.
    there = owners([row for row in behind if row.group_id != f"short{BEHIND}"])
    assert there == {f"{group}{BEHIND}": owned for group, owned in story["owners"].items() if group != "short"}


def test_copies_of_files_count_once(runs: list[list[dict[str, Any]]], tmp_path: Path) -> None:
    """Files in folders of one name, one of them packed and not, and a stale copy beside its original."""
    for number, file in enumerate(sorted((RECORDING / "trace").iterdir())):
        folder = tmp_path / f"b{number}" / "trace"
        folder.mkdir(parents=True)
        shutil.copy(file, folder / "trace.jsonl.gz")
        whole = gzip.decompress(file.read_bytes())
        (folder / "trace.jsonl").write_bytes(whole)
        (folder / "trace-copy.jsonl").write_bytes(whole[: whole.index(b"\n", len(whole) // 2) + 1])
    paths = ",".join(str(tmp_path / f"b{number}") for number in range(len(runs)))
    reader = ShimTrace({"path": paths}).reader(None)  # type: ignore[arg-type]
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    keys = sorted((row["trace"], row["seq"]) for batch in batches for row in batch.select(["trace", "seq"]).to_pylist())
    assert keys == sorted((run[0]["run"], event["seq"]) for run in runs for event in run)


def test_a_stream_reads_the_longest_copy(tmp_path: Path) -> None:
    file = min((RECORDING / "trace").iterdir())
    whole = gzip.decompress(file.read_bytes())
    (tmp_path / "trace.jsonl").write_bytes(whole)
    (tmp_path / "trace-copy.jsonl").write_bytes(whole[: whole.index(b"\n") + 1])
    reader = ShimTrace({"path": str(tmp_path)}).streamReader(None)  # type: ignore[arg-type]
    end = reader.latestOffset(reader.initialOffset())
    rows = [batch for part in reader.partitions(reader.initialOffset(), end) for batch in reader.read(part)]
    assert sum(batch.num_rows for batch in rows) == whole.count(b"\n")


def test_a_stream_goes_on_in_a_file_that_was_packed(tmp_path: Path) -> None:
    first, second, *_ = sorted((RECORDING / "trace").iterdir())
    shutil.copy(first, tmp_path / "trace.jsonl.1.gz")
    packed = second.read_bytes()
    whole = gzip.decompress(packed)
    growing = tmp_path / "trace.jsonl"
    growing.write_bytes(whole[: whole.index(b"\n", len(whole) // 2) + 1])
    reader = ShimTrace({"path": str(tmp_path)}).streamReader(None)  # type: ignore[arg-type]
    begin = reader.initialOffset()
    middle = reader.latestOffset(begin)
    growing.write_bytes(whole)
    end = reader.latestOffset(middle)
    # Both batches are read after the file was packed, as by a stream that died and starts again.
    growing.unlink()
    (tmp_path / "trace.jsonl.2.gz").write_bytes(packed)
    again = reader.latestOffset(end)
    batches = [
        [row for part in reader.partitions(*bounds) for batch in reader.read(part) for row in batch["seq"].to_pylist()]
        for bounds in ((begin, middle), (middle, end), (end, again))
    ]
    assert [bool(batch) for batch in batches] == [True, True, False]
    expected = [event["seq"] for file in (first, second) for event in lines_of(file)]
    assert sorted(seq for batch in batches for seq in batch) == sorted(expected)
    assert reader.latestOffset(again) == again
