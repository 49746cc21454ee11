"""Server-side assignors on the grid of Kafka's `ServerSideAssignorBenchmark`, beside Kafka's own classes.

    python -m bench.assignors [--members 100,1000,10000] [--topics 10,100] [--runs 7]

Ten partitions a member. `full`: nobody has anything yet. `incremental`: all but one member hold an assignment, and one
more has joined. Times are the median of the last runs, after as many again and at least 50 ms of others: the virtual
machine of Kafka's is warm then. Ours runs with the garbage collector as `kafka-shim serve` sets it. Times are
milliseconds; `of Kafka` is ours divided by Kafka's.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from rich.console import Console
from rich.table import Table

from bench.kafka_assignors import KafkaAssignors
from kafka_shim.control.run import GARBAGE
from kafka_shim.groups.assignors.registry import BUILT_IN
from kafka_shim.groups.assignors.spec import GroupSpec, MemberSpec, group_spec

PARTITIONS_PER_MEMBER = 10
BUCKETS = 5
"""Subscriptions in a heterogeneous group: its topics are cut into as many parts."""


def full(members: int, topics: int, heterogeneous: bool, count: int) -> GroupSpec:
    """A group of members without assignments; there are partitions for `count` of them."""
    draw = Random(848)
    ids = [draw.randbytes(16) for _ in range(topics)]
    counts = dict.fromkeys(ids, count * PARTITIONS_PER_MEMBER // topics)
    buckets = min(BUCKETS, topics, members) if heterogeneous else 1
    parts = [frozenset(ids[topics * bucket // buckets : topics * (bucket + 1) // buckets]) for bucket in range(buckets)]
    return group_spec(
        {f"member{number}": MemberSpec(parts[number * buckets // members]) for number in range(members)}, counts
    )


def incremental(name: str, members: int, topics: int, heterogeneous: bool) -> GroupSpec:
    """A group in balance, and one member more."""
    before = full(members - 1, topics, heterogeneous, count=members)
    assignments = BUILT_IN[name].assign(before)
    specs = {id: replace(member, assignment=assignments[id]) for id, member in before.members.items()}
    specs["newMember"] = MemberSpec(before.members[f"member{members - 2}"].topics)
    return group_spec(specs, before.partition_counts)


def milliseconds(name: str, spec: GroupSpec, runs: int) -> float:
    """The median time of ours, warm."""
    probe = seconds(name, spec, runs)
    return statistics.median(seconds(name, spec, _warm(runs, probe) + runs)[-runs:]) * 1000


def seconds(name: str, spec: GroupSpec, runs: int) -> list[float]:
    """How long each of some runs of ours took."""
    times = []
    gc.collect()
    for _ in range(runs):
        began = time.perf_counter()
        BUILT_IN[name].assign(spec)
        times.append(time.perf_counter() - began)
    return times


def _warm(runs: int, probe: list[float]) -> int:
    """How many runs come before those that count."""
    return max(runs, int(0.05 / max(min(probe), 1e-6)))


def kafka_milliseconds(kafka: KafkaAssignors, name: str, spec: GroupSpec, runs: int) -> float:
    """The median time of Kafka's, warm."""
    probe = kafka.seconds(name, spec, runs)
    return statistics.median(kafka.seconds(name, spec, _warm(runs, probe) + runs)[-runs:]) * 1000


def grid(members: list[int], topics: list[int]) -> Iterator[tuple[str, bool, bool, int, int]]:
    yield from itertools.product(BUILT_IN, (False, True), (False, True), members, topics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", default="100,1000,10000")
    parser.add_argument("--topics", default="10,100")
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    members, topics = ([int(size) for size in sizes.split(",")] for sizes in (arguments.members, arguments.topics))
    gc.freeze()
    gc.set_threshold(GARBAGE)
    kafka = KafkaAssignors()
    table = Table(title="Server-side assignors, ms")
    for column in ("assignor", "subscriptions", "assignment", "members", "topics", "ours", "Kafka", "of Kafka"):
        table.add_column(column, justify="left" if column in ("assignor", "subscriptions", "assignment") else "right")
    for name, heterogeneous, grows, count, size in grid(members, topics):
        spec = incremental(name, count, size, heterogeneous) if grows else full(count, size, heterogeneous, count)
        ours = milliseconds(name, spec, arguments.runs)
        theirs = kafka_milliseconds(kafka, name, spec, arguments.runs)
        kinds = ("heterogeneous" if heterogeneous else "homogeneous", "incremental" if grows else "full")
        table.add_row(name, *kinds, f"{count:,}", str(size), f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.1f}")
    kafka.close()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
