"""The figures of a run as the tables of `docs/benchmarks.md`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

TITLES: Final = {"shim": "ours", "rdkafka-mock": "librdkafka's mock", "kfake": "kfake", "kafka": "Kafka"}
KINDS: Final = {
    "heartbeat": "Heartbeat",
    "commit": "OffsetCommit of 10 partitions",
    "moved": "OffsetCommit of some of 10 partitions, others each time",
}


def markdown(result: dict[str, Any]) -> str:
    """Return all tables, separated by blank lines."""
    servers = {name: result["servers"][name] for name in TITLES if name in result["servers"]}
    parts = [_costs(servers), _saturated(servers), _largest(servers), _trace(result["trace"]), _codec(result["codec"])]
    starts = result["starts"]
    parts.append(
        f"`kafka-shim serve` is ready after {starts['serve_s']:.2f} s, a server inside a process after"
        f" {starts['in_process_ms']:.1f} ms. {result['machine']}, Python {result['python']}, {result['date']}."
    )
    return "\n\n".join(parts) + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _sizes(servers: dict[str, Any]) -> list[str]:
    sizes = {size for server in servers.values() for size in server.get("members", {})}
    return sorted(map(str, sizes), key=int)


def _of(server: dict[str, Any], size: str, *path: str) -> Any:
    """Return a figure of one server at one size; None if it has none."""
    figures = {str(key): value for key, value in server.get("members", {}).items()}.get(size)
    for name in path:
        figures = None if figures is None else figures.get(name)
    return figures


def _costs(servers: dict[str, Any]) -> str:
    rows = []
    for kind, title in KINDS.items():
        for size in _sizes(servers):
            costs = [_of(server, size, kind, "cpu_us") for server in servers.values()]
            rows.append([title, f"{int(size):,}", *("-" if cost is None else f"{cost:.1f}" for cost in costs)])
            title = ""
    return _table(["CPU us per request", "members", *(TITLES[name] for name in servers)], rows)


def _saturated(servers: dict[str, Any]) -> str:
    """Return the table of answer times while every member sends the next request at once, and of their fairness."""
    names = ("mean_us", "p99_us", "p99_turns")
    rows = []
    for kind, title in KINDS.items():
        for size in _sizes(servers):
            cells = []
            for server in servers.values():
                mean, p99, turns = (_of(server, size, kind, f"saturated_{name}") for name in names)
                cells.append(
                    "-" if mean is None else f"{mean / 1000:.1f} / {p99 / 1000:.1f} ms / {turns / int(size):.2f}"
                )
            rows.append([title, f"{int(size):,}", *cells])
            title = ""
    return _table(["mean / p99 / rounds at saturation", "members", *(TITLES[name] for name in servers)], rows)


def _largest(servers: dict[str, Any]) -> str:
    size = _sizes(servers)[-1]
    forming = ["time to one stable generation, delay 0"]
    memory = ["memory per member beyond the base"]
    latency = ["Heartbeat p50 / p99 / p99.9"]
    for server in servers.values():
        formed = _of(server, size, "formed")
        forming.append(f"{_of(server, size, 'form_s'):.3f} s" if formed else "-")
        kib = _of(server, size, "per_member_kib")
        memory.append("-" if kib is None else f"{kib} KiB")
        times = [_of(server, size, "heartbeat", name) for name in ("p50_us", "p99_us", "p999_us")]
        latency.append("-" if None in times else " / ".join(f"{time:,.0f}" for time in times) + " us")
    head = [f"at {int(size):,} members", *(TITLES[name] for name in servers)]
    return _table(head, [forming, memory, latency])


def _trace(trace: dict[str, Any]) -> str:
    rows = [
        [KINDS[kind], f"{cost['off_us']:.1f}", f"{cost['on_us']:.1f}", f"{(cost['ratio'] - 1) * 100:+.0f}%"]
        for kind, cost in trace.items()
    ]
    return _table(["CPU us per request of 500 members", "without a trace", "with `--trace`", ""], rows)


def _codec(cases: list[dict[str, Any]]) -> str:
    codecs = list(dict.fromkeys(codec for case in cases for codec in case["median_us"]))
    rows = []
    for case in cases:
        medians = [case["median_us"].get(codec) for codec in codecs]
        cells = ["-" if each is None else f"{each:.2f}" if each < 10 else f"{each:,.0f}" for each in medians]
        rows.append([case["name"], *cells])
    return _table(["codec, median us per call", *codecs], rows)
