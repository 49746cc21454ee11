"""The page: which answers stand on it, in which order, and in which words. Plots are `plots.py`."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.report import plots
from pipeline.warehouse import Warehouse

WORST_ROUNDS: Final = 6
ROWS: Final = 15

_STYLE: Final = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #8884;padding-bottom:.2rem}
table{border-collapse:collapse;font-size:13px;display:block;overflow-x:auto}
th,td{text-align:left;padding:.2rem .7rem .2rem 0;border-bottom:1px solid #8883;white-space:nowrap}
td.number{text-align:right;font-variant-numeric:tabular-nums}
.facts{display:flex;gap:1rem;flex-wrap:wrap}.facts div{padding:.6rem 1rem;border:1px solid #8884;border-radius:.4rem}
.facts b{display:block;font-size:1.4rem}.bad b{color:#b5323c}
svg{max-width:100%;height:auto;background:#fff;border-radius:.3rem}
p.note{color:#888;font-size:13px}
"""


def write_report(warehouse: Warehouse, page: Path, of: str) -> Path:
    """Writes the page about a warehouse whose questions were answered; `of` says what was read. Returns `page`."""
    body = [
        *_facts(warehouse),
        *_why(warehouse),
        *_how_long(warehouse),
        *_who(warehouse),
        *_worst_rounds(warehouse, page.parent),
        *_storms(warehouse),
        *_advice(warehouse),
        *_offsets(warehouse),
        *_broken(warehouse),
    ]
    title = f"Rebalances of {escape(of)}"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>{''.join(body)}"
        '<p class="note">Tables and results lie beside this page as Parquet and CSV: <a href="tables">tables</a>,'
        ' <a href="results">results</a>.</p></html>\n'
    )
    return page


def _facts(warehouse: Warehouse) -> list[str]:
    rounds = warehouse.read("rounds")
    span = rounds.agg(
        F.count_distinct("group").alias("groups"),
        F.count("*").alias("rounds"),
        F.min("started_at").alias("began"),
        F.max("started_at").alias("ended"),
        F.sum("total_ms").alias("ms"),
    ).first()
    assert span is not None
    facts = [
        ("groups that rebalanced", f"{span.groups:,}", False),
        ("rounds", f"{span.rounds:,}", False),
        ("time spent in rounds", _duration(span.ms), False),
        ("storms", f"{warehouse.result('storms').count():,}", warehouse.result("storms").count() > 0),
        ("violations", f"{warehouse.read('violations').count():,}", warehouse.read("violations").count() > 0),
        ("unreadable", f"{warehouse.read('quarantine').count():,}", warehouse.read("quarantine").count() > 0),
    ]
    cells = "".join(f"<div{' class=bad' if bad else ''}><b>{value}</b>{name}</div>" for name, value, bad in facts)
    return [f"<p>{_time(span.began)} to {_time(span.ended)} UTC</p>", f'<div class="facts">{cells}</div>']


def _why(warehouse: Warehouse) -> list[str]:
    rows = warehouse.result("causes").groupBy("day", "cause").agg(F.sum("rounds").alias("rounds")).collect()
    if not rows:
        return []
    days = sorted({str(row.day) for row in rows})
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows:
        counts[row.cause or "(none)"][str(row.day)] = row.rounds
    ordered = dict(sorted(counts.items(), key=lambda each: -sum(each[1].values())))
    series = {cause: [float(by_day.get(day, 0)) for day in days] for cause, by_day in ordered.items()}
    return ["<h2>Why groups rebalance</h2>", plots.stacked_days(days, series, "rounds")]


def _how_long(warehouse: Warehouse) -> list[str]:
    # A sample says as much as all, and fits.
    rounds = warehouse.read("rounds").select("total_ms")
    values = [row.total_ms for row in rounds.limit(100_000).collect()]
    if not values:
        return []
    return [
        "<h2>How long</h2>",
        plots.histogram(values, "ms from the start of a round until Stable"),
        "<h3>Eager against cooperative</h3>",
        _table(warehouse.result("cost")),
    ]


def _who(warehouse: Warehouse) -> list[str]:
    worst = (
        warehouse.read("rounds")
        .groupBy("group")
        .agg(F.sum("total_ms").alias("ms"), F.count("*").alias("rounds"))
        .orderBy(F.desc("ms"), "group")
        .limit(ROWS)
        .collect()
    )
    if not worst:
        return []
    names = [f"{row.group} ({row.rounds})" for row in worst]
    return [
        "<h2>Worst groups</h2>",
        plots.bars(names, [row.ms / 1000 for row in worst], "seconds spent in rounds (number of rounds)"),
        "<h2>Who was waited for</h2>",
        _table(warehouse.result("blame").orderBy(F.desc("ms"), "group", "client_id")),
        "<h2>Near misses of session timeouts</h2>",
        _table(warehouse.result("heartbeat_gaps").where("near_miss").orderBy(F.desc("share"), "member_id")),
    ]


def _worst_rounds(warehouse: Warehouse, beside: Path) -> list[str]:
    rows = warehouse.read("rounds").orderBy(F.desc("total_ms"), "trace", "seq").limit(WORST_ROUNDS).collect()
    out = ["<h2>Worst rounds</h2>"] if rows else []
    for row in rows:
        lanes = [plots.Lane(each.member_id, each.ms) for each in row.waited_for[:30]]
        link = f'<a href="{escape(_link(row.file, beside))}">{escape(row.trace)}, byte {row.position}</a>'
        out += [
            f"<h3>{escape(row.group)}, generation {row.generation}: {escape(row.cause or 'no cause')},"
            f" {_duration(row.total_ms)}</h3>",
            f'<p class="note">{_time(row.started_at)}, brought about by {escape(row.trigger or "nobody")}; {link}</p>',
            plots.timeline(lanes, row.join_ms, row.leader_ms),
        ]
    return out


def _storms(warehouse: Warehouse) -> list[str]:
    rows = warehouse.result("storms").orderBy(F.desc("rounds"), "group").limit(5).collect()
    out = ["<h2>Storms</h2>"] if rows else []
    rounds = warehouse.read("rounds")
    for row in rows:
        inside = rounds.where((F.col("group") == row.group) & F.col("started_at").between(row.began, row.ended))
        marks = [(each.started_at, each.total_ms) for each in inside.orderBy("started_at").limit(2000).collect()]
        out += [
            f"<h3>{escape(row.group)}: {row.rounds} rounds, {row.share:.0%} of the time</h3>",
            f'<p class="note">{_time(row.began)} to {_time(row.ended)}: {escape(", ".join(row.causes))}</p>',
            plots.storm_line(row.began, marks),
        ]
    return out


def _advice(warehouse: Warehouse) -> list[str]:
    rows = warehouse.result("migration").where("advice != 'none'")
    order = F.desc(F.col("static_saves_ms") + F.col("kip848_saves_ms"))
    return ["<h2>What to migrate first</h2>", _table(rows.orderBy(order, "group"))]


def _offsets(warehouse: Warehouse) -> list[str]:
    return [
        "<h2>Offsets that went back</h2>",
        _table(warehouse.result("regressions").orderBy("delta", "group")),
        "<h2>Commits that stopped</h2>",
        _table(warehouse.result("commit_gaps").orderBy(F.desc("gap_ms"), "group")),
    ]


def _broken(warehouse: Warehouse) -> list[str]:
    violations = warehouse.read("violations").drop("day", "bucket")
    counts = Counter({row.invariant: row["count"] for row in violations.groupBy("invariant").count().collect()})
    summary = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "none"
    return [
        "<h2>Violations</h2>",
        f"<p>{summary}</p>",
        _table(violations.orderBy("invariant", "trace", "seq")),
        "<h2>What could not be read</h2>",
        _table(warehouse.read("quarantine").orderBy("file", "position")),
    ]


def _table(frame: DataFrame) -> str:
    """The first rows of a frame."""
    rows = frame.limit(ROWS + 1).collect()
    if not rows:
        return '<p class="note">None.</p>'
    head = "".join(f"<th>{escape(name)}</th>" for name in frame.columns)
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:ROWS])
    more = '<p class="note">There are more; see the results beside this page.</p>' if len(rows) > ROWS else ""
    return f"<table><tr>{head}</tr>{lines}</table>{more}"


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, (int, float)):
        text = f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
        return f'<td class="number">{text}</td>'
    if isinstance(value, Iterable) and not isinstance(value, str):
        value = ", ".join(map(str, value))
    return f"<td>{escape(str(value))}</td>"


def _link(file: str, beside: Path) -> str:
    return Path(os.path.relpath(file, beside)).as_posix()


def _duration(ms: float | None) -> str:
    seconds = (ms or 0) / 1000
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _time(at: Any) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"
