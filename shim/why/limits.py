"""Questions that the log of a broker cannot answer about a group, each with the source that can.

Traces of a server or a relay have none. Source of the gaps: the lines of each release, docs/logs.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_shim.trace.causes import Cause
from kafka_shim.trace.history import MISSED_POLL, GroupHistory
from kafka_shim.trace.members import Member
from kafka_shim.trace.rebalance import HEARTBEAT_SECONDS, Rebalance
from kafka_shim.trace.reconciliation import Reconciliation
from kafka_shim.why.finding import LONG_S, Finding
from kafka_shim.why.names import Names
from kafka_shim.why.topic_limits import some, topic_limits


def limits_of(
    history: GroupHistory, rebalances: Sequence[Rebalance], findings: Sequence[Finding], names: Names
) -> tuple[str, ...]:
    """Return the clauses about a group from a log, without a full stop; none for other traces."""
    if not history.is_of_log:
        return ()
    if history.of_clients:
        return history.limits
    if history.is_of_topic_alone:
        return topic_limits(history, rebalances, names)
    limits = [
        *(_refused(history, findings), _expired(history, names), _departures(history, names), _unsaid(rebalances)),
        *(_late(rebalances, findings), _leader(history, rebalances, names)),
        *(_subscriptions(rebalances), _returned(history, names)),
        "" if history.is_of_topic else _epochs(rebalances),
    ]
    return tuple(filter(None, limits))


def _refused(history: GroupHistory, findings: Sequence[Finding]) -> str:
    if any(each.is_trouble for each in findings) or any(each.has_log for each in history.members.values()):
        return ""
    return "whether a client was refused, since a broker does not log that; add the logs of the clients"


def _is_unsaid(member: Member) -> bool:
    return member.how == "left" and not member.reason and not member.has_log


def _expired(history: GroupHistory, names: Names) -> str:
    # A consumer of KIP-848 that is back under its id was alive.
    silent = (each for each in history.members.values() if each.how == "expired" and each.lingered is None)
    members = [each.member_id for each in silent if not each.has_log]
    if not members:
        return ""
    return f"whether {some(members, names)} died or stood still; add its log: it ends, starts again, or has a gap"


def _returned(history: GroupHistory, names: Names) -> str:
    back = (each for each in history.members.values() if each.lingered is not None and not each.has_log)
    members = [each.member_id for each in back if not any(MISSED_POLL in life.reason for life in each.memberships)]
    if history.epochs is None or not members:
        return ""
    return (
        f"whether {some(members, names)} stood still or its application did not poll, since librdkafka sends no"
        " heartbeats then; add its log"
    )


def _departures(history: GroupHistory, names: Names) -> str:
    members = [each.member_id for each in history.members.values() if _is_unsaid(each)]
    if not members or history.epochs is not None:
        return ""
    return (
        f"whether {some(members, names)} was closed or did not poll in time, since its departure has no reason; add"
        " its log (brokers and Java clients have reasons since Kafka 3.2)"
    )


def _unsaid(rebalances: Sequence[Rebalance]) -> str:
    count = sum(not each.cause for each in rebalances)
    if not count:
        return ""
    what = "1 rebalance" if count == 1 else f"{count} rebalances"
    return f"why {what} began; the logs of the members may say it (brokers log reasons since Kafka 2.1)"


def _late(rebalances: Sequence[Rebalance], findings: Sequence[Finding]) -> str:
    troubles = (each for each in findings if each.is_trouble and each.members)
    explained = {id(each) for finding in troubles for each in finding.rebalances}
    late = [
        each
        for each in rebalances
        if not isinstance(each, Reconciliation)
        and not each.initial
        and id(each) not in explained
        and each.seconds > HEARTBEAT_SECONDS + LONG_S
    ]
    if not late:
        return ""
    return "which member joined last in a long rebalance; add the logs of the members"


def _leader(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> str:
    leaders = [each.trigger for each in rebalances if each.cause == Cause.LEADER_REJOINED and each.trigger]
    if not leaders:
        return ""
    return f"which topic changed, or why else {some(leaders, names)} joined again as the leader; add its log"


def _subscriptions(rebalances: Sequence[Rebalance]) -> str:
    if not any(each.cause == Cause.SUBSCRIPTION_CHANGED and not each.trigger for each in rebalances):
        return ""
    return "whether a subscription changed or a topic, and whose; add the logs of the members and of all brokers"


def _epochs(rebalances: Sequence[Rebalance]) -> str:
    if not any(isinstance(each, Reconciliation) for each in rebalances):
        return ""
    return "when an epoch was stable, and which members held it up; a broker says it at level DEBUG"
