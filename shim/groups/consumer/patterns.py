"""Resolution of a group's patterns to topic names: when it runs, and how the result changes the group.

A heartbeat with a new pattern is answered at once, and all patterns of the group are resolved right after it. They are
resolved again when topics have changed or `group.consumer.regex.refresh.interval.ms` has passed, but never twice within
`LEAST_INTERVAL_MS`. A result counts only for patterns with subscribers left; topics created during a resolution are
noticed at the next one. Records that are too large together are dropped, as in Kafka. After its
`maybeUpdateRegularExpressions` and `handleRegularExpressionsResult` of 4.2 (semantics 4.7), which use another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from math import inf
from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.consumer import records
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.member import RESOLVED_HERE, Member, Reader, ResolvedRegex
from kafka_shim.groups.consumer.states import TimerKind
from kafka_shim.groups.epochs import events
from kafka_shim.groups.epochs.records import Record
from kafka_shim.groups.interface import MORE, More, Refusal, TopicRights, whole
from kafka_shim.groups.regex import Matching, RegexError, compiled, is_large
from kafka_shim.trace.causes import Cause

LEAST_INTERVAL_MS: Final = 10_000
_RECORD_BYTES: Final = 100
"""Limit of the bytes of a record beside its texts, and of a batch beside its records."""
_NAME_BYTES: Final = 3
"""Limit of the bytes of a topic name in a record beside its characters, which are ASCII."""


class PatternChange(Enum):
    """Change of a member's pattern by its heartbeat."""

    NONE = "none"
    CHANGED = "changed, and its topics are not resolved yet"
    RESOLVED = "changed, and its topics are resolved"


def change(group: ConsumerGroup, member: Member, updated: Member) -> tuple[PatternChange, list[Record]]:
    """Return the change of a member's pattern, and tombstones of patterns without subscribers.

    Raises `Refusal`: INVALID_REGULAR_EXPRESSION (128).
    """
    old, new = member.regex, updated.regex
    if (member.topic_regex or None) == (updated.topic_regex or None):
        changed = member.topic_regex != updated.topic_regex
        return (PatternChange.CHANGED if changed else PatternChange.NONE), []
    subscriptions = group.subscriptions
    tombstones = (
        [records.regex_tombstone(group.group_id, old)] if old is not None and subscriptions.patterns[old] == 1 else []
    )
    if new is None:
        return PatternChange.RESOLVED, tombstones
    if not subscriptions.patterns.get(new):
        try:
            compiled(new)
        except RegexError as error:
            raise Refusal(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{new}` is not a valid regular expression: {error}.",
            ) from None
        return PatternChange.CHANGED, tombstones
    return (PatternChange.RESOLVED if new in subscriptions.resolved else PatternChange.CHANGED), tombstones


def refresh_if_due(group: ConsumerGroup, now: float, reader: Reader | None) -> None:
    """Resolve the patterns if they are due. Called after every heartbeat that may change the group; `reader` is its
    sender on a server with ACLs."""
    if now >= due(group) and (reader is not None or group.shard.topic_rights is None):
        group.resolver = reader
        group.arm_if_idle(TimerKind.REGEX, "", now)


def note_reader(group: ConsumerGroup, member: Member, reader: Reader) -> None:
    """Note the sender of a heartbeat, if members see different topics of a pattern."""
    views, pattern = group.subscriptions.views, member.regex
    if views is None or pattern is None or views.knows(member.member_id, reader, pattern):
        return
    resolved = group.subscriptions.resolved.get(pattern)
    # The others' topics are all that is resolved.
    group.patterns_stale |= views.note(member.member_id, reader, pattern, resolved.topics if resolved else frozenset())
    group.specs.topics_changed()
    group.steady_period = None


def due(group: ConsumerGroup) -> float:
    """Return the time at which the patterns are due, in monotonic seconds; infinity if the group has none."""
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
    """Resolve the patterns; in another thread if that may take long."""
    shard = group.shard
    group.patterns_stale = False
    patterns, topics = list(group.subscriptions.patterns), shard.topic_names()
    resolution = Resolution(group, patterns, topics, shard.wall_ms(now))
    if shard.outbox.offloads and is_large(patterns, topics):
        group.resolves = True
        shard.outbox.computations.append(resolution)
    else:
        resolution.finish(whole(resolution), now)


class Resolution:
    """Matching of a group's patterns with topic names. Implements `Computation`.

    Starts a new group epoch if the subscribed topics change.
    """

    def __init__(self, group: ConsumerGroup, patterns: list[str], topics: list[str], wall_ms: int) -> None:
        self.group = group
        self._matching = Matching(patterns, topics)
        self._wall_ms = wall_ms
        self._with_news: set[str] = set()
        """The patterns of which a member now sees other topics."""

    @property
    def is_awaited(self) -> bool:
        return self.group.is_in_shard

    def compute(self) -> dict[str, ResolvedRegex] | More:
        if self._matching.go_on():
            return MORE
        return {
            each: ResolvedRegex(topics, RESOLVED_HERE, self._wall_ms) for each, topics in self._matching.found.items()
        }

    def _seen(
        self, pattern: str, matched: frozenset[str], subscribers: set[str], described: Callable[..., frozenset[str]]
    ) -> frozenset[str]:
        """Return the topics of a pattern that count for the group: those that a member may describe."""
        group, views = self.group, self.group.subscriptions.views
        if views is None:
            return matched if group.resolver is None else described(*group.resolver, matched)
        seen, is_other = views.resolve(pattern, subscribers, matched, described)
        if is_other:
            self._with_news.add(pattern)
        earlier = group.subscriptions.resolved.get(pattern)
        if earlier is not None and not subscribers <= views.readers.keys():
            # Members that were silent since the group was loaded keep their topics.
            seen |= earlier.topics & matched
        return seen

    def _all_seen(self, rights: TopicRights, result: Mapping[str, ResolvedRegex]) -> dict[str, ResolvedRegex]:
        """Return the result with the topics that members may describe. Equal sets are looked at once."""
        subscribers: dict[str, set[str]] = {}
        for member in self.group.members.values():
            if member.regex is not None:
                subscribers.setdefault(member.regex, set()).add(member.member_id)
        described = cache(rights.described)
        return {
            pattern: each._replace(topics=self._seen(pattern, each.topics, subscribers[pattern], described))
            for pattern, each in result.items()
        }

    def _has_room(self, resolutions: Mapping[str, ResolvedRegex]) -> bool:
        """True if one batch takes all these records and that of a new epoch."""
        group_id, shard, limit = self.group.group_id, self.group.shard, self.group.shard.topics.max_batch_bytes
        of_each = _RECORD_BYTES + len(group_id.encode())
        least, most = 0, _RECORD_BYTES + of_each
        for pattern, resolution in resolutions.items():
            characters = sum(map(len, resolution.topics))
            least += characters
            most += of_each + len(pattern.encode()) + characters + _NAME_BYTES * len(resolution.topics)
            if least > limit:
                return False
        if most <= limit:
            return True
        all_records = [records.resolved_regex(group_id, *each) for each in resolutions.items()]
        return shard.has_room_for([*all_records, records.epoch(group_id, self.group.group_epoch + 1, 0)])

    def finish(self, result: dict[str, ResolvedRegex] | Exception, now: float) -> None:
        group, shard = self.group, self.group.shard
        group.resolves = False
        if isinstance(result, Exception) or not self.is_awaited:
            return
        subscriptions = group.subscriptions
        cause: Cause | None = None
        new_pattern: str | None = None
        # Patterns may have lost their last subscriber during the computation.
        written = {pattern: each for pattern, each in result.items() if pattern in subscriptions.patterns}
        if not self._has_room(written):
            return
        if shard.topic_rights is not None:
            written = self._all_seen(shard.topic_rights, written)
        for pattern, resolution in written.items():
            earlier = subscriptions.resolved.get(pattern)
            if (
                resolution.topics != (earlier.topics if earlier is not None else frozenset())
                or pattern in self._with_news
            ):
                if earlier is None:
                    cause, new_pattern = Cause.SUBSCRIPTION_CHANGED, pattern
                else:
                    cause = Cause.TOPIC_METADATA_CHANGED
        for pattern, resolution in written.items():
            shard.write(*records.resolved_regex(group.group_id, pattern, resolution))
        new_hash = group.specs.metadata_hash()
        if cause is None and new_hash != group.metadata_hash:
            cause = Cause.TOPIC_METADATA_CHANGED
        if cause is not None:
            before = group.state
            shard.write(*records.epoch(group.group_id, group.group_epoch + 1, new_hash))
            group.metadata_stale = False
            subscribers = (each.member_id for each in group.members.values() if each.regex == new_pattern)
            group.note_new_epoch(cause, "" if new_pattern is None else next(subscribers))
            shard.counters.new_epochs[group.type] += 1
            if shard.outbox.listening:
                events.epoch(group, now)
                events.state(group, before)
