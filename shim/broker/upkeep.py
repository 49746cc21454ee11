"""Periodic rules on logs: retention and compaction.

`Upkeep` calls its rule (`retention.py`, `compaction.py`) for the logs that one broker leads, and never while they are
empty. It works in turns, so that clients are served in between, and a log that a rule cannot read costs the other logs
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Final

from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.topics import Topic, Topics

Rule = Callable[[Topics, Topic, PartitionLog, int], Iterable[int]]
"""A rule for one log of a topic; the last argument is now, in ms since the epoch. It yields its work in bytes, and may
go on in a later turn after each `yield`."""

TURN_BYTES: Final = 2**18
"""Work after which a turn ends: some milliseconds. A batch is never divided."""
_LOG_WORK: Final = 1024
"""The work with a log beside its batches."""


class Upkeep:
    """One rule for the logs that a broker leads. `interval` is the setting with the ms between two runs.

    `concerned()` returns the topics of the rule, `epoch_ms` turns monotonic seconds into ms since the epoch, `failed`
    takes the exception of a rule and the place for people, and `due` is the time of the next run or turn.
    """

    def __init__(
        self,
        node_id: int,
        topics: Topics,
        epoch_ms: Callable[[float], int],
        interval: str,
        concerned: Callable[[], Iterable[Topic]],
        rule: Rule,
        failed: Callable[[Exception, str], None],
    ) -> None:
        self.due = inf
        self._node_id = node_id
        self._topics = topics
        self._epoch_ms = epoch_ms
        self._interval = interval
        self._concerned = concerned
        self._rule = rule
        self._failed = failed
        self._run: Iterator[int] | None = None
        """The run that goes on in the next turn."""

    def written(self, now: float) -> None:
        """Schedule the next run: a log may have records from now on."""
        if self.due == inf and any(True for _ in self._concerned()):
            self.due = self._next(now)

    def look(self, now: float) -> None:
        """Apply the rule to all logs, or go on with it, for one turn."""
        # Set the next run first: an exception must not lead to another call at once.
        self.due = self._next(now)
        if self._run is None:
            self._run = self._apply(now)
        done = 0
        for work in self._run:
            done += work
            if done >= TURN_BYTES:
                self.due = now
                break
        else:
            self._run = None
            if next(self._logs(), None) is None:
                self.due = inf
        self._topics.settle(now)

    def _apply(self, now: float) -> Iterator[int]:
        """Apply the rule to all logs that have records; yield the work."""
        for topic, index, log in list(self._logs()):
            try:
                yield from self._rule(self._topics, topic, log, self._epoch_ms(now))
            except Exception as error:
                self._failed(error, f"the upkeep of partition {index} of {topic.name}")
            yield _LOG_WORK + log.size

    def _logs(self) -> Iterator[tuple[Topic, int, PartitionLog]]:
        for topic in self._concerned():
            for partition in topic.partitions:
                if partition.leader == self._node_id and partition.log.size:
                    yield topic, partition.index, partition.log

    def _next(self, now: float) -> float:
        return now + self._topics.settings.number(self._interval) / 1000
