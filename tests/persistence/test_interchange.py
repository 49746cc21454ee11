"""Import and export of `__consumer_offsets`: compaction, transactions, other numbers of partitions, round trips."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.persistence.batch import ABORT, CODECS, COMMIT, Record, end_marker, write_batch
from kafka_shim.persistence.interchange import export_offsets, import_offsets
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.records import (
    NO_TOPIC_ID,
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingOffsetKey,
    PendingOffsetValue,
    TransactionKey,
    TransactionValue,
    UnknownKey,
    UnknownValue,
    Value,
    encode_key,
    encode_offset,
    encode_value,
)
from kafka_shim.persistence.segments import read_partition
from tests.examples import examples
from tests.persistence.strategies import pairs

FOO0, FOO1 = OffsetCommitKey("grp", "foo", 0), OffsetCommitKey("grp", "foo", 1)
PARTITION = partition_for("grp", 50)


class Log:
    """A builder of a partition's log, as a broker writes it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "__consumer_offsets-29" / "00000000000000000000.log"
        self.path.parent.mkdir(parents=True)
        self.offset = 0
        self.data = b""

    def write(self, *changes: tuple[Key, Value | None], producer: int = -1, codec: str = "none") -> None:
        records = [
            Record(self.offset + n, 5, encode_key(key), None if value is None else encode_value(key, value))
            for n, (key, value) in enumerate(changes)
        ]
        self.raw(*records, producer=producer, codec=codec)

    def raw(self, *records: Record, producer: int = -1, codec: str = "none") -> None:
        self.offset += len(records)
        self.data += write_batch(records, producer_id=producer, transactional=producer >= 0, codec=codec)

    def end(self, producer: int, kind: int) -> None:
        self.data += write_batch(
            [end_marker(self.offset, 5, kind)], producer_id=producer, transactional=True, control=True
        )
        self.offset += 1

    def imported(self, source: Path | None = None) -> dict[Key, Value]:
        """Import the log and return its records; all must be in the partition of `grp`."""
        self.path.write_bytes(self.data)
        store = MemoryStore()
        self.result = import_offsets(source or self.path, store, 50)
        return dict(store.load(PARTITION))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_the_newest_value_counts_and_tombstones_delete(log: Log) -> None:
    group = GroupMetadataValue("consumer", 3, None, None, 9, [])
    log.write((FOO0, OffsetCommitValue(1)), (FOO1, OffsetCommitValue(2)))
    log.write((FOO0, OffsetCommitValue(3)), (GroupMetadataKey("grp"), group), codec="gzip")
    log.write((FOO1, None))
    assert log.imported() == {FOO0: OffsetCommitValue(3), GroupMetadataKey("grp"): group}
    result = log.result
    assert (result.files, result.records, result.offsets, result.groups, result.pending) == (1, 5, 1, 1, 0)


def test_a_transaction_counts_when_it_is_committed(log: Log) -> None:
    log.write((FOO0, OffsetCommitValue(1)))
    log.write((FOO0, OffsetCommitValue(2)), producer=7)
    log.write((FOO1, OffsetCommitValue(3)), producer=8)
    assert log.imported() == {FOO0: OffsetCommitValue(1)}
    assert log.result.pending == 2
    log.end(7, COMMIT)
    log.end(8, ABORT)
    assert log.imported() == {FOO0: OffsetCommitValue(2)}
    assert log.result.pending == 0


def test_the_latest_write_wins_whenever_its_transaction_ends(log: Log) -> None:
    log.write((FOO0, OffsetCommitValue(1)), (FOO1, OffsetCommitValue(1)), producer=7)
    log.write((FOO0, OffsetCommitValue(2)))
    log.write((FOO1, OffsetCommitValue(3)), producer=8)
    log.end(8, COMMIT)
    log.end(7, COMMIT)
    assert log.imported() == {FOO0: OffsetCommitValue(2), FOO1: OffsetCommitValue(3)}


def test_a_tombstone_takes_pending_offsets_along(log: Log) -> None:
    log.write((FOO0, OffsetCommitValue(1)), producer=7)
    log.write((FOO0, None))
    log.end(7, COMMIT)
    assert log.imported() == {}


def test_marker_without_transaction_is_ignored(log: Log) -> None:
    log.end(99, COMMIT)
    log.write((FOO0, OffsetCommitValue(1)))
    assert log.imported() == {FOO0: OffsetCommitValue(1)}


def test_records_of_before_kafka_0_9_become_todays(log: Log) -> None:
    old = b"\0\0" + encode_key(FOO0)[2:]
    log.raw(Record(0, 5, old, encode_offset(OffsetCommitValue(4, -1, "m", 5), 0)))
    assert log.imported() == {FOO0: OffsetCommitValue(4, -1, "m", 5)}


def test_unknown_record_types_survive_unchanged(log: Log) -> None:
    key = UnknownKey(b"\0\x09\0\3grp", 9)
    log.write((key, UnknownValue(b"\0\0\7")))
    log.write((UnknownKey(b"\0\x63", 99), UnknownValue(b"")))
    assert log.imported() == {key: UnknownValue(b"\0\0\7")}
    assert log.result.unknown == 1
    assert [problem.reason for problem in log.result.problems] == ["a record key of type 99 is cut short"]


def test_our_own_types_do_not_come_from_a_broker(log: Log) -> None:
    log.write((TransactionKey("grp"), TransactionValue()), (FOO0, OffsetCommitValue(1)))
    assert log.imported() == {FOO0: OffsetCommitValue(1)}
    assert [problem.reason for problem in log.result.problems] == ["a record has type -2, which no broker writes"]


def test_our_own_types_do_not_go_to_a_broker(tmp_path: Path) -> None:
    store = MemoryStore()
    pending = PendingOffsetValue(0, 1, OffsetCommitValue(2))
    store.write(
        [
            (0, PendingOffsetKey("grp", "foo", 0, 7), pending),
            (0, TransactionKey("grp"), TransactionValue()),
            (0, FOO0, OffsetCommitValue(1)),
        ]
    )
    assert export_offsets(store, 1, tmp_path, 5) == 1
    ((_, records),) = read_partition(tmp_path / "__consumer_offsets-0", pytest.fail)
    assert [(record.offset, record.key) for record in records] == [(0, encode_key(FOO0))]


@pytest.mark.parametrize("keep", [True, False])
def test_keep_topic_ids_decides_over_topic_ids(tmp_path: Path, keep: bool) -> None:
    store, again = MemoryStore(), MemoryStore()
    store.write([(0, FOO0, OffsetCommitValue(1, topic_id=b"\1" * 16))])
    export_offsets(store, 1, tmp_path / "exported", 5, keep_topic_ids=keep)
    import_offsets(tmp_path / "exported", again, 1)
    expected = OffsetCommitValue(1, topic_id=b"\1" * 16 if keep else NO_TOPIC_ID)
    assert list(again.load(0)) == [(FOO0, expected)]
    export_offsets(store, 1, tmp_path / "as it is", 5)
    import_offsets(tmp_path / "as it is", again, 1, keep_topic_ids=keep)
    assert list(again.load(0)) == [(FOO0, expected)]


def test_records_that_make_no_sense_are_reported_and_left_out(log: Log) -> None:
    log.raw(
        Record(0, 5, encode_key(FOO0), b"\0\x09"),
        Record(1, 5, b"\0\1\0\x50grp", b""),
        Record(2, 5, None, b""),
        Record(3, 5, encode_key(FOO1), encode_value(FOO1, OffsetCommitValue(1))),
    )
    log.data += b"\1\2\3"
    assert log.imported() == {FOO1: OffsetCommitValue(1)}
    assert [(problem.offset, problem.reason) for problem in log.result.problems] == [
        (0, "a committed offset has version 9, not 0 to 4"),
        (1, "a record key of type 1 is cut short"),
        (2, "a record has no key"),
        (None, "the file ends within a batch"),
    ]


def test_import_accepts_file_partition_or_parent(log: Log, tmp_path: Path) -> None:
    log.write((FOO0, OffsetCommitValue(1)))
    for source in (log.path, log.path.parent, tmp_path):
        assert log.imported(source) == {FOO0: OffsetCommitValue(1)}
    with pytest.raises(FileNotFoundError, match="is neither a log segment"):
        import_offsets(tmp_path / "nowhere", MemoryStore(), 50)


def test_groups_go_where_they_live_here(log: Log) -> None:
    log.write(*((OffsetCommitKey(f"group-{n}", "foo", 0), OffsetCommitValue(n)) for n in range(40)))
    log.path.write_bytes(log.data)
    store = MemoryStore()
    assert import_offsets(log.path, store, 7).groups == 40
    for partition in range(7):
        for key, _ in store.load(partition):
            assert partition_for(key.group, 7) == partition


def test_a_cleaned_segment_stands_for_those_it_replaces(log: Log) -> None:
    log.write((FOO0, OffsetCommitValue(1)), (FOO1, OffsetCommitValue(1)))
    old = log.data
    log.write((FOO0, OffsetCommitValue(2)), (FOO1, None))
    # The broker stopped after it had deleted the second of the two segments that the cleaned one replaces.
    log.path.with_suffix(".log.swap").write_bytes(
        write_batch(
            [
                Record(2, 5, encode_key(FOO0), encode_value(FOO0, OffsetCommitValue(2))),
                Record(3, 5, encode_key(FOO1), None),
            ]
        )
    )
    log.data = old
    assert log.imported(log.path.parent) == {FOO0: OffsetCommitValue(2)}


@settings(max_examples=examples(40))
@given(st.lists(pairs, max_size=20), st.sampled_from(CODECS))
def test_export_and_import_keep_records(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[Key, Value]], codec: str
) -> None:
    store = MemoryStore()
    for key, value in changes:
        store.write([(partition_for(key[0], 5), key, value)])
    target = tmp_path_factory.mktemp("export")
    count = export_offsets(store, 5, target, 1234, codec=codec)
    again = MemoryStore()
    result = import_offsets(target, again, 5)
    assert (result.problems, result.records, result.files) == ([], count, 5)
    for partition in range(5):
        assert dict(again.load(partition)) == dict(store.load(partition))


def test_an_export_is_a_brokers_folder(tmp_path: Path) -> None:
    store = MemoryStore()
    store.write([(1, OffsetCommitKey("grp", "foo", n), OffsetCommitValue(n, -1, "", 50 + n)) for n in range(9000)])
    store.write([(1, GroupMetadataKey("grp"), GroupMetadataValue("", 0, None, None, -1, []))])
    assert export_offsets(store, 2, tmp_path, 77, topic_id="AAAAAAAAAAAAAAAAAAAAAg") == 9001
    assert sorted(path.name for path in tmp_path.iterdir()) == ["__consumer_offsets-0", "__consumer_offsets-1"]
    assert (tmp_path / "__consumer_offsets-0" / f"{0:020d}.log").stat().st_size == 0
    batches = list(read_partition(tmp_path / "__consumer_offsets-1", lambda problem: None))
    records = [record for _, batch_records in batches for record in batch_records]
    assert [record.offset for record in records] == list(range(9001))
    assert [record.timestamp for record in records] == [*range(50, 9050), 77]
    assert len(batches) > 1
    with pytest.raises(FileExistsError):
        export_offsets(store, 2, tmp_path, 77)
