"""A JoinGroup on its way through the rules, and how it is parked.

Decides only what becomes of an earlier JoinGroup of the same member; it does not know which rule parks one.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_shim.apis.join_group import JoinGroupRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic.answers import join_refused
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.member import Member, Protocols
from kafka_shim.groups.classic.states import Rule
from kafka_shim.groups.interface import Client
from kafka_shim.groups.shard import Shard


class Joining(NamedTuple):
    """One JoinGroup: what it says, who sent it, and the rule that the state table names for it."""

    request: JoinGroupRequest
    protocols: Protocols
    client: Client
    exchange: object
    now: float
    skip_assignment_supported: bool
    rule: Rule


def park(shard: Shard, group: ClassicGroup, member: Member, joining: Joining) -> None:
    """Park a member's JoinGroup and let its session sleep: it cannot send heartbeats on that connection.

    One it parked before is answered 27, where Kafka never answers it: the client that sent it is no longer listening,
    or gets an error and joins again. A new member keeps the timer that removes it should it never come back
    (semantics 2.7).
    """
    superseded = group.park_join(member, joining.exchange, joining.now)
    if superseded is not None:
        shard.outbox.reply(superseded, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), shard)
    if not member.is_new:
        shard.cancel(member.session_timer)


def new_member_id(shard: Shard, name: str) -> str:
    """An id no member ever had; clients must not read anything into it (semantics 2.2)."""
    return f"{name}-{shard.new_id()}"
