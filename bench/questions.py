"""The main question alone, by the pipeline and by DuckDB, on the same traces one after the other.

The question: rebalances by group and cause with their durations, and the twenty slowest members and leaders.
`python -m bench.questions DATA` is DuckDB's part, in a process of its own; it prints its counts as JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.runs import HOME, Family

_LINES: Final = """
create temp table lines as
select line from read_csv(
    ?, columns = {'line': 'varchar'}, header = false, auto_detect = false, delim = '\\x01', quote = '', escape = '',
    max_line_size = 16000000
)
where line like '{"event":"round"%' or line like '{"event":"epoch"%' or line like '{"event":"assignment"%'
"""
_EVENTS: Final = """
create temp table events as
select line->>'$.event' as event, line->>'$.group' as group_id, line->>'$.cause' as cause, line->>'$.leader' as leader,
    cast(line->>'$.generation' as bigint) as generation, cast(line->>'$.wall' as double) as wall,
    cast(line->>'$.mono' as double) as mono, cast(line->>'$.started' as double) as started,
    cast(line->>'$.leader_ms' as double) as leader_ms, line->>'$.waited_for[0].member_id' as slowest,
    cast(line->>'$.waited_for[0].ms' as double) - coalesce(cast(line->>'$.waited_for[1].ms' as double), 0) as behind_ms
from lines
"""
_ROUNDS: Final = """
create temp table rounds as
select r.*, (coalesce(a.wall, r.wall) - (r.wall - (r.mono - r.started))) * 1000 as total_ms, a.leader_ms as assigned_ms
from events r left join events a on a.event = 'assignment' and r.event = 'round'
    and a.group_id = r.group_id and a.generation = r.generation
where r.event in ('round', 'epoch')
"""
_CAUSES: Final = "select group_id, cause, count(*), sum(total_ms) from rounds group by all"
_SLOWEST: Final = """
select group_id, slowest, sum(behind_ms) as ms from rounds where slowest is not null group by all
union all
select group_id, leader, sum(assigned_ms) from rounds where assigned_ms is not null group by all
order by ms desc limit 20
"""


def in_duckdb(data: Path) -> dict[str, Any]:
    """Return the number of rounds by cause, and the number of slow members and leaders."""
    import duckdb

    database = duckdb.connect()
    database.execute("set threads = 2")
    database.execute(_LINES, [[str(path) for path in sorted(data.glob("trace/*/*.jsonl"))]])
    database.execute(_EVENTS)
    database.execute(_ROUNDS)
    counts: dict[str, int] = {}
    for _, cause, rounds, _ in database.execute(_CAUSES).fetchall():
        counts[cause or ""] = counts.get(cause or "", 0) + rounds
    return {"causes": counts, "slowest": len(database.execute(_SLOWEST).fetchall())}


def question(data: Path, out: Path, memory: str) -> dict[str, Any]:
    """Ask both; return the processor seconds and the peak memory of each, and the ratio of their seconds."""
    duck, answer = measured([sys.executable, "-m", "bench.questions", str(data)])
    run = ["-m", "kafka_shim", "pipeline", "run", str(data / "trace"), "--out", str(out), "--memory", memory]
    only = ["--only", "causes", "--only", "blame", "--master", "local[2]"]
    ours, _ = measured([sys.executable, *run, *only])
    return {
        **json.loads(answer),
        "duckdb": duck,
        "pipeline": ours,
        "times": round(ours["seconds"] / duck["seconds"], 1),
    }


def measured(command: Sequence[str]) -> tuple[dict[str, float], str]:
    """Run a command; return its processor seconds and peak memory, and its output."""
    before = _of_children()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HOME) as process:
        family, done = Family([process.pid]), threading.Event()
        watch = threading.Thread(target=family.watch, args=(done,))
        watch.start()
        assert process.stdout is not None
        output = process.stdout.read()
        done.set()
        watch.join()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed")
    # A short process spends much between two samples, and Java is no child of ours.
    seconds = max(family.spent(), _of_children() - before)
    return {"seconds": round(seconds, 2), "peak_mib": family.peak >> 20}, output


def _of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    print(json.dumps(in_duckdb(Path(sys.argv[1]))))
