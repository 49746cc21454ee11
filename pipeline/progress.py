"""What a terminal shows while Spark works: the step, how many of its tasks are done, how long each step took."""

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

_LOOK_EVERY_S: Final = 0.3


class Progress:
    """Steps as they go: bars on a terminal, one line a finished step elsewhere."""

    def __init__(self, spark: SparkSession, console: Console) -> None:
        self._tracker = spark.sparkContext.statusTracker()
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
        if self._console.is_terminal:
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
        """Something that takes its time begins; it ends when this is left."""
        self._bars.update(self._task, description=name, completed=0, total=1)
        began = time.monotonic()
        yield
        self._console.print(f"[green]done[/] {name} [dim]{time.monotonic() - began:.1f} s")

    def _look(self) -> None:
        while not self._done.wait(_LOOK_EVERY_S):
            stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            running = [stage for stage in stages if stage is not None]
            if running:
                done = sum(stage.numCompletedTasks for stage in running)
                self._bars.update(self._task, completed=done, total=sum(stage.numTasks for stage in running))
