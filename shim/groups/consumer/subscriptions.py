"""What the members of a consumer group subscribe to, counted, and the topics their patterns resolved to.

Decides which topics a group subscribes to, and so its metadata hash. It hears of members that come, change and go,
and of patterns that were resolved. It does not know when patterns are resolved, nor epochs.
After Kafka's `ModernGroup.subscribedTopicNames` and `ConsumerGroup.subscribedRegularExpressions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.regex import ResolvedRegex
from kafka_shim.groups.consumer.topic_hash import group_hash, topic_hash
from kafka_shim.groups.shard import TopicCatalogue


class Subscriptions:
    """`names` and `patterns` count the members that subscribe by each; `resolved` has the topics of patterns."""

    __slots__ = ("_shared", "names", "patterns", "resolved")

    def __init__(self) -> None:
        self._shared: dict[frozenset[str], tuple[frozenset[str], int]] = {}
        self.names: Counter[str] = Counter()
        self.patterns: Counter[str] = Counter()
        self.resolved: dict[str, ResolvedRegex] = {}

    def replace(self, old: Member | None, new: Member | None) -> None:
        """A member came, changed or went."""
        if old is not None:
            shared, members = self._shared[old.topic_names]
            if members == 1:
                del self._shared[shared]
            else:
                self._shared[shared] = shared, members - 1
            _subtract(self.names, old.topic_names)
            _subtract(self.patterns, _patterns_of(old))
        if new is not None:
            shared, members = self._shared.get(new.topic_names, (new.topic_names, 0))
            self._shared[shared] = shared, members + 1
            self.names.update(new.topic_names)
            self.patterns.update(_patterns_of(new))

    def all_are(self, names: frozenset[str]) -> bool:
        """Whether all members subscribe to just these names."""
        return len(self._shared) <= 1 and names in self._shared and not self.patterns

    def share(self, names: frozenset[str]) -> frozenset[str]:
        """The same names; the same object for all members that subscribe to them."""
        return self._shared.get(names, (names, 0))[0]

    def topics(self, gone: Iterable[Member] = (), come: Member | None = None) -> set[str]:
        """The topics the group subscribes to, or would without `gone` and with `come`."""
        gone = list(gone)
        topics = _left(self.names, [member.topic_names for member in gone])
        patterns = _left(self.patterns, [_patterns_of(member) for member in gone])
        if come is not None:
            topics |= come.topic_names
            patterns.update(_patterns_of(come))
        for pattern, resolved in self.resolved.items():
            if pattern in patterns:
                topics |= resolved.topics
        return topics

    def topics_of(self, member: Member) -> frozenset[str]:
        """The topics one member subscribes to."""
        resolved = None if member.regex is None else self.resolved.get(member.regex)
        if resolved is None or not resolved.topics:
            return member.topic_names
        return member.topic_names | resolved.topics if member.topic_names else resolved.topics

    def includes(self, topic: str) -> bool:
        """Whether anybody subscribes to the topic."""
        return topic in self.names or any(topic in resolved.topics for resolved in self.resolved.values())


def metadata_hash(topics: Iterable[str], catalogue: TopicCatalogue) -> int:
    """The hash of those topics that exist."""
    hashes = []
    for name in topics:
        topic_id = catalogue.topic_id(name)
        if topic_id is not None:
            hashes.append((name, topic_hash(topic_id, name, catalogue.partitions_of(name))))
    return group_hash(hashes)


def _patterns_of(member: Member) -> tuple[str, ...]:
    return () if member.regex is None else (member.regex,)


def _left(counts: Counter[str], gone: Sequence[Iterable[str]]) -> set[str]:
    """What somebody still subscribes to without those who subscribe to these."""
    if not gone:
        return set(counts)
    without = Counter(chain.from_iterable(gone))
    return {name for name, count in counts.items() if count > without[name]}


def _subtract(counts: Counter[str], names: Iterable[str]) -> None:
    """One less of each; what nobody subscribes to any more is not there."""
    for name in names:
        if counts[name] == 1:
            del counts[name]
        else:
            counts[name] -= 1
