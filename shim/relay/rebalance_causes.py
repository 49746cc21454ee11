"""Why a group rebalances, as far as it shows from outside.

Decides which requests and answers may have begun a rebalance, and which of them was the first: its cause. A coordinator
knows why it began one; whoever only sees requests and answers concludes it. It does not know when a round ends.

What is concluded: a JoinGroup of somebody new, a JoinGroup that says something else than the member's last, the
leader's JoinGroup in a stable group, a LeaveGroup that was granted, a silence longer than the session timeout.
REBALANCE_IN_PROGRESS (27) says that a rebalance has begun, but not why. A member that does not come through the relay
is not seen, and what began because of it has no cause here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic.member import Protocols
from kafka_shim.groups.classic.reasons import why_joined_again


class PossibleCause(NamedTuple):
    """Something that begins a rebalance, or shows that one has begun; `cause` is None where it does not say why.

    `of` is the JoinGroup it is, which takes the found away if it is refused, and names the member once it is answered.
    """

    at: float
    cause: Cause | None
    trigger: str = ""
    of: object = None


class Member:
    """A member as it is seen. `last_seen` is its last sign of life, monotonic seconds; None before the first."""

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
        """When it is expired unless it syncs, monotonic seconds; None once it has, or if there is no session timeout
        yet."""
        self.protocols: Protocols | None = None

    def expires(self) -> float | None:
        """When its session ends, if nothing more is last_seen of it."""
        return None if self.last_seen is None or self.session_s is None else self.last_seen + self.session_s


def protocols_of(join: Any) -> Protocols:
    """What a JoinGroup says of assignors and subscriptions."""
    return tuple([(protocol.name, protocol.metadata) for protocol in join.protocols])


def rejoined(member: Member, now_says: Protocols, protocol_type: str, leads: bool) -> Cause | None:
    """Why the JoinGroup of a member begins a rebalance in a stable group; None if it does not."""
    if member.protocols is None or member.protocols == now_says:
        return Cause.LEADER_REJOINED if leads else None
    return why_joined_again(protocol_type, member.protocols, now_says, leads=leads)


def silence(missing: Iterable[Member], ended: float) -> list[PossibleCause]:
    """What it means that these members are not in the generation that began at `ended`."""
    found = []
    for member in missing:
        expires = member.expires()
        if member.sync_s is not None and member.sync_s <= ended:
            found.append(PossibleCause(member.sync_s, Cause.PENDING_SYNC_EXPIRED, member.member_id))
        if expires is not None and expires <= ended:
            found.append(PossibleCause(expires, Cause.SESSION_EXPIRED, member.member_id))
    return found


def first(possible: Iterable[PossibleCause]) -> PossibleCause | None:
    """What began the rebalance. If it does not say why, what began it was not seen: all others came later."""
    return min(possible, key=lambda each: each.at, default=None)
