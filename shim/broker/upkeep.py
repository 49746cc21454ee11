"""Rules that look at logs every so often: retention and compaction.

Decides when they look, and at which logs: those that one broker leads, and never while there is nothing to see. What is
done to a log, the rule decides (`retention.py`, `compaction.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.topics import Topic, Topics

Rule = Callable[[Topics, Topic, PartitionLog, int], None]
"""Does what is due to a log of a topic; the last argument is now, in ms since the epoch."""


class Upkeep:
    """One rule for the logs that a broker leads. `interval` is the setting that says how often it looks, in ms.

    `concerned()` are the topics it looks at, `epoch_ms` turns monotonic seconds into ms since the epoch, and `due` is
    when to look again.
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
        """There may be records from now on."""
        if self.due == inf and any(True for _ in self._concerned()):
            self.due = self._next(now)

    def look(self, now: float) -> None:
        """Let the rule do what is due now."""
        has_records = False
        for topic in self._concerned():
            for partition in topic.partitions:
                if partition.leader == self._node_id and partition.log.size:
                    self._rule(self._topics, topic, partition.log, self._epoch_ms(now))
                    has_records |= partition.log.size > 0
        self.due = self._next(now) if has_records else inf
        self._topics.settle(now)

    def _next(self, now: float) -> float:
        return now + self._topics.settings.number(self._interval) / 1000
