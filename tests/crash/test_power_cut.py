"""Power cuts at many moments: the database reopens with a prefix of the batches, with all acknowledged ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.persistence.store import Entry
from tests.crash.disk import Acknowledged, Happening, Sync, Write, after_cut, everything, nothing, recording, some
from tests.examples import EVERYTHING

pytestmark = pytest.mark.second_stage("servers killed under load")

CUTS = 1_000 if EVERYTHING else 200
BATCHES = 120
NAME = "offsets.db"
PARTITIONS = 4


def batch(number: int, chance: random.Random) -> list[Entry]:
    """Return a batch of random writes and deletions; the first record, in every batch, has the batch's number."""
    entries: list[Entry] = [(0, OffsetCommitKey("number", "t", 0), OffsetCommitValue(number))]
    for _ in range(chance.randrange(40)):
        partition = chance.randrange(PARTITIONS)
        key = OffsetCommitKey(f"group-{chance.randrange(6)}", "t", chance.randrange(30))
        value = None if chance.random() < 0.2 else OffsetCommitValue(number, metadata="m" * chance.randrange(300))
        entries.append((partition, key, value))
    return entries


def states(batches: Sequence[Sequence[Entry]]) -> list[dict[tuple[int, object], object]]:
    """Return the contents of a store after none, one, two ... of the batches."""
    result: list[dict[tuple[int, object], object]] = [{}]
    for entries in batches:
        state = dict(result[-1])
        for partition, key, value in entries:
            if value is None:
                state.pop((partition, key), None)
            else:
                state[partition, key] = value
        result.append(state)
    return result


def content(path: Path) -> dict[tuple[int, object], object]:
    store = SqliteStore(path, PARTITIONS)
    store.open()
    try:
        return {(partition, key): value for partition in range(PARTITIONS) for key, value in store.load(partition)}
    finally:
        store.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Happening], list[list[Entry]]]:
    """Write batches to a store, with checkpoints in between; return its disk operations and the batches."""
    chance = random.Random(7)
    batches = [batch(number, chance) for number in range(1, BATCHES + 1)]
    with recording() as happened:
        store = SqliteStore(tmp_path_factory.mktemp("disk") / NAME, PARTITIONS)
        store.open()
        store._opened().execute("PRAGMA wal_autocheckpoint=40")
        for number, entries in enumerate(batches, 1):
            store.write(entries)
            happened.append(Acknowledged(number))
        recorded = list(happened)
        store.close()
    return recorded, batches


def restored(
    happened: Sequence[Happening], folder: Path, survives: Callable[[], bool]
) -> dict[tuple[int, object], object]:
    folder.mkdir()
    for name, data in after_cut(happened, survives).items():
        (folder / name).write_bytes(data)
    return content(folder / NAME)


def test_the_recorded_operations_recreate_the_files(
    written: tuple[list[Happening], list[list[Entry]]], tmp_path: Path
) -> None:
    happened, batches = written
    kinds = {(type(each), each.file) for each in happened if isinstance(each, Write | Sync)}
    assert {(Write, NAME), (Sync, NAME), (Write, f"{NAME}-wal"), (Sync, f"{NAME}-wal")} <= kinds
    assert restored(happened, tmp_path / "all", everything) == states(batches)[-1]


def test_each_cut_leaves_all_acknowledged_batches(
    written: tuple[list[Happening], list[list[Entry]]], tmp_path: Path
) -> None:
    happened, batches = written
    chance = random.Random(11)
    expected = states(batches)
    acknowledged = {}
    so_far = 0
    for at, each in enumerate(happened):
        so_far = each.batch if isinstance(each, Acknowledged) else so_far
        acknowledged[at + 1] = so_far
    moments = [chance.randrange(1, len(happened) + 1) for _ in range(CUTS)]
    survivors = [nothing, everything, some(chance, 0.5), some(chance, 0.9)]
    went_further = 0
    with recording(hardware=False):
        for number, moment in enumerate(moments):
            state = restored(happened[:moment], tmp_path / str(number), survivors[number % 4])
            least = acknowledged[moment]
            assert state in expected[least : least + 2], f"cut {number} after happening {moment}"
            went_further += state == expected[min(least + 1, BATCHES)] != expected[least]
    assert went_further > 0


def test_a_cut_reveals_a_store_without_syncs(
    written: tuple[list[Happening], list[list[Entry]]], tmp_path: Path
) -> None:
    happened, batches = written
    unsynced = [each for each in happened if not isinstance(each, Sync)]
    state = restored(unsynced, tmp_path / "cut", nothing)
    assert state != states(batches)[-1]
