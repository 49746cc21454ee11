"""A change of topics that processes share: its steps, between which other tasks go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, cast

import pytest
import trio
import trio.testing

from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import Node, TopicError, Topics
from kafka_shim.persistence.store import Documents, SharedStore
from kafka_shim.server import catalogue
from kafka_shim.server.failures import Failures
from tests.waiting import turns_of_others


class Kept:
    """The documents of a store, in memory."""

    def __init__(self) -> None:
        self.version = 0
        self.kept: Documents = {}

    def documents(self) -> tuple[int, Documents]:
        return self.version, dict(self.kept)

    def change_documents(self, version: int, changes: Mapping[tuple[str, str], str | None]) -> bool:
        assert version == self.version
        self.version += 1
        for key, text in changes.items():
            assert text is not None
            self.kept[key] = text
        return True


def shared_topics(store: Kept, **settings: str) -> tuple[catalogue.Catalogue, Topics]:
    ids = count(1)
    topics = Topics([Node(1, "host", 9092)], Settings(settings), lambda: next(ids).to_bytes(16))
    shared = catalogue.Catalogue(
        cast(SharedStore, store),
        topics,
        trio.current_time,
        lambda now: None,
        lambda now: None,
        Failures(),
        DEFAULT_RELEASE,
    )
    topics.make_later = shared.want
    return shared, topics


async def test_others_go_on_between_the_steps_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int]] = []

    def noted(name: str, turns: Callable[[], int]) -> None:
        function = getattr(catalogue, name)

        def note(*arguments: Any) -> Any:
            steps.append((name, turns()))
            return function(*arguments)

        monkeypatch.setattr(catalogue, name, note)

    store = Kept()
    shared, topics = shared_topics(store)

    async with trio.open_nursery() as nursery, turns_of_others() as turns:
        await nursery.start(shared.run, {"orders": 3})
        for name in ("apply", "describe", "changes"):
            noted(name, turns)

        class Change:
            def apply(self, draft: Topics) -> None:
                steps.append(("rule", turns()))
                draft.declare("payments", 2)

        shared.change(cast(Any, Change()), None)
        while topics.named("payments") is None:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert [name for name, _ in steps] == ["apply", "rule", "describe", "changes", "apply"]
    assert steps[3][1] - steps[0][1] >= 2, "trio shuffles the tasks of a turn, so one of three may be missed"
    assert ("topic", "payments") in store.kept


@pytest.mark.parametrize(("partitions", "changes"), [("1", 3), ("5", 11), ("20", 21)])
async def test_topics_that_clients_request_are_created_together(
    monkeypatch: pytest.MonkeyPatch, partitions: str, changes: int
) -> None:
    monkeypatch.setattr(catalogue, "MAX_NEW", 10)
    store = Kept()
    shared, topics = shared_topics(store, **{"num.partitions": partitions})
    async with trio.open_nursery() as nursery:
        await nursery.start(shared.run, {})
        before = store.version
        names = [f"t{number}" for number in range(21)]
        for name in [*names, *names]:
            topics.auto_create(name)
        while topics.named(names[-1]) is None:
            await trio.lowlevel.checkpoint()
        assert store.version - before == changes
        assert all(topics.named(name) is not None for name in names)
        nursery.cancel_scope.cancel()


async def test_one_refused_topic_keeps_no_other_from_being_created(caplog: pytest.LogCaptureFixture) -> None:
    shared, topics = shared_topics(Kept())
    async with trio.open_nursery() as nursery:
        await nursery.start(shared.run, {})
        for name in ("a.b", "a_b", "c"):
            topics.auto_create(name)
        while topics.named("c") is None:
            await trio.lowlevel.checkpoint()
        assert topics.named("a.b") is not None
        assert topics.named("a_b") is None
        nursery.cancel_scope.cancel()
    assert "topic a_b, which a client requested, is not created: Topic 'a_b' collides" in caplog.text


async def test_a_refused_topic_of_the_command_line_creates_none() -> None:
    store = Kept()
    shared, topics = shared_topics(store)
    with pytest.raises(TopicError, match="collides"):
        await shared.run({"a.b": 1, "a_b": 1, "c": 1})
    assert topics.named("c") is None
    assert topics.named("a.b") is None


async def test_no_more_topics_wait_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAX_WANTED", 10)
    shared, topics = shared_topics(Kept())
    async with trio.open_nursery() as nursery:
        await nursery.start(shared.run, {})
        for name in ("first", *(f"t{number}" for number in range(20))):
            topics.auto_create(name)
        while topics.named("t8") is None:
            await trio.lowlevel.checkpoint()
        assert {topic.name for topic in topics.all()} == {
            "__consumer_offsets",
            "first",
            *(f"t{number}" for number in range(9)),
        }
        topics.auto_create("t20")
        while topics.named("t20") is None:
            await trio.lowlevel.checkpoint()
        assert topics.named("t19") is None
        nursery.cancel_scope.cancel()
