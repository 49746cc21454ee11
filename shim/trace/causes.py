"""Causes of rebalances: a closed set.

A change to PreparingRebalance, or a new group epoch, takes one of these; there is no default. The trace
(`docs/trace.md`), the metrics and the pipeline's tables use the same names.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """Cause of a rebalance."""

    NEW_MEMBER = "NEW_MEMBER"
    MEMBER_LEFT = "MEMBER_LEFT"
    MEMBER_GONE = "MEMBER_GONE"
    SESSION_EXPIRED = "SESSION_EXPIRED"
    REBALANCE_TIMEOUT = "REBALANCE_TIMEOUT"
    POLL_TIMEOUT_REASON = "POLL_TIMEOUT_REASON"
    SUBSCRIPTION_CHANGED = "SUBSCRIPTION_CHANGED"
    LEADER_REJOINED = "LEADER_REJOINED"
    STATIC_REPLACED = "STATIC_REPLACED"
    PENDING_SYNC_EXPIRED = "PENDING_SYNC_EXPIRED"
    TOPIC_METADATA_CHANGED = "TOPIC_METADATA_CHANGED"
    ADMIN_REMOVED = "ADMIN_REMOVED"
    COORDINATOR_RELOADED = "COORDINATOR_RELOADED"
    ASSIGNMENT_WRITE_FAILED = "ASSIGNMENT_WRITE_FAILED"
    COOPERATIVE_FOLLOWUP = "COOPERATIVE_FOLLOWUP"
    PROTOCOL_CHANGED = "PROTOCOL_CHANGED"


MEANING: Final[dict[Cause, str]] = {
    Cause.NEW_MEMBER: "A member joined that was not in the group.",
    Cause.MEMBER_LEFT: "A member left by itself.",
    Cause.MEMBER_GONE: (
        "A member left or was expelled: `__consumer_offsets` alone was read, which does not show which of the two."
    ),
    Cause.SESSION_EXPIRED: "A member sent no heartbeat within its session timeout.",
    Cause.REBALANCE_TIMEOUT: (
        "A member did not revoke its partitions in time. A classic group has no rebalance for it: the round under way"
        " continues without the member, which is in `dropped` of its `round` event."
    ),
    Cause.POLL_TIMEOUT_REASON: "A member left because its application had not polled in time.",
    Cause.SUBSCRIPTION_CHANGED: "A member joined again with another subscription, or with other metadata.",
    Cause.LEADER_REJOINED: "The leader joined again; consumers do so when their subscribed topics have changed.",
    Cause.STATIC_REPLACED: "A static member was restarted and the generation could not continue unchanged.",
    Cause.PENDING_SYNC_EXPIRED: "Members did not send their SyncGroup in time.",
    Cause.TOPIC_METADATA_CHANGED: "Topics of a subscription changed; KIP-848 groups only.",
    Cause.ADMIN_REMOVED: "An admin client removed a static member by its instance id.",
    Cause.COORDINATOR_RELOADED: "The group was loaded with more members than `group.max.size`.",
    Cause.ASSIGNMENT_WRITE_FAILED: "The leader's assignments could not be stored.",
    Cause.COOPERATIVE_FOLLOWUP: "A member joined again after it had revoked partitions of the last assignment.",
    Cause.PROTOCOL_CHANGED: "The group moved between the classic protocol and the protocol of KIP-848.",
}
"""Descriptions of the causes, for the documentation."""
