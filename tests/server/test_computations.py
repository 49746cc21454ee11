"""Computations leave the event loop, and come back to it in order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import trio
import trio.testing

from kafka_shim.groups.interface import MORE, More
from kafka_shim.groups.outbox import Outbox
from kafka_shim.server.computations import SWITCH_SECONDS, Computations, switching_often
from kafka_shim.server.failures import Failures
from kafka_shim.server.journal import Unjournaled


class Noted:
    """A computation that notes in which thread each part of it runs; it waits for `gate`, in a thread of its own."""

    is_awaited = True

    def __init__(self, gate: threading.Event, notes: list[tuple[str, bool]], name: str, fails: bool = False) -> None:
        self.gate = gate
        self.notes = notes
        self.name = name
        self.fails = fails

    def compute(self) -> str:
        self.gate.wait()
        self.notes.append((f"compute {self.name}", threading.current_thread() is threading.main_thread()))
        if self.fails:
            raise ValueError(self.name)
        return self.name

    def finish(self, result: Any, now: float) -> None:
        self.notes.append((f"finish {result}", threading.current_thread() is threading.main_thread()))


def test_computations_run_in_another_thread_and_finish_in_this_one() -> None:
    notes: list[tuple[str, bool]] = []
    gate = threading.Event()

    async def main() -> None:
        outbox = Outbox()
        done = trio.Event()

        def settle(now: float) -> None:
            if len(notes) == 4:
                done.set()

        computations = Computations(outbox, trio.current_time, lambda now: None, settle, Failures(), Unjournaled())
        outbox.computations = [Noted(gate, notes, "one"), Noted(gate, notes, "two", fails=True)]
        computations.take()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(computations.run)
            await trio.testing.wait_all_tasks_blocked()
            assert notes == [], "the loop goes on while a thread computes"
            gate.set()
            await done.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert notes == [("compute one", False), ("finish one", True), ("compute two", False), ("finish two", True)]


class Parted:
    """A computation of so many parts; it notes the name of each, and the first waits for `gate`."""

    is_awaited = True

    def __init__(self, name: str, parts: int, notes: list[str], gate: threading.Event | None = None) -> None:
        self.name = name
        self.parts = parts
        self.notes = notes
        self.gate = gate

    def compute(self) -> str | More:
        if self.gate is not None:
            self.gate.wait()
        self.notes.append(self.name)
        self.parts -= 1
        return MORE if self.parts else self.name

    def finish(self, result: Any, now: float) -> None:
        self.notes.append(f"finish {result}")


def test_short_computations_wait_for_one_part_of_a_long_one() -> None:
    notes: list[str] = []
    gate = threading.Event()

    async def main() -> None:
        outbox = Outbox()
        done = trio.Event()

        def settle(now: float) -> None:
            if "finish long" in notes:
                done.set()

        computations = Computations(outbox, trio.current_time, lambda now: None, settle, Failures(), Unjournaled())
        outbox.computations = [Parted("long", 5, notes, gate)]
        computations.take()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(computations.run)
            await trio.testing.wait_all_tasks_blocked()
            outbox.computations = [Parted("short", 1, notes), Parted("other", 2, notes)]
            computations.take()
            gate.set()
            await done.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert notes == [
        "long", "short", "finish short", "other", "long", "other", "finish other", "long", "long", "long", "finish long"
    ]  # fmt: skip


def until(
    is_done: Callable[[], bool],
    outbox: Outbox,
    more: Callable[[Computations], None] = lambda each: None,
    failures: Failures | None = None,
) -> None:
    """Run the computations of the outbox, and `more` after each result, until `is_done` returns True after one."""

    async def main() -> None:
        done = trio.Event()

        def settle(now: float) -> None:
            more(computations)
            if is_done():
                done.set()

        computations = Computations(
            outbox, trio.current_time, lambda now: None, settle, failures or Failures(), Unjournaled()
        )
        computations.take()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(computations.run)
            with trio.fail_after(60):
                await done.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_short_computations_without_end_stop_no_long_one() -> None:
    notes: list[str] = []
    outbox = Outbox()
    outbox.computations = [Parted("long", 4, notes), Parted("short", 1, notes)]

    def one_more(computations: Computations) -> None:
        if len(notes) < 100:
            outbox.computations = [Parted("short", 1, notes)]
            computations.take()

    until(lambda: "finish long" in notes, outbox, one_more)
    assert notes.index("finish long") < 12


def test_a_computation_that_nothing_awaits_has_no_part() -> None:
    notes: list[str] = []
    outbox = Outbox()
    gone = [Parted("gone", 3, notes) for _ in range(5)]
    for each in gone:
        each.is_awaited = False
    outbox.computations = [*gone, Parted("short", 1, notes)]
    waiting: list[int] = []
    until(lambda: "finish short" in notes, outbox, lambda computations: waiting.append(len(computations._waiting)))
    assert notes == ["short", "finish short"]
    assert waiting == [0]


def test_a_part_costs_no_look_at_all_computations_that_wait() -> None:
    looks = []

    class Counted(Parted):
        @property
        def is_awaited(self) -> bool:  # type: ignore[override]
            looks.append(self.name)
            return True

    notes: list[str] = []
    outbox = Outbox()
    outbox.computations = [Counted(str(number), 3, notes) for number in range(100)]
    until(lambda: len(notes) == 100 * (3 + 1), outbox)
    assert len(looks) <= 2 * 100 * 3


def test_result_of_a_replay_has_all_parts() -> None:
    notes: list[str] = []
    outbox = Outbox()
    computations = Computations(outbox, lambda: 0.0, lambda now: None, lambda now: None, Failures(), Unjournaled())
    outbox.computations = [Parted("one", 3, notes)]
    computations.take()
    assert computations.result(1) == "one"
    assert notes == ["one"] * 3


def test_end_of_the_process_waits_for_the_thread_and_begins_no_other_part() -> None:
    notes: list[str] = []
    gate = threading.Event()

    async def main() -> None:
        outbox = Outbox()
        computations = Computations(
            outbox, trio.current_time, lambda now: None, lambda now: None, Failures(), Unjournaled()
        )
        outbox.computations = [Parted("one", 2, notes, gate)]
        computations.take()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(computations.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            await trio.lowlevel.cancel_shielded_checkpoint()
            gate.set()

    trio.run(main)
    assert notes == ["one"]


def test_a_computation_without_a_thread_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[tuple[str, bool]] = []
    gate = threading.Event()
    gate.set()
    failures = Failures()
    to_thread = trio.to_thread.run_sync

    async def without_thread(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(trio.to_thread, "run_sync", to_thread)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(trio.to_thread, "run_sync", without_thread)

    outbox = Outbox()
    outbox.computations = [Noted(gate, notes, "one"), Noted(gate, notes, "two")]
    until(lambda: len(notes) == 3, outbox, failures=failures)
    assert notes == [("finish can't start new thread", True), ("compute two", False), ("finish two", True)]
    assert failures.by_border == {"computation": 1}


def test_the_interpreter_changes_threads_often_until_the_last_computation_ends() -> None:
    usual = sys.getswitchinterval()
    first, second = ExitStack(), ExitStack()
    first.enter_context(switching_often())
    second.enter_context(switching_often())
    # The first ends before the second.
    first.close()
    assert sys.getswitchinterval() == SWITCH_SECONDS
    second.close()
    assert sys.getswitchinterval() == usual
