"""When the patterns of a group are resolved, and what follows when they were.

Decides that only: a heartbeat that brings a new pattern is answered at once, and the patterns of the whole group are
resolved right after it. They are resolved again when topics have changed, or `group.consumer.regex.refresh.interval.ms`
has passed; never twice within `LEAST_INTERVAL_MS`. After Kafka's `maybeUpdateRegularExpressions` and
`handleRegularExpressionsResult` of 4.2 (semantics 4.7), which resolve them in another thread. What was found counts for
patterns that somebody still subscribes by; topics that came meanwhile are seen the next time.
"""

from __future__ import annotations

from enum import Enum
from math import inf
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
from kafka_shim.groups.consumer.timers import TimerKind

LEAST_INTERVAL_MS: Final = 10_000
LARGE: Final = 10_000
"""Patterns are resolved elsewhere where there are so many pairs of a pattern and a topic."""


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
    if now >= due(group):
        arm_if_idle(group, TimerKind.REGEX, "", now)


def due(group: ConsumerGroup) -> float:
    """From when on the patterns are to be resolved, in monotonic seconds; infinity if the group has none."""
    patterns, resolved = group.subscriptions.patterns, group.subscriptions.resolved
    if not patterns or group.resolves:
        return inf
    if not resolved:
        return -inf
    interval_ms = group.shard.config.group_consumer_regex_refresh_interval_ms
    if len(patterns) != len(resolved) or group.patterns_stale:
        interval_ms = LEAST_INTERVAL_MS
    last_ms = max(each.timestamp_ms for each in resolved.values())
    return group.shard.monotonic(last_ms + interval_ms + 1)


def resolve(group: ConsumerGroup, now: float) -> None:
    """Resolve the patterns, elsewhere if that takes too long here."""
    shard = group.shard
    group.patterns_stale = False
    resolution = Resolution(group, list(group.subscriptions.patterns), shard.topics.names(), shard.wall_ms(now))
    if shard.outbox.offloads and resolution.size >= LARGE:
        group.resolves = True
        shard.outbox.computations.append(resolution)
    else:
        resolution.finish(resolution.compute(), now)


class Resolution:
    """Implements `Computation` for the patterns of a group: which of the topics they match. It begins a new group epoch
    if that changes what the group subscribes to."""

    def __init__(self, group: ConsumerGroup, patterns: list[str], topics: list[str], wall_ms: int) -> None:
        self._group = group
        self._patterns = patterns
        self._topics = topics
        self._wall_ms = wall_ms

    @property
    def size(self) -> int:
        """How much there is to compute, roughly."""
        return len(self._patterns) * len(self._topics)

    def compute(self) -> dict[str, ResolvedRegex]:
        return {
            each: ResolvedRegex(matches(each, self._topics), RESOLVED_HERE, self._wall_ms) for each in self._patterns
        }

    def finish(self, result: dict[str, ResolvedRegex] | Exception, now: float) -> None:
        group, shard = self._group, self._group.shard
        group.resolves = False
        if isinstance(result, Exception) or not group.is_in_shard:
            return
        subscriptions = group.subscriptions
        cause: Cause | None = None
        trigger = ""
        # Meanwhile somebody may have given a pattern up.
        written = {pattern: found for pattern, found in result.items() if pattern in subscriptions.patterns}
        for pattern, found in written.items():
            earlier = subscriptions.resolved.get(pattern)
            if found.topics != (earlier.topics if earlier is not None else frozenset()):
                if earlier is None:
                    cause = Cause.SUBSCRIPTION_CHANGED
                    trigger = next(member.member_id for member in group.members.values() if member.regex == pattern)
                else:
                    cause = Cause.TOPIC_METADATA_CHANGED
        for pattern, found in written.items():
            shard.write(*records.resolved_regex(group.group_id, pattern, found))
        found_hash = group.specs.metadata_hash(subscriptions.topics())
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
