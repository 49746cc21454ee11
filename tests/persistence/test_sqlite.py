"""The SQLite store: its contents, no loss of acknowledged batches, and one sentence for each problem."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence import sqlite
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.own_records import DOCUMENTS
from kafka_shim.persistence.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
)
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.persistence.store import StoreError
from kafka_shim.persistence.stores import open_store
from tests.examples import examples
from tests.persistence.strategies import stored_pairs

KEY = OffsetCommitKey("grp", "foo", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "offsets.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, 50)
    store.open()
    yield store
    store.close()


def reopened(store: SqliteStore) -> SqliteStore:
    store.close()
    again = SqliteStore(store.path, store.partitions)
    again.open()
    return again


def offsets(count: int, value: int) -> list[tuple[int, OffsetCommitKey, OffsetCommitValue]]:
    return [
        (n % 50, OffsetCommitKey(f"group-{n % 7}", "foo", n), OffsetCommitValue(value, -1, "", n)) for n in range(count)
    ]


def load_all(store: SqliteStore) -> list[OffsetCommitValue]:
    return [value for partition in range(store.partitions) for _, value in store.load(partition)]


@contextmanager
def not_root() -> Iterator[None]:
    """Become another user for the block: root can write read-only files."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# Contents.


def test_the_newest_value_of_a_key_wins(store: SqliteStore) -> None:
    store.write([(3, KEY, OffsetCommitValue(1)), (3, KEY, OffsetCommitValue(2)), (4, KEY, OffsetCommitValue(9))])
    store.write([(3, OffsetCommitKey("grp", "foo", 1), OffsetCommitValue(5))])
    store = reopened(store)
    assert dict(store.load(3)) == {KEY: OffsetCommitValue(2), OffsetCommitKey("grp", "foo", 1): OffsetCommitValue(5)}
    assert dict(store.load(4)) == {KEY: OffsetCommitValue(9)}
    assert list(store.load(0)) == []


def test_the_order_within_a_batch_counts(store: SqliteStore) -> None:
    group = GroupMetadataKey("grp")
    store.write([(0, KEY, OffsetCommitValue(1)), (0, KEY, None), (0, group, None), (0, group, GroupMetadataValue())])
    assert list(store.load(0)) == [(group, GroupMetadataValue())]
    store.write([(0, group, None), (0, GroupMetadataKey("never"), None)])
    assert list(store.load(0)) == []


@pytest.mark.parametrize("count", [0, 1, 2, 5, 63, 1023, 1024, 1371, 5000])
def test_batches_of_every_size_are_stored(store: SqliteStore, count: int) -> None:
    batch = offsets(count, 7)
    store.write(batch)
    assert {(p, key): value for p in range(50) for key, value in store.load(p)} == {(p, k): v for p, k, v in batch}
    store.write([(p, key, None) for p, key, _ in batch[: count // 2]])
    assert len(load_all(store)) == count - count // 2


@settings(max_examples=examples(30))
@given(st.lists(st.lists(st.tuples(st.integers(0, 2), stored_pairs, st.booleans()), max_size=8), max_size=8))
def test_sqlite_and_memory_stores_load_equal_records(tmp_path_factory: pytest.TempPathFactory, batches: list) -> None:
    store = SqliteStore(tmp_path_factory.mktemp("store") / "offsets.db", 3)
    store.open()
    memory = MemoryStore()
    for steps in batches:
        batch = [(partition, key, value if keep else None) for partition, (key, value), keep in steps]
        store.write(batch)
        memory.write(batch)
    store = reopened(store)
    for partition in range(3):
        assert dict(store.load(partition)) == dict(memory.load(partition))
    store.close()


# Crashes.


def test_every_write_waits_for_the_disk(store: SqliteStore) -> None:
    connection = store._opened()
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_copy_of_the_files_at_any_time_opens_with_all_that_was_acknowledged(
    store: SqliteStore, tmp_path: Path
) -> None:
    for n in range(1, 40):
        store.write(offsets(300, n))
        copy = tmp_path / f"copy-{n}.db"
        for suffix in ("", "-wal"):
            if Path(f"{store.path}{suffix}").exists():
                shutil.copy(f"{store.path}{suffix}", f"{copy}{suffix}")
        other = SqliteStore(copy, 50)
        other.open()
        assert {value.offset for value in load_all(other)} == {n}
        assert len(load_all(other)) == 300
        other.close()


@pytest.mark.parametrize("cut", [1, 100, 4000, 4096, 5000, 20000])
def test_a_truncated_log_ends_with_a_whole_batch(store: SqliteStore, tmp_path: Path, cut: int) -> None:
    store.write(offsets(300, 1))
    acknowledged = Path(f"{store.path}-wal").stat().st_size
    store.write(offsets(300, 2))
    copy = tmp_path / "copy.db"
    shutil.copy(store.path, copy)
    log = Path(f"{store.path}-wal").read_bytes()
    Path(f"{copy}-wal").write_bytes(log[: max(len(log) - cut, acknowledged)])
    other = SqliteStore(copy, 50)
    other.open()
    assert {value.offset for value in load_all(other)} == {1}
    other.close()


def _write_until_killed(path: Path, acknowledged: "multiprocessing.connection.Connection") -> None:
    store = SqliteStore(path, 50)
    store.open()
    n = 0
    while True:
        n += 1
        store.write(offsets(200, n))
        acknowledged.send(n)


def test_a_killed_process_loses_no_acknowledged_batch(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    newest = 0
    for _ in range(3):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_write_until_killed, args=(path, sender))
        process.start()
        sender.close()
        for _ in range(20):
            newest = receiver.recv()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        try:
            while True:
                newest = receiver.recv()
        except EOFError:
            pass
        store = SqliteStore(path, 50)
        store.open()
        offsets = {value.offset for value in load_all(store)}
        assert offsets in ({newest}, {newest + 1})
        store.close()


# Problems.


def test_a_second_owner_is_refused(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.persistence.sqlite.BUSY_TIMEOUT", 0.0)
    with pytest.raises(StoreError, match=r"The store .*offsets\.db is in use by another process\.$"):
        SqliteStore(store.path, 50).open()
    store.write([(0, KEY, OffsetCommitValue(1))])
    reopened(store).close()


def _own(path: Path, ready: "multiprocessing.connection.Connection") -> None:
    store = SqliteStore(path, 50)
    store.open()
    ready.send(True)
    ready.recv()


def test_a_second_process_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.persistence.sqlite.BUSY_TIMEOUT", 0.0)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_own, args=(path, there))
    process.start()
    here.recv()
    with pytest.raises(StoreError, match="is in use by another process"):
        SqliteStore(path, 50).open()
    here.send(True)
    process.join()
    SqliteStore(path, 50).open()


def test_a_text_file_is_refused(path: Path) -> None:
    path.write_text("this is a diary, and not a short one: " * 100)
    with pytest.raises(StoreError, match="is not a SQLite database"):
        open_store(f"sqlite:{path}", 50)


def test_another_program_s_database_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE cats (name TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="is a SQLite database of another program"):
        open_store(f"sqlite:{path}", 50)


def test_a_schema_of_a_later_release_is_refused(store: SqliteStore) -> None:
    store.close()
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version=9")
    connection.close()
    with pytest.raises(StoreError, match=r"was written by a newer version \(schema 9, this one reads 1\)"):
        store.open()


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (-1, r"was written by an older version \(schema -1, this one reads 1\)"),
        (0, "has lost its version: another program has changed it; restore it from a copy"),
    ],
)
def test_an_older_schema_is_not_called_newer(store: SqliteStore, version: int, sentence: str) -> None:
    store.close()
    connection = sqlite3.connect(store.path)
    connection.execute(f"PRAGMA user_version={version}")
    connection.close()
    with pytest.raises(StoreError, match=sentence):
        store.open()


def test_an_empty_file_in_place_of_a_store_is_said(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    SqliteStore(path, 50).open()
    assert caplog.messages == []
    path.with_name("empty.db").touch()
    store = SqliteStore(path.with_name("empty.db"), 50)
    store.open()
    store.close()
    (message,) = caplog.messages
    assert "is an empty file, and a new store begins in it" in message


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_was_removed_or_replaced_is_written_no_more(
    store: SqliteStore, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOOK_SECONDS", 0.0)
    store.write([(0, OffsetCommitKey("g", "t", 0), OffsetCommitValue(1))])
    aside = store.path.rename(store.path.with_name("aside.db"))
    if replaced:
        aside.with_name(store.path.name).write_bytes(aside.read_bytes())
    for _ in range(2):
        with pytest.raises(StoreError, match="was removed or replaced while it was open") as refused:
            store.write([(0, OffsetCommitKey("g", "t", 0), OffsetCommitValue(2))])
        assert refused.value.error == ErrorCode.NOT_COORDINATOR
        assert refused.value.is_final


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_whose_log_was_removed_or_replaced_keeps_its_records_and_is_written_no_more(
    store: SqliteStore, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOOK_SECONDS", 0.0)
    pairs = [(OffsetCommitKey("g", "t", number), OffsetCommitValue(number)) for number in range(10)]
    store.write([(0, *pair) for pair in pairs])
    path = store.path.with_name(f"{store.path.name}-wal")
    data = path.read_bytes()
    # The inode must not be free for the new file.
    aside = path.rename(path.with_name("aside"))
    if replaced:
        path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"has a log, .*-wal, that was removed or replaced") as refused:
            store.write([(0, OffsetCommitKey("g", "t", 0), OffsetCommitValue(99))])
        assert refused.value.is_final
    aside.unlink()
    again = reopened(store)
    assert list(again.load(0)) == pairs
    again.close()


@pytest.mark.parametrize("name", ["offsets.db", ":memory:"])
def test_an_untouched_store_is_written_across_checkpoints(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOOK_SECONDS", -1.0)
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(Path(name), 50)
    for _ in range(2):
        store.open()
        store.look()
        for number in range(3):
            store.write([(0, OffsetCommitKey("g", "t", number), OffsetCommitValue(number))])
            store._opened().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.look()
        assert len(list(store.load(0))) == 3
        store.close()


def test_another_number_of_partitions_is_refused(store: SqliteStore) -> None:
    store.close()
    with pytest.raises(StoreError, match=r"has offsets\.topic\.num\.partitions=50, not 10"):
        open_store(f"sqlite:{store.path}", 10)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened: check that the folder exists"):
        open_store(f"sqlite:{tmp_path / 'nowhere' / 'offsets.db'}", 50)


def test_a_read_only_file_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "offsets.db", 50)
        store.open()
        store.close()
        store.path.chmod(0o444)
        Path(folder).chmod(0o555)
        with not_root(), pytest.raises(StoreError, match="cannot be written: the file or its folder is read-only"):
            store.open()
        Path(folder).chmod(0o700)


def test_a_file_that_becomes_read_only_fails_the_write(store: SqliteStore) -> None:
    store._opened().execute("PRAGMA query_only=1")
    with pytest.raises(StoreError, match="cannot be written") as refused:
        store.write(offsets(1, 1))
    assert refused.value.error is ErrorCode.NOT_COORDINATOR


def test_a_full_disk_loses_the_batch_alone(store: SqliteStore) -> None:
    store.write(offsets(100, 1))
    connection = store._opened()
    connection.execute("PRAGMA max_page_count=1")
    with pytest.raises(StoreError, match="cannot grow: the disk is full") as full:
        store.write(offsets(100, 2) + offsets(9000, 2))
    assert full.value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert {value.offset for value in load_all(store)} == {1}
    connection.execute("PRAGMA max_page_count=1000000")
    store.write(offsets(9000, 3))
    assert len(load_all(store)) == 9000


def test_a_probe_needs_room_and_leaves_nothing(store: SqliteStore) -> None:
    connection = store._opened()
    connection.execute("PRAGMA max_page_count=1")
    with pytest.raises(StoreError, match="the disk is full"):
        store.probe()
    connection.execute("PRAGMA max_page_count=1000000")
    store.probe()
    store.probe()
    assert connection.execute("SELECT count(*) FROM records").fetchone() == (0,)


def killed(rows: int) -> str:
    raise KeyboardInterrupt


def test_a_probe_that_a_kill_interrupts_leaves_no_record(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_delete", killed)
    with pytest.raises(KeyboardInterrupt):
        store.probe()
    assert [list(store.load(partition)) for partition in (DOCUMENTS, *range(50))] == [[]] * 51


def test_a_corrupted_file_is_refused(store: SqliteStore) -> None:
    store.write(offsets(5000, 1))
    store.close()
    damaged = bytearray(store.path.read_bytes())
    for page in range(3, len(damaged) // 4096):
        damaged[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    store.path.write_bytes(damaged)
    store.open()
    with pytest.raises(StoreError, match="is corrupted: restore it from a copy") as corrupted:
        load_all(store)
    assert corrupted.value.error is ErrorCode.NOT_COORDINATOR
    assert corrupted.value.is_final
    with pytest.raises(StoreError, match="is corrupted: restore it from a copy"):
        store.write(offsets(1, 2))


def test_a_record_that_cannot_be_read_fails_its_partition_alone(store: SqliteStore) -> None:
    store.write([(0, KEY, OffsetCommitValue(1)), (1, KEY, OffsetCommitValue(1))])
    store._opened().execute("UPDATE records SET value=? WHERE partition=1", (b"\0\x09",))
    with pytest.raises(StoreError, match=r"holds a record of partition 1 that cannot be read: .* has version 9"):
        list(store.load(1))
    assert dict(store.load(0)) == {KEY: OffsetCommitValue(1)}


def test_keys_are_stored_as_kafka_writes_them(store: SqliteStore) -> None:
    store.write([(0, KEY, OffsetCommitValue(1))])
    assert store._opened().execute("SELECT key FROM records").fetchall() == [(encode_key(KEY),)]


def test_other_partitions_can_be_written_while_one_is_loaded(store: SqliteStore) -> None:
    store.write([(0, OffsetCommitKey("grp", "foo", n), OffsetCommitValue(n)) for n in range(12_000)])
    loading = store.load(0)
    rows = [next(loading)]
    store.write([(1, KEY, OffsetCommitValue(1))])
    rows += loading
    assert sorted(value.offset for _, value in rows) == list(range(12_000))
    assert dict(store.load(1)) == {KEY: OffsetCommitValue(1)}
