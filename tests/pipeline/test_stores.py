"""Traces and segments in a store that speaks S3."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs
import pytest

from kafka_shim.pipeline.run import sort_out, store_settings
from kafka_shim.pipeline.sources import offsets_log, shim_trace
from kafka_shim.pipeline.sources.places import Place, Settings, Unreadable

from .test_sources import events, segment

moto = pytest.importorskip("moto.server", reason="moto, an S3 server, is not installed (requirements/test.txt)")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Settings]:
    """An S3 server with a bucket, and what Spark's settings say of it."""
    server = moto.ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    try:
        files = pyarrow.fs.S3FileSystem(
            access_key="key", secret_key="secret", endpoint_override=f"{host}:{port}", scheme="http",
            region="us-east-1", allow_bucket_creation=True,
        )  # fmt: skip
        events(tmp_path / "in" / "trace" / "node-0", list(range(100)))
        segment(tmp_path / "in" / "segments" / "__consumer_offsets-3", 0, 9)
        files.create_dir("bucket")
        pyarrow.fs.copy_files(str(tmp_path / "in"), "bucket/in", destination_filesystem=files)
        config = {
            "spark.hadoop.fs.s3a.endpoint": f"http://{host}:{port}",
            "spark.hadoop.fs.s3a.access.key": "key",
            "spark.hadoop.fs.s3a.secret.key": "secret",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.sql.shuffle.partitions": "2",
        }
        yield store_settings(config)
    finally:
        server.stop()


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


def test_what_is_not_in_a_store_is_one_sentence(store: Settings) -> None:
    with pytest.raises(Unreadable, match="s3a://bucket/nothing does not exist"):
        sort_out(["s3a://bucket/nothing"], settings=store)
    with pytest.raises(Unreadable, match="it is no file"):
        Place("s3a://bucket/in/none.jsonl", store).size()
