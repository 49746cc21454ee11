"""Awaiting what is to become of a group, in the server's own thread.

Decides the condition of each wait and the message when it does not come true: what the group looks like now,
and its story so far. Every wait is woken by the coordinator's own events; none looks again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import trio

from kafka_shim.lab.conditions import Conditions
from kafka_shim.lab.interception import Unmatchable
from kafka_shim.lab.snapshots import GroupSnapshot, committed, partitions, snapshot
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.history import EventHistory
from kafka_shim.why.narration import story

TIMEOUT: Final = 10.0
"""Default of the real seconds that a wait takes at most."""
STORY_LINES: Final = 40


class NotReached(AssertionError):
    """A wait has timed out; the message has the state of the group and its story so far."""


OwnedPartitions = Mapping[str, Iterable[int]] | Iterable[Any]


class GroupWaits:
    """Waits for one group. All timeouts are real seconds; all raise NotReached.

    `next` looks at the events since the last one it returned, or since another wait ended; at first, at all events. So
    nothing is missed between an action and the wait for its effect.
    """

    def __init__(self, cluster: Cluster, history: EventHistory, conditions: Conditions, group: str) -> None:
        self.group = group
        self._cluster = cluster
        self._history = history
        self._conditions = conditions
        self._cursor = 0

    @property
    def now(self) -> GroupSnapshot:
        """The group as it is."""
        return snapshot(self._cluster, self.group)

    def story(self) -> list[str]:
        """What happened to the group, in lines a person reads."""
        return story(self._history.since(0, self.group))

    async def stable(
        self,
        *,
        members: int | Collection[str] | None = None,
        generation: int | None = None,
        owners: Mapping[str, OwnedPartitions] | None = None,
        timeout: float = TIMEOUT,
    ) -> GroupSnapshot:
        """The group is Stable and every member has its assignment.

        `members` is how many there are, or what they are all called; `generation` the one reached, or a later one;
        `owners` who owns exactly which partitions. Members are called by member id, client id or group instance id.
        """
        if members is not None and (isinstance(members, (str, bool)) or not isinstance(members, (int, Collection))):
            raise Unmatchable(f"members is how many there are, or a list of what they are called, not {members!r}.")
        if owners is not None and not isinstance(owners, Mapping):
            raise Unmatchable(f"owners is what each member owns, by what it is called, not {owners!r}.")
        expected = {name: _partitions(each) for name, each in (owners or {}).items()}

        def condition() -> bool:
            found = self.now
            if not found.is_stable or (generation is not None and found.generation < generation):
                return False
            if isinstance(members, int):
                if len(found.members) != members:
                    return False
            elif members is not None and (
                len(found.members) != len(members) or not all(found.called(name) for name in members)
            ):
                return False
            return all(any(m.owned == owned for m in found.called(name)) for name, owned in expected.items())

        conditions = {"members": members, "generation": generation, "owners": owners}
        shown = ", ".join(f"{name}={value!r}" for name, value in conditions.items() if value is not None)
        await self._until(condition, f"the group to be stable{' with ' * bool(shown)}{shown}", timeout)
        return self.now

    async def owns(self, member: str, expected: OwnedPartitions, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """A member owns at least these partitions: by topic, or pairs of topic and partition."""
        owned = _partitions(expected)

        def condition() -> bool:
            return any(
                each.has_synced
                and all(set(numbers) <= set(each.owned.get(topic, ())) for topic, numbers in owned.items())
                for each in self.now.called(member)
            )

        await self._until(condition, f"{member} to own {owned}", timeout)
        return self.now

    async def empty(self, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """The group has no members."""
        await self._until(lambda: not self.now.members and self.now.state in ("Empty", "Dead"), "no members", timeout)
        return self.now

    async def next(
        self, event: str, *, from_now: bool = False, timeout: float = TIMEOUT, **fields: Any
    ) -> dict[str, Any]:
        """The next event of a kind (`docs/trace.md`) with these fields; a field may be a function of its value.

        With `from_now` only what happens after the call counts.
        """
        found: list[tuple[int, dict[str, Any]]] = []
        if from_now:
            self._cursor = self._history.seen

        def condition() -> bool:
            for number, _, each in self._history.since(self._cursor, self.group):
                if each["event"] == event and all(_fits(each.get(name), value) for name, value in fields.items()):
                    found.append((number, each))
                    return True
            return False

        conditions = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        await self._until(condition, f"a {event} event{' with ' * bool(conditions)}{conditions}", timeout)
        self._cursor, answer = found[0]
        return answer

    async def committed(
        self, topic: str, partition: int, *, at_least: int | None = None, timeout: float = TIMEOUT
    ) -> int:
        """The committed offset of a partition, once there is one, and one that is `at_least` so much."""

        def condition() -> bool:
            offset = committed(self._cluster, self.group, topic, partition)
            return offset is not None and (at_least is None or offset >= at_least)

        reached = "" if at_least is None else f" at least {at_least}"
        await self._until(condition, f"the committed offset of {topic}-{partition}{reached}", timeout)
        offset = committed(self._cluster, self.group, topic, partition)
        assert offset is not None
        return offset

    async def no_rebalance_for(
        self,
        seconds: float | None = None,
        *,
        heartbeats: int | None = None,
        advance: Callable[[float], None] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """No rebalance begins for so many seconds, or until every member has sent so many heartbeats.

        `advance` puts the coordinator's clock forward, if it is not to be waited for in real time.
        """
        began = self._history.seen
        beats: dict[str, int] = {}

        def rebalances() -> bool:
            return any(
                event["event"] == "state" and event["to"] == "PreparingRebalance"
                for _, _, event in self._history.since(began, self.group)
            )

        def is_over() -> bool:
            return rebalances() or (heartbeats is not None and self._beats(began, beats) >= heartbeats)

        if advance is not None and seconds is not None:
            advance(seconds)
        elif heartbeats is not None:
            await self._until(is_over, f"{heartbeats} heartbeats of every member", timeout)
        else:
            await self._conditions.until(rebalances, seconds or 0.0)
        if rebalances():
            raise NotReached(self._shown("There was to be no rebalance, but there was one."))

    def _beats(self, began: int, beats: dict[str, int]) -> int:
        """How many heartbeats every member has sent at least."""
        beats.clear()
        for _, _, event in self._history.since(began, self.group):
            if event["event"] == "exchange" and event["api"] == "Heartbeat":
                beats[event["member"]] = beats.get(event["member"], 0) + 1
        return min((beats.get(member.member_id, 0) for member in self.now.members), default=0)

    async def _until(self, condition: Callable[[], bool], what: str, timeout: float) -> None:
        def reached() -> bool:
            if not condition():
                return False
            self._cursor = self._history.seen
            return True

        if not await self._conditions.until(reached, timeout):
            raise NotReached(self._shown(f"Waited {timeout:g} s for {what}, in vain."))
        await trio.lowlevel.checkpoint()

    def _shown(self, first: str) -> str:
        shown = self.story()
        left_out = len(shown) - STORY_LINES
        lines = [first, f"Now {self.now}", "The story so far:"]
        if left_out > 0:
            lines.append(f"    ({left_out} lines before these)")
        lines += [f"  {line}" for line in shown[-STORY_LINES:]] or ["    nothing has happened"]
        return "\n".join(lines)


def _fits(value: Any, expected: Any) -> bool:
    return bool(expected(value)) if callable(expected) else bool(value == expected)


def _partitions(expected: Any) -> dict[str, list[int]]:
    try:
        return partitions(expected)
    except (TypeError, ValueError, AttributeError):
        raise Unmatchable(
            f"What a member owns is partitions by topic, or pairs of topic and partition, not {expected!r}."
        ) from None
