"""Computations leave the event loop, and come back to it in order."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from typing import Any

import pytest
import trio
import trio.testing

from kafka_shim.groups.outbox import Outbox
from kafka_shim.server.computations import SWITCH_SECONDS, Computations, switching_often
from kafka_shim.server.failures import Failures
from kafka_shim.server.journal import Unjournaled


class Noted:
    """A computation that notes in which thread each part of it runs; it waits for `gate`, in a thread of its own."""

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

    def stop(self) -> None:
        self.notes.append((f"stop {self.name}", threading.current_thread() is threading.main_thread()))
        self.gate.set()

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


def test_end_of_the_process_stops_a_computation_and_waits_for_its_thread() -> None:
    notes: list[tuple[str, bool]] = []
    gate = threading.Event()

    async def main() -> None:
        outbox = Outbox()
        inputs = Unjournaled()
        computations = Computations(outbox, trio.current_time, lambda now: None, lambda now: None, Failures(), inputs)
        outbox.computations = [Noted(gate, notes, "one")]
        computations.take()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(computations.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert notes == [("stop one", True), ("compute one", False)]


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

    async def main() -> None:
        outbox = Outbox()
        done = trio.Event()

        def settle(now: float) -> None:
            if len(notes) == 3:
                done.set()

        computations = Computations(outbox, trio.current_time, lambda now: None, settle, failures, Unjournaled())
        outbox.computations = [Noted(gate, notes, "one"), Noted(gate, notes, "two")]
        computations.take()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(computations.run)
            with trio.fail_after(60):
                await done.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
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
