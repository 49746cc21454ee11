"""Causes of rebalances in classic groups, inferred from requests and answers.

Possible causes: a JoinGroup of a new member, a JoinGroup that differs from the member's last, the leader's JoinGroup in
a stable group, a granted LeaveGroup, a silence longer than the session timeout. REBALANCE_IN_PROGRESS (27) shows that a
rebalance has begun, without its cause. The earliest one is the cause. A member that does not connect through the relay
is invisible, and a rebalance that it triggers has no cause here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka_shim.groups.classic.events import why_joined_again
from kafka_shim.groups.classic.member import Protocols
from kafka_shim.trace.causes import Cause


class PossibleCause(NamedTuple):
    """A possible start of a rebalance; `cause` is None for a mere sign that one has begun.

    `of` is its JoinGroup: if that is refused, the cause is withdrawn; its answer has the member id.
    """

    at: float
    cause: Cause | None
    trigger: str = ""
    of: object = None


class Member:
    """A member as seen from outside. `last_seen` is the time of its last request, monotonic seconds; None before the
    first.
    """

    __slots__ = (
        "client_host",
        "client_id",
        "last_seen",
        "instance_id",
        "member_id",
        "protocols",
        "session_s",
        "sync_s",
    )

    def __init__(self, member_id: str, instance_id: str | None) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = ""
        self.client_host = ""
        self.last_seen: float | None = None
        self.session_s: float | None = None
        self.sync_s: float | None = None
        """Deadline for its SyncGroup, monotonic seconds; None after the SyncGroup, or if the session timeout is
        unknown.
        """
        self.protocols: Protocols | None = None

    def expires(self) -> float | None:
        """Return the end of its session if it stays silent."""
        return None if self.last_seen is None or self.session_s is None else self.last_seen + self.session_s


def protocols_of(join: Any) -> Protocols:
    """Return the protocols of a JoinGroup: assignors and subscriptions."""
    return tuple([(protocol.name, protocol.metadata) for protocol in join.protocols])


def cause_of_rejoin(member: Member, protocols: Protocols, protocol_type: str, leads: bool) -> Cause | None:
    """Return the cause of the rebalance that a JoinGroup of a member starts in a stable group; None if it starts
    none.
    """
    if member.protocols is None or member.protocols == protocols:
        return Cause.LEADER_REJOINED if leads else None
    return why_joined_again(protocol_type, member.protocols, protocols, leads=leads)


def causes_of_silence(missing: Iterable[Member], ended: float) -> list[PossibleCause]:
    """Return the possible causes if these members are missing in the generation that began at `ended`."""
    causes = []
    for member in missing:
        expires = member.expires()
        if member.sync_s is not None and member.sync_s <= ended:
            causes.append(PossibleCause(member.sync_s, Cause.PENDING_SYNC_EXPIRED, member.member_id))
        if expires is not None and expires <= ended:
            causes.append(PossibleCause(expires, Cause.SESSION_EXPIRED, member.member_id))
    return causes


def earliest_cause(possible: Iterable[PossibleCause]) -> PossibleCause | None:
    """Return the earliest cause. If it has no `cause`, the real cause was invisible: all others came later."""
    return min(possible, key=lambda each: each.at, default=None)
