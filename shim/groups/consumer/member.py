"""Members of a consumer group (KIP-848): their subscriptions, and their form as input of an assignor.

On a server with ACLs a member sees those topics of its pattern that its principal may describe; `TopicRights` decides.
A resolved pattern has one list of topics for the whole group, as Kafka's record has. In Kafka these are the topics of
one principal, of the member that sent the last due heartbeat; the others get them too, or lose their own. `Views` give
each member its part of the list instead. After Kafka's `ConsumerGroupMember`, `ModernGroup.subscribedTopicNames` and
`ConsumerGroup.subscribedRegularExpressions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, MemberSpec, Partitions, no_partitions
from kafka_shim.groups.consumer.states import MemberState
from kafka_shim.groups.epochs.member import LEAVE_STATIC
from kafka_shim.groups.epochs.metadata_hash import metadata_hash
from kafka_shim.groups.epochs.revoking import RevokingMember, States
from kafka_shim.groups.interface import Client, TopicRights
from kafka_shim.groups.shard import TopicCatalogue
from kafka_shim.persistence.records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
)

_T = TypeVar("_T")

AssignmentEpochs: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> epoch of a target assignment."""


@dataclass(frozen=True, slots=True)
class Member(RevokingMember):
    """One member, built from its records."""

    states: ClassVar[States] = States(
        MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS
    )

    state: MemberState = MemberState.STABLE
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Partitions = field(default_factory=no_partitions)
    """Partitions that it may use."""
    pending_revocation: Partitions = field(default_factory=no_partitions)
    """Partitions that it has to revoke and has not yet reported without."""
    assignment_epochs: AssignmentEpochs | None = None
    """Epoch of the target assignment with which it got each partition that it may use or has to revoke (KIP-1251); None
    before Kafka 4.3."""
    classic: ClassicMemberMetadata | None = None
    """Session timeout and protocols of a member that speaks the classic protocol; None for others."""
    extension: bytes = b""
    """Data of an extension about the member, in its own form; no rule of Kafka has any."""

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    @staticmethod
    def may_own(owned: Partitions | None, assignment: Partitions) -> bool:
        if owned is None:
            return True
        return any(
            topic in assignment and not numbers.isdisjoint(assignment[topic]) for topic, numbers in owned.items()
        )

    @staticmethod
    def is_nothing(owned: Partitions | None) -> bool:
        return owned is not None and not owned

    def has_all(self, owned: Partitions | None) -> bool:
        return owned is not None and all(
            topic in self.assigned and numbers <= self.assigned[topic] for topic, numbers in owned.items()
        )

    def away(self) -> Member:
        """Return the member after it left for a while: it has its partitions since epoch 0."""
        away = replace(self, epoch=LEAVE_STATIC, pending_revocation=NO_PARTITIONS)
        return away if self.assignment_epochs is None else away.at_epoch(0)

    def has_since(self, member_epoch: int, topic_id: bytes, partition: int) -> bool:
        """Return True if it had the partition at this epoch already, and may use it or has to revoke it."""
        assignment_epoch = (self.assignment_epochs or {}).get(topic_id, {}).get(partition)
        return assignment_epoch is not None and assignment_epoch <= member_epoch

    def with_epochs(self, before: Member, target_epoch: int) -> Member:
        """Return the member with the epochs of its partitions, after a step from `before` towards its target at
        `target_epoch`.

        A partition keeps its epoch until the member has revoked it.
        """
        epochs_before = before.assignment_epochs or {}
        epochs = {topic: dict.fromkeys(numbers, target_epoch) for topic, numbers in self.assigned.items()}
        for topic, numbers in before.assigned.items():
            old_epochs = epochs_before.get(topic, {})
            of_topic = epochs.get(topic, {})
            for number in numbers & of_topic.keys():
                of_topic[number] = old_epochs.get(number, before.epoch)
        for topic, numbers in self.pending_revocation.items():
            old_epochs = epochs_before.get(topic, {})
            epochs.setdefault(topic, {}).update({number: old_epochs.get(number, before.epoch) for number in numbers})
        return replace(self, assignment_epochs=epochs)

    def at_epoch(self, assignment_epoch: int) -> Member:
        """Return the member with this epoch for all its partitions."""
        epochs: dict[bytes, dict[int, int]] = {}
        for partitions in (self.assigned, self.pending_revocation):
            for topic, numbers in partitions.items():
                epochs.setdefault(topic, {}).update(dict.fromkeys(numbers, assignment_epoch))
        return replace(self, assignment_epochs=epochs)

    @property
    def regex(self) -> str | None:
        """Pattern of its subscription, or None."""
        return self.topic_regex or None


class ResolvedRegex(NamedTuple):
    """Topics that a pattern matched. `timestamp_ms` is Unix time; for `version` see `RESOLVED_HERE`."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


RESOLVED_HERE: Final = 0
"""Version of a resolution by this server. Kafka writes the version of its metadata, of which we have none; a number
older than any makes a broker that loads the group resolve its patterns once."""


class Reader(NamedTuple):
    """A principal at an address."""

    principal: str
    host: str


def reader_of(client: Client) -> Reader:
    """Return the principal of a client, with its address."""
    return Reader(client.principal, client.client_host)


class Views:
    """The view of each member of a group.

    `readers` are the members that have sent a heartbeat since the group was loaded; another member keeps the topics of
    its assignment, until it sends one.
    """

    __slots__ = ("_rights", "_topics", "readers")

    def __init__(self, rights: TopicRights) -> None:
        self._rights = rights
        self._topics: dict[str, dict[Reader, frozenset[str]]] = {}
        """By pattern."""
        self.readers: dict[str, Reader] = {}

    def knows(self, member_id: str, reader: Reader, pattern: str) -> bool:
        """Return True if the sender of the member's heartbeats is this one, and its topics of the pattern are known."""
        return self.readers.get(member_id) == reader and reader in self._topics.get(pattern, ())

    def note(self, member_id: str, reader: Reader, pattern: str, resolved: frozenset[str]) -> bool:
        """Note the sender of a member's heartbeats. Return True if the sender has the pattern for the first time."""
        self.readers[member_id] = reader
        if reader in self._topics.get(pattern, ()):
            return False
        self._topics.setdefault(pattern, {})[reader] = self._rights.described(*reader, resolved)
        return True

    def forget(self, pattern: str) -> None:
        """Drop a pattern without subscribers."""
        self._topics.pop(pattern, None)

    def of(self, member_id: str, pattern: str | None) -> frozenset[str] | None:
        """Return the topics of a pattern for a member; None if it has sent no heartbeat."""
        reader = self.readers.get(member_id)
        return None if reader is None or pattern is None else self._topics.get(pattern, {}).get(reader, frozenset())

    def resolve(
        self,
        pattern: str,
        subscribers: Iterable[str],
        matched: frozenset[str],
        described: Callable[..., frozenset[str]],
    ) -> tuple[frozenset[str], bool]:
        """Give each subscriber of a pattern its part of the topics that match; `described` is that of `TopicRights`.
        Return all of these parts, and True if one differs from the part before."""
        readers = {self.readers[member_id] for member_id in subscribers if member_id in self.readers}
        before = self._topics.get(pattern, {})
        now = self._topics[pattern] = {reader: described(*reader, matched) for reader in readers}
        seen = frozenset[str]().union(*set(now.values()))
        return seen, any(before.get(reader) != topics for reader, topics in now.items())


@dataclass(slots=True)
class Subscriptions:
    """Subscriptions of a group. `names` and `patterns` count their subscribers; `resolved` has the topics of each
    pattern.

    `shared` are the sets of names, each an object that all members with this subscription share, and `subscribers`
    counts these members.
    """

    names: Counter[str] = field(default_factory=Counter)
    patterns: Counter[str] = field(default_factory=Counter)
    resolved: dict[str, ResolvedRegex] = field(default_factory=dict)
    views: Views | None = None
    """None if all members see the topics of their patterns."""
    shared: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    subscribers: Counter[frozenset[str]] = field(default_factory=Counter)
    topics: frozenset[str] | None = None
    """Topics of all members, by name or pattern, if they are known; None after a change of these topics."""

    def replace(self, old: Member | None, new: Member | None) -> None:
        """Count a member that was added (`old` is None), changed or removed (`new` is None)."""
        counts = len(self.names), len(self.patterns)
        if old is not None:
            _subtract(self.subscribers, (old.topic_names,))
            if old.topic_names not in self.subscribers:
                self.shared.pop(old.topic_names, None)
            _subtract(self.names, old.topic_names)
            if old.topic_regex:
                _subtract(self.patterns, (old.topic_regex,))
        if (len(self.names), len(self.patterns)) != counts:
            self.topics, counts = None, (len(self.names), len(self.patterns))
        if new is not None:
            self.shared.setdefault(new.topic_names, new.topic_names)
            self.subscribers[new.topic_names] += 1
            self.names.update(new.topic_names)
            if new.topic_regex:
                self.patterns[new.topic_regex] += 1
        if (len(self.names), len(self.patterns)) != counts:
            self.topics = None

    def resolve(self, pattern: str, resolved: ResolvedRegex | None) -> None:
        """Note the topics of a pattern; None drops them."""
        self.topics = None
        if resolved is None:
            self.resolved.pop(pattern, None)
            if self.views is not None:
                self.views.forget(pattern)
        else:
            self.resolved[pattern] = resolved

    def keeps_all_without(self, members: Sequence[Member]) -> bool:
        """Return True if each name and pattern of these members has other subscribers."""
        names = Counter(chain.from_iterable(member.topic_names for member in members))
        patterns = Counter(member.topic_regex for member in members if member.topic_regex)
        return all(self.names[name] > count for name, count in names.items()) and all(
            self.patterns[pattern] > count for pattern, count in patterns.items()
        )

    def includes(self, topic: str) -> bool:
        """Return True if any member subscribes to the topic."""
        return topic in self.names or any(topic in resolved.topics for resolved in self.resolved.values())


def _subscribed_without(counts: Counter[str], without: Sequence[Iterable[str]]) -> set[str]:
    """Return the names that still have subscribers after the removal of `without`."""
    counts_without = Counter(chain.from_iterable(without))
    return {name for name, count in counts.items() if count > counts_without[name]}


def _subtract(counts: Counter[_T], names: Iterable[_T]) -> None:
    """Subtract one from each count, and drop counts of zero."""
    for name in names:
        if counts[name] == 1:
            del counts[name]
        else:
            counts[name] -= 1


@dataclass(slots=True)
class TopicIds:
    """Ids of subscribed topics, looked up once for all members with the same subscription."""

    topics: TopicCatalogue
    subscriptions: Subscriptions
    by_subscription: dict[tuple[frozenset[str], frozenset[str] | str | None, object], frozenset[bytes]] = field(
        default_factory=dict
    )
    partition_counts: dict[bytes, int] = field(default_factory=dict)
    _names: frozenset[str] | None = None
    _regex: str | None = None
    _reader: object = None
    _ids: frozenset[bytes] = frozenset()

    def of(self, member: Member) -> frozenset[bytes]:
        """Return the topic ids of a member's subscription, without topics that do not exist."""
        # Successive members mostly have the same subscription, and then share the object.
        views, reader = self.subscriptions.views, None
        if views is not None and member.topic_regex:
            reader = views.readers.get(member.member_id, member.member_id)
        if member.topic_names is self._names and member.topic_regex == self._regex and reader == self._reader:
            return self._ids
        self._names, self._regex, self._reader = member.topic_names, member.topic_regex, reader
        resolved = self.subscriptions.resolved.get(member.topic_regex or "")
        # Patterns with the same topics have the same ids, unless members see different ones.
        matched = member.topic_regex if resolved is None or reader is not None else resolved.topics
        subscription = member.topic_names, matched, reader
        ids = self.by_subscription.get(subscription)
        if ids is None:
            counts = {}
            view = None if views is None else views.of(member.member_id, member.topic_regex)
            for name in member.topic_names if resolved is None else member.topic_names | resolved.topics:
                topic_id = self.topics.topic_id(name)
                if topic_id is None:
                    continue
                if reader is None or name in member.topic_names or self._is_seen(member, name, topic_id, view):
                    counts[topic_id] = self.topics.partitions_of(name)
            self.partition_counts |= counts
            ids = self.by_subscription[subscription] = frozenset(counts)
        self._ids = ids
        return ids

    @staticmethod
    def _is_seen(member: Member, name: str, topic_id: bytes, view: frozenset[str] | None) -> bool:
        return topic_id in member.assigned if view is None else name in view


@dataclass(slots=True)
class Specs:
    """Members of a group in the form that assignors take, in the order of the group.

    Only members with new records are built again; all of them after a change of topics or of resolved patterns.
    """

    group_members: Mapping[str, Member]
    targets: Mapping[str, Partitions]
    subscriptions: Subscriptions
    topics: TopicCatalogue
    ids: TopicIds
    """Ids of the current topics."""
    _members: dict[str, MemberSpec] = field(default_factory=dict)
    _changed: dict[str, None] | None = None
    """Members to build again; None for all."""
    _hashed: tuple[frozenset[str] | None, int] = None, 0

    def members(self) -> dict[str, MemberSpec]:
        if len(self.ids.by_subscription) > 2 * len(self.group_members) + 2:
            self.topics_changed()
        ids, changed = self.ids, self._changed
        if changed is None:
            self._members = {}
        for member_id in self.group_members if changed is None else changed:
            member = self.group_members.get(member_id)
            if member is not None:
                target = self.targets.get(member_id, NO_PARTITIONS)
                self._members[member_id] = MemberSpec(ids.of(member), target, member.instance_id, member.rack_id)
        self._changed = {}
        return self._members.copy()

    def replayed(self, key: Any, value: Any) -> None:
        """Note a record of the group that was just applied."""
        record = type(key)
        if record is ConsumerGroupRegularExpressionKey:
            self.topics_changed()
        elif self._changed is None:
            return
        elif record is ConsumerGroupMemberMetadataKey and value is None:
            self._members.pop(key.member_id, None)
            self._changed.pop(key.member_id, None)
        elif record is ConsumerGroupMemberMetadataKey or record is ConsumerGroupTargetAssignmentMemberKey:
            self._changed[key.member_id] = None

    def install(self, members: dict[str, MemberSpec], targets: Mapping[str, Partitions]) -> None:
        """Replace all members and their target assignments."""
        self.targets = targets
        if self._changed is not None:
            self._members = members

    def topics_changed(self) -> None:
        """Drop everything derived from topics."""
        self.ids = TopicIds(self.topics, self.subscriptions)
        self._changed = None
        self._hashed = None, 0

    def metadata_hash(self, without: Sequence[Member] = (), including: Member | None = None) -> int:
        """Return the metadata hash of the topics that the group subscribes to, without some members and including
        another one.

        It looks at no list of topics if all of them have other subscribers.
        """
        of_group = self.subscriptions
        names: AbstractSet[str] = of_group.names.keys()
        patterns: AbstractSet[str] = of_group.patterns.keys()
        is_same = (not without or of_group.keeps_all_without(without)) and (
            including is None
            or (including.topic_names <= names and (not including.topic_regex or including.topic_regex in patterns))
        )
        topics = of_group.topics if is_same else None
        if topics is None:
            if without:
                names = _subscribed_without(of_group.names, [member.topic_names for member in without])
                patterns = _subscribed_without(of_group.patterns, [[member.topic_regex or ""] for member in without])
            if including is not None:
                names, patterns = names | including.topic_names, patterns | {including.topic_regex or ""}
            # Many patterns may share a set, and a look at each costs time.
            of_patterns = {resolved.topics for pattern, resolved in of_group.resolved.items() if pattern in patterns}
            topics = frozenset(names).union(*of_patterns)
            if is_same:
                of_group.topics = topics
        before, hash_before = self._hashed
        if topics is not before:
            self._hashed = topics, hash_before if topics == before else metadata_hash(topics, self.topics)
        return self._hashed[1]
