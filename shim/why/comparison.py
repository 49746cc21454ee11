"""Two histories side by side: what each cause cost, and where they first differ.

Decides what is compared: rebalances by cause, with their number, time and cost. Two runs never agree in times, so what
is aligned is the order of causes, not the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafka_shim.why.rebalance import Rebalance


@dataclass(frozen=True)
class Cost:
    """What rebalances cost together; seconds."""

    rebalances: int
    seconds: float
    member_seconds: float
    partition_seconds: float
    moved: int

    @classmethod
    def of(cls, rebalances: Iterable[Rebalance]) -> Cost:
        """The sum over these rebalances."""
        found = list(rebalances)
        return cls(
            rebalances=len(found),
            seconds=sum(each.seconds for each in found),
            member_seconds=sum(each.member_seconds for each in found),
            partition_seconds=sum(each.partition_seconds for each in found),
            moved=sum(each.moved.moved for each in found if each.moved is not None),
        )


class Row(NamedTuple):
    """A cause, or the total, in both."""

    cause: str
    left: Cost
    right: Cost


@dataclass(frozen=True)
class Comparison:
    """A row for each cause that either has, the costliest first, and the total last. `differs_at` is the place of the
    first rebalance whose cause is not that of the other, None if the shorter one is how the longer begins."""

    rows: tuple[Row, ...]
    total: Row
    differs_at: int | None


def compare(left: Sequence[Rebalance], right: Sequence[Rebalance]) -> Comparison:
    """Compare the rebalances of two histories."""
    causes = dict.fromkeys(each.cause or "unknown" for each in (*left, *right))
    rows = [Row(cause, Cost.of(_caused(left, cause)), Cost.of(_caused(right, cause))) for cause in causes]
    rows.sort(key=lambda row: -(row.left.partition_seconds + row.right.partition_seconds))
    differs = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a.cause != b.cause), None)
    return Comparison(tuple(rows), Row("total", Cost.of(left), Cost.of(right)), differs)


def _caused(rebalances: Iterable[Rebalance], cause: str) -> Iterable[Rebalance]:
    return (each for each in rebalances if (each.cause or "unknown") == cause)
