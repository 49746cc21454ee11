"""The page: which answers stand on it, in which order, and in which words. Plots are `plots.py`, tables `tables.py`."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import functions as F

from kafka_shim.pipeline.report import plots
from kafka_shim.pipeline.report.tables import ROWS, moment, table
from kafka_shim.pipeline.warehouse import Warehouse

WORST_ROUNDS: Final = 6
FEW_DAYS: Final = 2
LANES: Final = 30
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
svg{display:block;width:100%;min-width:34rem;height:auto}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:.5rem;margin:.6rem 0}
table{border-collapse:collapse;font-size:13px;width:100%}
th,td{text-align:left;padding:.32rem .8rem;border-bottom:1px solid var(--line);white-space:nowrap}
th{background:var(--card);font-weight:600;color:var(--soft)}
tr:last-child td{border-bottom:0}
.number{text-align:right;font-variant-numeric:tabular-nums}
"""

_BECAUSE: Final = {
    "NEW_MEMBER": "somebody new joined",
    "MEMBER_LEFT": "a member left",
    "SESSION_EXPIRED": "a member was silent for its session timeout",
    "COOPERATIVE_FOLLOWUP": "what members had given up found new owners",
    "POLL_TIMEOUT_REASON": "a member did not poll in time",
    "SUBSCRIPTION_CHANGED": "a member wanted other topics",
    "LEADER_REJOINED": "the leader joined again",
    "STATIC_REPLACED": "a static member was replaced",
    "PENDING_SYNC_EXPIRED": "members did not sync in time",
}


class _Section(NamedTuple):
    """A part of the page: its heading, a line that says what is seen, and what is under it."""

    heading: str
    note: str
    body: list[str]


def write_report(warehouse: Warehouse, page: Path, of: str) -> Path:
    """Writes the page about a warehouse whose questions were answered; `of` says what was read. Returns `page`."""
    by_cause = _by_cause(warehouse)
    sections = [
        _why(by_cause, warehouse),
        _worst_groups(warehouse),
        _how_long(warehouse),
        _who(warehouse),
        _worst_rounds(warehouse, page.parent),
        _storms(warehouse),
        _advice(warehouse),
        _offsets(warehouse),
        _violations(warehouse),
        _quarantine(warehouse),
    ]
    title = f"Rebalances of {escape(of)}"
    shown = [section for section in sections if section.body]
    links = "".join(f'<a href="#{_anchor(each.heading)}">{each.heading}</a>' for each in shown)
    body = "".join(
        f'<h2 id="{_anchor(each.heading)}">{each.heading}</h2><p class="note">{each.note}</p>{"".join(each.body)}'
        for each in shown
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<link rel="icon" href="data:,"><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>'
        f"{_facts(warehouse, by_cause)}<nav>{links}</nav>{body}"
        '<p class="note">Tables and answers lie beside this page as Parquet and CSV, in <a href="data/">data</a>;'
        " `kafka-shim pipeline tables` shows them. Times are UTC.</p></html>\n"
    )
    return page


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _by_cause(warehouse: Warehouse) -> dict[str, dict[str, int]]:
    """Rounds by cause and day, the most frequent cause first."""
    rows = warehouse.result("causes").groupBy("day", "cause").agg(F.sum("rounds").alias("rounds")).collect()
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows:
        counts[row.cause or "(none)"][str(row.day)] = row.rounds
    return dict(sorted(counts.items(), key=lambda each: -sum(each[1].values())))


def _facts(warehouse: Warehouse, by_cause: dict[str, dict[str, int]]) -> str:
    rounds = warehouse.read("rounds")
    span = rounds.agg(
        F.count_distinct("group").alias("groups"),
        F.count("*").alias("rounds"),
        F.min("started_at").alias("began"),
        F.max("started_at").alias("ended"),
        F.sum("total_ms").alias("ms"),
        F.max("inferred").alias("inferred"),
    ).first()
    assert span is not None
    storms = warehouse.result("storms").count()
    violations = warehouse.read("violations").count()
    unreadable = warehouse.read("quarantine").count()
    facts = [
        ("groups that rebalanced", f"{span.groups:,}", False),
        ("rounds", f"{span.rounds:,}", False),
        ("spent in rounds", plots.duration(span.ms or 0), False),
        ("storms", f"{storms:,}", storms > 0),
        ("violations", f"{violations:,}", violations > 0),
        ("unreadable", f"{unreadable:,}", unreadable > 0),
    ]
    cells = "".join(f"<div{' class=bad' if bad else ''}><b>{value}</b>{name}</div>" for name, value, bad in facts)
    lead = "No group rebalanced."
    if by_cause:
        cause, counts = next(iter(by_cause.items()))
        because = _BECAUSE.get(cause, cause)
        lead = f"Most often because {because}: {sum(counts.values()):,} of {span.rounds:,} rounds."
    if span.inferred:
        lead += " What a relay recorded has causes that were concluded from requests and answers."
    return (
        f'<p class="note">{moment(span.began)} to {moment(span.ended)} UTC</p>'
        f'<div class="facts">{cells}</div><p class="lead">{lead}</p>'
    )


def _why(by_cause: dict[str, dict[str, int]], warehouse: Warehouse) -> _Section:
    body = []
    days = sorted({day for counts in by_cause.values() for day in counts})
    if len(days) > FEW_DAYS:
        series = {cause: [float(counts.get(day, 0)) for day in days] for cause, counts in by_cause.items()}
        body.append(_figure(plots.stacked_days(days, series)))
    if by_cause:
        totals = (
            warehouse.result("causes")
            .groupBy("cause")
            .agg(
                F.sum("rounds").alias("rounds"),
                F.sum("total_ms").alias("total_ms"),
                F.count_distinct("group").alias("groups"),
            )
            .withColumn("mean_ms", F.col("total_ms") / F.col("rounds"))
        )
        meaning = F.coalesce(*(F.when(F.col("cause") == cause, F.lit(text)) for cause, text in _BECAUSE.items()))
        columns = {
            "cause": "cause", "because": "because", "rounds": "rounds", "groups": "groups",
            "mean_ms": "mean", "total_ms": "in all",
        }  # fmt: skip
        named = totals.withColumns(
            {"because": meaning, "cause": F.coalesce(F.expr("nullif(cause, '')"), F.lit("(none)"))}
        )
        body.append(table(named.orderBy(F.desc("rounds"), "cause"), columns))
    return _Section("Why groups rebalance", "Every round has one cause: what was the first sign of it.", body)


def _worst_groups(warehouse: Warehouse) -> _Section:
    rounds = warehouse.read("rounds")
    worst = (
        rounds.groupBy("group")
        .agg(F.sum("total_ms").alias("ms"), F.count("*").alias("rounds"))
        .orderBy(F.desc("ms"), "group")
        .limit(ROWS)
        .collect()
    )
    names = [row.group for row in worst]
    parts = (
        rounds.where(F.col("group").isin(names))
        .groupBy("group", F.coalesce("cause", F.lit("")).alias("cause"))
        .agg(F.sum("total_ms").alias("ms"))
        .collect()
    )
    series: dict[str, list[float]] = {}
    for part in sorted(parts, key=lambda each: -each.ms):
        series.setdefault(part.cause or "(none)", [0.0] * len(names))[names.index(part.group)] = part.ms
    ends = [f"{row.rounds} round{'s' * (row.rounds != 1)}" for row in worst]
    body = [_figure(plots.stacked_bars(names, series, ends))] if worst else []
    return _Section("Worst groups", "Time spent in rounds, by what brought them about.", body)


def _how_long(warehouse: Warehouse) -> _Section:
    bins = F.floor(F.log10(F.greatest(F.col("total_ms"), F.lit(1.0))) * _BINS_A_DECADE).cast("int")
    rows = warehouse.read("rounds").groupBy(bins.alias("bin")).count().collect()
    counts = {row["bin"]: row["count"] for row in rows if row["bin"] is not None}
    if not counts:
        return _Section("How long", "", [])
    columns = {
        "cooperative": "cooperative", "groups": "groups", "rounds": "rounds", "mean_round_ms": "mean round",
        "p99_round_ms": "99th percentile", "member_pause_ms": "members paused",
        "partition_pause_ms": "partitions paused", "needless_ms": "of it needless",
    }  # fmt: skip
    return _Section(
        "How long",
        "Rounds by how long they took; and what stood still meanwhile, eager against cooperative. A pause is needless"
        " if the partition came back to the member that had it.",
        [_figure(plots.histogram(counts, _BINS_A_DECADE)), table(warehouse.result("cost"), columns)],
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
        "Members that joined last, by how much later than the last but one, and leaders that thought long.",
        [
            table(warehouse.result("blame").orderBy(F.desc("ms"), "group", "client_id"), blame),
            "<h3>Near misses of session timeouts</h3>",
            table(warehouse.result("heartbeat_gaps").where("near_miss").orderBy(F.desc("share"), "member_id"), near),
        ],
    )


def _worst_rounds(warehouse: Warehouse, beside: Path) -> _Section:
    rows = warehouse.read("rounds").orderBy(F.desc("total_ms"), "trace", "seq").limit(WORST_ROUNDS).collect()
    body = []
    for row in rows:
        lanes = [plots.Lane(each.member_id, each.ms) for each in row.waited_for[:LANES]]
        link = f'<a href="{escape(_link(row.file, beside))}">{escape(row.trace)}, byte {row.position}</a>'
        about = escape(plots.short(row.trigger)) if row.trigger else "nobody"
        body += [
            f"<h3>{escape(row.group)}, generation {row.generation}: {escape(row.cause or 'no cause')},"
            f" {plots.duration(row.total_ms)}</h3>",
            f'<p class="note">{moment(row.started_at)}, brought about by {about}; {link}</p>',
            _figure(plots.timeline(lanes, row.join_ms, row.leader_ms)),
        ]
    return _Section("Worst rounds", "Each member from the start of the round, those that joined last on top.", body)


def _storms(warehouse: Warehouse) -> _Section:
    rows = warehouse.result("storms").orderBy(F.desc("rounds"), "group").limit(5).collect()
    body = []
    rounds = warehouse.read("rounds")
    for row in rows:
        inside = rounds.where((F.col("group") == row.group) & F.col("started_at").between(row.began, row.ended))
        marks = [
            (each.started_at, each.total_ms, each.cause or "(none)")
            for each in inside.orderBy("started_at").limit(_OF_A_STORM).collect()
        ]
        body += [
            f"<h3>{escape(row.group)}: {row.rounds} rounds, {row.share:.0%} of the time</h3>",
            f'<p class="note">{moment(row.began)} to {moment(row.ended)}: {escape(", ".join(row.causes))}</p>',
            _figure(plots.storm_line(row.began, marks)),
        ]
    return _Section("Storms", "Groups that rebalance over and over.", body)


def _advice(warehouse: Warehouse) -> _Section:
    rows = warehouse.result("migration").where("advice != 'none'")
    order = F.desc(F.col("static_saves_ms") + F.col("kip848_saves_ms"))
    history = {
        "group": "group", "advice": "migrate to", "rounds": "rounds", "restarts": "restarts",
        "static_saves_rounds": "rounds static saves", "static_saves_ms": "that took",
        "kip848_saves_ms": "KIP-848 saves, estimated",
    }  # fmt: skip
    body = [table(rows.orderBy(order, "group"), history)]
    if warehouse.has("replays"):
        played = {
            "group": "group", "played_rounds": "rounds as it was", "static_rounds": "static",
            "cooperative_rounds": "cooperative", "both_rounds": "both", "played_pause_s": "pauses as it was",
            "static_pause_s": "static", "cooperative_pause_s": "cooperative", "both_pause_s": "both",
        }  # fmt: skip
        body += [
            "<h3>Played again on the simulator</h3>",
            '<p class="note">The comings and goings of the worst groups, with the coordinator of this project and'
            " members that are never slow: as they were, with static members, with a cooperative assignor, and with"
            " both. Pauses are those of partitions, added up.</p>",
            table(warehouse.result("replays"), played),
        ]
    return _Section(
        "What to migrate first",
        "What static membership or KIP-848 would have saved each group, from its own history.",
        body,
    )


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
            table(warehouse.result("regressions").orderBy("delta", "group"), back),
            "<h3>Commits that stopped</h3>",
            table(warehouse.result("commit_gaps").orderBy(F.desc("gap_ms"), "group"), stopped),
            "<h3>Lag</h3>",
            table(lag.orderBy(F.desc("last"), F.desc("most"), "group", "topic"), behind),
        ],
    )


def _violations(warehouse: Warehouse) -> _Section:
    violations = warehouse.read("violations")
    counts = Counter({row.invariant: row["count"] for row in violations.groupBy("invariant").count().collect()})
    summary = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "none"
    columns = {
        "invariant": "invariant", "group": "group", "at": "at", "subject": "about", "detail": "what was seen",
        "trace": "trace", "seq": "event",
    }  # fmt: skip
    return _Section(
        "Violations",
        f"Invariants of the protocol that did not hold: {summary}.",
        [table(violations.orderBy("invariant", "trace", "seq"), columns)],
    )


def _quarantine(warehouse: Warehouse) -> _Section:
    columns = {"file": "file", "position": "byte", "bytes": "bytes", "reason": "why"}
    rows = warehouse.read("quarantine").orderBy("file", "position")
    return _Section("What could not be read", "It is in no table.", [table(rows, columns)])


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>"


def _link(file: str, beside: Path) -> str:
    return Path(os.path.relpath(file, beside)).as_posix()
