"""Page of the pipeline's report about rebalances: its sections, their order and their words. `plots.py` has the plots,
`tables.py` the tables."""

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
from kafka_shim.pipeline.report.findings import Judgement, judgement
from kafka_shim.pipeline.report.tables import ROWS, grid, moment, numbers, table
from kafka_shim.pipeline.report.words import INVARIANTS, because, remedy, several
from kafka_shim.pipeline.schemas import LOG
from kafka_shim.pipeline.sources import stores_of
from kafka_shim.pipeline.sources.places import LINE, Place, Unreadable
from kafka_shim.pipeline.steps import results
from kafka_shim.pipeline.warehouse import Warehouse

WORST_ROUNDS: Final = 6
FEW_DAYS: Final = 2
LANES: Final = 30
STORMS: Final = 5
_OF_A_STORM: Final = 2000
_BINS_A_DECADE: Final = 10
"""Bins per factor of ten in the histogram of durations."""

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
h2 small{display:block;font-size:.8rem;font-weight:500;color:var(--soft)}
h3{font-size:1rem;margin:1.6rem 0 .1rem;overflow-wrap:anywhere}
p{margin:.3rem 0 .8rem}a{color:var(--link)}
.note{color:var(--soft);font-size:13.5px;overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:1.2rem 0;font-size:14px}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.7rem;margin:1.2rem 0}
.facts div{background:var(--card);border-radius:.5rem;padding:.7rem .9rem;color:var(--soft);font-size:13px}
.facts b{display:block;font-size:1.25rem;line-height:1.4;white-space:nowrap;color:var(--ink);
font-variant-numeric:tabular-nums}
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
tbody tr:last-child td{border-bottom:0}td.words{white-space:normal;min-width:13rem}
@media(max-width:640px){th:first-child,td:first-child{position:sticky;left:0;background:var(--paper);max-width:11rem;
overflow:hidden;text-overflow:ellipsis}}
details{margin:.3rem 0 .8rem}summary{cursor:pointer;color:var(--link);font-size:13.5px;overflow-wrap:anywhere}
pre{background:var(--card);border-radius:.5rem;padding:.7rem .9rem;overflow-x:auto;font-size:12px}
.number{text-align:right;font-variant-numeric:tabular-nums}
"""

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
    """A section of the page: its topic, the finding that is its heading, a line about its contents, and its body."""

    topic: str
    finding: str
    note: str
    body: list[str]


def write_report(warehouse: Warehouse, page: Path, of: str) -> Path:
    """Write the page about a warehouse with answers; `of` names its inputs. Returns `page`."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(report(warehouse, of))
    return page


def report(warehouse: Warehouse, of: str) -> str:
    """Return the page about a warehouse with answers; `of` names its inputs."""
    judged = judgement(warehouse)
    makers = (
        _worst_groups,
        _how_long,
        _who,
        partial(_worst_rounds, judged=judged),
        _storms,
        _advice,
        _descriptions,
        _offsets,
        _violations,
        _unread,
    )
    causes = _by_cause(warehouse)
    sections = results(warehouse.spark, [partial(each, warehouse) for each in makers])
    title = f"Rebalances of {escape(of)}"
    visible = [section for section in (_why(causes), *sections) if section.body]
    links = "".join(f'<a href="#{_anchor(each.topic)}">{each.topic}</a>' for each in visible)
    body = "".join(
        f'<h2 id="{_anchor(each.topic)}"><small>{each.topic}</small>{escape(each.finding)}</h2>'
        f'<p class="note">{each.note}</p>{"".join(each.body)}'
        for each in visible
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<link rel="icon" href="data:,"><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>'
        f"{_facts(warehouse, judged)}<nav>{links}</nav>{body}"
        '<p class="note">Tables and answers lie beside this page as Parquet and CSV, in <a href="data/">data</a>;'
        f" `kafka-shim pipeline tables` shows them. Times are UTC.</p><script>{_SCRIPT}</script></html>\n"
    )


def _anchor(topic: str) -> str:
    return topic.lower().replace(" ", "-")


class _Causes(NamedTuple):
    """Rounds by cause and day, and a row per cause, the most frequent first."""

    by_day: dict[str, dict[str, int]]
    rows: list[dict[str, Any]]


def _by_cause(warehouse: Warehouse) -> _Causes:
    summed = (F.sum(name).alias(name) for name in ("rounds", "total_ms"))
    rows = (
        warehouse.result("causes")
        .withColumn("cause", F.coalesce(F.nullif("cause", F.lit("")), F.lit("(none)")))
        .rollup("cause", "day")
        .agg(*summed, F.count_distinct("group_id").alias("groups"))
        .where("cause is not null")
        .collect()
    )
    totals = [row.asDict() | {"mean_ms": row.total_ms and row.total_ms / row.rounds} for row in rows if row.day is None]
    totals.sort(key=lambda row: (-row["rounds"], row["cause"]))
    by_day: dict[str, dict[str, int]] = {row["cause"]: {} for row in totals}
    for row in rows:
        if row.day is not None:
            by_day[row.cause][str(row.day)] = row.rounds
    return _Causes(by_day, totals)


def _facts(warehouse: Warehouse, judged: Judgement) -> str:
    counted = {"storms": warehouse.result("storms")}
    counted |= {name: warehouse.read(name) for name in ("violations", "quarantine", "gaps")}
    # Count all four in one query.
    counts = reduce(DataFrame.crossJoin, (rows.agg(F.count("*").alias(name)) for name, rows in counted.items()))
    summary = warehouse.read("rounds").agg(
        F.count_distinct("group_id").alias("groups"),
        F.count("*").alias("rounds"),
        F.min("started_at").alias("began"),
        F.max("started_at").alias("ended"),
        F.sum("total_ms").alias("ms"),
        F.max("inferred").alias("inferred"),
    )
    (span,) = summary.crossJoin(counts).collect()
    storms, violations, unreadable, missing = (span[name] for name in counted)
    facts = [
        ("groups rebalanced", f"{span.groups:,}", False),
        ("rounds", f"{span.rounds:,}", False),
        ("spent in rounds", plots.duration(span.ms or 0), False),
        ("many rounds in a row", several(storms, "storm"), storms > 0),
        ("of the protocol", several(violations, "violation"), violations > 0),
        ("unreadable or missing", several(unreadable + missing, "part"), unreadable + missing > 0),
    ]
    cells = "".join(f"<div{' class=bad' if bad else ''}><b>{value}</b>{name}</div>" for name, value, bad in facts)
    lead = judged.headline() or (
        "No trace shows the requests of its rounds; kafka-shim why GROUP --log PATH explains groups of logs."
        if span.rounds
        else "No group rebalanced."
    )
    if judged.unread:
        lead += f" Not judged, since their traces are too large or cannot be read: {', '.join(judged.unread)}."
    if missing:
        lead += " Parts of the input are missing: answers about the groups that these may concern are incomplete."
    if span.inferred:
        lead += " A relay recorded some of the traces, or they are of logs: their causes are inferred."
    return (
        f'<p class="note">{moment(span.began)} to {moment(span.ended)} UTC</p>'
        f'<p class="lead">{escape(lead)}</p><div class="facts">{cells}</div>'
    )


def _why(causes: _Causes) -> _Section:
    body = []
    by_cause = causes.by_day
    days = sorted({day for counts in by_cause.values() for day in counts})
    if len(days) > FEW_DAYS:
        series = {cause: [float(counts.get(day, 0)) for day in days] for cause, counts in by_cause.items()}
        rows = [{"day": day, **{cause: counts.get(day, 0) for cause, counts in by_cause.items()}} for day in days]
        columns = {"day": "day", **{cause: cause for cause in by_cause}}
        body.append(_figure(lambda width: plots.stacked_days(days, series, width), columns, rows, {*by_cause}))
    if causes.rows:
        cause_rows = [row | {"because": because(row["cause"]), "remedy": remedy(row["cause"])} for row in causes.rows]
        columns = {
            "cause": "cause", "rounds": "rounds", "groups": "groups", "mean_ms": "mean", "total_ms": "in all",
            "because": "because", "remedy": "remedy",
        }  # fmt: skip
        body.append(grid(columns, cause_rows, {"rounds", "groups", "mean_ms", "total_ms"}))
    finding = "No group rebalanced"
    if causes.rows:
        first, rounds = causes.rows[0], sum(row["rounds"] for row in causes.rows)
        finding = f"{first['rounds']:,} of {several(rounds, 'round')} have the cause {first['cause']}"
    return _Section("Why groups rebalance", finding, "Every round has one cause: the event that started it.", body)


def _worst_groups(warehouse: Warehouse) -> _Section:
    each = F.struct(F.coalesce(F.nullif("cause", F.lit("")), F.lit("(none)")).alias("cause"), "ms")
    worst = (
        warehouse.read("rounds")
        .groupBy("group_id", "cause")
        .agg(F.sum("total_ms").alias("ms"), F.count("*").alias("rounds"))
        .groupBy("group_id")
        .agg(F.sum("ms").alias("ms"), F.sum("rounds").alias("rounds"), F.collect_list(each).alias("causes"))
        .orderBy(F.desc("ms"), "group_id")
        .limit(ROWS)
        .collect()
    )
    names = [row.group_id for row in worst]
    parts = [(place, part.cause, part.ms or 0.0) for place, row in enumerate(worst) for part in row.causes]
    series: dict[str, list[float]] = {}
    for place, cause, ms in sorted(parts, key=lambda part: -part[2]):
        series.setdefault(cause, [0.0] * len(names))[place] += ms
    ends = [f"{row.rounds} round{'s' * (row.rounds != 1)}" for row in worst]
    columns = {"group_id": "group", "rounds": "rounds", "ms": "in rounds"}
    rows = [{name: row[name] for name in columns} for row in worst]
    body = []
    if worst:
        figure = _figure(lambda width: plots.stacked_bars(names, series, ends, width), columns, rows, {"rounds", "ms"})
        body.append(figure)
    finding = f"{worst[0].group_id} spent {plots.duration(worst[0].ms or 0.0)} in rounds" if worst else ""
    return _Section("Worst groups", finding, "Time spent in rounds, by cause.", body)


def _how_long(warehouse: Warehouse) -> _Section:
    bins = F.floor(F.log10(F.greatest(F.col("total_ms"), F.lit(1.0))) * _BINS_A_DECADE).cast("int")
    rows = warehouse.read("rounds").where("total_ms is not null").groupBy(bins.alias("bin")).count().collect()
    counts = {row["bin"]: row["count"] for row in rows if row["bin"] is not None}
    if not counts:
        return _Section("How long", "", "", [])
    headings = {"from_ms": "from", "to_ms": "to", "rounds": "rounds"}
    bin_rows = [
        {"from_ms": 10 ** (each / _BINS_A_DECADE), "to_ms": 10 ** ((each + 1) / _BINS_A_DECADE), "rounds": counts[each]}
        for each in sorted(counts)
    ]
    columns = {
        "cooperative": "cooperative", "groups": "groups", "rounds": "rounds", "mean_round_ms": "mean round",
        "p99_round_ms": "99th percentile", "interval_ms": "waited for interval", "member_pause_ms": "members paused",
        "partition_pause_ms": "partitions paused", "needless_ms": "of it needless",
    }  # fmt: skip
    return _Section(
        "How long",
        _durations(bin_rows),
        "Rounds by duration; and the pauses of members and partitions, eager against cooperative. A pause is needless"
        " if the partition returned to the same member. Consumer, share and streams groups wait for the assignment"
        " interval between two assignments; a relay does not see that.",
        [
            _figure(
                lambda width: plots.histogram(counts, _BINS_A_DECADE, width),
                headings,
                bin_rows,
                {"from_ms", "rounds"},
            ),
            table(warehouse.result("cost"), columns),
        ],
    )


def _durations(bins: Sequence[Mapping[str, float]]) -> str:
    """Return the median and the longest duration of rounds, as the bins of their histogram tell them."""
    half, so_far = sum(each["rounds"] for each in bins) / 2, 0.0
    for each in bins:
        so_far += each["rounds"]
        if so_far >= half:
            most = plots.duration(bins[-1]["to_ms"])
            return f"Half of the rounds took {plots.duration(each['to_ms'])} at most, and the longest {most} at most"
    return ""


def _who(warehouse: Warehouse) -> _Section:
    blame = {
        "group_id": "group", "client_id": "client", "role": "as", "rounds": "rounds", "ms": "waited for",
        "most_ms": "longest", "worst_member_id": "member then",
    }  # fmt: skip
    near = {
        "group_id": "group", "client_id": "client", "member_id": "member", "longest_ms": "silent for",
        "session_timeout_ms": "session timeout", "share": "of it", "longest_at": "until",
    }  # fmt: skip
    waits = warehouse.result("blame").orderBy(F.desc("ms"), "group_id", "client_id")
    longest = waits.first()
    return _Section(
        "Who was waited for",
        f"{longest.client_id or 'A member'} of {longest.group_id} kept others waiting for {plots.duration(longest.ms)}"
        if longest
        else "No round waited for a single member",
        "Members that joined last, or gave partitions up last, by the time after the last member but one; and leaders"
        " that took long to assign.",
        [
            table(waits, blame, "No member."),
            "<h3>Near misses of session timeouts</h3>",
            table(
                warehouse.result("heartbeat_gaps").where("near_miss").orderBy(F.desc("share"), "member_id"),
                near,
                "No member came near its session timeout.",
            ),
        ],
    )


def _worst_rounds(warehouse: Warehouse, judged: Judgement) -> _Section:
    delay_ms = F.coalesce("initial_delay_ms", F.lit(0.0))
    rounds = warehouse.read("rounds").withColumn("worked_ms", F.col("total_ms") - delay_ms)
    worst = rounds.where(F.col("worked_ms") >= delay_ms).orderBy(F.desc("worked_ms"), "trace", "seq")
    rows = worst.limit(WORST_ROUNDS).collect()
    body = [] if rows else ['<p class="note">No round took longer than its initial delay.</p>']
    for row in rows:
        lanes = [plots.Lane(each.member_id, each.ms) for each in row.waited_for[:LANES]]
        about = escape(plots.short(row.trigger)) if row.trigger else "no member"
        cause, delay = row.cause or "no cause", row.initial_delay_ms or 0.0

        def draw(width: float, row: Row = row, lanes: list[plots.Lane] = lanes, delay: float = delay) -> str:
            # Without a leader, members wait for each other until all have their assignment.
            together = row.join_ms if row.kind == "classic" else row.total_ms
            return plots.timeline(lanes, together, row.leader_ms, delay, width)

        lane_rows = [{"member_id": lane.name, "joined_ms": lane.joined_ms} for lane in lanes]
        settings = ((delay, "initial delay"), (row.interval_ms or 0.0, "assignment interval"))
        after = "".join(f", {plots.duration(ms)} of it {name}" for ms, name in settings if ms >= 1)
        body += [
            f"<h3>{escape(row.group_id)}, {'generation' if row.kind == 'classic' else 'epoch'} {row.generation}:"
            f" {escape(cause)},"
            f" {plots.duration(row.total_ms)}{after}</h3>",
            f'<p class="note">{moment(row.started_at)}, brought about by {about}. {escape(judged.advice_of(row))}</p>',
            _figure(draw, {"member_id": "member", "joined_ms": "joined after"}, lane_rows, {"joined_ms"}),
            _line(row.file, row.position, row.trace, warehouse),
        ]
    return _Section(
        "Worst rounds",
        f"The longest round took {plots.duration(rows[0].total_ms)}, in {rows[0].group_id}"
        if rows
        else "No round was long",
        "Each member from the start of the round; those that joined last, or gave partitions up last, are on top. The"
        " longest rounds come first, without the initial delay of an empty group, which is a setting.",
        body,
    )


def _line(file: str, position: int, trace: str, warehouse: Warehouse) -> str:
    """Return the line of the trace behind an answer, if it can still be read."""
    about = f"{escape(trace)}, byte {position}"
    try:
        with Place(file, stores_of(warehouse.spark)).open(LINE) as opened:
            opened.seek(position)
            line = opened.readline()
            text = line.decode(errors="replace") if trace.startswith(LOG) else json.dumps(json.loads(line), indent=1)
    except (Unreadable, OSError, ValueError):
        return f'<p class="note">{about}, in {escape(file)}</p>'
    return f'<details class="line"><summary>{about}</summary><pre>{escape(text)}</pre></details>'


def _storms(warehouse: Warehouse) -> _Section:
    rows = warehouse.result("storms").orderBy(F.desc("rounds"), "group_id", "began").limit(STORMS).collect()
    body = []
    for row, marks in zip(rows, _marks(warehouse, rows), strict=True):

        def draw(width: float, row: Row = row, marks: list[tuple[datetime, float, str]] = marks) -> str:
            return plots.storm_line(row.began, marks, width)

        share = "" if row.share is None else f", {row.share:.0%} of the time"
        mark_rows = [{"at": at, "ms": ms, "cause": cause} for at, ms, cause in marks]
        body += [
            f"<h3>{escape(row.group_id)}: {row.rounds} rounds{share}</h3>",
            f'<p class="note">{moment(row.began)} to {moment(row.ended)}: {escape(", ".join(row.causes))}</p>',
            _figure(draw, {"at": "began", "ms": "took", "cause": "cause"}, mark_rows, {"ms"}),
        ]
    finding = f"{rows[0].group_id} had {several(rows[0].rounds, 'round')} in a row" if rows else ""
    return _Section("Storms", finding, "Groups with many rounds in a short time.", body)


def _marks(warehouse: Warehouse, storms: Sequence[Row]) -> list[list[tuple[datetime, float, str]]]:
    """Return start, ms and cause of the rounds of each storm, at most `_OF_A_STORM` of the first ones."""
    if not storms:
        return []
    within = [
        (F.col("group_id") == each.group_id) & F.col("started_at").between(each.began, each.ended) for each in storms
    ]
    number = F.coalesce(*(F.when(each, F.lit(number)) for number, each in enumerate(within)))
    place = F.row_number().over(Window.partitionBy("number").orderBy("started_at"))
    rounds = warehouse.read("rounds").withColumn("number", number).where("number is not null")
    by_storm: list[list[tuple[datetime, float, str]]] = [[] for _ in storms]
    few = rounds.withColumn("place", place).where(F.col("place") <= _OF_A_STORM).orderBy("number", "place")
    for row in few.select("number", "started_at", "total_ms", "cause").collect():
        by_storm[row.number].append((row.started_at, row.total_ms or 0.0, row.cause or "(none)"))
    return by_storm


def _advice(warehouse: Warehouse) -> _Section:
    gain = F.desc(F.col("static_saves_ms") + F.coalesce("kip848_saves_ms", F.lit(0.0)))
    rows = [row.asDict() for row in warehouse.result("migration").orderBy(gain, "group_id").limit(ROWS).collect()]
    played = {}
    if warehouse.has("replays"):
        played = {row.group_id: row.asDict() for row in warehouse.result("replays").collect()}
    for row in rows:
        if row["group_id"] in played:
            row["advice"] = advice(played[row["group_id"]])
    history = {
        "group_id": "group", "advice": "migrate to", "rounds": "rounds", "restarts": "restarts",
        "static_saves_rounds": "rounds static saves", "static_saves_ms": "that took",
        "kip848_saves_ms": "KIP-848 saves, estimated",
    }  # fmt: skip
    numeric = {*history} - {"group_id", "advice"}
    worthwhile = [row for row in rows if row["advice"] not in ("none", None)]
    body = [grid(history, worthwhile, numeric) if worthwhile else '<p class="note">No group would gain from it.</p>']
    if played:
        columns = {
            "group_id": "group", "played_rounds": "rounds unchanged", "static_rounds": "static",
            "cooperative_rounds": "cooperative", "both_rounds": "both", "played_pause_s": "pauses unchanged",
            "static_pause_s": "static", "cooperative_pause_s": "cooperative", "both_pause_s": "both",
        }  # fmt: skip
        body += [
            "<h3>Replayed on the simulator</h3>",
            '<p class="note">The joins and leaves of the worst groups, replayed with the coordinator of this project'
            " and members that are never slow: unchanged, with static members, with a cooperative assignor, and with"
            " both. Pauses are those of partitions, added up. The advice is the setting with the least pauses.</p>",
            grid(columns, list(played.values()), {*columns} - {"group_id"}),
        ]
    first = worthwhile[0] if worthwhile else None
    return _Section(
        "What to migrate first",
        f"{first['group_id']} gains most, by {first['advice']}"
        if first
        else "No group would gain from another setting",
        "The savings of each group by static membership or KIP-848, from its own history; for a replayed group, from"
        " the replay.",
        body,
    )


def advice(played: Mapping[str, Any]) -> str:
    """Return the advice for a simulated group: the smallest change that is about as good as the best."""
    names = {"static": "static membership", "cooperative": "KIP-848 or a cooperative assignor", "both": "both"}
    pauses = {setting: played[f"{setting}_pause_s"] for setting in names}
    least = min(pauses.values())
    if least >= played["played_pause_s"]:
        return "none"
    return next(names[setting] for setting, pause in pauses.items() if pause <= least * 1.05 + 0.001)


def _descriptions(warehouse: Warehouse) -> _Section:
    columns = {
        "group_id": "group", "described": "described", "accepted": "accepted", "refused": "refused",
        "last_error": "newest error code", "accepted_at": "newest accepted", "client_id": "from client",
    }  # fmt: skip
    rows = warehouse.result("descriptions")
    counts = rows.agg(F.count("*").alias("groups"), F.count_if("described").alias("described")).first()
    if counts is None or not counts.groups:
        return _Section("Topologies", "", "", [])
    return _Section(
        "Topologies",
        f"{counts.described:,} of {several(counts.groups, 'streams group')} described the topology",
        "A broker asks a member of a streams group for a description of its topology, if it has a plugin that keeps"
        " descriptions (Kafka 4.4).",
        [table(rows.orderBy("described", "group_id"), columns)],
    )


def _offsets(warehouse: Warehouse) -> _Section:
    back = {
        "group_id": "group", "topic": "topic", "partition": "partition", "happened_at": "at", "previous": "from",
        "committed_offset": "to",
        "delta": "by", "source": "seen in",
    }  # fmt: skip
    stopped = {
        "group_id": "group", "topic": "topic", "partition": "partition", "gap_ms": "nothing for", "median_ms": "median",
        "happened_at": "until", "source": "seen in",
    }  # fmt: skip
    behind = {
        "group_id": "group", "topic": "topic", "partitions": "partitions", "most": "most behind",
        "last": "behind at last",
    }  # fmt: skip
    lag = (
        warehouse.read("lag")
        .groupBy("group_id", "topic", "partition")
        .agg(F.max("lag").alias("most"), F.max_by("lag", "happened_at").alias("last"))
        .groupBy("group_id", "topic")
        .agg(F.count("*").alias("partitions"), F.sum("most").alias("most"), F.sum("last").alias("last"))
    )
    went_back, stopped_for = warehouse.result("regressions"), warehouse.result("commit_gaps")
    counts = went_back.count(), stopped_for.count()
    return _Section(
        "Offsets",
        f"{several(counts[0], 'offset')} went back, and commits stopped {several(counts[1], 'time')}"
        if any(counts)
        else "No offset went back, and no commits stopped",
        "Commits that went back or stopped, and the lag of groups, where end offsets are known.",
        [
            "<h3>Offsets that went back</h3>",
            table(went_back.orderBy("delta", "group_id"), back, "No offset went back."),
            "<h3>Commits that stopped</h3>",
            table(stopped_for.orderBy(F.desc("gap_ms"), "group_id"), stopped, "No commits stopped."),
            "<h3>Lag</h3>",
            table(
                lag.orderBy(F.desc("last"), F.desc("most"), "group_id", "topic"),
                behind,
                "No end offsets are known.",
            ),
        ],
    )


def _violations(warehouse: Warehouse) -> _Section:
    violations = warehouse.read("violations")
    counts = Counter({row.invariant: row["count"] for row in violations.groupBy("invariant").count().collect()})
    by_invariant = [
        {"invariant": name, "count": count, "because": INVARIANTS.get(name, "")} for name, count in counts.items()
    ]
    by_invariant.sort(key=lambda row: (-row["count"], row["invariant"]))
    headings = {"invariant": "invariant", "count": "times", "because": "observation"}
    columns = {
        "invariant": "invariant", "group_id": "group", "happened_at": "at", "subject": "about", "detail": "observation",
        "trace": "trace", "seq": "event",
    }  # fmt: skip
    body = [""]
    if counts:
        body = [
            grid(headings, by_invariant, {"count"}),
            table(violations.orderBy("invariant", "trace", "seq"), columns),
        ]
    finding = "Every invariant held"
    if counts:
        first = by_invariant[0]
        finding = (
            f"{several(sum(counts.values()), 'violation')}, most of them: {first['because']} ({first['invariant']})"
        )
    return _Section("Violations", finding, "Invariants of the protocol that must always hold.", body)


def _unread(warehouse: Warehouse) -> _Section:
    columns = {"file": "file", "position": "byte", "bytes": "bytes", "reason": "why"}
    rows = warehouse.read("quarantine").orderBy("file", "position")
    gaps = {"origin": "of", "first": "from", "last": "to", "reason": "reason"}
    missing = warehouse.read("gaps").orderBy("origin", "first")
    counts = rows.count(), missing.count()
    return _Section(
        "What could not be read",
        f"{several(counts[0], 'part')} cannot be read, and {several(counts[1], 'gap')} in the input"
        if any(counts)
        else "All of the input could be read, and none is missing",
        "These parts of the input are in no table.",
        [
            table(rows, columns, "All of the input could be read."),
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
    """Return a plot, with its numbers below."""
    return f"<figure>{plots.both(draw)}</figure>{numbers(columns, rows, numeric)}"
