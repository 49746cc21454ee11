"""What `--trace` costs: two servers of ours, one of which writes a trace, take turns under the same load.

In turns, because what else a machine does changes a figure by more than the trace does.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.load import Load, Process
from bench.servers import TOPIC, serving

MEMBERS: Final = 500
TURNS: Final = 7


def trace_cost(seconds: float) -> dict[str, dict[str, float]]:
    """CPU us per request without and with a trace, by kind of request, and how many times as much it is."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-trace-")))
        servers: list[tuple[Process, Load]] = []
        for options in ((), ("--trace", str(folder / "trace.jsonl"))):
            process, port = stack.enter_context(serving(*options))
            load = stack.enter_context(Load("127.0.0.1", port, "bench", MEMBERS, f"{TOPIC}:10"))
            if not load.tell("form", 60)["formed"]:
                raise RuntimeError(f"no group of {MEMBERS} members was formed")
            servers.append((process, load))
        return {kind: _compare(servers, kind, seconds, folder) for kind in ("heartbeat", "commit")}


def _compare(servers: list[tuple[Process, Load]], kind: str, seconds: float, folder: Path) -> dict[str, float]:
    turns: list[list[float]] = [[] for _ in servers]
    for _ in range(TURNS):
        for (process, load), costs in zip(servers, turns, strict=True):
            load.tell(kind, 0.2)
            before = process.cpu_seconds()
            figures: dict[str, Any] = load.tell(kind, seconds)
            costs.append((process.cpu_seconds() - before) / max(figures["answered"], 1) * 1e6)
            if figures["failed"]:
                raise RuntimeError(f"{figures['failed']} requests failed, the last with {figures['last_error']}")
        for full in folder.glob("trace.jsonl.*"):
            full.unlink()
    off, on = (statistics.median(costs) for costs in turns)
    return {"off_us": round(off, 2), "on_us": round(on, 2), "ratio": round(on / off, 3)}
