"""When the patterns of a group are resolved, and what follows when they were.

Decides that only: a heartbeat that brings a new pattern is answered at once, and the patterns of the whole group are
resolved right after it. They are resolved again when topics have changed, or `group.consumer.regex.refresh.interval.ms`
has passed; never twice within `LEAST_INTERVAL_MS`. After Kafka's `maybeUpdateRegularExpressions` and
`handleRegularExpressionsResult` of 4.2 (semantics 4.7), which resolve them in another thread.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.consumer import events, records
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.records import Record
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.regex import RESOLVED_HERE, RegexError, ResolvedRegex, compiled, matches
from kafka_shim.groups.consumer.sessions import arm_if_idle
from kafka_shim.groups.consumer.subscriptions import metadata_hash
from kafka_shim.groups.consumer.timers import TimerKind

LEAST_INTERVAL_MS: Final = 10_000


class PatternChange(Enum):
    """What a heartbeat did to the pattern of its member."""

    NONE = "none"
    CHANGED = "changed, and its topics are not resolved yet"
    RESOLVED = "changed, and its topics are resolved"


def change(group: ConsumerGroup, member: Member, updated: Member) -> tuple[PatternChange, list[Record]]:
    """How the pattern of a member changed. Raises `Refusal` for one that is none: INVALID_REGULAR_EXPRESSION (128)."""
    old, new = member.regex, updated.regex
    if (member.topic_regex or None) == (updated.topic_regex or None):
        changed = member.topic_regex != updated.topic_regex
        return (PatternChange.CHANGED if changed else PatternChange.NONE), []
    subscriptions = group.subscriptions
    gone = [records.regex_gone(group.group_id, old)] if old is not None and subscriptions.patterns[old] == 1 else []
    if new is None:
        return PatternChange.RESOLVED, gone
    if not subscriptions.patterns.get(new):
        try:
            compiled(new)
        except RegexError as error:
            raise Refusal(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{new}` is not a valid regular expression: {error}.",
            ) from None
        return PatternChange.CHANGED, gone
    return (PatternChange.RESOLVED if new in subscriptions.resolved else PatternChange.CHANGED), gone


def refresh_if_due(group: ConsumerGroup, now: float) -> None:
    """Resolve the patterns if it is time; called after every heartbeat of a group that has any."""
    patterns, resolved = group.subscriptions.patterns, group.subscriptions.resolved
    if not patterns:
        return
    now_ms = group.shard.wall_ms(now)
    last_ms = max((each.timestamp_ms for each in resolved.values()), default=None)
    if last_ms is not None and now_ms <= last_ms + LEAST_INTERVAL_MS:
        return
    if (
        last_ms is None
        or len(patterns) != len(resolved)
        or group.patterns_stale
        or now_ms > last_ms + group.shard.config.group_consumer_regex_refresh_interval_ms
    ):
        arm_if_idle(group, TimerKind.REGEX, "", now)


def resolve(group: ConsumerGroup, now: float) -> None:
    """Resolve the patterns, and begin a new group epoch if that changes what the group subscribes to."""
    shard, subscriptions = group.shard, group.subscriptions
    topics = shard.topics.names()
    now_ms = shard.wall_ms(now)
    group.patterns_stale = False
    written: list[Record] = []
    cause: Cause | None = None
    trigger = ""
    for pattern in subscriptions.patterns:
        found = ResolvedRegex(matches(pattern, topics), RESOLVED_HERE, now_ms)
        earlier = subscriptions.resolved.get(pattern)
        if found.topics != (earlier.topics if earlier is not None else frozenset()):
            if earlier is None:
                cause = Cause.SUBSCRIPTION_CHANGED
                trigger = next(member.member_id for member in group.members.values() if member.regex == pattern)
            else:
                cause = Cause.TOPIC_METADATA_CHANGED
        written.append(records.resolved_regex(group.group_id, pattern, found))
    for key, value in written:
        shard.write(key, value)
    found_hash = metadata_hash(subscriptions.topics(), shard.topics)
    if cause is None and found_hash != group.metadata_hash:
        cause = Cause.TOPIC_METADATA_CHANGED
    if cause is not None:
        before = group.state
        shard.write(*records.epoch(group.group_id, group.group_epoch + 1, found_hash))
        group.metadata_stale = False
        group.began(cause, trigger)
        shard.counters.consumer_rebalances += 1
        if shard.outbox.listening:
            events.epoch(group)
            events.state(group, before)
