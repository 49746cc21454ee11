"""All servers side by side: `python -m bench [--servers shim,kfake] [--members 1,500] [--seconds 2]`.

Prints all figures, then the tables of `docs/benchmarks.md`. Writes the figures to `bench/results/bench.json` and the
tables to `bench/results/benchmarks.md`. It ends by itself: every phase has a time limit.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.load import NoCompiler, build
from bench.markdown import KINDS, markdown
from bench.servers import NAMES, measure
from bench.tracing import trace_cost

RESULTS = Path(__file__).with_name("results")

SERVE = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--store", "memory:", "--log-level", "error")

IN_PROCESS = """
import time
from kafka_shim.testing import CoordinatorServer
took = []
for _ in range(11):
    began = time.perf_counter()
    with CoordinatorServer():
        took.append((time.perf_counter() - began) * 1000)
print(sorted(took)[5])
"""


def start_in_process_ms() -> float:
    """Measure the median time to start a server inside a process with all modules imported."""
    done = subprocess.run([sys.executable, "-c", IN_PROCESS], capture_output=True, text=True, check=True)
    return float(done.stdout)


def start_serve_s() -> float:
    """Measure the median time from the start of `kafka-shim serve` to its ready line."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "kafka_shim", "serve", *SERVE], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        if not process.stdout.readline().startswith("ready "):
            sys.exit("kafka-shim serve did not get ready")
        took.append(time.perf_counter() - began)
        process.terminate()
        process.wait()
    return statistics.median(took)


def tables(servers: dict[str, Any], console: Console) -> None:
    """Print a table per kind of work: servers and sizes down, figures across."""
    for kind, title in KINDS.items():
        table = Table(title=title)
        for column in (
            "server",
            "members",
            "CPU us/request",
            "requests/s",
            "saturated mean us",
            "saturated p99 us",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "failed",
        ):
            table.add_column(column, justify="left" if column == "server" else "right")
        for name, server in servers.items():
            for count, size in server.get("members", {}).items():
                if kind in size:
                    keys = (
                        "cpu_us",
                        "per_second",
                        "saturated_mean_us",
                        "saturated_p99_us",
                        "p50_us",
                        "p99_us",
                        "p999_us",
                        "failed",
                    )
                    table.add_row(name, str(count), *(f"{size[kind][key]:,}" for key in keys))
            table.add_section()
        console.print(table)
    table = Table(title="Groups and memory")
    for column in (
        "server",
        "members",
        "formed in s",
        "generation",
        "resident MiB",
        "KiB/member",
        "ready in s",
        "idle",
    ):
        table.add_column(column, justify="left" if column == "server" else "right")
    for name, server in servers.items():
        for count, size in server.get("members", {}).items():
            formed = f"{size['form_s']:.3f}" if size["formed"] else f"never (error {size['error']})"
            shared = [f"{server['ready_s']}", f"{server['idle_mib']}"]
            figures = [str(size[column]) for column in ("generation", "resident_mib", "per_member_kib")]
            table.add_row(name, str(count), formed, *figures, *shared)
        if "missing" in server:
            table.add_row(name, server["missing"])
        table.add_section()
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default=",".join(NAMES))
    parser.add_argument("--members", default="1,50,500,2000")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of one measured phase")
    parser.add_argument("--rate", type=float, default=1000, help="requests a second while latency is measured")
    parser.add_argument("--forming", type=float, default=60, help="seconds a group may take to form")
    parser.add_argument("--output", type=Path, default=RESULTS / "bench.json")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        build()
    except NoCompiler as reason:
        sys.exit(str(reason))
    servers = {}
    for name in arguments.servers.split(","):
        console.print(f"measuring {name} ...")
        sizes = [int(count) for count in arguments.members.split(",")]
        servers[name] = measure(name, sizes, arguments.seconds, arguments.rate, arguments.forming)
    console.print("measuring what a trace costs, starts and codecs ...")
    trace = trace_cost(arguments.seconds / 2)
    starts = {"serve_s": round(start_serve_s(), 3), "in_process_ms": round(start_in_process_ms(), 2)}
    codec = [sys.executable, str(Path(__file__).with_name("codec.py")), "--json"]
    result = {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "starts": starts,
        "servers": servers,
        "trace": trace,
        "codec": json.loads(subprocess.run(codec, capture_output=True, text=True, check=True).stdout),
    }
    tables(servers, console)
    written = markdown(result)
    print(written)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    arguments.output.with_name("benchmarks.md").write_text(written)


if __name__ == "__main__":
    main()
