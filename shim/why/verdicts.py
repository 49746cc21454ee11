"""The clause of each finding: its culprit, its number and its longest time."""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.readable import readable
from kafka_shim.apis.wire.errors import ErrorCode, error_name
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why import work
from kafka_shim.why.causes import BECAUSE, ENDED_BY_TEST, UNCHANGED
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.finding import Finding
from kafka_shim.why.work import has_partitions

CLAUSES: Final[dict[str, str]] = {
    Diagnosis.JOIN_REFUSED: "{who} was refused {times}: {error}",
    Diagnosis.DUPLICATE_INSTANCE_ID: "two processes have the group.instance.id {who} and fence each other, {times}",
    Diagnosis.PAUSED_MEMBER: "{who} was paused for longer than its session timeout, {times}",
    Diagnosis.GHOST: "{who} was killed and the group waited {seconds} for it in vain",
    Diagnosis.CRASH_LOOP: "{who} comes again and again and never leaves: it fell silent {times}",
    Diagnosis.FLAPPING: "{who} leaves and comes back again and again, {times}",
    Diagnosis.SLOW_MEMBER: "the group waited up to {seconds} for {who} to join again, {times}",
    Diagnosis.SLOW_REVOCATION: "the group waited up to {seconds} for {who} to give up partitions, {times}",
    Diagnosis.SLOW_LEADER: "the group waited up to {seconds} for its leader, {who}, to assign",
    Diagnosis.SELDOM_HEARTBEATS: "{who} learned of a rebalance up to {seconds} late: its heartbeats are rare",
    Diagnosis.DIFFERENT_SUBSCRIPTIONS: "members subscribe to different topics: {who} got partitions of topics that it"
    " does not subscribe to",
    Diagnosis.COMMIT_REFUSED: "commits of {who} were refused, {times}, {error}: their records are read again",
    Diagnosis.UNKNOWN: "why does not know the reason: the request that began it did not pass the relay",
    Diagnosis.ENDED_BY_TEST: f"{ENDED_BY_TEST}, {{times}}",
    Diagnosis.ROLLING_RESTART: "a rolling restart",
    Diagnosis.DEPLOY: "all members left, and new ones started: a deploy",
    Diagnosis.RESTART: "{who} was restarted, or replaced",
    Diagnosis.SCALE_OUT: "a scale-out: new members joined",
    Diagnosis.SCALE_IN: "a scale-in: members left and did not come back",
    Diagnosis.TOPICS_CHANGED: "topics or their partitions changed, or the leader's view of them",
    Diagnosis.START: "the group started",
    Diagnosis.SHUTDOWN: "the group shut down",
    Cause.POLL_TIMEOUT_REASON: "the application of {who} did not poll within its poll interval, {times}",
    Cause.LEADER_REJOINED: "the leader joined again, as consumers do when topics change",
    Cause.SESSION_EXPIRED: "{who} died: it sent no heartbeat for its session timeout",
}

_MOST_TOPICS: Final = 3
"""Topics that a clause names."""

_OTHERWISE: Final[dict[str, str]] = {
    Diagnosis.SELDOM_HEARTBEATS: "the heartbeats of {who} are rarer than its session is long, {times}",
    Diagnosis.FLAPPING: "members such as {who} join for a short time and leave, {times}",
    Diagnosis.COMMIT_REFUSED: "{who} is no member of the group, and its commits were refused, {times}: {error}",
}
"""Clauses of findings that need another one than most of their kind."""
_FROM_LOGS: Final[dict[str, str]] = {
    Cause.SESSION_EXPIRED: "{who} sent no heartbeat for its session timeout, {times}: it died or stood still",
    Cause.POLL_TIMEOUT_REASON: "{who} left when its poll interval was over, {times}: its application did not poll",
    Diagnosis.PAUSED_MEMBER: "{who} sent no heartbeat for its session timeout and came back, {times}",
    Diagnosis.GHOST: "{who} was gone without leaving and the group waited {seconds} for it in vain",
    Diagnosis.UNKNOWN: "no line of the log says why",
}
"""Clauses of findings from logs, which have fewer signs than requests."""
_FROM_TOPIC: Final[dict[str, str]] = {
    Diagnosis.UNKNOWN: UNCHANGED,
    Cause.STATIC_REPLACED: "{who} was replaced by a member with its group.instance.id, {times}",
}
"""Clauses of findings from `__consumer_offsets` alone."""
_GONE: Final = {
    False: "{who} left or was expelled, {times}",
    True: "{who} left or was expelled, {times}, and came back after up to {seconds}",
}
"""Clauses of a member that is gone, by whether it came back."""


def _unreleased(finding: Finding) -> str:
    """Return the clause of a process that is refused the group instance id of another."""
    times = "{times}" if finding.count == 1 else "{times} in {seconds}"
    text = f"{{who}} was refused {times}: {{error}}, since its old process had not left"
    if not finding.partitions:
        return text
    stood = "1 partition" if finding.partitions == 1 else f"{finding.partitions} partitions"
    return f"{text}; meanwhile {stood} had no running owner"


def _unread(finding: Finding) -> str:
    """Return the clause of a group with different subscriptions and topics that no member reads."""
    names = ", ".join(readable(each) for each in finding.topics[:_MOST_TOPICS])
    others = len(finding.topics) - _MOST_TOPICS
    more = f" and {others} more" if others > 0 else ""
    return f"members subscribe to different topics: no member has a partition of {names}{more}"


def clause_of(finding: Finding, rebalance: Rebalance | None = None) -> str:
    """Return a finding as a clause, without a full stop; of one rebalance without its count in the whole group."""
    is_otherwise = finding.expelled or finding.is_passing or finding.is_outside
    text = _OTHERWISE.get(finding.code) if is_otherwise else CLAUSES.get(finding.code)
    if finding.is_of_log:
        text = _FROM_LOGS.get(finding.code, text)
    if finding.code == Cause.MEMBER_GONE:
        text = _GONE[bool(finding.seconds)]
    if finding.is_of_topic:
        text = _FROM_TOPIC.get(finding.code, text)
    if finding.is_likely:
        text = "{who} left when a poll interval was over, {times}: its application probably did not poll"
    if not has_partitions(finding.protocol_type):
        text = work.CLAUSES.get(finding.code, text)
    if finding.error == ErrorCode.UNRELEASED_INSTANCE_ID:
        text = _unreleased(finding)
    if finding.topics:
        return _unread(finding)
    text = text or BECAUSE.get(finding.code) or finding.code
    seconds = finding.seconds
    if rebalance is not None and text is not None:
        seconds = finding.times.get(rebalance.first_seq, seconds)
        text = text.replace(", {times}", "").replace("up to {seconds}", "{seconds}")
    culprit = readable(finding.client) or "a member"
    return text.format(
        who=culprit,
        times="once" if finding.count == 1 else f"{finding.count} times",
        seconds=f"{seconds:.1f} s",
        error=error_name(finding.error),
    )
