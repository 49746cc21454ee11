"""Why a group rebalances: one closed set of causes.

Entering PreparingRebalance, and later bumping a group epoch, takes one of these as an argument; there is no default.
The names are those of the trace (`docs/trace.md`), of the metrics and of the pipeline's tables.
"""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """The reason of one rebalance."""

    NEW_MEMBER = "NEW_MEMBER"
    MEMBER_LEFT = "MEMBER_LEFT"
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
