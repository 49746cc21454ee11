"""Traces, segments and snapshots in a store that speaks S3."""

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from bench.store import BUCKET, s3
from kafka_shim.pipeline.run import sort_out
from kafka_shim.pipeline.snapshots import Files, Unwritable, new_run
from kafka_shim.pipeline.sources import offsets_log, shim_trace
from kafka_shim.pipeline.sources.places import AHEAD, Place, Settings, Unreadable, store_settings

from .test_sources import events, segment

PACKED = {"gz": "gzip", "zst": "zstd"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Settings]:
    """Start an S3 server with a bucket of traces and segments; yield its settings."""
    with s3() as server:
        events(tmp_path / "in" / "trace" / "node-0", list(range(100)))
        segment(tmp_path / "in" / "segments" / "__consumer_offsets-3", 0, 9)
        plain = tmp_path / "in" / "trace" / "node-0" / "trace.jsonl"
        for suffix, codec in PACKED.items():
            packed = tmp_path / "packed" / suffix / f"trace.jsonl.{suffix}"
            packed.parent.mkdir(parents=True)
            with pa.CompressedOutputStream(str(packed), codec) as out:
                out.write(plain.read_bytes())
        for name in ("in", "packed"):
            server.put(tmp_path / name, name)
        yield store_settings({**server.settings, "spark.sql.shuffle.partitions": "2"})


def test_a_store_reads_like_a_disk(store: Settings, tmp_path: Path) -> None:
    inputs = sort_out(["s3a://bucket/in"], settings=store)
    assert (inputs.traces, inputs.logs) == (("s3a://bucket/in/trace",), ("s3a://bucket/in/segments",))

    def rows(traces: str, logs: str, settings: Settings) -> list[tuple[object, ...]]:
        result: list[tuple[object, ...]] = []
        for place in shim_trace.files(traces, settings):
            part = shim_trace.Part(place.address, 0, place.size())
            for batch in shim_trace.read_part(part, settings=settings):
                result += [(row["trace"], row["seq"], row["position"]) for row in batch.to_pylist()]
        for place in offsets_log.segments(logs, settings):
            for log_part in offsets_log.parts(place, 1 << 20):
                for batch in offsets_log.read_part(log_part, settings):
                    result += [(row["log"], row["record_offset"], row["committed_offset"]) for row in batch.to_pylist()]
        return result

    here = tmp_path / "in"
    assert rows(inputs.traces[0], inputs.logs[0], store) == rows(str(here / "trace"), str(here / "segments"), ())
    assert len(rows(inputs.traces[0], inputs.logs[0], store)) == 110


@pytest.mark.parametrize("suffix", PACKED)
def test_a_compressed_file_in_a_store_reads_like_its_content(store: Settings, suffix: str) -> None:
    (place,) = shim_trace.files(f"s3a://{BUCKET}/packed/{suffix}", store)
    part = shim_trace.Part(place.address, 0, place.size())
    (rows,) = shim_trace.read_part(part, settings=store)
    assert place.is_packed
    assert rows["seq"].to_pylist() == list(range(100))


def test_a_store_gets_few_large_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with s3() as server:
        trace = tmp_path / "many" / "trace.jsonl.zst"
        trace.parent.mkdir()
        with pa.CompressedOutputStream(str(trace), "zstd") as out:
            # Two lines that are not events and cannot be compressed.
            out.write(b"{}\n" + Random(1).randbytes(AHEAD * 3 // 2).replace(b"\n", b" "))
        server.put(trace.parent, "many")
        caplog.set_level(logging.INFO, "werkzeug")
        settings = store_settings(server.settings)
        (place,) = shim_trace.files(f"s3a://{BUCKET}/many", settings)
        rows = sum(
            batch.num_rows for batch in shim_trace.read_part(shim_trace.Part(place.address, 0, 1), settings=settings)
        )
    assert rows == 2
    requests = [each for each in caplog.messages if f"GET /{BUCKET}/many/{trace.name}" in each]
    # The first line, then the file in two pieces; its end is requested once more.
    assert 3 <= len(requests) <= 4, requests


def test_a_missing_object_is_one_sentence(store: Settings) -> None:
    with pytest.raises(Unreadable, match="s3a://bucket/nothing does not exist"):
        sort_out(["s3a://bucket/nothing"], settings=store)
    with pytest.raises(Unreadable, match="it is not a file"):
        Place("s3a://bucket/in/none.jsonl", store).size()


@pytest.mark.parametrize("root", [f"s3a://{BUCKET}/out", ""])
def test_of_several_that_create_a_file_at_most_one_succeeds(store: Settings, tmp_path: Path, root: str) -> None:
    name = "snapshots/00000001.json"
    files = Files(root or str(tmp_path / "out"), store)
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(partial(files.create, name), map(str, range(8))))
    winners = [str(number) for number, success in enumerate(created) if success]
    # All may have seen each other; then the next one succeeds.
    if not winners:
        assert files.create(name, "later")
        winners = ["later"]
    assert [files.text(name)] == winners
    assert not files.create(name, "again")
    assert files.names("snapshots") == ["00000001.json"]
    files.remove("snapshots")
    assert files.names("snapshots") == []


@pytest.mark.parametrize(("age_s", "succeeds"), [(0, False), (3600, True)])
def test_the_claim_of_a_dead_process_ends(tmp_path: Path, age_s: float, succeeds: bool) -> None:
    files = Files(str(tmp_path))
    files.write(f"snapshots/00000001.json.{new_run(time.time() - age_s)}", "")
    assert files.create("snapshots/00000001.json", "{}") is succeeds
    assert ("00000001.json" in files.names("snapshots")) is succeeds


def test_a_missing_bucket_is_one_sentence(store: Settings) -> None:
    with pytest.raises(Unwritable, match=r"^s3a://nobody/out cannot be written: [^\n]+$"):
        Files("s3a://nobody/out", store).write("changes/1", "")
