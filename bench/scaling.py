"""A check that the cost of a group grows with its size and not with the square: `python -m bench.scaling`.

Traces of one group, each twice as large as the one before: up to 200,000 rounds, 10,000 members, or a million commits
and fetches of one member; and all three beside 4,450 ordinary groups. One warm Spark session builds all tables and
answers of each, and their cost is compared with that of half the size: processor seconds, peak memory and bytes
shuffled, also by step. With two cores, the largest is built once more with steps side by side, as in a real run:
`cores_busy` is the average number of busy cores. Prints JSON.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from bench.runs import Family, shuffled
from kafka_shim.pipeline.run import answer, build, sort_out
from kafka_shim.pipeline.session import session
from kafka_shim.pipeline.warehouse import Warehouse

Event = dict[str, Any]
WALL: Final = 1.76e9
WARM: Final = 0.1
"""Size of the trace that warms up Java, as a share of the smallest trace."""


def rounds(count: int, group: str = "storming", members: int = 3) -> Iterator[Event]:
    """Yield a group with `count` rounds, two seconds apart; in each, one member leaves and another joins."""
    there = [f"{group}-{number}" for number in range(members)]
    for member in there:
        yield {"event": "member", "at": 0.0, "group": group, "member_id": member, "change": "added", "client_id": "c"}
    for generation in range(1, count + 1):
        at = 2.0 * generation
        leaver, came = there.pop(0), f"{group}-{generation + members}"
        about = {"group": group, "client_id": "c"}
        yield {"event": "member", "at": at, "member_id": leaver, "change": "left", **about}
        yield {"event": "member", "at": at + 0.1, "member_id": came, "change": "added", **about}
        there.append(came)
        yield from _round(group, generation, at, there)


def members(count: int, group: str = "crowd", times: int = 6) -> Iterator[Event]:
    """Yield a group of `count` members with a few rounds."""
    there = [f"{group}-{number}" for number in range(count)]
    for member in there:
        yield {"event": "member", "at": 0.0, "group": group, "member_id": member, "change": "added", "client_id": "c"}
    for generation in range(1, times + 1):
        yield from _round(group, generation, 60.0 * generation, there)


def _round(group: str, generation: int, at: float, there: list[str]) -> Iterator[Event]:
    waited = [{"member_id": member, "ms": 900.0 - index / len(there)} for index, member in enumerate(there)]
    common = {"group": group, "generation": generation, "leader": there[0]}
    for index, member in enumerate(there):
        answer = {"error_code": 0, "generation_id": generation, "leader": there[0], "protocol_name": "range"}
        listed = [{"member_id": each} for each in there] if index == 0 else []
        body = {"request": {"session_timeout_ms": 45_000}, "answer": {**answer, "members": listed}}
        yield _exchange(at + 0.1, at + 0.9, "JoinGroup", group, member, **body)
    yield {"event": "round", "at": at + 0.9, **common, "cause": "NEW_MEMBER", "trigger": there[-1], "started": at,
           "ended": at + 0.9, "protocol": "range", "members": there, "waited_for": waited, "dropped": []}  # fmt: skip
    assigned = {member: {"t": [index]} for index, member in enumerate(there)}
    yield {"event": "assignment", "at": at + 1.0, **common, "leader_ms": 50.0, "assignments": assigned}
    for member in there:
        body = {"request": {"generation_id": generation}, "answer": {"error_code": 0}}
        yield _exchange(at + 0.95, at + 1.0, "SyncGroup", group, member, **body)


def commits(count: int, group: str = "busy") -> Iterator[Event]:
    """Yield a member with `count` commits of one partition, and a fetch after every tenth.

    Every fourth commit repeats an offset.
    """
    yield {"event": "member", "at": 0.0, "group": group, "member_id": "m", "change": "added", "client_id": "c"}
    for number in range(count):
        at = 1.0 + number / 10
        offsets = [{"topic": "t", "partition": 0, "offset": number % 4 and number}]
        about = {"group": group, "member_id": "m", "generation": 1, "error": 0}
        yield {"event": "commit", "at": at, **about, "offsets": offsets}
        if number % 10 == 0:
            partitions = [{"partition_index": 0, "committed_offset": number % 4 and number, "error_code": 0}]
            body = {"request": {}, "answer": {"topics": [{"name": "t", "partitions": partitions}]}}
            yield _exchange(at + 0.01, at + 0.02, "OffsetFetch", group, "m", **body)


def mixed(count: int) -> Iterator[Event]:
    """Yield all three shapes at once, in order of time, beside ordinary groups.

    A million commits come with 200,000 rounds, 10,000 members and 4,450 ordinary groups.
    """
    of_groups = [rounds(count // 5), members(count // 100), commits(count)]
    for number in range(count * 4450 // 1_000_000):
        of_groups += [rounds(10, f"ordinary-{number}"), commits(200, f"ordinary-{number}")]
    return heapq.merge(*of_groups, key=itemgetter("at"))


SHAPES: Final[dict[str, tuple[Callable[[int], Iterator[Event]], int]]] = {
    "rounds": (rounds, 100_000),
    "members": (members, 5_000),
    "commits": (commits, 500_000),
    "mixed": (mixed, 500_000),
}
"""By name: the trace, and the size of the smallest."""


def _exchange(arrived: float, at: float, api: str, group: str, member: str, **body: Any) -> Event:
    about = {"conn": 1, "node": 0, "version": 5, "correlation_id": 1, "client_id": "c", "error": 0}
    return {"event": "exchange", "at": at, "api": api, "group": group, "member": member, "arrived": arrived,
            **about, **body}  # fmt: skip


def write(folder: Path, events: Iterator[Event]) -> int:
    """Write a trace of these events, which are in order of time; return their number."""
    folder.mkdir(parents=True)
    count = 0
    with (folder / "trace.jsonl").open("w") as file:
        for count, event in enumerate(events, 1):
            at = event.pop("at")
            kind = event.pop("event")
            head = {"event": kind, "seq": count - 1, "mono": at, "wall": WALL + at}
            file.write(json.dumps({**head, **event}, separators=(",", ":")) + "\n")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--times", type=int, default=1, help="how often to double the size")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the smallest size")
    parser.add_argument("--master", default="local[2]", help="local[N]")
    parser.add_argument("--memory", default="2g")
    chosen = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-scaling-"))
    settings = {"spark.driver.memory": chosen.memory, "spark.ui.retainedStages": "20000"}
    spark = session(chosen.master, config=settings)
    family = Family([os.getpid()])
    done = threading.Event()
    watch = threading.Thread(target=family.watch, args=(done,))
    watch.start()
    results: dict[str, list[dict[str, Any]]] = {}
    try:
        for shape in chosen.shape:
            make, least = SHAPES[shape]
            sizes = [round(least * chosen.scale * 2**power) for power in range(chosen.times + 1)]
            data, out = scratch / "data", scratch / "out"
            # A first run warms up Java, so that its compiler is no part of the growth.
            runs: list[tuple[int, int | None]] = [(round(sizes[0] * WARM), 1), *((size, 1) for size in sizes)]
            if spark.sparkContext.defaultParallelism > 1:
                runs.append((sizes[-1], None))
            for number, (size, at_once) in enumerate(runs):
                if not data.exists():
                    events = write(data, make(size))
                warehouse = Warehouse(spark, str(out))
                if at_once is None:
                    cost = _side_by_side(warehouse, data, family)
                else:
                    cost = _cost(warehouse, data, family)
                    results.setdefault(shape, []).append({"size": size, "events": events, **cost})
                print(json.dumps({"shape": shape, "size": size, "events": events, **cost}), flush=True)
                shutil.rmtree(out)
                if number + 1 < len(runs) and runs[number + 1][0] != size:
                    shutil.rmtree(data)
            shutil.rmtree(data)
            del results[shape][0]
        print(json.dumps({"times_a_doubling": {shape: factors(runs) for shape, runs in results.items()}}))
    finally:
        done.set()
        watch.join()
        spark.stop()
        shutil.rmtree(scratch)


def factors(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare each run with the one of half the size: the factor of processor time, and the step that grew most.

    Only steps of at least a second count.
    """
    results = []
    for half, whole in itertools.pairwise(runs):
        steps = {
            name: round(each["seconds"] / max(half["steps"][name]["seconds"], 0.01), 2)
            for name, each in whole["steps"].items()
            if each["seconds"] >= 1
        }
        worst = max(steps.items(), key=itemgetter(1), default=None)
        results.append({"times": round(whole["seconds"] / half["seconds"], 2), "worst_step": worst})
    return results


def _cost(warehouse: Warehouse, data: Path, family: Family) -> dict[str, Any]:
    """Run the steps one after the other, so that the cost of each is known."""
    steps: dict[str, dict[str, float]] = {}
    before = shuffled(warehouse.spark)

    @contextmanager
    def step(name: str) -> Iterator[None]:
        family.look()
        spent, family.peak = family.spent(), 0
        yield
        family.look()
        steps[name] = {"seconds": round(family.spent() - spent, 2), "peak_mib": family.peak >> 20}

    began = time.monotonic()
    with warehouse.change("run"):
        build(warehouse, sort_out([str(data)]), step, at_once=1)
        answer(warehouse, step, at_once=1)
    wall = round(time.monotonic() - began, 1)
    for name, count in shuffled(warehouse.spark).items():
        if name in steps:
            steps[name]["shuffled"] = count - before.get(name, 0)
    return {
        "seconds": round(sum(each["seconds"] for each in steps.values()), 1),
        "wall_seconds": wall,
        "peak_mib": max(each["peak_mib"] for each in steps.values()),
        "shuffled": sum(each.get("shuffled", 0) for each in steps.values()),
        "steps": steps,
    }


def _side_by_side(warehouse: Warehouse, data: Path, family: Family) -> dict[str, Any]:
    family.look()
    spent, began = family.spent(), time.monotonic()
    with warehouse.change("run"):
        build(warehouse, sort_out([str(data)]))
        answer(warehouse)
    family.look()
    spent, wall = family.spent() - spent, time.monotonic() - began
    return {"side_by_side": {"wall_seconds": round(wall, 1), "cores_busy": round(spent / wall, 2)}}


if __name__ == "__main__":
    main()
