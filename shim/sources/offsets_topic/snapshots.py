"""`Snapshots`: the records of one classic group as events: each is a generation, whole, with members and assignments.

The difference of two is all that shows of a rebalance: members that came, went, were replaced or subscribe to other
topics. A record is written with the leader's assignments; it has the time at which the joins were answered, but not the
beginning of the rebalance. Source: semantics 2.4 and 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_shim.apis.consumer_protocol import assignment_from_bytes, subscription_from_bytes
from kafka_shim.persistence.records import GroupMetadataValue, MemberMetadata
from kafka_shim.sources.offsets_topic.content import Entry
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.moves import Partition, owners_of

Event = dict[str, Any]

CONSUMER: Final = "consumer"
FIRST: Final = 1
"""The first generation of a group."""


def event(kind: str, entry: Entry, at: float, **fields: Any) -> Event:
    """Return an event of the record's group, at a time in seconds of Unix time."""
    place = {"mono": at, "wall": at, "inferred": True, "where": entry.where, "group": entry.group}
    return {"event": kind, **place, **fields}


@dataclass(slots=True)
class Snapshot:
    """One generation, with the topics and the shares of its members."""

    generation: int = 0
    protocol: str = ""
    leader: str = ""
    members: Mapping[str, MemberMetadata] = field(default_factory=dict)
    topics: Mapping[str, frozenset[str]] = field(default_factory=dict)
    shares: Mapping[str, Any] = field(default_factory=dict)

    @property
    def owners(self) -> dict[Partition, str]:
        """The owner of each partition."""
        return owners_of(self.shares)


class Snapshots:
    """Turns the records of one group into events, the oldest first."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._left_open: dict[Partition, str] = {}
        """Partitions that the newest assignment left without an owner, with the owner before."""

    @property
    def members(self) -> list[str]:
        """The ids of the members of the newest generation."""
        return [] if self._last is None else list(self._last.members)

    def take(self, entry: Entry, value: GroupMetadataValue) -> Iterator[Event]:
        """Yield the events of the next record."""
        now, before = _snapshot(value), self._last
        at = entry.time / 1000
        begin = value.current_state_timestamp / 1000
        ended = begin if 0 < begin <= at else at
        if before is not None and now.generation < before.generation:
            # A new life of the name; the tombstone of the old one is gone.
            yield self._group(entry, at, "deleted", before, "Dead")
            before = None
        self._last = now
        if before is not None and now.generation == before.generation:
            yield from self._rewritten(entry, at, before, now)
        elif before is None and now.generation > FIRST:
            yield from self._loaded(entry, at, now)
        elif now.members:
            yield from self._round(entry, ended, at, before or Snapshot(), now)
        elif before is None:
            yield self._group(entry, at, "created", now, "Empty")
        else:
            yield from self._emptied(entry, ended, before, now)

    def end(self, entry: Entry) -> Iterator[Event]:
        """Yield the events of a tombstone: the group was deleted, or expired."""
        last, self._last, self._left_open = self._last, None, {}
        if last is not None:
            yield self._group(entry, entry.time / 1000, "deleted", last, "Dead")

    def convert(self) -> list[str]:
        """Forget a group that became one with epochs; return the ids of its members."""
        members, self._last, self._left_open = self.members, None, {}
        return members

    # Kinds of records

    def _loaded(self, entry: Entry, at: float, now: Snapshot) -> Iterator[Event]:
        """The oldest record that is left of a group: how it came about does not show."""
        for member in now.members.values():
            yield _changed(entry, at, member, "loaded")
        state = "Stable" if now.members else "Empty"
        yield self._group(entry, at, "loaded", now, state)
        yield self._assignment(entry, at, at, now, "", "")
        self._left_open = {}

    def _round(self, entry: Entry, ended: float, at: float, before: Snapshot, now: Snapshot) -> Iterator[Event]:
        absent = [each for each in before.members if each not in now.members]
        new = [each for each in now.members if each not in before.members]
        pairs = _replaced(before, now, absent, new)
        cause, trigger = self._cause(before, now, [each for each in absent if each not in pairs], new, pairs)
        yield from _moves(entry, ended, before, now, absent, new, pairs)
        state = {"generation": before.generation, "cause": cause, "trigger": trigger, "rule": ""}
        old = "Stable" if before.members else "Empty"
        yield event("state", entry, ended, **{"from": old}, to="PreparingRebalance", **state)
        state["generation"] = now.generation
        yield event(
            "round",
            entry,
            ended,
            generation=now.generation,
            cause=cause,
            trigger=trigger,
            started=ended,
            ended=ended,
            waited_for=[],
            dropped=[],
            leader=now.leader,
            protocol=now.protocol,
            members=list(now.members),
            size=len(now.members),
        )
        yield event("state", entry, ended, **{"from": "PreparingRebalance"}, to="CompletingRebalance", **state)
        yield self._assignment(entry, ended, at, now, cause, trigger)
        yield event("state", entry, at, **{"from": "CompletingRebalance"}, to="Stable", **state)
        owners = now.owners
        stays = {partition: owner for partition, owner in before.owners.items() if owner in now.members}
        self._left_open = {each: owner for each, owner in stays.items() if each not in owners}

    def _emptied(self, entry: Entry, ended: float, before: Snapshot, now: Snapshot) -> Iterator[Event]:
        absent = list(before.members)
        yield from _moves(entry, ended, before, now, absent, [], {})
        cause, trigger = (Cause.MEMBER_GONE, absent[-1]) if absent else ("", "")
        state = {"cause": cause, "trigger": trigger, "rule": ""}
        if absent:
            stable = {"from": "Stable", "to": "PreparingRebalance", "generation": before.generation}
            yield event("state", entry, ended, **stable, **state)
        empty = {"from": "PreparingRebalance", "to": "Empty", "generation": now.generation}
        yield event("state", entry, ended, **empty, **state)
        self._left_open = {}

    def _rewritten(self, entry: Entry, at: float, before: Snapshot, now: Snapshot) -> Iterator[Event]:
        """A record of the same generation: a static member was replaced, without a rebalance."""
        absent = [each for each in before.members if each not in now.members]
        new = [each for each in now.members if each not in before.members]
        yield from _moves(entry, at, before, now, absent, new, _replaced(before, now, absent, new))

    def _cause(
        self, before: Snapshot, now: Snapshot, absent: list[str], new: list[str], pairs: Mapping[str, str]
    ) -> tuple[str, str]:
        """Return the cause of a generation and the member that it is about, as far as the difference shows them."""
        arrived = [each for each in new if each not in pairs.values()]
        if not before.members:
            return Cause.NEW_MEMBER, arrived[0] if len(arrived) == 1 else now.leader
        if absent:
            return Cause.MEMBER_GONE, absent[0]
        if arrived:
            return Cause.NEW_MEMBER, arrived[0]
        if pairs:
            return Cause.STATIC_REPLACED, next(iter(pairs.values()))
        others = [each for each, topics in now.topics.items() if before.topics.get(each) != topics]
        if others:
            return Cause.SUBSCRIPTION_CHANGED, others[0]
        owners = now.owners
        freed = {each: owner for each, owner in self._left_open.items() if each in owners}
        if freed and "cooperative" in now.protocol:
            return Cause.COOPERATIVE_FOLLOWUP, next(iter(freed.values()))
        if owners.keys() != before.owners.keys() and not self._left_open and "cooperative" not in now.protocol:
            return Cause.TOPIC_METADATA_CHANGED, ""
        if owners.keys() - before.owners.keys() - self._left_open.keys():
            return Cause.TOPIC_METADATA_CHANGED, ""
        return "", ""

    @staticmethod
    def _assignment(entry: Entry, ended: float, at: float, now: Snapshot, cause: str, trigger: str) -> Event:
        every = {frozenset(topics) for topics in now.topics.values()}
        subscriptions = {member: sorted(topics) for member, topics in now.topics.items()} if len(every) > 1 else {}
        return event(
            "assignment",
            entry,
            at,
            generation=now.generation,
            cause=cause,
            trigger=trigger,
            leader=now.leader,
            leader_ms=round(1000 * (at - ended), 3),
            assignments=dict(now.shares),
            **({"subscriptions": subscriptions} if subscriptions else {}),
        )

    @staticmethod
    def _group(entry: Entry, at: float, change: str, of: Snapshot, state: str) -> Event:
        fields = {"generation": of.generation, "members": len(of.members)}
        return event("group", entry, at, partition=entry.partition, change=change, state=state, **fields)


def _snapshot(value: GroupMetadataValue) -> Snapshot:
    is_consumer = value.protocol_type in ("", CONSUMER)
    members = {each.member_id: each for each in value.members}
    return Snapshot(
        generation=value.generation,
        protocol=value.protocol or "",
        leader=value.leader or "",
        members=members,
        topics={each: _topics(member.subscription) for each, member in members.items()} if is_consumer else {},
        shares={each: _shares(member.assignment, is_consumer) for each, member in members.items()},
    )


def _topics(subscription: bytes) -> frozenset[str]:
    read = subscription_from_bytes(subscription)
    return frozenset() if read is None else frozenset(read.topics)


def _shares(assignment: bytes, is_consumer: bool) -> dict[str, list[int]] | int:
    if not is_consumer:
        return len(assignment)
    read = assignment_from_bytes(assignment)
    shares: dict[str, list[int]] = {}
    for each in () if read is None else read.assigned_partitions:
        shares.setdefault(each.topic, []).extend(sorted(each.partitions))
    return shares


def _replaced(before: Snapshot, now: Snapshot, absent: list[str], new: list[str]) -> dict[str, str]:
    """Return the static members that were replaced: the new id by the old one."""
    heirs = {now.members[each].group_instance_id: each for each in new if now.members[each].group_instance_id}
    old = ((each, before.members[each].group_instance_id) for each in absent)
    return {each: heirs[instance] for each, instance in old if instance in heirs}


def _moves(
    entry: Entry,
    at: float,
    before: Snapshot,
    now: Snapshot,
    absent: list[str],
    new: list[str],
    pairs: Mapping[str, str],
) -> Iterator[Event]:
    """Yield the events of members that came and went."""
    for each in absent:
        yield _changed(entry, at, before.members[each], "fenced" if each in pairs else "gone")
    for each in new:
        yield _changed(entry, at, now.members[each], "replaced" if each in pairs.values() else "added")


def _changed(entry: Entry, at: float, member: MemberMetadata, change: str) -> Event:
    timeouts = {"session_timeout_ms": member.session_timeout}
    if member.rebalance_timeout >= 0:
        timeouts["rebalance_timeout_ms"] = member.rebalance_timeout
    return event(
        "member",
        entry,
        at,
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        change=change,
        rule="",
        **timeouts,
    )
