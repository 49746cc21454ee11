"""Fetches of topics that drop old records."""

from collections.abc import Iterator
from math import inf

import pytest

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.log import KeptBatch
from kafka_shim.broker.retention import SOME, segments
from tests.broker.context import EPOCH_MS, Cluster, batch, fetch_request, partitions_of

DAY_MS = 86_400_000
CHECK = 300.0
"""log.retention.check.interval.ms, in seconds."""


def made(**configs: str) -> Cluster:
    cluster = Cluster(log_bytes=2**22)
    cluster.topics.create("t", [[1]], {name.replace("_", "."): value for name, value in configs.items()})
    return cluster


def write(cluster: Cluster, age_ms: int, count: int = 1) -> None:
    """One batch with a newest record of this age."""
    stamp = EPOCH_MS + round(cluster.now * 1000) - age_ms
    assert cluster.send("t", 0, batch(*[b"value"] * count, timestamp=stamp - count + 1)).error_code == 0


def bounds(cluster: Cluster) -> tuple[int, int]:
    found = cluster.topics.named("t")
    assert found is not None
    log = found.partitions[0].log
    return log.start_offset, log.end_offset


def test_a_log_of_expired_records_is_empty_at_the_next_check() -> None:
    cluster = made(retention_ms="60000")
    write(cluster, age_ms=70_000, count=3)
    cluster.advance(CHECK - 1)
    assert bounds(cluster) == (0, 3)
    cluster.advance(1)
    assert bounds(cluster) == (3, 3)
    assert cluster.broker.next_deadline() == inf
    write(cluster, age_ms=0)
    assert bounds(cluster) == (3, 4)


def test_a_young_record_keeps_the_old_ones_of_its_segment() -> None:
    cluster = made(retention_ms="600000")
    write(cluster, age_ms=DAY_MS)
    write(cluster, age_ms=0)
    cluster.advance(CHECK)
    assert bounds(cluster) == (0, 2)
    cluster.advance(2 * CHECK)
    assert bounds(cluster) == (2, 2)


@pytest.mark.parametrize("configs", [{"segment_ms": "1000"}, {"segment_bytes": "1048576"}])
def test_segments_grow_old_by_themselves(configs: dict[str, str]) -> None:
    cluster = made(retention_ms="600000", **configs)
    write(cluster, age_ms=DAY_MS)
    if "segment_bytes" in configs:
        stamp = EPOCH_MS - DAY_MS
        assert cluster.send("t", 0, batch(b"x" * 1_000_000, timestamp=stamp)).error_code == 0
    write(cluster, age_ms=0, count=5000)
    before = bounds(cluster)
    cluster.advance(CHECK)
    start, end = bounds(cluster)
    assert (before[0], end) == (0, before[1])
    assert start == (1 if "segment_ms" in configs else 2)


@pytest.mark.parametrize("configs", [{"retention_ms": "-1"}, {"retention_ms": "1000", "cleanup_policy": "compact"}])
def test_these_settings_keep_records_for_ever(configs: dict[str, str]) -> None:
    cluster = made(**configs)
    write(cluster, age_ms=10**9)
    cluster.advance(10 * CHECK)
    assert bounds(cluster) == (0, 1)


def test_records_without_a_time_do_not_grow_old() -> None:
    cluster = made(retention_ms="1000")
    cluster.send("t", 0, batch(b"value", timestamp=-1))
    cluster.advance(10 * CHECK)
    assert bounds(cluster) == (0, 1)


def test_a_consumer_that_waits_at_the_end_goes_on_and_one_before_is_told() -> None:
    cluster = made(retention_ms="1000")
    write(cluster, age_ms=10_000, count=2)
    cluster.advance(CHECK - 0.1)
    at_the_end = cluster.fetch(fetch_request(("t", 0, 2), max_wait_ms=400))
    before = cluster.fetch(fetch_request(("t", 0, 0), max_wait_ms=400, min_bytes=10_000))
    cluster.advance(0.1)
    ((exchange, response),) = cluster.replies()
    assert (exchange, partitions_of(response)["t", 0].error_code) == (before, ErrorCode.OFFSET_OUT_OF_RANGE)
    cluster.advance(0.4)
    ((exchange, response),) = cluster.replies()
    assert (exchange, partitions_of(response)["t", 0].error_code) == (at_the_end, 0)


def test_a_broker_checks_partitions_that_it_leads() -> None:
    cluster = Cluster(nodes=2)
    cluster.topics.create("t", [[2, 1]], {"retention.ms": "1000"})
    cluster.send("t", 0, batch(b"value", timestamp=EPOCH_MS - 10_000), node=2)
    assert cluster.brokers[1].next_deadline() == inf
    cluster.advance(CHECK)
    assert bounds(cluster) == (1, 1)


def test_an_empty_partition_expires_nothing() -> None:
    cluster = Cluster()
    cluster.topics.create("t", [[1], [1]], {"retention.ms": "1000"})
    cluster.send("t", 1, batch(b"value", timestamp=EPOCH_MS - 10_000))
    cluster.advance(CHECK)
    assert bounds(cluster) == (0, 0)
    found = cluster.topics.named("t")
    assert found is not None
    assert found.partitions[1].log.start_offset == 1


def test_a_log_of_many_batches_is_looked_at_in_turns_and_cut_at_once() -> None:
    cluster = made(retention_ms="60000")
    for _ in range(5 * SOME):
        write(cluster, age_ms=70_000)
    cluster.advance(CHECK)
    turns = 1
    while bounds(cluster)[0] == 0:
        assert cluster.broker.next_deadline() == cluster.now
        # Clients are served in between, and a record that comes now stays.
        if turns == 1:
            write(cluster, age_ms=0)
        cluster.advance(0)
        turns += 1
    assert (bounds(cluster), turns) == ((5 * SOME, 5 * SOME + 1), 3)


def test_segments_by_size_and_by_time() -> None:
    def kept(*batches: tuple[int, int]) -> Iterator[KeptBatch]:
        for offset, (size, latest) in enumerate(batches, 1):
            yield KeptBatch(size, offset, latest)

    found = segments(kept((60, 0), (60, 1), (10, 2), (10, 500), (200, 501)), 100, 400)
    assert [each and tuple(each) for each in found] == [(1, 0), (3, 2), (4, 500), (5, 501)]
    assert list(segments(kept(), 100, 400)) == []
