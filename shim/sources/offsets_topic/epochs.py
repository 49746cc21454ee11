"""`EpochRecords`: the records of one group with epochs as events: each step of it is a record, with its time.

A member that joins, leaves or subscribes to other topics has its records before that of the new epoch, so these are its
cause. A tombstone says that a member is gone, not whether it left, was silent for its session or kept partitions for
too long. Source: KIP-848; semantics 4.5, 4.6 and 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kafka_shim.sources.offsets_topic import forms
from kafka_shim.sources.offsets_topic.content import Entry
from kafka_shim.sources.offsets_topic.forms import STABLE, Has, Joined
from kafka_shim.sources.offsets_topic.snapshots import Event, event
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.events import Shares
from kafka_shim.trace.moves import Partition

_FIRST: Final = 2
"""The first epoch after a member joined an empty group; 1 is the first of a group in some releases."""
_AT_ONCE_MS: Final = 500
"""Records of one request have nearly one time."""


class _Sign(NamedTuple):
    """A change before an epoch that may be its cause."""

    cause: Cause
    member: str


_RANK: Final = (
    Cause.PROTOCOL_CHANGED,
    Cause.MEMBER_GONE,
    Cause.STATIC_REPLACED,
    Cause.NEW_MEMBER,
    Cause.SUBSCRIPTION_CHANGED,
    Cause.TOPIC_METADATA_CHANGED,
)
"""Causes, the first that there is counts: a member that joins also subscribes."""


class EpochRecords:
    """Turns the records of one group into events, the oldest first. `names` are topics by id, `members` the members of
    the classic group that it was before.
    """

    def __init__(self, names: dict[bytes, str], members: list[str] | None = None) -> None:
        self._names = names
        self._kind = "consumer"
        self._epoch = 0
        self._hash: int | None = None
        self._state = ""
        self._members: dict[str, Joined] = {}
        self._of_classic = list(members or ())
        self._targets: dict[str, Shares] = {}
        self._current: dict[str, Has] = {}
        self._new_targets: dict[str, Shares] = {}
        self._signs: list[_Sign] = [_Sign(Cause.PROTOCOL_CHANGED, "")] if members else []
        self._departures: dict[str, tuple[str, Joined, Entry]] = {}
        """Static members with a tombstone, by instance id, until the next record tells whether they were replaced."""

    def take(self, entry: Entry, kind: str, part: str) -> Iterator[Event]:
        """Yield the events of the next record."""
        self._kind = kind
        if part == forms.GROUP or (self._departures and entry.time - self._departed_at > _AT_ONCE_MS):
            yield from self.flush()
        yield from getattr(self, f"_on_{part}")(entry, getattr(entry.key, "member_id", ""))

    def flush(self) -> Iterator[Event]:
        """Yield the events of static members that are gone without a successor."""
        departures, self._departures = self._departures, {}
        for member_id, metadata, entry in departures.values():
            yield from self._goes(entry, member_id, metadata, "gone")
            self._signs.append(_Sign(Cause.MEMBER_GONE, member_id))

    @property
    def _departed_at(self) -> int:
        return max(entry.time for _, _, entry in self._departures.values())

    # Members

    def _on_member(self, entry: Entry, member_id: str) -> Iterator[Event]:
        before = self._members.get(member_id)
        if entry.value is None:
            if before is not None:
                yield from self._tombstone(entry, member_id, before)
            return
        now = self._members[member_id] = forms.joined(entry.value)
        if before is not None:
            if before.subscription != now.subscription:
                self._signs.append(_Sign(Cause.SUBSCRIPTION_CHANGED, member_id))
            return
        old = self._departures.pop(now.instance_id, None) if now.instance_id else None
        if old is not None:
            old_id, old_metadata, old_entry = old
            yield from self._goes(old_entry, old_id, old_metadata, "fenced")
            self._signs.append(_Sign(Cause.STATIC_REPLACED, member_id))
            yield self._changed(entry, member_id, now, "replaced")
        elif member_id in self._of_classic:
            yield self._changed(entry, member_id, now, "loaded")
        else:
            self._signs.append(_Sign(Cause.NEW_MEMBER, member_id))
            yield self._changed(entry, member_id, now, "added")

    def _tombstone(self, entry: Entry, member_id: str, metadata: Joined) -> Iterator[Event]:
        del self._members[member_id]
        if metadata.instance_id:
            self._departures[metadata.instance_id] = member_id, metadata, entry
            return
        self._signs.append(_Sign(Cause.MEMBER_GONE, member_id))
        yield from self._goes(entry, member_id, metadata, "gone")

    def _goes(self, entry: Entry, member_id: str, metadata: Joined, change: str) -> Iterator[Event]:
        self._current.pop(member_id, None)
        self._targets.pop(member_id, None)
        yield self._changed(entry, member_id, metadata, change)

    @staticmethod
    def _changed(entry: Entry, member_id: str, of: Joined, change: str) -> Event:
        timeout = {"rebalance_timeout_ms": of.rebalance_timeout_ms} if of.rebalance_timeout_ms >= 0 else {}
        return event(
            "member",
            entry,
            entry.time / 1000,
            member_id=member_id,
            instance_id=of.instance_id,
            client_id=of.client_id,
            client_host=of.client_host,
            change=change,
            rule="",
            **timeout,
        )

    # Epochs

    def _on_group(self, entry: Entry, member_id: str) -> Iterator[Event]:
        at, value = entry.time / 1000, entry.value
        if value is None:
            yield self._life(entry, "deleted", "Dead")
            self._epoch, self._signs = 0, []
            self._members, self._targets, self._current = {}, {}, {}
            return
        fields: Any = value
        before, self._epoch = self._epoch, fields.epoch
        is_other_hash = self._hash is not None and fields.metadata_hash != self._hash
        self._hash = fields.metadata_hash
        if self._epoch == before:
            return
        follows = self._epoch == before + 1 or (not before and (self._epoch <= _FIRST or bool(self._of_classic)))
        signs, self._signs = self._signs, []
        if not follows:
            # Compaction removed the epochs between.
            yield self._life(entry, "loaded", "")
            return
        cause, trigger = _cause(signs, is_other_hash=is_other_hash)
        self._of_classic = []
        yield event("epoch", entry, at, generation=self._epoch, cause=cause, trigger=trigger)
        yield self._becomes(entry, "Assigning" if self._members else "Empty", cause, trigger)

    def _life(self, entry: Entry, change: str, state: str) -> Event:
        self._state = state
        fields = {"change": change, "state": state, "generation": self._epoch, "members": len(self._members)}
        return event("group", entry, entry.time / 1000, partition=entry.partition, **fields)

    def _becomes(self, entry: Entry, state: str, cause: str | None, trigger: str) -> Event:
        before, self._state = self._state, state
        fields = {"generation": self._epoch, "cause": cause, "trigger": trigger, "rule": self._kind}
        return event("state", entry, entry.time / 1000, **{"from": before}, to=state, **fields)

    # Assignments

    def _on_target(self, entry: Entry, member_id: str) -> Iterator[Event]:
        if entry.value is None:
            self._targets.pop(member_id, None)
        else:
            self._targets[member_id] = self._new_targets[member_id] = forms.target(entry.value, self._names)
        yield from ()

    def _on_targets(self, entry: Entry, member_id: str) -> Iterator[Event]:
        value: Any = entry.value
        if value is None:
            return
        new, self._new_targets = self._new_targets, {}
        assignors = {each.assignor for each in self._members.values()} - {""}
        # The assignor of the coordinator's own choice is in no record.
        assignor = assignors.pop() if len(assignors) == 1 else ""
        at = entry.time / 1000
        yield event("target", entry, at, generation=value.assignment_epoch, assignor=assignor, assignments=new)

    def _on_current(self, entry: Entry, member_id: str) -> Iterator[Event]:
        if entry.value is None:
            self._current.pop(member_id, None)
            return
        now = self._current[member_id] = forms.has(entry.value, self._names)
        yield event(
            "reconciliation",
            entry,
            entry.time / 1000,
            member_id=member_id,
            generation=now.epoch,
            state=now.state,
            assigned=now.assigned,
            revoking=now.revoking,
            waits_for=self._holders(member_id, now) if now.state.startswith("UNRELEASED") else [],
        )
        if self._state == "Assigning" and self._is_stable:
            yield self._becomes(entry, "Stable", None, "")

    def _on_topics(self, entry: Entry, member_id: str) -> Iterator[Event]:
        """Topics of the subscription as the coordinator sees them: of consumer groups Kafka 4.0 alone has them, and
        those of regular expressions; of share groups they are the partitions that have a state.
        """
        value: Any = entry.value
        if value is not None:
            for topic in getattr(value, "topics", ()):
                if not isinstance(topic, str):
                    self._names[topic.topic_id] = topic.topic_name
            self._signs.append(_Sign(Cause.TOPIC_METADATA_CHANGED, ""))
        yield from ()

    @property
    def _is_stable(self) -> bool:
        current = self._current
        return all(
            each in current and current[each].epoch == self._epoch and current[each].state == STABLE
            for each in self._members
        )

    def _holders(self, member_id: str, now: Has) -> list[str]:
        """Return the members that have partitions that a member waits for."""
        missing = _numbers(self._targets.get(member_id, {})) - _numbers(now.assigned)
        return [
            each
            for each, its in self._current.items()
            if each != member_id and missing & (_numbers(its.assigned) | _numbers(its.revoking))
        ]


def _cause(signs: list[_Sign], *, is_other_hash: bool) -> tuple[str, str]:
    """Return the cause of an epoch and its member, from the changes before it."""
    for cause in _RANK:
        members = [sign.member for sign in signs if sign.cause == cause]
        if members:
            return cause, members[0]
    return (Cause.TOPIC_METADATA_CHANGED, "") if is_other_hash else ("", "")


def _numbers(shares: Shares) -> set[Partition]:
    return {(topic, number) for topic, numbers in shares.items() for number in numbers}
