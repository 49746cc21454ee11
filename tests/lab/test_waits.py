"""Waits for a large or old group read little at each event, and let others be served while they read all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
import trio.testing

from kafka_shim.lab import group_waits
from kafka_shim.lab.conditions import Conditions
from kafka_shim.lab.group_waits import STORY_LINES, NotReached
from kafka_shim.lab.snapshots import GroupSnapshot, MemberSnapshot
from kafka_shim.server.history import EventHistory
from kafka_shim.testing import open_coordinator
from tests.waiting import turns_of_others


def test_conditions_of_one_check_share_a_view() -> None:
    conditions, looks = Conditions(), 0

    def look() -> int:
        nonlocal looks
        looks += 1
        return looks

    seen: list[int] = []

    def condition() -> bool:
        seen.append(conditions.view("g", look))
        return False

    async def wait() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(conditions.until, condition)
            await trio.testing.wait_all_tasks_blocked()
            seen.clear()
            conditions.check()
            conditions.check()
            assert conditions.view("g", look) == looks
            nursery.cancel_scope.cancel()

    trio.run(wait)
    assert [each - seen[0] for each in seen] == [0, 0, 0, 1, 1, 1]


async def test_a_wait_sees_the_acts_of_intercepts_without_an_event() -> None:
    async with open_coordinator(topics={"orders": 1}) as kit, trio.open_nursery() as nursery:
        kit.puppet("g", ["orders"], client_id="dead-1", session_timeout=45, heartbeat_interval=3)
        await kit.group("g").stable(members=1)
        killed = kit.kill("dead-1")
        nursery.start_soon(kit.until, lambda: bool(killed.connections), "a heartbeat to drop")
        await trio.testing.wait_all_tasks_blocked()
        kit.advance(3)
    assert len(killed.connections) == 1


class Looks:
    """The number of looks at a whole group, and of events that were read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups = self.events = 0
        snapshot, since = group_waits.snapshot, EventHistory.since

        def counted_snapshot(*arguments: Any) -> Any:
            self.groups += 1
            return snapshot(*arguments)

        def counted_since(*arguments: Any) -> Iterator[Any]:
            for each in since(*arguments):
                self.events += 1
                yield each

        monkeypatch.setattr(group_waits, "snapshot", counted_snapshot)
        monkeypatch.setattr(EventHistory, "since", counted_since)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def tell(history: EventHistory) -> None:
    history._hear([{"event": "exchange", "api": "Heartbeat", "group": "g", "member": "m"}], 0.0)


@pytest.mark.parametrize(
    "wait",
    [
        lambda waits: waits.next("no such event"),
        lambda waits: waits.no_rebalance_for(100),
        lambda waits: waits.no_commit_for(heartbeats=1),
    ],
)
async def test_a_wait_reads_each_event_once(looks: Looks, wait: Callable[[Any], Any]) -> None:
    async with open_coordinator() as kit, trio.open_nursery() as nursery:
        with kit.history.listening():
            nursery.start_soon(wait, kit.group("g"))
            await trio.testing.wait_all_tasks_blocked()
            looks.events = 0
            for _ in range(50):
                tell(kit.history)
            assert 50 <= looks.events < 100
            nursery.cancel_scope.cancel()


async def test_a_wait_for_stability_looks_at_no_member_of_a_group_that_is_not_stable(looks: Looks) -> None:
    async with open_coordinator(topics={"orders": 1}) as kit, trio.open_nursery() as nursery:
        kit.create_group("g")
        for members in (None, 1, ["a"]):
            nursery.start_soon(lambda members=members: kit.group("g").stable(members=members))
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(10):
            tell(kit.history)
        assert looks.groups == 0
        nursery.cancel_scope.cancel()


async def test_others_are_served_while_an_error_tells_the_story() -> None:
    async with open_coordinator() as kit:
        for number in range(4000):
            kit.history._hear([{"event": "of no rule", "group": f"g{number % 2}"}], 0.0)
        async with turns_of_others() as turns:
            with pytest.raises(NotReached, match="nothing has happened"):
                await kit.group("g0").next("no such event", timeout=0)
    # The wait reads them for the event, for the values of its fields, and for the story.
    assert turns() > 3 * 10


def test_members_are_called_by_each_of_their_names() -> None:
    one = MemberSnapshot("id-1", "app", "static", {}, True)
    two = MemberSnapshot("app", "app", None, {}, True)
    group = GroupSnapshot("g", "Stable", 1, None, None, (one, two))
    assert [group.called(name) for name in ("id-1", "app", "static", "other")] == [[one], [one, two], [one], []]


def test_a_look_for_many_names_walks_over_the_members_once() -> None:
    walks = 0

    class Members(tuple[MemberSnapshot, ...]):
        def __iter__(self) -> Iterator[MemberSnapshot]:
            nonlocal walks
            walks += 1
            return super().__iter__()

    members = Members(MemberSnapshot(f"id-{number}", "", None, {}, True) for number in range(5))
    group = GroupSnapshot("g", "Stable", 1, None, None, members)
    assert all(group.called(f"id-{number}") for number in range(5))
    assert walks == 1


async def test_an_error_about_many_topics_stays_short() -> None:
    async with open_coordinator(topics={"orders": 1}) as kit:
        with pytest.raises(NotReached) as caught:
            await kit.group("g").owns("m", {f"topic-{number}": [0] for number in range(20_000)}, timeout=0)
    assert len(str(caught.value)) < 20_000
    assert str(caught.value).count("There is no topic") == STORY_LINES
