"""What a node's groups have done since it started, for the metrics under Kafka's names (semantics 6.1).

It decides nothing: rules count here, the metrics page reads.
"""

from __future__ import annotations

from kafka_shim.groups.causes import Cause


class Counters:
    """Totals of a node. Each attribute only grows. `rebalances` are those begun, by their cause; `consumer_rebalances`,
    `share_rebalances` and `streams_rebalances` the new epochs of such groups among them, without those of members that
    left."""

    __slots__ = (
        "consumer_rebalances",
        "completed_rebalances",
        "offset_commits",
        "offset_deletions",
        "offset_expirations",
        "rebalances",
        "share_rebalances",
        "streams_rebalances",
    )

    def __init__(self) -> None:
        self.completed_rebalances = 0
        self.consumer_rebalances = 0
        self.share_rebalances = 0
        self.streams_rebalances = 0
        self.offset_commits = 0
        self.offset_deletions = 0
        self.offset_expirations = 0
        self.rebalances = dict.fromkeys(Cause, 0)
