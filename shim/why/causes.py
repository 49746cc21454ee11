"""Texts of rebalance causes, as clauses about the member that triggered the rebalance.

`trace/causes.py` has the closed set of causes.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.trace.causes import Cause
from kafka_shim.trace.rebalance import OF_TOPIC
from kafka_shim.why.work import CLAUSES, has_partitions

BECAUSE: Final[dict[str, str]] = {
    Cause.NEW_MEMBER: "{who} is new",
    Cause.MEMBER_LEFT: "{who} left",
    Cause.MEMBER_GONE: "{who} left or was expelled",
    Cause.SESSION_EXPIRED: "{who} sent no heartbeat for its session timeout",
    Cause.REBALANCE_TIMEOUT: "{who} did not give up its partitions, or join again, in time",
    Cause.POLL_TIMEOUT_REASON: "{who} left because its application did not poll in time",
    Cause.SUBSCRIPTION_CHANGED: "{who} subscribes to other topics or offers other protocols",
    Cause.LEADER_REJOINED: "the leader, {who}, joined again, as consumers do when topics change",
    Cause.STATIC_REPLACED: "{who} was restarted in the place of a static member",
    Cause.PENDING_SYNC_EXPIRED: "{who} did not send SyncGroup in time",
    Cause.TOPIC_METADATA_CHANGED: "a topic was created, grown or deleted",
    Cause.ADMIN_REMOVED: "{who} was removed by an administrator",
    Cause.COORDINATOR_RELOADED: "the coordinator loaded more members than group.max.size",
    Cause.ASSIGNMENT_WRITE_FAILED: "the assignments could not be stored",
    Cause.COOPERATIVE_FOLLOWUP: "{who} has given up the partitions it had to",
    Cause.PROTOCOL_CHANGED: "the group moves between the classic protocol and that of KIP-848",
    "": "the request that began it did not pass the relay",
}
"""By cause; empty if a relay did not see the trigger."""

ENDED_BY_TEST: Final = "a test ended the session of {who}"
"""The clause in place of that of SESSION_EXPIRED, if a test ended the session."""

UNSAID: Final = "no line of the log says why"
"""The clause of a rebalance from a log, if its cause is unknown."""

UNCHANGED: Final = "members, topics and partitions are as before, and no record says why"
"""The clause of a rebalance from `__consumer_offsets`, if its cause is unknown."""


def unsaid(where: str) -> str:
    """Return the clause of a rebalance without a known cause, by the line or record that it is from."""
    return UNCHANGED if where.startswith(OF_TOPIC) else UNSAID


def clause(cause: str | None, who: str, protocol_type: str = "") -> str:
    """Return the cause of a rebalance as a clause: `billing-3 joined`. An unknown cause is returned unchanged."""
    because = BECAUSE if has_partitions(protocol_type) else BECAUSE | CLAUSES
    return because.get(cause or "", cause or "").format(who=who)
