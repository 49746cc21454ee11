"""The last commit to a partition wins, for any overlap of commits and at any time of a read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.persistence import recent_commits
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.recent_commits import RecentCommits
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
    return OffsetCommitValues(places, (offset,) * size, *rest, repeats)


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["commit", "repeat"]), st.sampled_from(range(len(PLACES)))),
        st.tuples(st.sampled_from(["write", "delete"]), st.sampled_from(range(len(KEYS)))),
        st.tuples(st.just("look"), st.just(0)),
    ),
    max_size=40,
)


@given(steps, st.integers(1, 5))
def test_a_store_loads_the_last_value_of_each_key(actions: list[tuple[str, int]], limit: int) -> None:
    store = MemoryStore()
    expected: dict[OffsetCommitKey, int] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recent_commits, "MAX_COMMITS", limit)
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
    commits = RecentCommits()
    for offset in range(5 * recent_commits.MAX_COMMITS):
        commits.add(values_of(PLACES[offset % 3], offset))
    assert len(commits._by_places) == 3
    for offset in range(5 * recent_commits.MAX_COMMITS):
        commits.add(values_of(dict(PLACES[3]), offset))
    assert len(commits._by_places) <= recent_commits.MAX_COMMITS
    assert {key: value.of(key).offset for key, value in commits.take().items()} == dict.fromkeys(KEYS, offset)
    assert not commits
