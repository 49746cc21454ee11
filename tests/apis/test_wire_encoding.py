"""Exact bytes of messages, and values that a version cannot express."""

from __future__ import annotations

import pytest

from kafka_shim.apis.wire import EncodeError, Message, Struct, array, bytes_, field, int16, int32, string, uuid
from tests.apis.wire_samples import Everything, Point, Row


class Line(Struct):
    number: int = field(int32)
    text: str = field(string)
    added: int = field(int16, versions="1+")


class Page(Message, versions="0-2", flexible="2+"):
    lines: list[Line] = field(array(Line))
    title: str = field(string, versions="1+", default="-")
    ignored: str = field(string, versions="2+", ignorable=True)
    author: str | None = field(string, versions="2+", nullable="2+", tag=0, tagged="2+", default=None)
    place: int = field(int32, versions="2+", tag=5, tagged="2+", default=-1)


class Blobs(Message, versions="0-1", flexible="1+"):
    text: str = field(string)
    blob: bytes = field(bytes_)
    id: bytes = field(uuid)


@pytest.mark.parametrize(
    ("version", "message", "data"),
    [
        (0, Page([Line(1, "a"), Line(2, "")]), "00000002 00000001 0001 61 00000002 0000"),
        (1, Page([Line(1, "a", 3)], "t"), "00000001 00000001 0001 61 0003 0001 74"),
        (2, Page([Line(1, "a", 3)], "t", "i"), "02 00000001 02 61 0003 00 02 74 02 69 00"),
        (2, Page([], "", "", "me", 7), "01 01 01 02 00 03 03 6d65 05 04 00000007"),
        (2, Page([], "", "", None, 7), "01 01 01 01 05 04 00000007"),
        (2, Page([], "", "", "", -1), "01 01 01 01 00 01 01"),
    ],
)
def test_golden_bytes(version: int, message: Page, data: str) -> None:
    assert message.encode(version) == bytes.fromhex(data)
    assert Page.decode(bytes.fromhex(data), version) == message


@pytest.mark.parametrize(
    ("version", "message", "reason"),
    [
        (0, Page(title="t"), "no field Page.title in this version, but it is 't'"),
        (0, Page(title=""), "no field Page.title in this version, but it is ''"),
        (1, Page(author="me"), "no field Page.author in this version, but it is 'me'"),
        (0, Page([Line(1, "a", 1)]), "no field Line.added in this version, but it is 1"),
        (0, Page([Line(1, "a")] * 40 + [Line(1, "a", 1)]), "no field Line.added in this version, but it is 1"),
        (0, Page([Line(2**31, "a")]), "format requires"),
        (0, Page([Line(1, "a")] * 40 + [Line(-(2**31) - 1, "a")]), "format requires"),
        (0, Page([Line(1, "x" * 0x8000)]), "format requires"),
        (0, Page([Line(1, None)]), "'NoneType' object has no attribute 'encode'"),
        (0, Page([Line(1, None)] * 40), "'NoneType' object has no attribute 'encode'"),
        (0, Page(None), "object of type 'NoneType' has no len"),
        (0, Page([Line("1", "a")]), "required argument is not an integer"),
        (0, Page([Line(1, "\ud800")]), "surrogates not allowed"),
        (0, Page([7]), "'int' object has no attribute"),
        (3, Page(), "Page: no version 3"),
    ],
)
def test_value_missing_in_a_version_is_refused(version: int, message: Page, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        message.encode(version)


@pytest.mark.parametrize("version", [0, 1])
def test_ignorable_fields_are_left_out(version: int) -> None:
    assert Page(ignored="i").encode(version) == Page().encode(version)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Blobs(blob="text"), "str"),
        (Blobs(blob=None), "NoneType"),
        (Blobs(text=b"bytes"), "bytes"),
        (Blobs(id=b"short"), "a uuid has 16 bytes, not 5"),
        (Blobs(id=bytes(17)), "a uuid has 16 bytes, not 17"),
    ],
)
def test_values_of_a_wrong_type(version: int, message: Blobs, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        message.encode(version)


def test_null_where_the_version_has_none() -> None:
    assert Everything(alias=None).encode(1)
    with pytest.raises(EncodeError, match="NoneType"):
        Everything(alias=None).encode(0)


def test_arrays_may_be_any_sequence() -> None:
    rows = [Row(each, "n") for each in range(40)]
    plain = Everything(numbers=[1, 2], rows=rows, points=[Point(1, 2)])
    assert Everything(numbers=(1, 2), rows=tuple(rows), points=(Point(1, 2),)).encode(2) == plain.encode(2)


def test_the_versions_error_names_message_and_version() -> None:
    with pytest.raises(EncodeError, match=r"^Page v0: no field Page\.title"):
        Page(title="t").encode(0)
