"""Random logs of committed offsets: plain, in transactions (committed, aborted, open), deleted, expired.

Each group is its own log with its own producers; several logs are interleaved in one partition of `__consumer_offsets`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_shim.persistence.batch import ABORT, COMMIT, Record, end_marker, write_batch
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value

TOPIC = "orders"
PARTITIONS = 3
PRODUCERS = 3


class Step(NamedTuple):
    """A batch: offsets by partition of the topic (None: a tombstone), by a producer or none; or the end of a
    transaction.
    """

    commits: tuple[tuple[int, int | None], ...] = ()
    producer: int | None = None
    end: int | None = None


def steps(rng: random.Random, *, ended: bool) -> list[Step]:
    """Return the steps of one group; with `ended`, no transaction stays open."""
    result = []
    open_: set[int] = set()
    for _ in range(rng.randint(1, 14)):
        kind = rng.random()
        partitions = rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))
        if kind < 0.35:
            result.append(Step(tuple((p, rng.randrange(1000)) for p in partitions)))
        elif kind < 0.7:
            producer = rng.randrange(PRODUCERS)
            open_.add(producer)
            result.append(Step(tuple((p, rng.randrange(1000)) for p in partitions), producer))
        elif kind < 0.9 and open_:
            producer = rng.choice(sorted(open_))
            open_.discard(producer)
            result.append(Step(producer=producer, end=rng.choice((COMMIT, COMMIT, ABORT))))
        else:
            # A broker writes such tombstones when offsets expire or are deleted.
            result.append(Step(tuple((p, None) for p in partitions)))
    if ended:
        result += [Step(producer=producer, end=rng.choice((COMMIT, ABORT))) for producer in sorted(open_)]
    return result


def woven(groups: list[str], seed: int, count: int, now_ms: int, *, ended: bool = False) -> dict[int, list[bytes]]:
    """Return the batches of each of `count` partitions, in order."""
    rng = random.Random(seed)
    waiting: dict[int, list[Iterator[tuple[str, int, Step]]]] = {number: [] for number in range(count)}
    for index, group in enumerate(groups):
        of_group = [(group, index, step) for step in steps(rng, ended=ended)]
        waiting[partition_for(group, count)].append(iter(of_group))
    partitions = {}
    for number, remaining in waiting.items():
        batches = []
        offset = 0
        while remaining:
            each = rng.choice(remaining)
            step = next(each, None)
            if step is None:
                remaining.remove(each)
                continue
            batch = _batch(*step, offset, now_ms)
            offset += max(len(step[2].commits), 1)
            batches.append(batch)
        partitions[number] = batches
    return partitions


def _batch(group: str, index: int, step: Step, offset: int, now_ms: int) -> bytes:
    producer = -1 if step.producer is None else index * PRODUCERS + step.producer + 1000
    about = {"producer_id": producer, "producer_epoch": 0 if producer >= 0 else -1, "transactional": producer >= 0}
    if step.end is not None:
        return write_batch([end_marker(offset, now_ms, step.end)], control=True, **about)
    records = []
    for place, (partition, committed) in enumerate(step.commits):
        key = OffsetCommitKey(group, TOPIC, partition)
        value = None if committed is None else OffsetCommitValue(committed, -1, "", now_ms)
        records.append(Record(offset + place, now_ms, encode_key(key), value and encode_value(key, value)))
    if producer >= 0:
        about["base_sequence"] = offset
    return write_batch(records, **about)


def write(folder: Path, partitions: dict[int, list[bytes]]) -> None:
    """Write folders of the log with one segment each."""
    for number, batches in partitions.items():
        place = folder / f"__consumer_offsets-{number}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{0:020d}.log").write_bytes(b"".join(batches))
