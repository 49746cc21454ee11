"""The cost of a stream: `python -m bench.streaming backlog|live|days|one`, JSON on standard output.

    backlog  events per second over an existing trace, batch by batch
    live     a trace that grows at a rate: seconds from an event's time to the snapshot with its tables and answers
    days     groups join on the first day and are stable on all others; one batch a day, and the stream keeps two days:
             whether batches get more expensive, and the folder larger, with the age of the stream
    one      batches about one of many groups, after one about all: the cost of the other groups in its bucket

Traces are those of `pipeline generate`. `live` writes their events with the present time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import orjson

from bench.runs import Family
from kafka_shim.pipeline.generate.write import generate
from kafka_shim.pipeline.run import sort_out
from kafka_shim.pipeline.session import session
from kafka_shim.pipeline.stream import stop, stream
from kafka_shim.pipeline.warehouse import FEW, Warehouse

DAY_S: Final = 86_400.0
KEPT_DAYS: Final = 2
ONE_BATCHES: Final = 8
_MONOTONIC: Final = ("mono", "arrived", "started", "ended")


def generated(scratch: Path, events: int, groups: int) -> list[dict[str, Any]]:
    """Generate a trace; return its events in order."""
    folder = scratch / "generated"
    generate(folder, groups=groups, events=events, seed=1, segments=False)
    trace = [
        orjson.loads(line)
        for path in sorted((folder / "trace").rglob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    shutil.rmtree(folder)
    return trace


def shift(event: dict[str, Any], wall: float, mono: float, times: float = 1.0) -> bytes:
    """Shift an event in time, and stretch its intervals to earlier times by the factor `times`; return its line."""
    before = event["mono"]
    shifted = event | {name: mono - (before - event[name]) * times for name in _MONOTONIC if name in event}
    return orjson.dumps(shifted | {"wall": wall}) + b"\n"


class Batches:
    """The cost of each batch, in wall and processor seconds, files and memory."""

    def __init__(self, family: Family, out: Path) -> None:
        self.family = family
        self.out = out
        self.figures: list[dict[str, float]] = []
        self.folders: list[Counter[str]] = []
        self._began, self._spent = time.monotonic(), family.spent()

    def done(self, batch: int) -> None:
        self.family.look()
        now, spent = time.monotonic(), self.family.spent()
        files = [(self._folder(path), path.stat().st_size) for path in self.out.rglob("*") if path.is_file()]
        self.folders.append(Counter(folder for folder, _ in files))
        self.figures.append(
            {
                "wall_seconds": round(now - self._began, 2),
                "seconds": round(spent - self._spent, 2),
                "files": len(files),
                "mib": round(sum(size for _, size in files) / (1 << 20), 2),
                "peak_mib": self.family.peak >> 20,
            }
        )
        self._began, self._spent = time.monotonic(), spent

    def _folder(self, path: Path) -> str:
        """Return the table, or the stream's own kind of files, that a folder belongs to."""
        first, *others = path.relative_to(self.out).parts[:-1]
        return "/".join([first, *others[0 if first == "data" else 1 :][:1]])


def backlog(warehouse: Warehouse, scratch: Path, events: int, groups: int, batches: Batches) -> dict[str, Any]:
    """Run three batches over an existing trace; the first includes the start of Python workers and of Java's
    compiler."""
    trace = scratch / "trace"
    volume = generate(scratch / "data", groups=groups, events=events, seed=1, segments=False)
    (scratch / "data" / "trace").rename(trace)
    third = volume.trace_bytes // 3 + 1
    done = batches.done
    began = time.monotonic()
    stream(warehouse, sort_out([str(trace)]), max_bytes=third, answers_s=0, after_batch=done).awaitTermination()
    wall = time.monotonic() - began
    return {"events": events, "events_a_second": round(events / wall), "batches": batches.figures}


def live(
    warehouse: Warehouse, scratch: Path, rate: int, seconds: float, groups: int, batches: Batches
) -> dict[str, Any]:
    """Write `rate` events a second; measure the age of the oldest event of a batch when its snapshot is there.

    That age is the longest wait for an answer about an event of the batch.
    """
    place = scratch / "trace"
    place.mkdir()
    path = place / "trace.jsonl"
    source = itertools.chain.from_iterable(itertools.repeat(generated(scratch, round(rate * seconds), groups)))
    seq = itertools.count()
    over = threading.Event()

    def write(until: float) -> None:
        began, count = time.monotonic(), 0
        with path.open("ab", buffering=0) as file:
            while time.monotonic() < until and not over.is_set():
                due = round((time.monotonic() - began) * rate) - count
                if due > 0:
                    now, mono = time.time(), time.monotonic()
                    lines = [shift(event | {"seq": next(seq)}, now, mono) for event in itertools.islice(source, due)]
                    file.write(b"".join(lines))
                    count += due
                time.sleep(0.05)

    write(time.monotonic() + 1.0)
    ages: list[tuple[float, float]] = []
    seen = [0.0]

    def done(batch: int) -> None:
        batches.done(batch)
        now = time.time()
        newest = warehouse.read("events").selectExpr("cast(max(happened_at) as double) as at").collect()[0].at
        # All events of this batch are newer than the newest event of the batch before.
        ages.append((now - (seen[0] or newest), now - newest))
        seen[0] = newest

    writer = threading.Thread(target=write, args=(time.monotonic() + seconds,))
    inputs = sort_out([str(place)])
    query = stream(warehouse, inputs, every="0 seconds", days=1, answers_s=0, after_batch=done, stopped=over)
    writer.start()
    try:
        while writer.is_alive():
            query.awaitTermination(1)
    finally:
        over.set()
        writer.join()
        stop(warehouse.spark, query)
    steady = ages[2:]
    if not steady:
        raise SystemExit("there were fewer than three batches: more --seconds are needed")
    return {
        "rate": rate,
        "batches": len(ages),
        "oldest_seconds": {"median": _median(steady, 0), "most": round(max(age for age, _ in steady), 1)},
        "newest_seconds": {"median": _median(steady, 1), "most": round(max(age for _, age in steady), 1)},
        "batch_seconds": round(statistics.median(each["wall_seconds"] for each in batches.figures[2:]), 2),
    }


def _median(ages: list[tuple[float, float]], which: int) -> float:
    return round(statistics.median(age[which] for age in ages), 1)


def days(
    warehouse: Warehouse, scratch: Path, count: int, events: int, groups: int, again: int, batches: Batches
) -> dict[str, Any]:
    """Stream many days of `events` each, one batch a day.

    Days without rebalances are the same except for the date, and so are the others, which come every `again` days. So
    all growth is the stream's own.
    """
    place = scratch / "trace"
    place.mkdir()
    every = generated(scratch, 2 * events, groups)
    of_day = [every[:events], every[events:]]
    start = 20_000 * DAY_S
    seq = itertools.count()
    for day in range(count):
        at_rest = bool(day % again if again else day)
        first, last = (of_day[at_rest][end]["mono"] for end in (0, -1))
        times = DAY_S / ((last - first) * 1.0001)
        with (place / "trace.jsonl").open("ab") as file:
            for event in of_day[at_rest]:
                mono = day * DAY_S + (event["mono"] - first) * times
                file.write(shift(event | {"seq": next(seq)}, start + mono, mono, times))
        inputs = sort_out([str(place)])
        stream(warehouse, inputs, days=KEPT_DAYS, answers_s=0, after_batch=batches.done).awaitTermination()
    # Leave out the first third, in which Java is cold.
    third = count // 3
    early, late = slice(third, 2 * third), slice(2 * third, None)
    means = {
        name: [round(statistics.mean(each[name] for each in batches.figures[part]), 2) for part in (early, late)]
        for name in ("seconds", "wall_seconds", "files", "mib")
    }
    folders = {
        name: [round(statistics.mean(each[name] for each in batches.folders[part]), 1) for part in (early, late)]
        for name in sorted(batches.folders[-1])
    }
    return {
        "days": count,
        "events_a_day": events,
        "second_third_and_last": means,
        "files_by_folder": folders,
        "batches": batches.figures,
    }


def one(warehouse: Warehouse, scratch: Path, events: int, groups: int, batches: Batches) -> dict[str, Any]:
    """Stream all groups in one batch, then one of them in many batches without answers.

    By turns, a batch derives only the rows of this group, or those of all groups in its bucket. The first of either is
    left out, because Java compiles for it.
    """
    place = scratch / "trace"
    place.mkdir()
    every = generated(scratch, events, groups)
    of_group = [event for event in every if event.get("group") == every[0]["group"]]
    span = every[-1]["mono"] - every[0]["mono"] + 1.0
    seq = itertools.count()
    for number, part in enumerate([every, *[of_group] * ONE_BATCHES]):
        ahead = number * span
        with (place / "trace.jsonl").open("ab") as file:
            for event in part:
                file.write(shift(event | {"seq": next(seq)}, event["wall"] + ahead, event["mono"] + ahead))
        warehouse.few = FEW * (number % 2)
        stream(warehouse, sort_out([str(place)]), after_batch=batches.done).awaitTermination()
    medians = {
        name: {
            what: round(statistics.median(each[what] for each in batches.figures[first::2]), 2)
            for what in ("seconds", "wall_seconds")
        }
        for name, first in (("by_group", 3), ("by_bucket", 4))
    }
    return {
        "events": events,
        "groups": groups,
        "events_a_batch": len(of_group),
        "rounds_a_batch": sum(event["event"] == "round" for event in of_group),
        **medians,
        "batches": batches.figures,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("backlog", "live", "days", "one"))
    parser.add_argument("--events", type=int, default=300_000, help="number of events; with `days`, per day")
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--rate", type=int, default=1_000, help="events per second, for `live`")
    parser.add_argument("--seconds", type=float, default=120.0, help="duration, for `live`")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--again", type=int, default=0, help="days between two days with rebalances, for `days`")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="2g")
    chosen = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-streaming-"))
    family = Family([os.getpid()])
    ended = threading.Event()
    watch = threading.Thread(target=family.watch, args=(ended,))
    watch.start()
    spark = session(chosen.master, config={"spark.driver.memory": chosen.memory})
    try:
        out = scratch / "out"
        warehouse = Warehouse(spark, str(out))
        batches = Batches(family, out)
        if chosen.what == "backlog":
            result = backlog(warehouse, scratch, chosen.events, chosen.groups, batches)
        elif chosen.what == "live":
            result = live(warehouse, scratch, chosen.rate, chosen.seconds, chosen.groups, batches)
        elif chosen.what == "one":
            result = one(warehouse, scratch, chosen.events, chosen.groups, batches)
        else:
            result = days(warehouse, scratch, chosen.days, chosen.events, chosen.groups, chosen.again, batches)
        print(json.dumps({**result, "peak_mib": family.peak >> 20}))
    finally:
        ended.set()
        watch.join()
        spark.stop()
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
