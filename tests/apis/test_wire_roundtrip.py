"""Every version of every kind of field: encoded like the reference, and decoded to the original."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.apis.wire import DecodeError, Message, Struct, array, bytes_, field, int32, string
from kafka_shim.apis.wire.types import parse_versions
from tests.apis import wire_reference
from tests.apis.wire_samples import VERSIONS, Everything, Row, messages, values
from tests.examples import examples


@pytest.mark.parametrize("version", VERSIONS)
@given(st.data())
@settings(max_examples=examples(60))
def test_round_trip(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(Everything, version))
    encoded = message.encode(version)
    assert encoded == wire_reference.encode(message, version)
    decoded, end = Everything.decoder(version)(encoded, 0)
    assert decoded == message
    assert end == len(encoded)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_of_defaults(version: int) -> None:
    message = Everything()
    encoded = message.encode(version)
    assert encoded == wire_reference.encode(message, version)
    assert Everything.decode(encoded, version) == message


@given(st.data(), st.binary(max_size=9), st.binary(max_size=9))
@settings(max_examples=examples(60))
def test_a_message_in_the_midst_of_bytes(data: st.DataObject, before: bytes, after: bytes) -> None:
    version = data.draw(st.sampled_from(VERSIONS))
    message = data.draw(messages(Everything, version))
    encoded = message.encode(version)
    assert Everything.decoder(version)(before + encoded + after, len(before)) == (message, len(before + encoded))


class Rows(Message, versions="0-4", flexible="2+"):
    rows: list[Row] = field(array(Row))


@pytest.mark.parametrize("version", Rows.versions)
@pytest.mark.parametrize("count", [7, 8, 31, 32, 127, 128, 1000])
@given(st.data())
@settings(max_examples=examples(15))
def test_long_arrays_of_flat_structs(version: int, count: int, data: st.DataObject) -> None:
    """Equal elements, or all but one: the different one must not be handled like the others."""
    like = data.draw(messages(Row, version, alike=True))
    rows = [like] * count
    if data.draw(st.booleans()):
        rows[data.draw(st.sampled_from([0, 1, count // 2, count - 1]))] = data.draw(messages(Row, version))
    message = Rows(rows)
    encoded = message.encode(version)
    assert encoded == wire_reference.encode(message, version)
    assert Rows.decode(encoded, version) == message


class Commit(Struct):
    partition: int = field(int32)
    metadata: str | None = field(string, nullable="0+")


class Commits(Message, versions="0-1", flexible="1+"):
    rows: list[Commit] = field(array(Commit))


@pytest.mark.parametrize("version", [0, 1])
@given(st.lists(values(string, 0) | st.sampled_from([None, ""]), min_size=8, max_size=40))
def test_nulls_among_values(version: int, metadata: list[str | None]) -> None:
    message = Commits([Commit(index, each) for index, each in enumerate(metadata)])
    encoded = message.encode(version)
    assert encoded == wire_reference.encode(message, version)
    assert Commits.decode(encoded, version) == message


def test_each_element_of_an_array_read_in_one_sweep_is_its_own() -> None:
    decoded = Rows.decode(Rows([Row(1, "a")] * 40).encode(2), 2)
    decoded.rows[0].name = "b"
    assert [each.name for each in decoded.rows] == ["b"] + ["a"] * 39


class Holder(Struct):
    blob: bytes = field(bytes_)
    extra: list[int] = field(array(int32), versions="1+")


class Holders(Message, versions="0-1"):
    holders: list[Holder] = field(array(Holder))


def test_mutable_defaults_are_not_shared() -> None:
    decoded = Holders.decode(Holders([Holder(b"x")] * 40).encode(0), 0)
    decoded.holders[0].extra.append(1)
    assert decoded.holders[1].extra == []


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = Commits([]).encode(1)
    assert encoded == b"\x01\x00"
    with_tags = b"\x01\x02\x05\x03abc\x90\x4e\x00"
    assert Commits.decoder(1)(with_tags, 0) == (Commits([]), len(with_tags))
    rows = b"".join(bytes([0, 0, 0, n, 0, 1, 7, 2]) + b"xx" for n in range(8))
    assert Commits.decode(b"\x09" + rows + b"\x00", 1) == Commits([Commit(n, None) for n in range(8)])


def test_decoder_skips_unknown_tagged_field() -> None:
    number = b"\x03\x08" + (7).to_bytes(8, "big")
    encoded = Everything(tag_number=7).encode(2)
    assert encoded.endswith(b"\x01" + number)
    text, unknown = b"\x00\x02\x02a", b"\x63\x02??"
    more = encoded.removesuffix(b"\x01" + number) + b"\x03" + number + unknown + text
    assert Everything.decode(more, 2) == Everything(tag_number=7, tag_text="a")


@pytest.mark.parametrize(("text", "first", "last"), [("0-4", 0, 4), ("3+", 3, 32767), ("2", 2, 2)])
def test_parse_versions_reads_kafka_notation(text: str, first: int, last: int) -> None:
    assert (parse_versions(text)[0], parse_versions(text)[-1]) == (first, last)


@pytest.mark.parametrize("text", ["", "none"])
def test_parse_versions_reads_none_as_empty_range(text: str) -> None:
    assert len(parse_versions(text)) == 0


def test_a_version_that_does_not_exist() -> None:
    with pytest.raises(DecodeError, match="no version 5"):
        Rows.decode(b"", 5)
