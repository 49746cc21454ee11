"""Headers: the version for each request, exact bytes, and invalid bytes."""

from __future__ import annotations

import importlib
import pkgutil

import kio.schema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.private import FIRST_KEY
from kafka_shim.apis.wire import DecodeError, EncodeError
from kafka_shim.apis.wire.headers import (
    FIRST_FLEXIBLE,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    is_flexible,
)


def test_request_header_v1() -> None:
    data = bytes.fromhex("000c 0003 00000007 0003 616263")
    assert encode_request_header(12, 3, 7, "abc") == data
    assert decode_request_header(data + b"body") == (12, 3, 7, "abc", 13)


def test_request_header_v2() -> None:
    data = bytes.fromhex("000c 0004 00000007 0003 616263 00")
    assert encode_request_header(12, 4, 7, "abc") == data
    assert decode_request_header(data + b"body") == (12, 4, 7, "abc", 14)


@pytest.mark.parametrize(("version", "end"), [(3, 10), (4, 11)])
def test_a_null_client_id(version: int, end: int) -> None:
    data = encode_request_header(12, version, -1, None)
    assert data[8:10] == b"\xff\xff"
    assert decode_request_header(data) == (12, version, -1, None, end)


def test_tagged_fields_are_skipped() -> None:
    data = bytes.fromhex("000c 0004 00000007 0000 02 00 01 61 63 02 6262")
    assert decode_request_header(data) == (12, 4, 7, "", len(data))


@pytest.mark.parametrize(("api_key", "version"), [(93, 9), (32767, 0), (-1, 0), (12, -1), (18, 2), (12, 99)])
def test_unknown_keys_and_versions_are_read(api_key: int, version: int) -> None:
    data = encode_request_header(api_key, version, 5, "c")
    assert decode_request_header(data)[:4] == (api_key, version, 5, "c")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "the data ends, at 0"),
        ("000c 0003 00000007 00", "the data ends, at 9"),
        ("000c 0003 00000007 0004 616263", "the data ends, at 13"),
        ("000c 0004 00000007 0003 616263", "the data ends, at 13"),
        ("000c 0004 00000007 0000 01 00", "the data ends, at 12"),
        ("000c 0004 00000007 0000 01 00 05", "a value goes past the end"),
        ("000c 0004 00000007 0000 ffffffffff", "varint too long"),
    ],
)
def test_bytes_that_are_no_header(data: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=f"^RequestHeader: {reason}"):
        decode_request_header(bytes.fromhex(data))


@given(st.binary(max_size=30))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        offset = decode_request_header(data)[4]
    except DecodeError as error:
        offset = max(10, error.position)
    assert 10 <= offset <= max(10, len(data))


def test_headers_that_cannot_be() -> None:
    with pytest.raises(EncodeError):
        encode_request_header(12, 4, 2**31, "c")
    with pytest.raises(EncodeError):
        encode_request_header(12, 4, 1, "c" * 2**15)


def test_response_headers() -> None:
    assert encode_response_header(12, 3, 7) == bytes.fromhex("00000007")
    assert encode_response_header(12, 4, 7) == bytes.fromhex("00000007 00")
    assert decode_response_header(bytes.fromhex("00000007 00"), 12, 3) == (7, 4)
    assert decode_response_header(bytes.fromhex("00000007 00"), 12, 4) == (7, 5)
    assert decode_response_header(bytes.fromhex("00000007 01 00 01 61"), 12, 4) == (7, 8)


@pytest.mark.parametrize("version", range(5))
def test_the_response_header_of_api_versions_is_always_v0(version: int) -> None:
    assert encode_response_header(18, version, 7) == bytes.fromhex("00000007")
    assert decode_response_header(bytes.fromhex("00000007 0000"), 18, version) == (7, 4)


@pytest.mark.parametrize("data", ["", "000000", "00000007", "00000007 01", "00000007 ffffffffff"])
def test_bytes_that_are_no_response_header(data: str) -> None:
    with pytest.raises(DecodeError, match=r"^ResponseHeader: "):
        decode_response_header(bytes.fromhex(data), 12, 4)


def test_flexible_versions_are_those_of_the_schemas() -> None:
    """Every request that kio was generated with from Kafka's schemas."""
    seen = set()
    for api in pkgutil.iter_modules(kio.schema.__path__):
        if not api.ispkg:
            continue
        package = importlib.import_module(f"kio.schema.{api.name}")
        for version in pkgutil.iter_modules(package.__path__):
            try:
                module = importlib.import_module(f"kio.schema.{api.name}.{version.name}.request")
            except ModuleNotFoundError:
                continue
            for name, cls in vars(module).items():
                if name.endswith("Request") and hasattr(cls, "__api_key__"):
                    assert is_flexible(int(cls.__api_key__), int(cls.__version__)) == cls.__flexible__, name
                    seen.add(int(cls.__api_key__))
    others = {4, 5, 6, 7, 93, 94}  # of ZooKeeper and of Kafka 4.4
    assert {key for key in FIRST_FLEXIBLE if key < FIRST_KEY} - seen == others
