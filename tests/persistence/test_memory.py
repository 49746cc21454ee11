"""The store in memory: newest value per key, tombstones, separate partitions."""

import pytest

from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from kafka_shim.persistence.store import StoreError
from kafka_shim.persistence.stores import open_store

KEY = OffsetCommitKey("grp", "foo", 0)


def test_the_newest_value_of_a_key_wins() -> None:
    store = MemoryStore()
    store.write([(3, KEY, OffsetCommitValue(1)), (3, KEY, OffsetCommitValue(2)), (4, KEY, OffsetCommitValue(9))])
    store.write([(3, OffsetCommitKey("grp", "foo", 1), OffsetCommitValue(5))])
    assert dict(store.load(3)) == {KEY: OffsetCommitValue(2), OffsetCommitKey("grp", "foo", 1): OffsetCommitValue(5)}
    assert dict(store.load(4)) == {KEY: OffsetCommitValue(9)}
    assert list(store.load(0)) == []


def test_a_tombstone_removes_the_key() -> None:
    store = MemoryStore()
    store.write([(0, KEY, OffsetCommitValue(1)), (0, KEY, None), (0, GroupMetadataKey("never"), None)])
    assert list(store.load(0)) == []


def test_an_unknown_url_is_refused() -> None:
    with pytest.raises(StoreError, match="names no store: use memory:, sqlite:PATH"):
        open_store("redis://localhost", 50)
    assert isinstance(open_store("memory:", 50), MemoryStore)
