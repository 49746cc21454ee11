"""The cost of `--trace` and `--journal`: three of our servers, one without either, take turns under the same load.

They take turns, because other work of the machine changes a figure more than the trace does. `python -m bench.tracing
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
    """Return CPU us per request without and with a trace, by kind of request, and their ratio."""
    return costs(seconds, ["trace"])["trace"]


def costs(seconds: float, writers: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the same for each of these `WRITERS`, in one run."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-trace-")))
        servers: list[tuple[Process, Load]] = []
        for options in ((), *((f"--{writer}", str(folder / f"{writer}.jsonl")) for writer in writers)):
            process, port = stack.enter_context(serving(*options))
            load = stack.enter_context(Load("127.0.0.1", port, "bench", MEMBERS, f"{TOPIC}:10"))
            if not load.tell("form", 60)["formed"]:
                raise RuntimeError(f"no group of {MEMBERS} members was formed")
            servers.append((process, load))
        results: dict[str, dict[str, dict[str, float]]] = {writer: {} for writer in writers}
        for kind in ("heartbeat", "commit"):
            off, *on = _compare(servers, kind, seconds, folder)
            for writer, cost in zip(writers, on, strict=True):
                figures = {"off_us": round(off, 2), "on_us": round(cost, 2), "ratio": round(cost / off, 3)}
                results[writer][kind] = figures
        return results


def _compare(servers: list[tuple[Process, Load]], kind: str, seconds: float, folder: Path) -> list[float]:
    """Measure CPU us per request of each server, the median of its turns."""
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
