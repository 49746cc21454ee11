"""`kafka-shim offsets`, as an operator runs it."""

import subprocess
import sys
from pathlib import Path

from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue, PendingOffsetKey, PendingOffsetValue
from kafka_shim.persistence.stores import open_store

PARTITION_OF_GRP = 1  # of 4


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_shim", "offsets", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def fill(path: Path, topic_id: bytes = bytes(16)) -> str:
    """Fill a store with a committed and a pending offset."""
    url = f"sqlite:{path}"
    store = open_store(url, 4)
    store.write(
        [
            (PARTITION_OF_GRP, OffsetCommitKey("grp", "foo", 0), OffsetCommitValue(7, 1, "m", 1234, -1, topic_id)),
            (PARTITION_OF_GRP, PendingOffsetKey("grp", "foo", 1, 5), PendingOffsetValue(0, 1, OffsetCommitValue(8))),
        ]
    )
    store.close()
    return url


def contents(url: str) -> list[tuple[object, object]]:
    store = open_store(url, 4)
    entries = [entry for partition in range(4) for entry in store.load(partition)]
    store.close()
    return entries


def test_import_reads_an_export_into_another_store(tmp_path: Path) -> None:
    url = fill(tmp_path / "one", b"\1" * 16)
    done = run("export", tmp_path / "logs", "--store", url, "--partitions", "4", "--codec", "lz4")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"1 records in 4 partitions written to {tmp_path / 'logs'}.\n"
    other = f"sqlite:{tmp_path / 'two'}"
    done = run("import", tmp_path / "logs", "--store", other, "--partitions", "4")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1 offsets of 1 groups imported, from 1 records.\n"
    assert contents(other) == [(OffsetCommitKey("grp", "foo", 0), OffsetCommitValue(7, 1, "m", 1234))]


def test_import_preserves_topic_ids_on_demand(tmp_path: Path) -> None:
    url = fill(tmp_path / "one", b"\1" * 16)
    flags = ("--partitions", "4", "--keep-topic-ids")
    assert run("export", tmp_path / "logs", "--store", url, *flags).returncode == 0
    other = f"sqlite:{tmp_path / 'two'}"
    assert run("import", tmp_path / "logs", "--store", other, *flags).returncode == 0
    assert contents(other)[0][1] == OffsetCommitValue(7, 1, "m", 1234, -1, b"\1" * 16)


def test_a_refused_import_leaves_no_store(tmp_path: Path) -> None:
    done = run("import", tmp_path / "nowhere", "--store", f"sqlite:{tmp_path / 'new'}")
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_an_impossible_export_or_import_is_refused_in_one_sentence(tmp_path: Path) -> None:
    url = fill(tmp_path / "one")
    (tmp_path / "__consumer_offsets-0").mkdir()
    for arguments, sentence in (
        (
            ("export", tmp_path, "--store", url, "--partitions", "4"),
            f"{tmp_path / '__consumer_offsets-0'} already exists",
        ),
        (("export", tmp_path / "x", "--store", url), "has offsets.topic.num.partitions=4, not 50."),
        (("export", tmp_path / "x", "--store", f"sqlite:{tmp_path / 'nowhere'}"), "There is no store"),
        (("import", tmp_path / "one", "--store", f"sqlite:{tmp_path}"), "is a folder: name a file in it."),
        (("export", tmp_path / "x", "--store", "memory:"), "A store in memory ends with the process"),
        (("export", tmp_path / "x", "--store", "nonsense"), "'nonsense' names no store"),
        (("export", tmp_path / "x", "--store", url, "--topic-id", "short"), "'short' is not a topic id"),
        (("import", tmp_path / "gone", "--store", url, "--partitions", "4"), "is neither a log segment"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("kafka-shim: ")
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


def test_import_reports_damage_and_imports_the_rest(tmp_path: Path) -> None:
    url = fill(tmp_path / "one")
    assert run("export", tmp_path / "logs", "--store", url, "--partitions", "4").returncode == 0
    segment = tmp_path / "logs" / f"__consumer_offsets-{PARTITION_OF_GRP}" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes() + b"\0" * 30)
    done = run("import", segment, "--store", f"sqlite:{tmp_path / 'two'}", "--partitions", "4")
    assert done.returncode == 1
    assert "1 offsets of 1 groups imported" in done.stdout
    assert "only zeroes from here on" in done.stderr
