"""Malformed bytes: a DecodeError with reason and position for any input, within bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.apis.wire import DecodeError, Message, Struct, array, bytes_, field, int32, int64, string
from kafka_shim.apis.wire.primitives import read_uvarint, write_uvarint
from tests.apis.wire_samples import VERSIONS, Everything, Row, messages
from tests.examples import examples


class Texts(Message, versions="0-3", flexible="2+"):
    name: str = field(string)
    note: str | None = field(string, nullable="3")
    blob: bytes = field(bytes_)
    numbers: list[int] = field(array(int32))
    tail: int = field(int32)


class Element(Struct):
    text: str = field(string)
    number: int = field(int64)


class Elements(Message, versions="0-1", flexible="1+"):
    elements: list[Element] = field(array(Element))


@pytest.mark.parametrize(
    ("version", "note", "data"),
    [
        (0, "", "0003 c3bc61  0000  00000002 0001  00000002 00000007 ffffffff  00000009"),
        (1, "n", "0003 c3bc61  0001 6e  00000002 0001  00000002 00000007 ffffffff  00000009"),
        (2, "", "04 c3bc61  01  03 0001  03 00000007 ffffffff  00000009 00"),
        (3, None, "04 c3bc61  00  03 0001  03 00000007 ffffffff  00000009 00"),
    ],
)
def test_golden_bytes(version: int, note: str | None, data: str) -> None:
    message = Texts("üa", note, b"\x00\x01", [7, -1], 9)
    assert Texts.decode(bytes.fromhex(data), version) == message
    assert message.encode(version) == bytes.fromhex(data)


@pytest.mark.parametrize(
    ("version", "data", "reason", "position"),
    [
        (0, "", "the data ends, at 0, within a value", 0),
        (0, "0005 6161", "the data ends, at 4, within a value", 4),
        (0, "ffff 0000", "null where there can be none", 2),
        (0, "8000 0000", "null where there can be none", 2),
        (0, "0000 0000 ffffffff", "null where there can be none", 8),
        (0, "0000 0000 7fffffff 00", "the data ends, at 9, within a value", 9),
        (0, "0000 0000 00000000 40000000 00000000", "array of 1073741824 elements with 4 bytes left", 12),
        (0, "0000 0000 00000000 ffffffff 00000000", "null where there can be none", 12),
        (0, "0000 0000 00000000 00000000 0000", "the data ends, at 14, within a value", 12),
        (2, "00", "null where there can be none", 0),
        (2, "8000", "null where there can be none", 0),
        (2, "05 6161", "the data ends, at 3, within a value", 3),
        (2, "ff01 6161", "a value goes past the end, 4", 0),
        (2, "8080808080 01", "varint too long", 0),
        (2, "ffffffff7f", "varint too long", 0),
        (2, "ffffffff0f", "a value goes past the end, 5", 0),
        (2, "81", "the data ends, at 1, within a value", 0),
        (2, "01 01 01 ffffffff0f 00", "array of 4294967294 elements with 1 bytes left", 8),
        (2, "01 01 01 00 00000000", "null where there can be none", 4),
        (2, "01 01 01 01 00000000", "the data ends, at 8, within a value", 4),
        (2, "01 01 01 01 00000000 ffffffff0f", "more elements than are accepted", 13),
        (2, "01 01 01 01 00000000 09", "the data ends, at 9, within a value", 4),
        (2, "01 01 01 01 00000000 01 05 0a", "a value goes past the end, 11", 11),
    ],
)
def test_why_and_where(version: int, data: str, reason: str, position: int) -> None:
    with pytest.raises(DecodeError) as caught:
        Texts.decode(bytes.fromhex(data), version)
    assert (caught.value.reason, caught.value.position, caught.value.message) == (reason, position, "Texts")
    assert str(caught.value) == f"Texts: {reason} at byte {position}"


def test_a_tagged_field_must_fill_its_size() -> None:
    number = b"\x01\x03\x08" + bytes(8)
    encoded = Everything(tag_number=0).encode(2)
    assert encoded.endswith(number)
    for size, value in ((7, bytes(8)), (9, bytes(9))):
        with pytest.raises(DecodeError, match="not of the size it says"):
            Everything.decode(encoded.removesuffix(number) + bytes([1, 3, size]) + value, 2)


@pytest.mark.parametrize("version", VERSIONS)
@given(st.data())
@settings(max_examples=examples(40))
def test_every_truncation_is_refused(version: int, data: st.DataObject) -> None:
    encoded = data.draw(messages(Everything, version)).encode(version)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(DecodeError) as caught:
        Everything.decode(encoded[:cut], version)
    assert 0 <= caught.value.position <= cut


def attempt(decode: Callable[[], Any]) -> Any:
    """Return the result of `decode`, or the DecodeError that it raises."""
    try:
        return decode()
    except DecodeError as error:
        return error


@pytest.mark.parametrize("version", VERSIONS)
@given(st.data())
@settings(max_examples=examples(80))
def test_damaged_bytes_are_read_or_refused(version: int, data: st.DataObject) -> None:
    damaged = bytearray(data.draw(messages(Everything, version)).encode(version))
    edges = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[place] = data.draw(edges)
    outcome = attempt(lambda: Everything.decoder(version)(bytes(damaged), 0))
    if isinstance(outcome, DecodeError):
        assert 0 <= outcome.position <= len(damaged)
    else:
        message, end = outcome
        assert isinstance(message, Everything)
        assert end <= len(damaged)


@pytest.mark.parametrize(("version", "data"), [(0, "0002 c328" + 14 * "00"), (2, "03 c328 010101" + 5 * "00")])
def test_invalid_utf8_is_replaced(version: int, data: str) -> None:
    assert Texts.decode(bytes.fromhex(data), version).name == "\ufffd("


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.binary(max_size=200))
@settings(max_examples=examples(100))
def test_random_bytes_are_read_or_refused(version: int, data: bytes) -> None:
    outcome = attempt(lambda: Everything.decode(data, version))
    assert isinstance(outcome, Everything) or outcome.message == "Everything"


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, b"\x7f\xff\xff\xff" + bytes(1000)),
        (0, b"\x00\x00\x00\x64" + b"\x7f\xff" + bytes(1000)),
        (1, b"\xff\xff\xff\xff\x07" + bytes(1000)),
        (1, b"\xe9\x07" + b"\x01" * 1000),
        (1, b"\x01" + b"\xff\xff\xff\xff\x0f" + b"\x00" * 1000),
    ],
)
def test_promises_cost_no_memory(version: int, data: bytes) -> None:
    Elements.decoder(version)
    tracemalloc.start()
    with pytest.raises(DecodeError):
        Elements.decode(data, version)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000


def test_an_element_that_ends_early_among_elements_alike() -> None:
    class Rows(Message, versions="2-4", flexible="2+"):
        rows: list[Row] = field(array(Row))

    encoded = Rows([Row(each, "name", "note") for each in range(20)]).encode(2)
    for cut in range(len(encoded)):
        with pytest.raises(DecodeError):
            Rows.decode(encoded[:cut], 2)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2**28 - 1, 2**28, 2**32 - 1])
def test_uvarint_bytes_parse_back(value: int) -> None:
    data = write_uvarint(value)
    assert read_uvarint(b"??" + data + b"?", 2) == (value, 2 + len(data))


@pytest.mark.parametrize("data", ["ffffffffff01", "808080808000", "ffffffff10"])
def test_uvarints_too_long(data: str) -> None:
    with pytest.raises(DecodeError, match="varint too long"):
        read_uvarint(bytes.fromhex(data), 0)


def test_uvarints_that_are_longer_than_they_need_be() -> None:
    assert read_uvarint(b"\x81\x80\x00", 0) == (1, 3)
    assert Texts.decode(bytes.fromhex("828000 61 01 01 01 00000009 00"), 2) == Texts("a", "", b"", [], 9)


class Names(Struct):
    names: list[str] = field(array(string))


class Nested(Message, versions="0-1", flexible="1+"):
    groups: list[Names] = field(array(Names))


def test_elements_of_all_arrays_are_counted_together() -> None:
    message = Nested([Names(["a", "b"]), Names(["c"]), Names([])])
    for version in Nested.versions:
        data, decode = message.encode(version), Nested.decoder(version)
        assert decode(data, 0, 6) == (message, len(data))
        with pytest.raises(DecodeError, match="more elements than are accepted"):
            decode(data, 0, 5)


def test_tagged_fields_count_as_elements() -> None:
    data = Nested([Names([]), Names([])]).encode(1)
    with_tags = data[:-2] + b"\x03\x05\x00\x06\x00\x07\x00" + data[-1:]
    assert Nested.decoder(1)(with_tags, 0, 5)[1] == len(with_tags)
    with pytest.raises(DecodeError, match="more elements than are accepted"):
        Nested.decoder(1)(with_tags, 0, 4)


def test_a_section_has_at_most_ten_thousand_tagged_fields() -> None:
    for message, encoded in ((Nested(), Nested().encode(1)), (Everything(), Everything().encode(2))):
        decode = type(message).decoder(2 if isinstance(message, Everything) else 1)
        assert encoded.endswith(b"\x00")
        with_tags = encoded[:-1] + write_uvarint(10_000) + b"\x7f\x00" * 10_000
        assert decode(with_tags, 0, 20_000)[1] == len(with_tags)
        one_more = encoded[:-1] + write_uvarint(10_001) + b"\x7f\x00" * 10_001
        with pytest.raises(DecodeError, match="more elements than are accepted"):
            decode(one_more, 0, 20_000)
