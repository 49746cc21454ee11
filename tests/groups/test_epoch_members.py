"""Members of groups with epochs, of every kind, after a heartbeat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_shim.groups.consumer.member import Member as ConsumerMember
from kafka_shim.groups.epochs.member import EpochMember
from kafka_shim.groups.share.records import Member as ShareMember
from kafka_shim.groups.streams.records import Member as StreamsMember


@pytest.mark.parametrize("kind", [ConsumerMember, ShareMember, StreamsMember])
def test_a_heartbeat_changes_the_fields_that_it_has(kind: type[EpochMember]) -> None:
    member = kind("m", epoch=3, rack_id="a", client_id="c", rebalance_timeout_ms=5)
    changed = member.merge(rack_id="b", client_id="c", rebalance_timeout_ms=None)
    assert changed == replace(member, rack_id="b")


@pytest.mark.parametrize("kind", [ConsumerMember, ShareMember, StreamsMember])
def test_a_heartbeat_without_changes_returns_the_same_member(kind: type[EpochMember]) -> None:
    member = kind("m", epoch=3, rack_id="a", client_id="c")
    assert member.merge(rack_id=None, client_id="c") is member
