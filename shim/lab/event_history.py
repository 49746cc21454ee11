"""What happens to groups, kept and awaited: the newest events, a group as it stands, and waiting for what is to come.

Decides when a group counts as stable, who owns what, and which events somebody who waits has seen. It reads events as
they are in `docs/trace.md` and the state of the rules; it changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.lab.conditions import Waiters
from kafka_shim.server.cluster import Cluster
from kafka_shim.why.narration import Narrator

REMEMBERED: Final = 100_000
"""Events kept; the oldest go first."""

Owned = dict[str, list[int]]
"""Partitions by topic, in order."""


@dataclass(frozen=True)
class MemberSnapshot:
    """A member as the coordinator has it. `has_synced`: it has got its assignment of this generation."""

    member_id: str
    client_id: str
    instance_id: str | None
    owned: Owned
    has_synced: bool

    def is_called(self, name: str) -> bool:
        """Whether `name` is its member id, client id or group instance id."""
        return name in (self.member_id, self.client_id, self.instance_id)


@dataclass(frozen=True)
class GroupSnapshot:
    """A group as the coordinator has it at one moment. One that is not there is Dead, in generation -1."""

    group: str
    state: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[MemberSnapshot, ...]

    @property
    def is_stable(self) -> bool:
        """Whether it is Stable and every member has got its assignment."""
        return self.state == "Stable" and all(member.has_synced for member in self.members)

    def owner(self, topic: str, partition: int) -> MemberSnapshot | None:
        """Who owns a partition."""
        return next((member for member in self.members if partition in member.owned.get(topic, ())), None)

    def called(self, name: str) -> list[MemberSnapshot]:
        """Members with this member id, client id or group instance id."""
        return [member for member in self.members if member.is_called(name)]

    def __str__(self) -> str:
        lines = [f"{self.group} is {self.state}, generation {self.generation}, {len(self.members)} members"]
        for member in self.members:
            owned = "; ".join(f"{topic} {partitions}" for topic, partitions in member.owned.items()) or "nothing"
            waits = "" if member.has_synced else ", has no assignment of this generation"
            lines.append(f"    {member.instance_id or member.client_id or member.member_id}: {owned}{waits}")
        return "\n".join(lines)


def snapshot(cluster: Cluster, group_id: str) -> GroupSnapshot:
    """The group as its coordinator has it now."""
    group = cluster.ownership.owner_of(group_id).groups.groups.get(group_id)
    if group is None:
        return GroupSnapshot(group_id, "Dead", -1, None, None, ())
    shown = group.describe()
    is_settled = shown.state == "Stable"
    members = tuple(
        MemberSnapshot(
            member.member_id,
            member.client_id,
            member.group_instance_id,
            dict(sorted(member.assignment.items())) if is_settled and member.assignment is not None else {},
            member.has_assignment,
        )
        for member in shown.members
    )
    return GroupSnapshot(group_id, shown.state, shown.generation, shown.protocol, shown.leader, members)


def partitions(wanted: Mapping[str, Iterable[int]] | Iterable[Any]) -> Owned:
    """Partitions by topic, of a mapping or of pairs of topic and partition as clients have them."""
    found: dict[str, set[int]] = {}
    if isinstance(wanted, Mapping):
        for topic, numbers in wanted.items():
            found.setdefault(topic, set()).update(numbers)
    else:
        each: Any
        for each in wanted:
            topic, number = each if isinstance(each, tuple) else (each.topic, each.partition)
            found.setdefault(topic, set()).add(number)
    return {topic: sorted(found[topic]) for topic in sorted(found) if found[topic]}


class Watch:
    """Keeps the events of a cluster and wakes who waits for something. `seen` counts events since it began."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.waiters = Waiters()
        self.seen = 0
        self._events: deque[tuple[int, float, dict[str, Any]]] = deque(maxlen=REMEMBERED)
        self._tells: list[Callable[[int, float, dict[str, Any]], None]] = []
        self._starts = 0

    def start(self) -> None:
        """Listen from now on, until there was a `stop` for every `start`."""
        self._starts += 1
        if self._starts == 1:
            self.cluster.events.listen(self._listen)

    def stop(self) -> None:
        """Whoever called `start` needs to hear no more."""
        self._starts -= 1
        if not self._starts:
            self.cluster.events.unlisten(self._listen)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen during a block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def _listen(self, events: list[dict[str, Any]], now: float) -> None:
        for event in events:
            self.seen += 1
            self._events.append((self.seen, now, event))
            for tell in self._tells:
                tell(self.seen, now, event)
        self.waiters.check()

    def follow(self, tell: Callable[[int, float, dict[str, Any]], None]) -> Callable[[], None]:
        """From now on `tell(number, now, event)` gets every event; what is returned ends that."""
        self._tells.append(tell)
        return lambda: self.unfollow(tell)

    def unfollow(self, tell: Callable[[int, float, dict[str, Any]], None]) -> None:
        """`tell` gets no more events; nothing happens if it got none."""
        self._tells = [each for each in self._tells if each != tell]

    def since(self, number: int, group: str | None = None) -> Iterator[tuple[int, float, dict[str, Any]]]:
        """Events after `number`, of one group or of all: their number, their time and themselves."""
        newer: list[tuple[int, float, dict[str, Any]]] = []
        for entry in reversed(self._events):
            if entry[0] <= number:
                break
            if group is None or entry[2].get("group") == group:
                newer.append(entry)
        return iter(newer[::-1])

    def story(self, group: str | None = None, since: int = 0) -> list[str]:
        """What happened to a group, or to all, in lines a person reads."""
        story = Narrator()
        return [str(line) for _, now, event in self.since(since, group) for line in story.lines(event, now)]

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """The committed offset, or None."""
        groups = self.cluster.ownership.owner_of(group).groups
        shard = groups.shards.get(groups.partition_of(group))
        value = None if shard is None else shard.offsets.of(group).get(topic, {}).get(partition)
        return None if value is None else value.offset
