"""What a node's groups have done since it started, for the metrics under Kafka's names (semantics 6.1).

It decides nothing: rules count here, the metrics page reads.
"""

from __future__ import annotations


class Counters:
    """Totals of a node. Each attribute only grows."""

    __slots__ = ("completed_rebalances", "offset_commits", "offset_deletions", "offset_expirations")

    def __init__(self) -> None:
        self.completed_rebalances = 0
        self.offset_commits = 0
        self.offset_deletions = 0
        self.offset_expirations = 0
