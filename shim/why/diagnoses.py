"""The closed set of findings: events in the life of a group by their common names.

Some causes of rebalances are findings as they are, such as `SESSION_EXPIRED`; this set has the others. `pages.py` has a
page for each.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Diagnosis(StrEnum):
    """A finding that is not the cause of one rebalance."""

    # Troubles
    JOIN_REFUSED = "JOIN_REFUSED"
    DUPLICATE_INSTANCE_ID = "DUPLICATE_INSTANCE_ID"
    PAUSED_MEMBER = "PAUSED_MEMBER"
    GHOST = "GHOST"
    CRASH_LOOP = "CRASH_LOOP"
    FLAPPING = "FLAPPING"
    SLOW_MEMBER = "SLOW_MEMBER"
    SLOW_REVOCATION = "SLOW_REVOCATION"
    SLOW_LEADER = "SLOW_LEADER"
    SELDOM_HEARTBEATS = "SELDOM_HEARTBEATS"
    DIFFERENT_SUBSCRIPTIONS = "DIFFERENT_SUBSCRIPTIONS"
    COMMIT_REFUSED = "COMMIT_REFUSED"
    UNKNOWN = "UNKNOWN"
    # Acts of operators, deployments and tests
    ENDED_BY_TEST = "ENDED_BY_TEST"
    ROLLING_RESTART = "ROLLING_RESTART"
    DEPLOY = "DEPLOY"
    RESTART = "RESTART"
    SCALE_OUT = "SCALE_OUT"
    SCALE_IN = "SCALE_IN"
    TOPICS_CHANGED = "TOPICS_CHANGED"
    START = "START"
    SHUTDOWN = "SHUTDOWN"


HEALTHY: Final[tuple[str, ...]] = (
    Diagnosis.ENDED_BY_TEST,
    Diagnosis.ROLLING_RESTART,
    Diagnosis.DEPLOY,
    Diagnosis.RESTART,
    Diagnosis.TOPICS_CHANGED,
    "SUBSCRIPTION_CHANGED",
    Diagnosis.SCALE_OUT,
    Diagnosis.SCALE_IN,
    "STATIC_REPLACED",
    "LEADER_REJOINED",
    "ADMIN_REMOVED",
    "PROTOCOL_CHANGED",
    "COOPERATIVE_FOLLOWUP",
    "NEW_MEMBER",
    "MEMBER_LEFT",
    Diagnosis.START,
    Diagnosis.SHUTDOWN,
)
"""Findings that are no trouble; the first that a group has is the headline of a group without trouble."""
