"""Compact lengths allow longer strings than int16; Kafka refuses these, and its records could not hold them."""

from __future__ import annotations

import struct

import pytest

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.share_group_describe import DescribedGroup, ShareGroupDescribeResponse
from kafka_shim.apis.wire import DecodeError, EncodeError
from kafka_shim.apis.wire.headers import decode_request_header

LONGEST = b"\x80\x80\x02"
"""The compact length of a string of 32,767 bytes."""
LONGER = b"\x81\x80\x02"


def test_the_longest_string_is_32767_bytes_in_flexible_versions_too() -> None:
    longest = HeartbeatRequest("g" * 0x7FFF, 1, "m")
    data = longest.encode(4)
    assert HeartbeatRequest.decode(data, 4) == longest
    assert data.startswith(LONGEST)
    with pytest.raises(DecodeError, match="a string of 32768 bytes is too long"):
        HeartbeatRequest.decode(data.replace(LONGEST, LONGER + b"g"), 4)


@pytest.mark.parametrize("count", [1, 50])
def test_in_arrays_too(count: int) -> None:
    states = ["s"] * (count - 1) + ["s" * 0x7FFF]
    data = ListGroupsRequest(states).encode(4)
    with pytest.raises(DecodeError, match="too long"):
        ListGroupsRequest.decode(data.replace(LONGEST, LONGER + b"s"), 4)


def test_a_longer_string_is_not_written() -> None:
    answer = ShareGroupDescribeResponse(groups=[DescribedGroup(error_message="x" * 0x8000)])
    with pytest.raises(EncodeError, match="a string of 32768 bytes is too long"):
        answer.encode(1)


@pytest.mark.parametrize("version", [0, 4])
def test_string_that_grows_past_the_limit_is_refused(version: int) -> None:
    text = b"\xff" * 10_923
    plain = HeartbeatRequest("g" * len(text), 1, "m").encode(version)
    with pytest.raises(DecodeError, match="32769 bytes once that is replaced"):
        HeartbeatRequest.decode(plain.replace(b"g" * len(text), text), version)


@pytest.mark.parametrize("version", [0, 4])
def test_string_that_grows_up_to_the_limit_is_read_as_kafka_reads_it(version: int) -> None:
    text = b"\xff" * 10_922 + b"g"
    plain = HeartbeatRequest("g" * len(text), 1, "m").encode(version)
    request = HeartbeatRequest.decode(plain.replace(b"g" * len(text), text), version)
    assert request.group_id == "\N{REPLACEMENT CHARACTER}" * 10_922 + "g"
    assert HeartbeatRequest.decode(request.encode(version), version) == request


@pytest.mark.parametrize("count", [1, 60])
def test_string_in_an_array_that_grows_is_refused(count: int) -> None:
    names = ["t"] * (count - 1) + ["y" * 11_000]
    plain = ConsumerGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=names).encode(1)
    with pytest.raises(DecodeError, match="once that is replaced"):
        ConsumerGroupHeartbeatRequest.decode(plain.replace(b"y" * 11_000, b"\xff" * 11_000), 1)


def test_client_id_that_grows_is_refused() -> None:
    with pytest.raises(DecodeError, match="once that is replaced"):
        decode_request_header(struct.pack(">hhih", 12, 0, 1, 11_000) + b"\xff" * 11_000)
