"""Sessions of a classic group's members: when one begins to run, and what a sign of life does.

Decides nothing; the rules do. Source: semantics 2.7.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.shard import Shard

NEW_MEMBER_TIMEOUT: Final = 300.0
"""Seconds a new member may be parked before it counts as gone."""


def wake(shard: Shard, member: Member, now: float) -> None:
    """Start the member's session, which was asleep or was that of a new member."""
    shard.arm(member.session_timer, now + member.session_timeout)


def renew(shard: Shard, member: Member, now: float) -> None:
    """A sign of life: the member's session runs from now."""
    deadline = now + member.session_timeout
    if member.session_timer.queued <= deadline:
        member.session_timer.deadline = deadline
    else:
        wake(shard, member, now)
