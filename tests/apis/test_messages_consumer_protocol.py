"""The embedded consumer protocol: the bytes of real clients, newer versions, and other bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    assignment_from_bytes,
    assignment_to_bytes,
    subscription_from_bytes,
    subscription_to_bytes,
)
from kafka_shim.apis.wire import Message
from tests.apis.other_codecs import CODECS
from tests.apis.strategies import structs

VERSIONS = st.integers(0, 3)


def versioned(message: type[Message]) -> st.SearchStrategy[tuple[int, Message]]:
    return VERSIONS.flatmap(lambda version: st.tuples(st.just(version), structs(message, version)))


@given(versioned(ConsumerProtocolSubscription))
def test_subscription_as_others_write_it(sample: tuple[int, ConsumerProtocolSubscription]) -> None:
    version, subscription = sample
    data = subscription_to_bytes(subscription, version)
    assert data == CODECS["kafka-python"].encode(subscription, version)
    assert data[2:] == CODECS["kio"].encode(subscription, version)
    assert subscription_from_bytes(data) == subscription


@given(versioned(ConsumerProtocolAssignment))
def test_assignment_as_others_write_it(sample: tuple[int, ConsumerProtocolAssignment]) -> None:
    version, assignment = sample
    data = assignment_to_bytes(assignment, version)
    assert data == CODECS["kafka-python"].encode(assignment, version)
    assert data[2:] == CODECS["kio"].encode(assignment, version)
    assert assignment_from_bytes(data) == assignment


@given(structs(ConsumerProtocolSubscription, 3), st.integers(4, 2**15 - 1), st.binary(max_size=8))
def test_newer_version_is_read_as_version_3(
    subscription: ConsumerProtocolSubscription, version: int, added: bytes
) -> None:
    data = version.to_bytes(2, "big") + subscription.encode(3) + added
    assert subscription_from_bytes(data) == subscription


def test_golden_bytes() -> None:
    subscription = ConsumerProtocolSubscription(["t"], None, [TopicPartition("t", [0, 1])], 5, "r")
    assert subscription_to_bytes(subscription, 3) == bytes.fromhex(
        "0003 00000001 0001 74 ffffffff 00000001 0001 74 00000002 00000000 00000001 00000005 0001 72"
    )
    # kafka-python 3.0.12's range assignor sends version 0 with empty user data.
    assert subscription_from_bytes(bytes.fromhex("0000 00000001 0001 74 00000000")) == ConsumerProtocolSubscription(
        ["t"], b""
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\xff\xff\0\0\0\0\0\0\0\0",
        b"\0\0\0\0\0\x01\0\x05abc",
        b"plain text",
        b"\0\0\x7f\xff\xff\xff",
    ],
)
def test_other_bytes_are_none(data: bytes) -> None:
    assert subscription_from_bytes(data) is None
    assert assignment_from_bytes(data) is None


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_none(data: bytes) -> None:
    assert isinstance(subscription_from_bytes(data), ConsumerProtocolSubscription | None)
    assert isinstance(assignment_from_bytes(data), ConsumerProtocolAssignment | None)
