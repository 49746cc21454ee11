"""Comparison of two histories: the cost of each cause in both, and the first difference.

Two runs never agree in times, so the order of causes is aligned, not the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafka_shim.trace.rebalance import Rebalance


@dataclass(frozen=True)
class Cost:
    """Total cost of some rebalances; times in seconds."""

    rebalances: int
    seconds: float
    member_seconds: float
    partition_seconds: float | None
    """None if a rebalance is from a log, which has no partitions of members; so is `moved`."""
    moved: int | None

    @classmethod
    def of(cls, rebalances: Iterable[Rebalance]) -> Cost:
        """Return the sum over these rebalances."""
        listed = list(rebalances)
        has_partitions = not any(each.lines for each in listed)
        return cls(
            rebalances=len(listed),
            seconds=sum(each.seconds for each in listed),
            member_seconds=sum(each.member_seconds or 0.0 for each in listed),
            partition_seconds=sum(each.partition_seconds for each in listed) if has_partitions else None,
            moved=sum(each.moved.moved for each in listed if each.moved is not None) if has_partitions else None,
        )


class Row(NamedTuple):
    """A cause, or the total, in both histories."""

    cause: str
    left: Cost
    right: Cost


@dataclass(frozen=True)
class Comparison:
    """A row for each cause, the costliest first, and the total last. `differs_at` is the index of the first rebalance
    with different causes, None if there is none in the length of the shorter history.
    """

    rows: tuple[Row, ...]
    total: Row
    differs_at: int | None


def compare(left: Sequence[Rebalance], right: Sequence[Rebalance]) -> Comparison:
    """Compare the rebalances of two histories."""
    causes = dict.fromkeys(each.cause or "unknown" for each in (*left, *right))
    rows = [Row(cause, Cost.of(_caused(left, cause)), Cost.of(_caused(right, cause))) for cause in causes]
    rows.sort(key=lambda row: (-_stopped(row), -(row.left.seconds + row.right.seconds)))
    differs = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a.cause != b.cause), None)
    return Comparison(tuple(rows), Row("total", Cost.of(left), Cost.of(right)), differs)


def _stopped(row: Row) -> float:
    return sum(cost.partition_seconds or 0.0 for cost in (row.left, row.right))


def _caused(rebalances: Iterable[Rebalance], cause: str) -> Iterable[Rebalance]:
    return (each for each in rebalances if (each.cause or "unknown") == cause)
