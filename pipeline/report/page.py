"""The page: which answers stand on it, in which order, and in which words. Plots are `plots.py`, tables `tables.py`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial, reduce
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.report import plots
from kafka_shim.pipeline.report.tables import ROWS, grid, moment, numbers, table
from kafka_shim.pipeline.run import stores_of
from kafka_shim.pipeline.sources.places import LINE, Place, Unreadable
from kafka_shim.pipeline.steps import results
from kafka_shim.pipeline.warehouse import Warehouse

WORST_ROUNDS: Final = 6
FEW_DAYS: Final = 2
LANES: Final = 30
STORMS: Final = 5
_OF_A_STORM: Final = 2000
_BINS_A_DECADE: Final = 10
"""Of durations, which are counted in bins that each are as much longer than the one before."""

_STYLE: Final = """
:root{color-scheme:light dark;--paper:#fff;--card:#f6f7f9;--ink:#1c2430;--soft:#5d6673;--line:#d9dee5;--link:#1f5fbf;
--bad:#b5323c}
@media(prefers-color-scheme:dark){:root{--paper:#14181f;--card:#1c222b;--ink:#e4e8ee;--soft:#98a2b0;--line:#313a46;
--link:#7fb2ff;--bad:#ff8a92}}
*{box-sizing:border-box}
body{font:15px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:64rem;margin:0 auto;
padding:2rem 1.2rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem}
h2{font-size:1.25rem;margin:3rem 0 .4rem}
h3{font-size:1rem;margin:1.6rem 0 .1rem;overflow-wrap:anywhere}
p{margin:.3rem 0 .8rem}a{color:var(--link)}
.note{color:var(--soft);font-size:13.5px;overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:1.2rem 0;font-size:14px}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.7rem;margin:1.2rem 0}
.facts div{background:var(--card);border-radius:.5rem;padding:.7rem .9rem;color:var(--soft);font-size:13px}
.facts b{display:block;font-size:1.5rem;line-height:1.3;color:var(--ink);font-variant-numeric:tabular-nums}
.facts .bad b{color:var(--bad)}
.lead{font-size:1.05rem;max-width:46rem}
figure{margin:.4rem 0 0;overflow-x:auto}
svg{display:block;width:100%;height:auto}.narrow{display:none}
@media(max-width:640px){.wide{display:none}.narrow{display:block}body{padding:1.2rem .8rem 3rem}}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:.5rem;margin:.6rem 0}
table{border-collapse:collapse;font-size:13px;width:100%}
th,td{text-align:left;padding:.32rem .8rem;border-bottom:1px solid var(--line);white-space:nowrap}
th{background:var(--card)}th button{all:unset;cursor:pointer;font-weight:600;color:var(--soft)}
th button:focus-visible{outline:2px solid var(--link)}
th[aria-sort=ascending] button::after{content:" ▲"}th[aria-sort=descending] button::after{content:" ▼"}
tbody tr:last-child td{border-bottom:0}td.words{white-space:normal;min-width:15rem}
@media(max-width:640px){th:first-child,td:first-child{position:sticky;left:0;background:var(--paper);max-width:9rem;
overflow:hidden;text-overflow:ellipsis}}
details{margin:.3rem 0 .8rem}summary{cursor:pointer;color:var(--link);font-size:13.5px;overflow-wrap:anywhere}
pre{background:var(--card);border-radius:.5rem;padding:.7rem .9rem;overflow-x:auto;font-size:12px}
.number{text-align:right;font-variant-numeric:tabular-nums}
"""

_BECAUSE: Final = {
    "NEW_MEMBER": (
        "somebody new joined",
        "Start the members of a group together; give them group.instance.id, so that a restart is no new member.",
    ),
    "MEMBER_LEFT": (
        "a member left",
        "Give members group.instance.id: a static member that is back within its session timeout was never missed.",
    ),
    "SESSION_EXPIRED": (
        "a member was silent for its session timeout",
        "Look for crashes, long pauses of garbage collection and networks that stall; raise session.timeout.ms.",
    ),
    "REBALANCE_TIMEOUT": (
        "a member did not join again in time",
        "Do less between polls, or raise max.poll.interval.ms, which is also the rebalance timeout.",
    ),
    "COOPERATIVE_FOLLOWUP": (
        "what members had given up found new owners",
        "Belongs to cooperative assignors: one for each change that moves partitions. KIP-848 groups have none.",
    ),
    "POLL_TIMEOUT_REASON": (
        "a member did not poll in time",
        "Lower max.poll.records, hand long work to other threads, or raise max.poll.interval.ms.",
    ),
    "SUBSCRIPTION_CHANGED": (
        "a member subscribed to other topics",
        "Subscribe once and to all topics; let all members of a group subscribe to the same.",
    ),
    "LEADER_REJOINED": (
        "the leader joined again",
        "Happens when topics or partitions change, or a client calls enforceRebalance.",
    ),
    "STATIC_REPLACED": ("a static member was replaced", "See that no two members have one group.instance.id."),
    "PENDING_SYNC_EXPIRED": (
        "members did not sync in time",
        "Look at the leader: its assignor may take too long, or it died while it assigned.",
    ),
    "TOPIC_METADATA_CHANGED": ("a topic changed", "Add partitions when little is consumed."),
    "ADMIN_REMOVED": ("an administrator removed a member", ""),
    "COORDINATOR_RELOADED": ("the group moved to another coordinator", "Look at the brokers that went and came."),
}
"""What the first sign of a round means, and what helps."""


_SCRIPT: Final = """
for (const button of document.querySelectorAll('th button')) button.onclick = () => {
  const head = button.parentElement, body = head.closest('table').tBodies[0], at = head.cellIndex;
  const up = head.ariaSort !== 'ascending';
  for (const each of head.parentElement.cells) each.removeAttribute('aria-sort');
  head.ariaSort = up ? 'ascending' : 'descending';
  const key = row => row.cells[at].dataset.v, number = head.classList.contains('number');
  body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) *
    (number ? (+key(a) || 0) - (+key(b) || 0) : key(a).localeCompare(key(b)))));
};
"""


class _Section(NamedTuple):
    """A part of the page: its heading, a line that says what is seen, and what is under it."""

    heading: str
    note: str
    body: list[str]


def write_report(warehouse: Warehouse, page: Path, of: str) -> Path:
    """Writes the page about a warehouse whose questions were answered; `of` says what was read. Returns `page`."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(report(warehouse, of))
    return page


def report(warehouse: Warehouse, of: str) -> str:
    """The page about a warehouse whose questions were answered; `of` says what was read."""
    makers = (
        _worst_groups,
        _how_long,
        _who,
        _worst_rounds,
        _storms,
        _advice,
        _offsets,
        _violations,
        _unread,
    )
    causes = _by_cause(warehouse)
    sections = results(warehouse.spark, [partial(each, warehouse) for each in makers])
    title = f"Rebalances of {escape(of)}"
    shown = [section for section in (_why(causes), *sections) if section.body]
    links = "".join(f'<a href="#{_anchor(each.heading)}">{each.heading}</a>' for each in shown)
    body = "".join(
        f'<h2 id="{_anchor(each.heading)}">{each.heading}</h2><p class="note">{each.note}</p>{"".join(each.body)}'
        for each in shown
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<link rel="icon" href="data:,"><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>'
        f"{_facts(warehouse, causes)}<nav>{links}</nav>{body}"
        '<p class="note">Tables and answers lie beside this page as Parquet and CSV, in <a href="data/">data</a>;'
        f" `kafka-shim pipeline tables` shows them. Times are UTC.</p><script>{_SCRIPT}</script></html>\n"
    )


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


class _Causes(NamedTuple):
    """Rounds by cause and day, and a row for each cause, the most frequent first."""

    by_day: dict[str, dict[str, int]]
    rows: list[dict[str, Any]]


def _by_cause(warehouse: Warehouse) -> _Causes:
    summed = (F.sum(name).alias(name) for name in ("rounds", "total_ms"))
    found = (
        warehouse.result("causes")
        .withColumn("cause", F.coalesce(F.nullif("cause", F.lit("")), F.lit("(none)")))
        .rollup("cause", "day")
        .agg(*summed, F.count_distinct("group").alias("groups"))
        .where("cause is not null")
        .collect()
    )
    totals = [row.asDict() | {"mean_ms": row.total_ms / row.rounds} for row in found if row.day is None]
    totals.sort(key=lambda row: (-row["rounds"], row["cause"]))
    by_day: dict[str, dict[str, int]] = {row["cause"]: {} for row in totals}
    for row in found:
        if row.day is not None:
            by_day[row.cause][str(row.day)] = row.rounds
    return _Causes(by_day, totals)


def _facts(warehouse: Warehouse, causes: _Causes) -> str:
    counted = {"storms": warehouse.result("storms")}
    counted |= {name: warehouse.read(name) for name in ("violations", "quarantine", "gaps")}
    # One query for all of it.
    counts = reduce(DataFrame.crossJoin, (rows.agg(F.count("*").alias(name)) for name, rows in counted.items()))
    summary = warehouse.read("rounds").agg(
        F.count_distinct("group").alias("groups"),
        F.count("*").alias("rounds"),
        F.min("started_at").alias("began"),
        F.max("started_at").alias("ended"),
        F.sum("total_ms").alias("ms"),
        F.max("inferred").alias("inferred"),
    )
    (span,) = summary.crossJoin(counts).collect()
    storms, violations, unreadable, missing = (span[name] for name in counted)
    facts = [
        ("groups that rebalanced", f"{span.groups:,}", False),
        ("rounds", f"{span.rounds:,}", False),
        ("spent in rounds", plots.duration(span.ms or 0), False),
        ("storms", f"{storms:,}", storms > 0),
        ("violations", f"{violations:,}", violations > 0),
        ("unreadable", f"{unreadable:,}", unreadable > 0),
        ("gaps", f"{missing:,}", missing > 0),
    ]
    cells = "".join(f"<div{' class=bad' if bad else ''}><b>{value}</b>{name}</div>" for name, value, bad in facts)
    lead = "No group rebalanced."
    if causes.rows:
        first = causes.rows[0]
        because, remedy = _BECAUSE.get(first["cause"], (first["cause"], ""))
        lead = f"Most often because {because}: {first['rounds']:,} of {span.rounds:,} rounds. {remedy}".rstrip()
    if missing:
        lead += " Something is missing from what was read: answers about the groups it may be about are incomplete."
    if span.inferred:
        lead += " What a relay recorded has causes that were concluded from requests and answers."
    return (
        f'<p class="note">{moment(span.began)} to {moment(span.ended)} UTC</p>'
        f'<div class="facts">{cells}</div><p class="lead">{lead}</p>'
    )


def _why(causes: _Causes) -> _Section:
    body = []
    by_cause = causes.by_day
    days = sorted({day for counts in by_cause.values() for day in counts})
    if len(days) > FEW_DAYS:
        series = {cause: [float(counts.get(day, 0)) for day in days] for cause, counts in by_cause.items()}
        shown = [{"day": day, **{cause: counts.get(day, 0) for cause, counts in by_cause.items()}} for day in days]
        columns = {"day": "day", **{cause: cause for cause in by_cause}}
        body.append(_figure(lambda width: plots.stacked_days(days, series, width), columns, shown, {*by_cause}))
    if causes.rows:
        named = [
            row | dict(zip(("because", "remedy"), _BECAUSE.get(row["cause"], ("", "")), strict=True))
            for row in causes.rows
        ]
        columns = {
            "cause": "cause", "rounds": "rounds", "groups": "groups", "mean_ms": "mean", "total_ms": "in all",
            "because": "because", "remedy": "what helps",
        }  # fmt: skip
        body.append(grid(columns, named, {"rounds", "groups", "mean_ms", "total_ms"}))
    return _Section("Why groups rebalance", "Every round has one cause: what was the first sign of it.", body)


def _worst_groups(warehouse: Warehouse) -> _Section:
    each = F.struct(F.coalesce(F.nullif("cause", F.lit("")), F.lit("(none)")).alias("cause"), "ms")
    worst = (
        warehouse.read("rounds")
        .groupBy("group", "cause")
        .agg(F.sum("total_ms").alias("ms"), F.count("*").alias("rounds"))
        .groupBy("group")
        .agg(F.sum("ms").alias("ms"), F.sum("rounds").alias("rounds"), F.collect_list(each).alias("causes"))
        .orderBy(F.desc("ms"), "group")
        .limit(ROWS)
        .collect()
    )
    names = [row.group for row in worst]
    parts = [(place, part.cause, part.ms) for place, row in enumerate(worst) for part in row.causes]
    series: dict[str, list[float]] = {}
    for place, cause, ms in sorted(parts, key=lambda part: -part[2]):
        series.setdefault(cause, [0.0] * len(names))[place] += ms
    ends = [f"{row.rounds} round{'s' * (row.rounds != 1)}" for row in worst]
    columns = {"group": "group", "rounds": "rounds", "ms": "in rounds"}
    shown = [{name: row[name] for name in columns} for row in worst]
    body = []
    if worst:
        figure = _figure(lambda width: plots.stacked_bars(names, series, ends, width), columns, shown, {"rounds", "ms"})
        body.append(figure)
    return _Section("Worst groups", "Time spent in rounds, by what brought them about.", body)


def _how_long(warehouse: Warehouse) -> _Section:
    bins = F.floor(F.log10(F.greatest(F.col("total_ms"), F.lit(1.0))) * _BINS_A_DECADE).cast("int")
    rows = warehouse.read("rounds").groupBy(bins.alias("bin")).count().collect()
    counts = {row["bin"]: row["count"] for row in rows if row["bin"] is not None}
    if not counts:
        return _Section("How long", "", [])
    named = {"from_ms": "from", "to_ms": "to", "rounds": "rounds"}
    shown = [
        {"from_ms": 10 ** (each / _BINS_A_DECADE), "to_ms": 10 ** ((each + 1) / _BINS_A_DECADE), "rounds": counts[each]}
        for each in sorted(counts)
    ]
    columns = {
        "cooperative": "cooperative", "groups": "groups", "rounds": "rounds", "mean_round_ms": "mean round",
        "p99_round_ms": "99th percentile", "member_pause_ms": "members paused",
        "partition_pause_ms": "partitions paused", "needless_ms": "of it needless",
    }  # fmt: skip
    return _Section(
        "How long",
        "Rounds by how long they took; and what stood still meanwhile, eager against cooperative. A pause is needless"
        " if the partition came back to the member that had it.",
        [
            _figure(lambda width: plots.histogram(counts, _BINS_A_DECADE, width), named, shown, {"from_ms", "rounds"}),
            table(warehouse.result("cost"), columns),
        ],
    )


def _who(warehouse: Warehouse) -> _Section:
    blame = {
        "group": "group", "client_id": "client", "role": "as", "rounds": "rounds", "ms": "waited for",
        "most_ms": "longest", "worst_member_id": "member then",
    }  # fmt: skip
    near = {
        "group": "group", "client_id": "client", "member_id": "member", "longest_ms": "silent for",
        "session_timeout_ms": "session timeout", "share": "of it", "longest_at": "until",
    }  # fmt: skip
    return _Section(
        "Who was waited for",
        "Members that joined last, or gave partitions up last, by how much later than the last but one, and leaders"
        " that thought long.",
        [
            table(warehouse.result("blame").orderBy(F.desc("ms"), "group", "client_id"), blame, "Nobody."),
            "<h3>Near misses of session timeouts</h3>",
            table(
                warehouse.result("heartbeat_gaps").where("near_miss").orderBy(F.desc("share"), "member_id"),
                near,
                "No member came near its session timeout.",
            ),
        ],
    )


def _worst_rounds(warehouse: Warehouse) -> _Section:
    rounds = warehouse.read("rounds").withColumn("worked_ms", F.col("total_ms") - F.col("initial_delay_ms"))
    worst = rounds.where("worked_ms >= initial_delay_ms").orderBy(F.desc("worked_ms"), "trace", "seq")
    rows = worst.limit(WORST_ROUNDS).collect()
    body = [] if rows else ['<p class="note">No round took longer than its initial delay.</p>']
    for row in rows:
        lanes = [plots.Lane(each.member_id, each.ms) for each in row.waited_for[:LANES]]
        about = escape(plots.short(row.trigger)) if row.trigger else "nobody"
        cause, delay = row.cause or "no cause", row.initial_delay_ms

        def draw(width: float, row: Row = row, lanes: list[plots.Lane] = lanes, delay: float = delay) -> str:
            # Where nobody leads, members wait for each other until all have what they are to have.
            together = row.join_ms if row.kind == "classic" else row.total_ms
            return plots.timeline(lanes, together, row.leader_ms, delay, width)

        shown = [{"member_id": lane.name, "joined_ms": lane.joined_ms} for lane in lanes]
        after = f", {plots.duration(delay)} of it initial delay" if delay >= 1 else ""
        body += [
            f"<h3>{escape(row.group)}, {'generation' if row.kind == 'classic' else 'epoch'} {row.generation}:"
            f" {escape(cause)},"
            f" {plots.duration(row.total_ms)}{after}</h3>",
            f'<p class="note">{moment(row.started_at)}, brought about by {about}.'
            f" {escape(_BECAUSE.get(cause, ('', ''))[1])}</p>",
            _figure(draw, {"member_id": "member", "joined_ms": "joined after"}, shown, {"joined_ms"}),
            _line(row.file, row.position, row.trace, warehouse),
        ]
    return _Section(
        "Worst rounds",
        "Each member from the start of the round, those that joined last, or gave partitions up last, on top; the"
        " longest first, less the initial delay of an empty group, which is a setting and nobody's fault.",
        body,
    )


def _line(file: str, position: int, trace: str, warehouse: Warehouse) -> str:
    """The very line of the trace that an answer rests on, if it can still be read."""
    about = f"{escape(trace)}, byte {position}"
    try:
        with Place(file, stores_of(warehouse.spark)).open(LINE) as opened:
            opened.seek(position)
            text = json.dumps(json.loads(opened.readline()), indent=1)
    except (Unreadable, OSError, ValueError):
        return f'<p class="note">{about}, in {escape(file)}</p>'
    return f'<details class="line"><summary>{about}</summary><pre>{escape(text)}</pre></details>'


def _storms(warehouse: Warehouse) -> _Section:
    rows = warehouse.result("storms").orderBy(F.desc("rounds"), "group", "began").limit(STORMS).collect()
    body = []
    for row, marks in zip(rows, _marks(warehouse, rows), strict=True):

        def draw(width: float, row: Row = row, marks: list[tuple[datetime, float, str]] = marks) -> str:
            return plots.storm_line(row.began, marks, width)

        shown = [{"at": at, "ms": ms, "cause": cause} for at, ms, cause in marks]
        body += [
            f"<h3>{escape(row.group)}: {row.rounds} rounds, {row.share:.0%} of the time</h3>",
            f'<p class="note">{moment(row.began)} to {moment(row.ended)}: {escape(", ".join(row.causes))}</p>',
            _figure(draw, {"at": "began", "ms": "took", "cause": "cause"}, shown, {"ms"}),
        ]
    return _Section("Storms", "Groups that rebalance over and over.", body)


def _marks(warehouse: Warehouse, storms: Sequence[Row]) -> list[list[tuple[datetime, float, str]]]:
    """The rounds of each of these storms, the first ones of one that has very many: begin, ms and cause."""
    if not storms:
        return []
    within = [(F.col("group") == each.group) & F.col("started_at").between(each.began, each.ended) for each in storms]
    number = F.coalesce(*(F.when(each, F.lit(number)) for number, each in enumerate(within)))
    place = F.row_number().over(Window.partitionBy("number").orderBy("started_at"))
    rounds = warehouse.read("rounds").withColumn("number", number).where("number is not null")
    found: list[list[tuple[datetime, float, str]]] = [[] for _ in storms]
    few = rounds.withColumn("place", place).where(F.col("place") <= _OF_A_STORM).orderBy("number", "place")
    for row in few.select("number", "started_at", "total_ms", "cause").collect():
        found[row.number].append((row.started_at, row.total_ms, row.cause or "(none)"))
    return found


def _advice(warehouse: Warehouse) -> _Section:
    gain = F.desc(F.col("static_saves_ms") + F.col("kip848_saves_ms"))
    rows = [row.asDict() for row in warehouse.result("migration").orderBy(gain, "group").limit(ROWS).collect()]
    played = {}
    if warehouse.has("replays"):
        played = {row.group: row.asDict() for row in warehouse.result("replays").collect()}
    for row in rows:
        if row["group"] in played:
            row["advice"] = advice(played[row["group"]])
    history = {
        "group": "group", "advice": "migrate to", "rounds": "rounds", "restarts": "restarts",
        "static_saves_rounds": "rounds static saves", "static_saves_ms": "that took",
        "kip848_saves_ms": "KIP-848 saves, estimated",
    }  # fmt: skip
    numeric = {*history} - {"group", "advice"}
    shown = [row for row in rows if row["advice"] != "none"]
    body = [grid(history, shown, numeric) if shown else '<p class="note">No group would gain from it.</p>']
    if played:
        columns = {
            "group": "group", "played_rounds": "rounds as it was", "static_rounds": "static",
            "cooperative_rounds": "cooperative", "both_rounds": "both", "played_pause_s": "pauses as it was",
            "static_pause_s": "static", "cooperative_pause_s": "cooperative", "both_pause_s": "both",
        }  # fmt: skip
        body += [
            "<h3>Played again on the simulator</h3>",
            '<p class="note">The comings and goings of the worst groups, with the coordinator of this project and'
            " members that are never slow: as they were, with static members, with a cooperative assignor, and with"
            " both. Pauses are those of partitions, added up. The advice above is what pauses least here.</p>",
            grid(columns, list(played.values()), {*columns} - {"group"}),
        ]
    return _Section(
        "What to migrate first",
        "What static membership or KIP-848 would have saved each group, from its own history; where the group was"
        " played again, by that.",
        body,
    )


def advice(played: Mapping[str, Any]) -> str:
    """What helped a group most when it was played again, with the least change that does as well as all."""
    names = {"static": "static membership", "cooperative": "KIP-848 or a cooperative assignor", "both": "both"}
    pauses = {setting: played[f"{setting}_pause_s"] for setting in names}
    least = min(pauses.values())
    if least >= played["played_pause_s"]:
        return "none"
    return next(names[setting] for setting, pause in pauses.items() if pause <= least * 1.05 + 0.001)


def _offsets(warehouse: Warehouse) -> _Section:
    back = {
        "group": "group", "topic": "topic", "partition": "partition", "at": "at", "previous": "from", "offset": "to",
        "delta": "by", "source": "seen in",
    }  # fmt: skip
    stopped = {
        "group": "group", "topic": "topic", "partition": "partition", "gap_ms": "nothing for", "median_ms": "median",
        "at": "until", "source": "seen in",
    }  # fmt: skip
    behind = {
        "group": "group", "topic": "topic", "partitions": "partitions", "most": "most behind", "last": "behind at last",
    }  # fmt: skip
    lag = (
        warehouse.read("lag")
        .groupBy("group", "topic", "partition")
        .agg(F.max("lag").alias("most"), F.max_by("lag", "at").alias("last"))
        .groupBy("group", "topic")
        .agg(F.count("*").alias("partitions"), F.sum("most").alias("most"), F.sum("last").alias("last"))
    )
    return _Section(
        "Offsets",
        "Commits that went back or stopped, and how far groups were behind where that is known.",
        [
            "<h3>Offsets that went back</h3>",
            table(warehouse.result("regressions").orderBy("delta", "group"), back, "No offset went back."),
            "<h3>Commits that stopped</h3>",
            table(warehouse.result("commit_gaps").orderBy(F.desc("gap_ms"), "group"), stopped, "No commits stopped."),
            "<h3>Lag</h3>",
            table(
                lag.orderBy(F.desc("last"), F.desc("most"), "group", "topic"), behind, "No end of a partition is known."
            ),
        ],
    )


def _violations(warehouse: Warehouse) -> _Section:
    violations = warehouse.read("violations")
    counts = Counter({row.invariant: row["count"] for row in violations.groupBy("invariant").count().collect()})
    summary = ", ".join(f"{name} {count:,} times" for name, count in sorted(counts.items()))
    columns = {
        "invariant": "invariant", "group": "group", "at": "at", "subject": "about", "detail": "what was seen",
        "trace": "trace", "seq": "event",
    }  # fmt: skip
    body = [table(violations.orderBy("invariant", "trace", "seq"), columns)] if counts else [""]
    note = f"Invariants of the protocol that did not hold: {summary}." if counts else "Every invariant held."
    return _Section("Violations", note, body)


def _unread(warehouse: Warehouse) -> _Section:
    columns = {"file": "file", "position": "byte", "bytes": "bytes", "reason": "why"}
    rows = warehouse.read("quarantine").orderBy("file", "position")
    gaps = {"origin": "of", "first": "from", "last": "to", "reason": "what"}
    missing = warehouse.read("gaps").orderBy("origin", "first")
    return _Section(
        "What could not be read",
        "It is in no table.",
        [
            table(rows, columns, "Everything could be read."),
            "<h3>What is missing</h3>",
            table(missing, gaps, "No event and no offset is missing."),
        ],
    )


def _figure(
    draw: Callable[[float], str],
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
    numeric: Collection[str],
) -> str:
    """A plot, and its numbers below it."""
    return f"<figure>{plots.both(draw)}</figure>{numbers(columns, rows, numeric)}"
