"""The distribution of partitions: from any start, nodes that follow their plans reach an even and stable share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.persistence.leases import plan


def settle(owners: dict[int, int], live: list[int], partitions: int) -> tuple[dict[int, int], int]:
    """Let every live node follow its plan until none moves a partition; return the owners and the number of moves."""
    owners, moves = dict(owners), 0
    for _ in range(2 * len(live) + 2):
        changed = False
        for node in live:
            claim, release = plan(node, live, owners, partitions)
            for partition in release:
                del owners[partition]
            for partition in claim:
                assert owners.get(partition) not in live
                owners[partition] = node
                moves += 1
            changed = changed or bool(claim or release)
        if not changed:
            return owners, moves
    raise AssertionError(f"the nodes never agreed: {owners}")


@given(
    live=st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True),
    start=st.dictionaries(st.integers(0, 49), st.integers(1, 9), max_size=50),
    partitions=st.just(50),
)
def test_every_start_settles_to_an_even_share(live: list[int], start: dict[int, int], partitions: int) -> None:
    owners, _ = settle(start, live, partitions)
    assert set(owners) == set(range(partitions))
    counts = [list(owners.values()).count(node) for node in live]
    assert sum(counts) == partitions
    assert max(counts) - min(counts) <= 1


def test_a_node_that_died_moves_only_its_own_partitions() -> None:
    before, _ = settle({}, [1, 2, 3], 50)
    after, moves = settle(before, [1, 3], 50)
    orphans = [p for p, owner in before.items() if owner == 2]
    assert moves == len(orphans)
    assert all(after[p] == owner for p, owner in before.items() if owner != 2)


def test_a_new_node_gets_its_share_and_nothing_else_moves() -> None:
    before, _ = settle({}, [1, 2], 50)
    after, moves = settle(before, [1, 2, 3], 50)
    assert list(after.values()).count(3) == 16
    assert moves == 16


def test_nodes_that_see_the_same_view_want_different_partitions() -> None:
    claims = [plan(node, [1, 2, 3], {}, 50).claim for node in (1, 2, 3)]
    assert sorted(p for claim in claims for p in claim) == list(range(50))


def test_a_node_outside_the_directory_releases_its_partitions() -> None:
    assert plan(4, [1], {7: 4, 8: 1}, 50) == ([], [7])
