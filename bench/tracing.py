"""What `--trace` and `--journal` cost: servers of ours, one of which writes neither, take turns under the same load.

In turns, because what else a machine does changes a figure by more than the trace does. `python -m bench.tracing
[--seconds 0.75]` prints both; the journal's figures are in docs/replay.md, the trace's in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.load import Load, Process
from bench.servers import TOPIC, serving

MEMBERS: Final = 500
TURNS: Final = 7
WRITERS: Final = ("trace", "journal")


def trace_cost(seconds: float) -> dict[str, dict[str, float]]:
    """CPU us per request without and with a trace, by kind of request, and how many times as much it is."""
    return costs(seconds, ["trace"])["trace"]


def costs(seconds: float, writers: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    """The same for each of `WRITERS` that is named, in one run."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-trace-")))
        servers: list[tuple[Process, Load]] = []
        for options in ((), *((f"--{writer}", str(folder / f"{writer}.jsonl")) for writer in writers)):
            process, port = stack.enter_context(serving(*options))
            load = stack.enter_context(Load("127.0.0.1", port, "bench", MEMBERS, f"{TOPIC}:10"))
            if not load.tell("form", 60)["formed"]:
                raise RuntimeError(f"no group of {MEMBERS} members was formed")
            servers.append((process, load))
        found: dict[str, dict[str, dict[str, float]]] = {writer: {} for writer in writers}
        for kind in ("heartbeat", "commit"):
            off, *on = _compare(servers, kind, seconds, folder)
            for writer, cost in zip(writers, on, strict=True):
                figures = {"off_us": round(off, 2), "on_us": round(cost, 2), "ratio": round(cost / off, 3)}
                found[writer][kind] = figures
        return found


def _compare(servers: list[tuple[Process, Load]], kind: str, seconds: float, folder: Path) -> list[float]:
    """CPU us per request of each server, the median of its turns."""
    turns: list[list[float]] = [[] for _ in servers]
    for _ in range(TURNS):
        for (process, load), turn in zip(servers, turns, strict=True):
            load.tell(kind, 0.2)
            before = process.cpu_seconds()
            figures: dict[str, Any] = load.tell(kind, seconds)
            turn.append((process.cpu_seconds() - before) / max(figures["answered"], 1) * 1e6)
            if figures["failed"]:
                raise RuntimeError(f"{figures['failed']} requests failed, the last with {figures['last_error']}")
        for full in folder.glob("trace.jsonl.*"):
            full.unlink()
    return [statistics.median(turn) for turn in turns]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.75, help="length of a turn")
    print(json.dumps(costs(parser.parse_args().seconds, [*WRITERS]), indent=1))
