"""A change of topics that processes share: its steps, between which other tasks go on."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, cast

import pytest
import trio
import trio.testing

from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import Node, Topics
from kafka_shim.persistence.store import Documents, SharedStore
from kafka_shim.server import catalogue
from kafka_shim.server.failures import Failures


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


async def test_others_go_on_between_the_steps_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int]] = []
    turns = 0

    def noted(name: str) -> None:
        function = getattr(catalogue, name)

        def note(*arguments: Any) -> Any:
            steps.append((name, turns))
            return function(*arguments)

        monkeypatch.setattr(catalogue, name, note)

    ids = count(1)
    topics = Topics([Node(1, "host", 9092)], Settings(), lambda: next(ids).to_bytes(16))
    store = Kept()
    shared = catalogue.Catalogue(
        cast(SharedStore, store),
        topics,
        trio.current_time,
        lambda now: None,
        lambda now: None,
        Failures(),
        DEFAULT_RELEASE,
    )

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        await nursery.start(shared.run, {"orders": 3})
        nursery.start_soon(others)
        for name in ("apply", "describe", "changes"):
            noted(name)

        class Change:
            def apply(self, draft: Topics) -> None:
                steps.append(("rule", turns))
                draft.declare("payments", 2)

        shared.change(cast(Any, Change()), None)
        while topics.named("payments") is None:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert [name for name, _ in steps] == ["apply", "rule", "describe", "changes", "apply"]
    assert steps[3][1] - steps[0][1] >= 2, "trio shuffles the tasks of a turn, so one of three may be missed"
    assert ("topic", "payments") in store.kept
