"""Server-side assignors on the grid of Kafka's `ServerSideAssignorBenchmark`, beside Kafka's own classes.

    python -m bench.assignors [--members 100,1000,10000] [--topics 10,100] [--assignors uniform,range] [--read]

Ten partitions per member. `full`: no member has an assignment yet. `incremental`: all but one member have one, and that
one has just joined. Times are milliseconds of CPU time of the thread, because machines are shared: the median of
`BATCHES` batches of at least `BATCH_SECONDS`, after two others that warm up Kafka's virtual machine. They exclude
Kafka's garbage collector and include ours, with the settings of `kafka-shim serve`. `of Kafka` is our time divided by
Kafka's.

Kafka's `range` computes the numbers of a range only when they are read, and ours a member's dictionary. With `--read`
the time of both includes reading every partition of every member.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random

from rich.console import Console
from rich.table import Table

from bench.kafka_assignors import KafkaAssignors
from kafka_shim.control.run import GARBAGE
from kafka_shim.groups.assignors.registry import BUILT_IN
from kafka_shim.groups.assignors.spec import GroupSpec, MemberSpec, group_spec

PARTITIONS_PER_MEMBER = 10
BATCHES = 3
BATCH_SECONDS = 0.05
BUCKETS = 5
"""Number of different subscriptions in a heterogeneous group; each has a part of the topics."""


def full(members: int, topics: int, heterogeneous: bool, count: int) -> GroupSpec:
    """Return a group of members without assignments, with partitions for `count` of them."""
    draw = Random(848)
    ids = [draw.randbytes(16) for _ in range(topics)]
    counts = dict.fromkeys(ids, count * PARTITIONS_PER_MEMBER // topics)
    buckets = min(BUCKETS, topics, members) if heterogeneous else 1
    parts = [frozenset(ids[topics * bucket // buckets : topics * (bucket + 1) // buckets]) for bucket in range(buckets)]
    return group_spec(
        {f"member{number}": MemberSpec(parts[number * buckets // members]) for number in range(members)}, counts
    )


def incremental(name: str, members: int, topics: int, heterogeneous: bool) -> GroupSpec:
    """Return a balanced group, and one member more."""
    before = full(members - 1, topics, heterogeneous, count=members)
    assignments = BUILT_IN[name].assign(before)
    specs = {id: replace(member, assignment=assignments[id]) for id, member in before.members.items()}
    specs["newMember"] = MemberSpec(before.members[f"member{members - 2}"].topics)
    return group_spec(specs, before.partition_counts)


def milliseconds(seconds: Callable[[int], float]) -> float:
    """Measure a warm run; `seconds(runs)` returns the time of several runs together."""
    runs = max(1, int(BATCH_SECONDS / max(seconds(1), 1e-6)))
    seconds(runs)
    runs = max(1, int(BATCH_SECONDS / max(seconds(runs) / runs, 1e-6)))
    return statistics.median(seconds(runs) for _ in range(BATCHES)) / runs * 1000


def ours(name: str, spec: GroupSpec, read: bool, runs: int) -> float:
    """Return the CPU seconds of several runs together."""
    gc.collect()
    began = time.thread_time()
    for _ in range(runs):
        assigned = BUILT_IN[name].assign(spec)
        if read:
            for share in assigned.values():
                for partitions in share.values():
                    sum(partitions)
    return time.thread_time() - began


def grid(names: list[str], members: list[int], topics: list[int]) -> Iterator[tuple[str, bool, bool, int, int]]:
    yield from itertools.product(names, (False, True), (False, True), members, topics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", default="100,1000,10000")
    parser.add_argument("--topics", default="10,100")
    parser.add_argument("--assignors", default=",".join(BUILT_IN))
    parser.add_argument("--read", action="store_true", help="include reading every partition of every member")
    arguments = parser.parse_args()
    members, topics = ([int(size) for size in sizes.split(",")] for sizes in (arguments.members, arguments.topics))
    gc.freeze()
    gc.set_threshold(GARBAGE)
    kafka = KafkaAssignors()
    table = Table(
        title="Server-side assignors, and all shares read, ms" if arguments.read else "Server-side assignors, ms"
    )
    for column in ("assignor", "subscriptions", "assignment", "members", "topics", "ours", "Kafka", "of Kafka"):
        table.add_column(column, justify="left" if column in ("assignor", "subscriptions", "assignment") else "right")
    for name, heterogeneous, grows, count, size in grid(arguments.assignors.split(","), members, topics):
        spec = incremental(name, count, size, heterogeneous) if grows else full(count, size, heterogeneous, count)
        took = milliseconds(partial(ours, name, spec, arguments.read))
        theirs = milliseconds(partial(kafka.seconds, name, spec, arguments.read))
        kinds = ("heterogeneous" if heterogeneous else "homogeneous", "incremental" if grows else "full")
        table.add_row(name, *kinds, f"{count:,}", str(size), f"{took:.2f}", f"{theirs:.2f}", f"{took / theirs:.1f}")
    kafka.close()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
