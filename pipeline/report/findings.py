"""Advice for the groups that rebalanced most, as `kafka-shim why` gives it: the headline of the report, and the advice
for each of the worst rebalances.

The tables have no requests of single members, so the lines of these groups are read from their traces again, and
explained by the same code as `why` uses. This runs in Spark's driver, as `replays` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from operator import itemgetter
from typing import Any, Final, NamedTuple

import orjson
from pyspark.sql import functions as F

from kafka_shim.lab.replaying import play
from kafka_shim.pipeline.sources import stores_of
from kafka_shim.pipeline.sources.places import Place, Unreadable
from kafka_shim.pipeline.tables.columns import of_log
from kafka_shim.pipeline.warehouse import Warehouse
from kafka_shim.trace.history import History
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.trace.refusals import FENCED, JOINS, REFUSALS
from kafka_shim.why.explanation import Explanation, explain
from kafka_shim.why.finding import Finding
from kafka_shim.why.verdicts import clause_of

GROUPS: Final = 12
MOST_BYTES: Final = 1 << 30
"""The page reads no more of the traces, and says so if some remain."""
_REFUSED_MS: Final = 1000.0
"""The weight of a refused request among milliseconds in rounds."""
_NAME: Final = re.compile(rb'"group":("(?:[^"\\]|\\.)*")')
_SAYS_LITTLE: Final = re.compile(rb'"api":"Heartbeat"|"api":"ConsumerGroupHeartbeat".*"rebalance_timeout_ms":-1')
_ACCEPTED: Final = b'"error":0'


class Judgement(NamedTuple):
    """Explanations by group, and the worst groups with traces that are too large or can no longer be read."""

    by_group: dict[str, Explanation]
    unread: tuple[str, ...]

    @property
    def costliest(self) -> tuple[str, Finding] | None:
        """The costliest finding with its group: of trouble, if there is any."""
        every = [(group, each) for group, of in self.by_group.items() for each in of.advice.findings]
        return max(every, key=lambda each: (each[1].is_trouble, each[1].cost), default=None)

    def headline(self) -> str:
        """Return the costliest finding as a sentence, with its remedy; empty if no group was read."""
        if self.costliest is None:
            return ""
        group, finding = self.costliest
        explanation = self.by_group[group]
        remedies = [each for each in explanation.advice.remedies if each.code == finding.code]
        mine = [each for each in remedies if each.who == finding.client] or remedies
        todo = f"{sentence_of(mine[0])}." if mine else explanation.advice_text
        return f"{group}: {clause_of(finding)}. What to do: {todo}"

    def advice_of(self, round_: Any) -> str:
        """Return the advice for one row of table `rounds`; empty if its group was not read."""
        explanation = self.by_group.get(round_.group_id)
        rebalance = None if explanation is None else _same(explanation.rebalances, round_)
        if explanation is None or rebalance is None:
            return ""
        remedies = explanation.remedies_of(rebalance)
        reasons = "; ".join(clause_of(each) for each in explanation.findings_of(rebalance)[:2])
        todo = f"{sentence_of(remedies[0])}." if remedies else explanation.advice_of(rebalance)
        return f"{reasons[:1].upper()}{reasons[1:]}. What to do: {todo}"


def sentence_of(remedy: Any) -> str:
    """Return a remedy as a clause."""
    return f"{remedy.who}: {remedy.setting} {remedy.seen} → {remedy.proposed}, because {remedy.why}"


def judgement(warehouse: Warehouse) -> Judgement:
    """Explain the groups that spent most time in rounds, and those that refused members."""
    files = _worst(warehouse)
    stores, budget = stores_of(warehouse.spark), MOST_BYTES
    places: list[Place] = []
    unread = []
    for group, names in files.items():
        new = [place for place in (Place(name, stores) for name in sorted(names)) if place not in places]
        try:
            size = sum(place.content_size() for place in new)
        except Unreadable:
            size = budget + 1
        if size > budget:
            unread.append(group)
            continue
        budget -= size
        places += new
    return Judgement(_explained(places, [group for group in files if group not in unread]), tuple(unread))


def _worst(warehouse: Warehouse) -> dict[str, set[str]]:
    """Return the groups to explain, the worst first, with the files of their traces."""
    worked = F.col("total_ms") - F.coalesce("initial_delay_ms", F.lit(0.0))
    # `why --log` explains the groups of logs.
    in_rounds = warehouse.read("rounds").where(~of_log()).select("group_id", "file", worked.alias("ms"))
    is_refusal = F.col("api").isin([*JOINS]) & F.col("error").isin([int(each) for each in REFUSALS | FENCED])
    refused = (
        warehouse.read("requests", steady=False)
        .where(is_refusal & ~of_log())
        .select("group_id", "file", F.lit(_REFUSED_MS))
    )
    rows = in_rounds.union(refused).groupBy("group_id", "file").agg(F.sum("ms").alias("ms")).collect()
    files: dict[str, set[str]] = {}
    cost: dict[str, float] = {}
    for row in rows:
        files.setdefault(row.group_id, set()).add(row.file)
        cost[row.group_id] = cost.get(row.group_id, 0.0) + (row.ms or 0.0)
    worst = sorted(cost, key=lambda group: (-cost[group], group))[:GROUPS]
    return {group: files[group] for group in worst}


def _explained(places: Iterable[Place], groups: list[str]) -> dict[str, Explanation]:
    events: dict[bytes, list[dict[str, Any]]] = {orjson.dumps(group): [] for group in groups}
    for place in places:
        with place.open() as file:
            for line in file:
                name = _NAME.search(line)
                mine = None if name is None else events.get(name[1])
                if mine is None or (_ACCEPTED in line and _SAYS_LITTLE.search(line)):
                    continue
                with suppress(orjson.JSONDecodeError):
                    mine.append(orjson.loads(line))
    history = History()
    for of_group in events.values():
        for event in sorted(of_group, key=itemgetter("wall")):
            history.add(event)
    explained = {}
    for group, of in history.groups.items():
        explanation = explain(of, list(of.rebalances), play)
        if explanation is not None:
            explained[group] = explanation
    return explained


def _same(rebalances: Iterable[Rebalance], round_: Any) -> Rebalance | None:
    """Return the rebalance that a row of table `rounds` is about."""
    alike = [each for each in rebalances if each.generation == round_.generation]
    began = round_.started_at.timestamp()
    return min(alike, key=lambda each: abs(each.started - began), default=None)
