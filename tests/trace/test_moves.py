"""The least number of partitions that must move, against all possible assignments."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.trace.moves import compare, owners_of

PARTITIONS = st.integers(1, 5)


@given(st.data(), PARTITIONS, st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
def test_every_balanced_assignment_moves_at_least_the_needed_number(
    data: st.DataObject, count: int, members: list[str]
) -> None:
    partitions = [("t", number) for number in range(count)]
    before = dict(
        zip(partitions, data.draw(st.lists(st.sampled_from("abcd"), min_size=count, max_size=count)), strict=True)
    )
    fewest = count
    for owners in product(members, repeat=count):
        sizes = [owners.count(member) for member in members]
        if max(sizes) - min(sizes) <= 1:
            after = dict(zip(partitions, owners, strict=True))
            moves = compare(before, after, members)
            assert moves.needed <= moves.moved
            fewest = min(fewest, moves.moved)
    assert compare(before, dict.fromkeys(partitions, members[0]), members).needed == fewest


def test_a_partition_without_owner_does_not_move() -> None:
    assert compare({}, {("t", 0): "a"}, ["a"]).moved == 0


def test_moves_between_present_members_are_listed() -> None:
    before = {("t", 0): "a", ("t", 1): "b", ("t", 2): "gone"}
    after = {("t", 0): "b", ("t", 1): "b", ("t", 2): "a"}
    assert compare(before, after, ["a", "b"]) == (2, 1, (("t", 0),))


def test_owners_of_skips_assignments_of_other_protocols() -> None:
    assert owners_of({"a": 17, "b": {"t": [0, 2]}}) == {("t", 0): "b", ("t", 2): "b"}
