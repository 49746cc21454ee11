"""Which cause a rejoin or a departure is, judged by what its requests say.

Decides only the name of the cause, for people and programs that ask why a group rebalanced; no rule depends on it.
Definitions: `docs/trace.md`.
"""

from __future__ import annotations

from kafka_shim.apis.consumer_protocol import ConsumerProtocolSubscription, subscription_from_bytes
from kafka_shim.apis.leave_group import MemberIdentity
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic.group import CONSUMER, ClassicGroup
from kafka_shim.groups.classic.member import Member, Protocols


def why_rejoined(group: ClassicGroup, member: Member, before: Protocols) -> Cause:
    """Why a JoinGroup of `member`, whose protocols were `before`, rebalances the group."""
    return why_joined_again(group.protocol_type, before, member.protocols, leads=group.leader == member.member_id)


def why_joined_again(protocol_type: str | None, before: Protocols, protocols: Protocols, *, leads: bool) -> Cause:
    """Why the JoinGroup of a member whose protocols were `before` and are now `protocols` rebalances its group.

    A cooperative member that gave partitions up joins a second time with fewer of them owned; a leader joins again when
    it saw topics change; everybody joins again when the subscription changes.
    """
    if protocols == before:
        return Cause.LEADER_REJOINED
    if protocol_type == CONSUMER:
        old, new = _subscription(before), _subscription(protocols)
        if old is not None and new is not None and set(old.topics) == set(new.topics):
            if _owned(old) - _owned(new):
                return Cause.COOPERATIVE_FOLLOWUP
            if leads:
                return Cause.LEADER_REJOINED
    return Cause.SUBSCRIPTION_CHANGED


def why_left(leaver: MemberIdentity) -> Cause:
    """Why the member a LeaveGroup names is gone."""
    if leaver.member_id == "":
        return Cause.ADMIN_REMOVED
    if leaver.reason is not None and "poll timeout" in leaver.reason:
        return Cause.POLL_TIMEOUT_REASON
    return Cause.MEMBER_LEFT


def _subscription(protocols: Protocols) -> ConsumerProtocolSubscription | None:
    # All of a consumer's protocols carry the same topics; the newest version among them has the most fields.
    newest = max((metadata for _, metadata in protocols), key=lambda metadata: metadata[:2], default=None)
    return None if newest is None else subscription_from_bytes(newest)


def _owned(subscription: ConsumerProtocolSubscription) -> set[tuple[str, int]]:
    return {(owned.topic, partition) for owned in subscription.owned_partitions for partition in owned.partitions}
