"""Progress on the terminal while Spark works: the step, its finished tasks, and the duration of finished steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import TracebackType
from typing import Final

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from kafka_shim.pipeline.session import context_of

_LOOK_EVERY_S: Final = 0.3


class Progress:
    """Display of the steps: bars on a terminal, else one line per finished step."""

    def __init__(self, spark: SparkSession, console: Console) -> None:
        context = context_of(spark)
        self._tracker = None if context is None else context.statusTracker()
        self._console = console
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} tasks"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task("starting", total=1)
        self._done = Event()
        self._watch = Thread(target=self._look, daemon=True)

    def __enter__(self) -> Progress:
        self._bars.start()
        if self._console.is_terminal and self._tracker is not None:
            self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._watch.is_alive():
            self._watch.join()
        self._bars.stop()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show a step while its block runs, and its duration at the end."""
        self._bars.update(self._task, description=name, completed=0, total=1)
        began = time.monotonic()
        yield
        self._console.print(f"[green]done[/] {name} [dim]{time.monotonic() - began:.1f} s")

    def _look(self) -> None:
        assert self._tracker is not None
        while not self._done.wait(_LOOK_EVERY_S):
            stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            running = [stage for stage in stages if stage is not None]
            if running:
                done = sum(stage.numCompletedTasks for stage in running)
                self._bars.update(self._task, completed=done, total=sum(stage.numTasks for stage in running))
