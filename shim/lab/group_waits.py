"""`GroupWaits`: waits for states and events of a group, in the server's own thread.

The coordinator's own events wake a wait; none polls. After a timeout the message has the present state of the group and
its story.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from itertools import islice
from math import ceil, inf
from operator import ge
from typing import Any, Final

import trio

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.apis.similar import similar_name
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.states import State
from kafka_shim.groups.consumer import patterns
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.group import Group
from kafka_shim.lab import arguments
from kafka_shim.lab.clock import TestClock
from kafka_shim.lab.conditions import Conditions
from kafka_shim.lab.fetching import Fetched, Fetching
from kafka_shim.lab.interception import Unmatchable, Unreachable, similar
from kafka_shim.lab.snapshots import GroupSnapshot, committed, committed_topics, snapshot
from kafka_shim.lab.snapshots import partitions as by_topic
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.data_exchanges import DATA_APIS
from kafka_shim.server.history import Entry, EventHistory
from kafka_shim.trace.events import begins_rebalance

TIMEOUT: Final = 15.0
"""Default timeout of a wait in real seconds: more than the 10 s between two searches for the topics of a regular
expression.
"""
STORY_LINES: Final = 40
LOOK_SECONDS: Final = 0.02
"""Time between two looks at a condition of the test's own, which may change without an event of the coordinator."""
POSITIONED: Final = ("classic", "consumer")
"""The kinds of groups whose members have positions in partitions."""


class NotReached(AssertionError):
    """A wait has timed out; the message has the state of the group and its story so far."""


class StoryTail:
    """The last `lines` of a story; `left_out` is the number of those before, if it is above 0."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=STORY_LINES)
        self.left_out = -STORY_LINES

    def add(self, lines: Sequence[str]) -> None:
        """Take the next lines."""
        self.lines += lines
        self.left_out += len(lines)


class _Reader:
    """Reader of the events of a group, or of all groups, after the number `at`: each of them once."""

    def __init__(self, history: EventHistory, group: str | None, at: int) -> None:
        self._history = history
        self._group = group
        self._at = at

    async def look_back(self, is_it: Callable[[Entry], bool | None]) -> None:
        """Call a function with the events until now, until it returns True; clients are served in between."""
        last = self._history.seen
        for piece in self._history.pieces(self._at, self._group):
            if any(map(is_it, piece)):
                return
            await trio.lowlevel.checkpoint()
        self._at = last

    def news(self) -> Iterator[Entry]:
        """Yield the events since the last call."""
        for entry in self._history.since(self._at, self._group):
            self._at = entry.number
            yield entry
        self._at = self._history.seen


OwnedPartitions = Mapping[str, Iterable[int]] | Iterable[Any]


class GroupWaits:
    """Waits for one group. All timeouts are real seconds; all raise NotReached.

    `next` looks at the events since the last one it returned, or since another wait ended; at first, at all events. So
    no event is missed between an action and the wait for its effect.
    """

    def __init__(self, cluster: Cluster, history: EventHistory, conditions: Conditions, group: str) -> None:
        self.group = group
        self._cluster = cluster
        self._history = history
        self._conditions = conditions
        self._cursor = 0

    @property
    def now(self) -> GroupSnapshot:
        """The present state of the group."""
        return self._conditions.view(self.group, lambda: snapshot(self._cluster, self.group))

    @property
    def _present(self) -> Group | None:
        return self._cluster.ownership.owner_of(self.group).groups.groups.get(self.group)

    def story(self) -> list[str]:
        """Return the story of the group, as readable lines."""
        # Imported here: most tests pass, and no one reads their story.
        from kafka_shim.lab.narration import story

        return story(self._history, self.group)

    async def stable(
        self,
        *,
        members: int | Collection[str] | None = None,
        generation: int | None = None,
        owners: Mapping[str, OwnedPartitions] | None = None,
        timeout: float = TIMEOUT,
    ) -> GroupSnapshot:
        """Wait until the group is Stable and every member has its assignment.

        `members` is their number, or all their names; `generation` the least generation; `owners` the exact partitions
        of each named member. A name is a member id, client id or group instance id.
        """
        _check_members(members)
        if generation is not None:
            arguments.whole("generation", generation, 0)
        if owners is not None and not isinstance(owners, Mapping):
            raise Unmatchable(f"owners must map members' names to partitions, not {owners!r}.")
        expected = {name: _partitions(each) for name, each in (owners or {}).items()}

        number = len(members) if isinstance(members, Collection) else members

        def condition() -> bool:
            present = self._present
            # A look at all members takes long in a large group, and each event brings one.
            if present is None or present.state != "Stable" or number not in (None, present.size):
                return False
            group = self.now
            if not group.is_stable or (generation is not None and group.generation < generation):
                return False
            if not _has_members(group, members):
                return False
            return all(any(m.owned == owned for m in group.called(name)) for name, owned in expected.items())

        conditions = {"members": members, "generation": generation, "owners": owners}
        described = ", ".join(f"{name}={value!r}" for name, value in conditions.items() if value is not None)
        await self._until(condition, f"the group to be stable{' with ' * bool(described)}{described}", timeout)
        return self.now

    async def consuming(
        self, *, members: int | Collection[str] | None = None, timeout: float = TIMEOUT
    ) -> GroupSnapshot:
        """Wait until the group is Stable and each of its partitions is fetched by its owner.

        Then each owner has its position, and gets the records of a later `produce`, also with
        `auto_offset_reset="latest"`. `members` as for `stable`. Owners and fetches are put together by client id, so
        clients of a test should not share one. Puppets do not fetch. Raises Unmatchable for a group of another kind
        than classic and consumer groups.
        """
        _check_members(members)
        group = self._present
        if group is not None and group.type not in POSITIONED:
            raise Unreachable(f"{self.group} is a {group.type} group: only classic and consumer groups have positions.")
        generation = self.now.generation

        def missing(now: GroupSnapshot) -> set[Fetched]:
            nonlocal generation
            if now.generation != generation:
                # A fetch of before may be that of a former owner.
                generation = now.generation
                fetching.partitions.clear()
            return {
                Fetched(member.client_id, topic, number)
                for member in now.members
                for topic, numbers in member.owned.items()
                for number in numbers
            } - fetching.partitions

        def condition() -> bool:
            now = self.now
            lacking = missing(now)
            return now.is_stable and _has_members(now, members) and any(m.owned for m in now.members) and not lacking

        def hints() -> list[str]:
            return [
                f"{each.client_id} does not fetch {each.topic}-{each.partition} yet."
                for each in sorted(missing(self.now))
            ]

        goal = "each partition to be fetched by its owner"
        with Fetching(self._cluster, self._conditions.check) as fetching:
            described = "" if members is None else f", with members={members!r}"
            await self._until(condition, goal + described, timeout, hints)
        return self.now

    async def owns(self, member: str, expected: OwnedPartitions, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """Wait until a member owns at least these partitions: by topic, or pairs of topic and partition."""
        if not isinstance(member, str):
            raise Unmatchable(f"owns() takes the name of a member, such as its client id, not {member!r}.")
        owned = _partitions(expected)

        def condition() -> bool:
            return any(
                each.has_synced
                and all(set(numbers) <= set(each.owned.get(topic, ())) for topic, numbers in owned.items())
                for each in self.now.called(member)
            )

        await self._until(condition, f"{member} to own {owned}", timeout, lambda: self._missing(owned))
        return self.now

    async def empty(self, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """Wait until the group has no members."""

        def condition() -> bool:
            group = self._present
            return group is None or (not group.size and group.state in ("Empty", "Dead"))

        await self._until(condition, "no members", timeout)
        return self.now

    async def next(
        self, event: str, *, from_now: bool = False, timeout: float = TIMEOUT, **fields: Any
    ) -> dict[str, Any]:
        """Wait for the next event of a kind (`docs/trace.md`) with these fields; a field may be a function of its
        value.

        With `from_now` only events after the call count.
        """
        matches: list[tuple[int, dict[str, Any]]] = []
        # Produce, Fetch and ListOffsets are about no group.
        group = None if fields.get("api") in DATA_APIS else self.group
        if group is None and not any(node.exchanges.topic_name for node in self._cluster.nodes.values()):
            raise Unreachable(f"Events of {fields['api']} are off: `server.data_events()` turns them on.")
        if from_now:
            self._cursor = self._history.seen
        reader = _Reader(self._history, group, self._cursor)

        def is_it(entry: Entry) -> bool:
            each = entry.event
            if each["event"] == event and all(_fits(each.get(name), value) for name, value in fields.items()):
                matches.append((entry.number, each))
            return bool(matches)

        def condition() -> bool:
            return bool(matches) or any(map(is_it, reader.news()))

        await reader.look_back(is_it)
        conditions = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        goal = f"the next {event} event{' with ' * bool(conditions)}{conditions}"
        await self._until(condition, goal, timeout, partial(self._other_values, event, fields))
        self._cursor, answer = matches[0]
        return answer

    async def committed(
        self, topic: str, partition: int, *, at_least: int | None = None, timeout: float = TIMEOUT
    ) -> int:
        """Wait until a partition has a committed offset, of `at_least` this value; return it."""

        def condition() -> bool:
            offset = committed(self._cluster, self.group, topic, partition)
            return offset is not None and (at_least is None or offset >= at_least)

        reached = "" if at_least is None else f" at least {at_least}"
        goal = f"the committed offset of {topic}-{partition}{reached}"
        await self._until(condition, goal, timeout, lambda: self._missing({topic: [partition]}))
        offset = committed(self._cluster, self.group, topic, partition)
        assert offset is not None
        return offset

    async def caught_up(self, *topics: str, timeout: float = TIMEOUT) -> None:
        """Wait until the committed offsets are at the ends of these topics, each of which must have a record.

        Without `topics`: of all that the group has offsets of or that its members own, and a record is committed.
        """
        if unknown := [name for name in topics if self._cluster.topics.named(name) is None]:
            there = [each.name for each in self._cluster.topics.all()]
            raise Unreachable(f"There is no topic {unknown[0]!r}; {similar(unknown[0], there)}")

        def condition() -> bool:
            owned = {name for member in self.now.members for name in member.owned}
            names = topics or owned.union(committed_topics(self._cluster, self.group))
            read = [self._is_read(name) for name in names]
            return bool(read) and all(each is not False for each in read) and any(read)

        of = f" of {', '.join(topics)}" if topics else ""
        await self._until(condition, f"committed offsets at the ends of the logs{of}", timeout)

    def _is_read(self, name: str) -> bool | None:
        """Return True if the group has committed all records of a topic, None if there are none."""
        topic = self._cluster.topics.named(name)
        ends = [each.log.readable_end(committed=True) for each in topic.partitions] if topic is not None else []
        offsets = [committed(self._cluster, self.group, name, number) or 0 for number in range(len(ends))]
        return all(map(ge, offsets, ends)) if any(ends) else None

    async def no_rebalance_for(
        self,
        seconds: float | None = None,
        *,
        heartbeats: int | None = None,
        advance: Callable[[float], None] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """Check that no rebalance begins for `seconds`, or until every member has sent so many heartbeats.

        `advance` moves the coordinator's clock instead of waiting in real time.
        """
        refusal = "No rebalance was expected, but one began."
        await self._never(lambda each: refusal * begins_rebalance(each), seconds, heartbeats, advance, timeout)

    async def no_commit_for(
        self,
        seconds: float | None = None,
        *,
        topic: str | None = None,
        heartbeats: int | None = None,
        advance: Callable[[float], None] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """Check that no offset is committed, of one topic or of all, for `seconds`, or until every member has sent so
        many heartbeats. A commit that is refused is none.

        `advance` as for `no_rebalance_for`.
        """

        of_topic = "" if topic is None else f" of {topic}"

        def commits(event: dict[str, Any]) -> str:
            offsets = event["offsets"] if event["event"] == "commit" else []
            each = next((each for each in offsets if topic in (None, each["topic"])), None)
            if each is None:
                return ""
            clients = (member.client_id for member in self.now.members if member.member_id == event["member_id"])
            who = next(clients, None) or event["member_id"] or "a client that is no member"
            what = f"offset {each['offset']} of {each['topic']}-{each['partition']}"
            return f"No commit{of_topic} was expected, but {who} committed {what}."

        await self._never(commits, seconds, heartbeats, advance, timeout)

    async def _never(
        self,
        refusal: Callable[[dict[str, Any]], str],
        seconds: float | None,
        heartbeats: int | None,
        advance: Callable[[float], None] | None,
        timeout: float,
    ) -> None:
        reader = _Reader(self._history, self.group, self._history.seen)
        beats: Counter[str] = Counter()
        reason = ""

        def refused() -> str:
            nonlocal reason
            for _, _, event in reader.news():
                reason = reason or refusal(event)
                if event["event"] == "exchange" and event["api"].endswith("Heartbeat"):
                    beats[event["member"]] += 1
            return reason

        def is_over() -> bool:
            if refused():
                return True
            least = min((beats[member.member_id] for member in self.now.members), default=0)
            return heartbeats is not None and least >= heartbeats

        if advance is not None and seconds is not None:
            advance(seconds)
        elif heartbeats is not None:
            await self._until(is_over, f"{heartbeats} heartbeats of every member", timeout)
        else:
            await self._conditions.until(lambda: bool(refused()), seconds or 0.0)
        if happens := refused():
            raise NotReached(self._report(happens, await self._tail_in_turns()))

    async def wait_for(
        self,
        condition: Callable[[GroupSnapshot], Any],
        goal: str = "the condition of the test",
        *,
        timeout: float = TIMEOUT,
    ) -> GroupSnapshot:
        """Wait until `condition(now)` is true for the state `now` of the group; return this state.

        The condition may look at anything of the test: it is called after each event of the coordinator, and every
        20 ms. `goal` names it in the message of NotReached.
        """
        arguments.seconds("timeout", timeout)
        end = trio.current_time() + timeout
        while True:
            now = self.now
            result = condition(now)
            if await result if isawaitable(result) else result:
                return now
            if trio.current_time() >= end:
                raise self.vain(goal, timeout, (), await self._tail_in_turns())
            await self.changed(min(LOOK_SECONDS, end - trio.current_time()))

    async def changed(self, seconds: float) -> None:
        """Wait for the next event of the coordinator, for so many seconds of real time at most."""
        seen = self._history.seen
        await self._conditions.until(lambda: self._history.seen > seen, seconds)

    def vain(self, goal: str, timeout: float, hints: Iterable[str] = (), tail: StoryTail | None = None) -> NotReached:
        """Return the error of a wait that has timed out, with the state of the group and its story so far, or the
        `tail` of that."""
        vain = f"Waited {timeout:g} s in vain for {readable(goal, LONGEST_LINE)}.{self._stands_still()}"
        if tail is None:
            tail = StoryTail()
            tail.add(self.story())
        return NotReached(self._report("\n".join([vain, *hints]), tail))

    def _missing(self, expected: Mapping[str, Iterable[int]]) -> list[str]:
        """Say which of these topics is not there, or has no such partition; a topic may come while a test waits."""
        counts = {each.name: len(each.partitions) for each in self._cluster.topics.all()}
        lines = []
        for name, partitions in islice(expected.items(), STORY_LINES):
            if name not in counts:
                lines.append(f"There is no topic {name!r}; {similar(name, counts)}")
            elif max(partitions, default=0) >= counts[name]:
                lines.append(f"Topic {name!r} has {counts[name]} partitions, from 0 on.")
        return lines

    async def _other_values(self, event: str, fields: Mapping[str, Any]) -> list[str]:
        """Name the values that a field has in events of the group, if none has the value that a test waits for."""
        events: list[dict[str, Any]] = []

        def keep(entry: Entry) -> None:
            if entry.event["event"] == event:
                events.append(entry.event)

        await _Reader(self._history, self.group, 0).look_back(keep)
        lines = []
        for name, expected in fields.items():
            values = {repr(each.get(name)) for each in events}
            if values and not callable(expected) and not any(_fits(each.get(name), expected) for each in events):
                lines.append(
                    f"No {event} event of the group has {name}={expected!r}; there are {', '.join(sorted(values))}."
                )
        return lines

    async def _until(
        self,
        condition: Callable[[], bool],
        goal: str,
        timeout: float,
        hints: Callable[[], list[str] | Awaitable[list[str]]] = list,
    ) -> None:
        arguments.seconds("timeout", timeout)

        def reached() -> bool:
            if not condition():
                return False
            self._cursor = self._history.seen
            return True

        if not await self._conditions.until(reached, timeout):
            lines = hints()
            lines = await lines if isawaitable(lines) else lines
            raise self.vain(goal, timeout, lines, await self._tail_in_turns())
        # What is reached counts, also if the application ends at the same time.
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _stands_still(self) -> str:
        clock = self._cluster.clock
        if isinstance(clock, TestClock) and clock.is_frozen:
            return " The clock is frozen: no timer ends until it is advanced or resumed."
        return ""

    async def _tail_in_turns(self) -> StoryTail:
        """Read the story in pieces; clients are served in between."""
        # Imported here: most tests pass, and no one reads their story.
        from kafka_shim.lab.narration import pieces

        tail = StoryTail()
        for piece in pieces(self._history, self.group):
            tail.add(piece)
            await trio.lowlevel.checkpoint()
        return tail

    def _report(self, first: str, tail: StoryTail) -> str:
        lines = [first, f"Now {self.now}", *self._others(), *self._absent(), *self._search(), "The story so far:"]
        if tail.left_out > 0:
            lines.append(f"    ({tail.left_out} lines before these)")
        lines += [f"  {line}" for line in tail.lines] or ["    nothing has happened"]
        return "\n".join(lines)

    def _others(self) -> list[str]:
        """Name the group that a test may have meant, if there is none of this name."""
        groups = {name for node in self._cluster.nodes.values() for name in node.groups.groups}
        near = None if self.group in groups else similar_name(self.group, groups)
        return [f"There is no group {self.group!r}; did you mean {near!r}?"] if near else []

    def _absent(self) -> list[str]:
        """Name the members of a classic group that others wait for, and the time after which the wait is over."""
        group = self._present
        if not isinstance(group, ClassicGroup):
            return []
        if group.state is State.PREPARING_REBALANCE:
            absent = [each for each in group.members.values() if each.join_exchange is None]
            expected, timer = "to join again", group.join_timer
        elif group.state is State.COMPLETING_REBALANCE:
            absent = [group.members[member_id] for member_id in group.pending_sync]
            expected, timer = "to send SyncGroup", group.sync_timer
        else:
            return []
        rest = timer.deadline - self._cluster.clock()
        if not absent or not 0 < rest < inf:
            return []
        names = ", ".join(sorted(each.client_id for each in absent))
        longest = max(group.members.values(), key=lambda each: each.rebalance_timeout_ms)
        return [
            f"It waits for {names} {expected}, for {ceil(rest)} s at most:"
            f" the longest rebalance timeout is that of {longest.client_id}, {longest.rebalance_timeout_ms / 1000:g} s."
        ]

    def _search(self) -> list[str]:
        """Say when the coordinator looks for topics of the group's regular expressions, if topics have changed."""
        group = self._present
        if not isinstance(group, ConsumerGroup) or not (group.subscriptions.patterns and group.patterns_stale):
            return []
        wait = patterns.due(group) - self._cluster.clock()
        if not 0 < wait < inf:
            return []
        seconds = ceil(wait)
        return [
            "Topics have changed. The coordinator resolves the regular expressions of the group every 10 s, next in"
            f" {seconds} s: clock.advance({seconds}) spares a test that time."
        ]


def _has_members(group: GroupSnapshot, members: int | Collection[str] | None) -> bool:
    """Return True if the group has this number of members, or exactly these."""
    if members is None:
        return True
    if isinstance(members, int):
        return len(group.members) == members
    return len(group.members) == len(members) and all(group.called(name) for name in members)


def _check_members(members: Any) -> None:
    names = isinstance(members, Collection) and not isinstance(members, str)
    number = isinstance(members, int) and not isinstance(members, bool) and members >= 0
    if members is not None and not number and not (names and all(isinstance(each, str) for each in members)):
        hint = f"; for their number, write members={len(members)}" if names else ""
        raise Unmatchable(f"members must be a number or a list of names, not {members!r}{hint}.")


def _fits(value: Any, expected: Any) -> bool:
    return bool(expected(value)) if callable(expected) else bool(value == expected)


def _partitions(expected: Any) -> dict[str, list[int]]:
    try:
        partitions = by_topic(expected)
        if not all(isinstance(each, int) for numbers in partitions.values() for each in numbers):
            raise ValueError
        return partitions
    except (TypeError, ValueError, AttributeError):
        raise Unmatchable(
            "Partitions must be by topic, or pairs of topic and partition, such as {'orders': [0, 1]}, not"
            f" {expected!r}."
        ) from None
