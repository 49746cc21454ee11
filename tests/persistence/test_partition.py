"""The partition of a group: the vectors of semantics 5.1, and the hash against its definition."""

import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.persistence.partition import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("group", "hashed", "partition"),
    [
        ("", 0, 0),
        ("grp", 102629, 29),
        ("test-group", 627841412, 12),
        ("my-group", -1906497762, 12),
        ("console-consumer-12345", 158455506, 6),
        ("polygenelubricants", -2147483648, 0),
        ("группа", 1749938458, 8),
        ("grp-😀", -1235730613, 13),
        ("a" * 200, 469437568, 18),
    ],
)
def test_hash_and_partition_equal_kafka_vectors(group: str, hashed: int, partition: int) -> None:
    assert java_string_hash(group) == hashed
    assert partition_for(group, 50) == partition


@given(st.text())
def test_hash_is_the_polynomial_over_utf16_code_units(text: str) -> None:
    raw = text.encode("utf-16-be")
    units = [int.from_bytes(raw[i : i + 2], "big") for i in range(0, len(raw), 2)]
    exact = sum(unit * 31 ** (len(units) - 1 - i) for i, unit in enumerate(units))
    assert (java_string_hash(text) - exact) % 2**32 == 0
    assert -(2**31) <= java_string_hash(text) < 2**31


@pytest.mark.parametrize("character", ["x", "é", "п", "😀", "\ud800"])
@pytest.mark.parametrize("count", [1, 31, 32, 63, 64, 65, 128, 300, 30_000])
def test_hash_of_a_long_text_is_the_polynomial(character: str, count: int) -> None:
    raw = (character * count).encode("utf-16-be", "surrogatepass")
    exact = 0
    for (unit,) in struct.iter_unpack(">H", raw):
        exact = (31 * exact + unit) % 2**32
    assert java_string_hash(character * count) % 2**32 == exact


def test_long_texts_are_not_remembered() -> None:
    text = "x" * 30_000 + "y"
    held = sys.getrefcount(text)
    for partitions in (50, 51):
        partition_for(text, partitions)
    assert sys.getrefcount(text) == held


@given(st.text(), st.integers(1, 1000))
def test_every_group_has_an_existing_partition(group: str, partitions: int) -> None:
    assert 0 <= partition_for(group, partitions) < partitions
