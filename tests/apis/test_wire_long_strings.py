"""Compact lengths could say longer strings than int16 can; Kafka refuses them, and they would not fit its records."""

import pytest

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.wire import DecodeError


def test_the_longest_string_is_32767_bytes_in_flexible_versions_too() -> None:
    longest = HeartbeatRequest("g" * 0x7FFF, 1, "m")
    assert HeartbeatRequest.decode(longest.encode(4), 4) == longest
    with pytest.raises(DecodeError, match="a string of 32768 bytes is too long"):
        HeartbeatRequest.decode(HeartbeatRequest("g" * 0x8000, 1, "m").encode(4), 4)


@pytest.mark.parametrize("count", [1, 50])
def test_in_arrays_too(count: int) -> None:
    states = ["s"] * (count - 1) + ["s" * 0x8000]
    with pytest.raises(DecodeError, match="too long"):
        ListGroupsRequest.decode(ListGroupsRequest(states).encode(4), 4)
