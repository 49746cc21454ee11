"""Periodic rules on logs: retention and compaction.

`Upkeep` calls its rule (`retention.py`, `compaction.py`) for the logs that one broker leads, and never while they are
empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.topics import Topic, Topics

Rule = Callable[[Topics, Topic, PartitionLog, int], None]
"""A rule for one log of a topic; the last argument is now, in ms since the epoch."""


class Upkeep:
    """One rule for the logs that a broker leads. `interval` is the setting with the ms between two runs.

    `concerned()` returns the topics of the rule, `epoch_ms` turns monotonic seconds into ms since the epoch, and `due`
    is the time of the next run.
    """

    def __init__(
        self,
        node_id: int,
        topics: Topics,
        epoch_ms: Callable[[float], int],
        interval: str,
        concerned: Callable[[], Iterable[Topic]],
        rule: Rule,
    ) -> None:
        self.due = inf
        self._node_id = node_id
        self._topics = topics
        self._epoch_ms = epoch_ms
        self._interval = interval
        self._concerned = concerned
        self._rule = rule

    def written(self, now: float) -> None:
        """Schedule the next run: a log may have records from now on."""
        if self.due == inf and any(True for _ in self._concerned()):
            self.due = self._next(now)

    def look(self, now: float) -> None:
        """Apply the rule to all logs."""
        # Set the next run first: a rule that raises must not be called again at once.
        self.due = self._next(now)
        has_records = False
        for topic in self._concerned():
            for partition in topic.partitions:
                if partition.leader == self._node_id and partition.log.size:
                    self._rule(self._topics, topic, partition.log, self._epoch_ms(now))
                    has_records |= partition.log.size > 0
        if not has_records:
            self.due = inf
        self._topics.settle(now)

    def _next(self, now: float) -> float:
        return now + self._topics.settings.number(self._interval) / 1000
