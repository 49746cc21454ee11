"""Files with the bytes of clients: their owner's alone, and none is overwritten that has something in it."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kafka_shim.persistence.files import begin_file, make_private, new_file, set_aside, write_private
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue
from kafka_shim.persistence.segments import PartitionWriter
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.persistence.store import StoreError


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    begin_file(tmp_path / "trace.jsonl").close()
    new_file(tmp_path / "00000000000000000000.log").close()
    write_private(tmp_path / "page.html", b"<html>")
    assert set(modes(tmp_path).values()) == {0o600}


def test_a_store_and_its_log_are_their_owners_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "offsets.db", 50)
    store.open()
    store.write([(0, OffsetCommitKey("g", "t", 0), OffsetCommitValue(1))])
    assert set(modes(tmp_path)) == {"offsets.db", "offsets.db-wal"}
    assert set(modes(tmp_path).values()) == {0o600}
    store.close()


def older(path: Path, data: bytes = b"older") -> Path:
    path.write_bytes(data)
    path.chmod(0o644)
    return path


def test_older_files_become_their_owners_alone(tmp_path: Path) -> None:
    write_private(older(tmp_path / "page.html"), b"<html>")
    begin_file(older(tmp_path / "journal.jsonl", b"")).close()
    begin_file(older(tmp_path / "trace.jsonl")).close()
    assert modes(tmp_path) == dict.fromkeys(("page.html", "journal.jsonl", "trace.jsonl", "trace.jsonl.1"), 0o600)


def test_an_older_store_and_its_log_become_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "offsets.db"
    killed = SqliteStore(path, 50)
    killed.open()
    killed.write([(0, OffsetCommitKey("g", "t", 0), OffsetCommitValue(1))])
    folder = tmp_path / "copy"
    folder.mkdir()
    for each in (path, path.with_name("offsets.db-wal")):
        older(folder / each.name, each.read_bytes())
    killed.close()
    link = tmp_path / "link.db"
    link.symlink_to(folder / path.name)
    store = SqliteStore(link, 50)
    store.open()
    assert modes(folder) == {"offsets.db": 0o600, "offsets.db-wal": 0o600}
    store.close()


def test_a_file_of_another_program_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "another.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE another (number INTEGER)")
    path.chmod(0o644)
    with pytest.raises(StoreError, match="of another program"):
        SqliteStore(path, 50).open()
    assert modes(tmp_path) == {"another.db": 0o644}


def test_a_pipe_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o666)
    make_private(path)
    make_private(tmp_path / "absent")
    assert modes(tmp_path) == {"pipe": 0o666}


def test_segments_are_their_owners_alone(tmp_path: Path) -> None:
    PartitionWriter(tmp_path / "__consumer_offsets-0").close()
    found = modes(tmp_path / "__consumer_offsets-0")
    assert {mode for name, mode in found.items() if name.startswith("0000")} == {0o600}


def test_a_file_with_something_in_it_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for number in range(3):
        with begin_file(path) as file:
            file.write(b"%d" % number)
    (tmp_path / "journal.jsonl.old").write_bytes(b"of somebody")
    found = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.suffix != ".old"}
    assert found == {"journal.jsonl.1": b"0", "journal.jsonl.2": b"1", "journal.jsonl": b"2"}


def test_an_empty_file_and_a_device_stay_in_their_place(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.touch()
    set_aside(path)
    set_aside(Path(os.devnull))
    assert [each.name for each in tmp_path.iterdir()] == ["trace.jsonl"]
    assert Path(os.devnull).exists()
