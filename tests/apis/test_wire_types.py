"""Uuids in Kafka's spelling, and the error codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode

from kafka_shim.apis.wire import ErrorCode, uuid_from_text, uuid_text


@given(st.binary(min_size=16, max_size=16))
def test_uuid_text_parses_back(value: bytes) -> None:
    text = uuid_text(value)
    assert len(text) == 22
    assert uuid_from_text(text) == value


def test_uuids_as_kafka_prints_them() -> None:
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(b"\xff" * 16) == "_____________________w"


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 24, "+" * 22, "AAAAAAAAAAAAAAAAAAAAA ", "ü" * 22]
)
def test_texts_that_are_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        uuid_from_text(text)


def test_error_codes_are_kafkas() -> None:
    since_4_4 = range(134, 137)
    theirs = {each.name.upper(): each.value for each in KioErrorCode}
    assert {each.name: each.value for each in ErrorCode if each.value not in since_4_4} == theirs
    assert [each.value for each in ErrorCode] == list(range(-1, 137))


def test_retriable_errors_are_kafkas() -> None:
    theirs = {each.value for each in KioErrorCode if each.retriable}
    assert {each.value for each in ErrorCode if each.retriable} == theirs
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE.retriable
    assert not ErrorCode.UNKNOWN_MEMBER_ID.retriable
