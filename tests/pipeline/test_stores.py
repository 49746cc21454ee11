"""Traces and segments in a store that speaks S3."""

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from bench.store import BUCKET, s3
from kafka_shim.pipeline.run import sort_out, store_settings
from kafka_shim.pipeline.sources import offsets_log, shim_trace
from kafka_shim.pipeline.sources.places import AHEAD, Place, Settings, Unreadable

from .test_sources import events, segment

PACKED = {"gz": "gzip", "zst": "zstd"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Settings]:
    """An S3 server with a bucket of traces and segments, and what Spark's settings say of it."""
    with s3() as found:
        events(tmp_path / "in" / "trace" / "node-0", list(range(100)))
        segment(tmp_path / "in" / "segments" / "__consumer_offsets-3", 0, 9)
        plain = tmp_path / "in" / "trace" / "node-0" / "trace.jsonl"
        for suffix, codec in PACKED.items():
            packed = tmp_path / "packed" / suffix / f"trace.jsonl.{suffix}"
            packed.parent.mkdir(parents=True)
            with pa.CompressedOutputStream(str(packed), codec) as out:
                out.write(plain.read_bytes())
        for name in ("in", "packed"):
            found.put(tmp_path / name, name)
        yield store_settings({**found.settings, "spark.sql.shuffle.partitions": "2"})


def test_what_is_in_a_store_is_read_as_from_a_disk(store: Settings, tmp_path: Path) -> None:
    inputs = sort_out(["s3a://bucket/in"], settings=store)
    assert (inputs.traces, inputs.logs) == (("s3a://bucket/in/trace",), ("s3a://bucket/in/segments",))

    def rows(traces: str, logs: str, settings: Settings) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for place in shim_trace.files(traces, settings):
            part = shim_trace.Part(place.address, 0, place.size())
            for batch in shim_trace.read_part(part, settings=settings):
                found += [(row["trace"], row["seq"], row["position"]) for row in batch.to_pylist()]
        for place in offsets_log.segments(logs, settings):
            for log_part in offsets_log.parts(place, 1 << 20):
                for batch in offsets_log.read_part(log_part, settings):
                    found += [(row["log"], row["record_offset"], row["offset"]) for row in batch.to_pylist()]
        return found

    here = tmp_path / "in"
    assert rows(inputs.traces[0], inputs.logs[0], store) == rows(str(here / "trace"), str(here / "segments"), ())
    assert len(rows(inputs.traces[0], inputs.logs[0], store)) == 110


@pytest.mark.parametrize("suffix", PACKED)
def test_what_is_packed_in_a_store_is_read_as_what_is_in_it(store: Settings, suffix: str) -> None:
    (found,) = shim_trace.files(f"s3a://{BUCKET}/packed/{suffix}", store)
    part = shim_trace.Part(found.address, 0, found.size())
    (rows,) = shim_trace.read_part(part, settings=store)
    assert found.is_packed
    assert rows["seq"].to_pylist() == list(range(100))


def test_a_store_is_asked_for_much_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with s3() as server:
        trace = tmp_path / "many" / "trace.jsonl.zst"
        trace.parent.mkdir()
        with pa.CompressedOutputStream(str(trace), "zstd") as out:
            # Two lines that are no events, and cannot be packed any smaller.
            out.write(b"{}\n" + Random(1).randbytes(AHEAD * 3 // 2).replace(b"\n", b" "))
        server.put(trace.parent, "many")
        caplog.set_level(logging.INFO, "werkzeug")
        settings = store_settings(server.settings)
        (found,) = shim_trace.files(f"s3a://{BUCKET}/many", settings)
        rows = sum(
            batch.num_rows for batch in shim_trace.read_part(shim_trace.Part(found.address, 0, 1), settings=settings)
        )
    assert rows == 2
    asked = [each for each in caplog.messages if f"GET /{BUCKET}/many/{trace.name}" in each]
    # The first line, and what there is in two pieces, the end of which is asked for once more.
    assert 3 <= len(asked) <= 4, asked


def test_what_is_not_in_a_store_is_one_sentence(store: Settings) -> None:
    with pytest.raises(Unreadable, match="s3a://bucket/nothing does not exist"):
        sort_out(["s3a://bucket/nothing"], settings=store)
    with pytest.raises(Unreadable, match="it is no file"):
        Place("s3a://bucket/in/none.jsonl", store).size()
