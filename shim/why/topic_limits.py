"""Questions that `__consumer_offsets` cannot answer about a group, each with the source that can.

A record of a classic group is a generation as it was when the leader had assigned; requests leave no record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.names import Names

_MOST: Final = 3
"""Members that a sentence names."""


def topic_limits(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> tuple[str, ...]:
    """Return the clauses about a group, without a full stop."""
    return tuple(_limits(history, rebalances, names))


def _limits(history: GroupHistory, rebalances: Sequence[Rebalance], names: Names) -> Iterator[str]:
    begin = rebalances[0].started if rebalances else 0.0
    absent = [each for each in history.members.values() if each.how == "gone" and (each.ended or 0.0) >= begin]
    back = [each.member_id for each in history.members.values() if each.lingered is not None]
    if absent:
        who = some((each.member_id for each in absent), names)
        yield f"whether {who} left, missed its poll or was silent for its session; add the broker's log, or its own"
    if back:
        yield (
            f"whether {some(back, names)} stood still or missed its poll: it came back under its id, so it was not"
            " restarted; add its log"
        )
    replaced = Counter(each.instance_id for each in history.members.values() if each.how == "fenced")
    twice = [each for each, count in replaced.items() if each and count > 1]
    if twice:
        yield f"whether {twice[0]} was restarted, or two processes have its group.instance.id; add their logs"
    if any(each.is_snapshot for each in rebalances):
        yield "when a rebalance began, how long members waited, and for whom; add the broker's log"
    if any(not each.cause for each in rebalances):
        yield "why a rebalance began that changed nothing; the broker's log says it (reasons since Kafka 2.1)"
    skipped = sum(_skipped(each) for each in rebalances)
    if skipped:
        count = "1 generation" if skipped == 1 else f"{skipped} generations"
        yield (
            f"what happened in {count} without a record: a rebalance that began anew before its leader had assigned,"
            " or one whose record compaction has removed; add the broker's log"
        )
    yield "whether a client was refused, or how slow members were; add the logs of the clients"
    yield from history.limits


def _skipped(rebalance: Rebalance) -> int:
    if not rebalance.is_snapshot or rebalance.generation is None or rebalance.generation_before is None:
        return 0
    return max(0, rebalance.generation - rebalance.generation_before - 1)


def some(members: Iterable[str], names: Names) -> str:
    """Return the names of members for a clause, the first few."""
    distinct = list(dict.fromkeys(names(each) for each in members))
    if len(distinct) <= _MOST:
        return " or ".join(distinct)
    return f"{', '.join(distinct[:_MOST])} or {len(distinct) - _MOST} others"
