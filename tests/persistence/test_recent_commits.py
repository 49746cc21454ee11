"""The last commit to a partition wins, for any overlap of commits and at any time of a read."""

from __future__ import annotations

from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.persistence import recent_commits
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.recent_commits import MOST, RECORD, RecentCommits
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue, OffsetCommitValues

KEYS = [OffsetCommitKey("g", "t", partition) for partition in range(4)]
PLACES = [
    {key: place for place, key in enumerate(KEYS[first:last])}
    for first, last in ((0, 1), (0, 2), (1, 3), (0, 4), (0, 4), (2, 4))
]
"""Places of members; two have the same keys, as two members may commit to the same partitions."""


def values_of(places: dict[OffsetCommitKey, int], offset: int, *, repeats: bool = True) -> OffsetCommitValues:
    size = len(places)
    rest = ((-1,) * size, ("",) * size, (0,) * size, (-1,) * size, (bytes(16),) * size)
    return OffsetCommitValues(places, (offset,) * size, *rest, RECORD * (1 + size), repeats)


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["commit", "repeat"]), st.sampled_from(range(len(PLACES)))),
        st.tuples(st.sampled_from(["write", "delete"]), st.sampled_from(range(len(KEYS)))),
        st.tuples(st.just("look"), st.just(0)),
    ),
    max_size=40,
)


@given(steps, st.integers(1, 50 * RECORD))
def test_a_store_loads_the_last_value_of_each_key(actions: list[tuple[str, int]], limit: int) -> None:
    store = MemoryStore()
    expected: dict[OffsetCommitKey, int] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recent_commits, "MOST", limit)
        for offset, (step, which) in enumerate(actions):
            if step in ("commit", "repeat"):
                store.write([(3, None, values_of(PLACES[which], offset, repeats=step == "repeat"))])
                expected |= dict.fromkeys(PLACES[which], offset)
            elif step == "write":
                store.write([(3, KEYS[which], OffsetCommitValue(offset))])
                expected[KEYS[which]] = offset
            elif step == "delete":
                store.write([(3, KEYS[which], None), (4, KEYS[which], None)])
                expected.pop(KEYS[which], None)
            else:
                assert {key: value.offset for key, value in store.load(3)} == expected
        assert {key: value.offset for key, value in store.load(3)} == expected
        assert list(store.load(4)) == []


def test_a_commit_takes_the_place_of_the_one_before_with_the_same_keys() -> None:
    stored: dict[OffsetCommitKey, OffsetCommitValue] = {}
    commits = RecentCommits(stored.__setitem__)
    for offset in range(MOST // RECORD):
        commits.add(values_of(PLACES[offset % 3], offset))
    assert stored == {}
    assert len(commits._by_places) == 3
    for offset in range(MOST // RECORD):
        commits.add(values_of(dict(PLACES[3]), offset))
    assert len(commits._by_places) < MOST // RECORD / 4
    commits.flush()
    assert {key: value.offset for key, value in stored.items()} == dict.fromkeys(KEYS, offset)
    assert not commits


@pytest.mark.parametrize("repeats", [True, False])
def test_a_reader_waits_for_few_offsets_however_many_there_are(repeats: bool) -> None:
    stored: list[OffsetCommitKey] = []
    commits = RecentCommits(lambda key, value: stored.append(key))
    for number in range(1000):
        keys = [OffsetCommitKey(f"g{number}", "t", index) for index in range(100)]
        commits.add(values_of(dict(zip(keys, range(100), strict=True)), 5, repeats=repeats))
    assert 100_000 - len(stored) <= MOST // RECORD
    commits.flush()
    assert len(stored) == len(set(stored)) == 100_000


class Text(str):
    """A text that can be counted as long as it lives."""


@pytest.mark.parametrize("repeats", [True, False])
def test_an_offset_that_lives_keeps_no_other_of_its_commit(repeats: bool) -> None:
    store, alive = MemoryStore(), WeakSet[Text]()
    commits, size = 300, 100
    for number in range(commits):
        keys = [OffsetCommitKey("g", "t", index) for index in (*range(1, size), size + number)]
        texts = [Text(f"{number} {key.partition}".ljust(4096)) for key in keys]
        alive |= texts
        values = values_of(dict(zip(keys, range(size), strict=True)), number, repeats=repeats)
        store.write([(3, None, values._replace(metadata=texts, size=values.size + 4 * size * 4096))])
        del texts, values
        # Those that live, and the commits that are not stored one by one yet.
        assert len(alive) <= number + size + MOST / (4 * 4096) + size
    assert len(list(store.load(3))) == len(alive) == commits + size - 1
