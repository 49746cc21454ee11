"""The shared store on a real PostgreSQL server: records, fencing, leases, and messages to the operator."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from string import ascii_letters

import psycopg
import pytest

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.postgres import PostgresStore
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue
from kafka_shim.persistence.store import PROBE_BYTES, FencedError, StoreError
from tests import postgres

pytestmark = [
    pytest.mark.second_stage("PostgreSQL"),
    pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed"),
]

LONG_S = 600.0
OVER_S = -1.0  # a lease that has run out when it is given


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres.postgres_server() as url:
        yield url


@pytest.fixture
def url(server: str) -> str:
    postgres.empty(server)
    return server


def opened(url: str, lease_s: float = LONG_S) -> PostgresStore:
    store = PostgresStore(url, 50, lease_s=lease_s)
    store.open()
    return store


def offset(at: int) -> OffsetCommitValue:
    return OffsetCommitValue(at, -1, "", 1_700_000_000_000, -1)


KEY = OffsetCommitKey("grp", "foo", 0)
OTHER = OffsetCommitKey("grp", "foo", 1)


def test_a_written_record_is_read_back_and_a_tombstone_removes_it(url: str) -> None:
    store = opened(url)
    store.claim(1, [29])
    store.write([(29, KEY, offset(1)), (29, OTHER, offset(7)), (29, KEY, offset(2))])
    assert dict(store.load(29)) == {KEY: offset(2), OTHER: offset(7)}
    store.write([(29, KEY, None)])
    again = opened(url)
    assert dict(again.load(29)) == {OTHER: offset(7)}
    assert dict(again.load(28)) == {}


def test_keys_that_are_too_long_for_an_index_are_kept(url: str) -> None:
    """An index row of PostgreSQL has at most 2,704 bytes, and random ones cannot be packed."""
    store = opened(url)
    store.claim(1, [29])
    chance = random.Random(1)
    long = [OffsetCommitKey("".join(chance.choices(ascii_letters, k=size)), "foo", 0) for size in (1990, 2001, 32_767)]
    store.write([(29, key, offset(1)) for key in (KEY, *long)])
    store.write([(29, long[2], offset(2)), (29, long[1], None)])
    assert dict(opened(url).load(29)) == {KEY: offset(1), long[0]: offset(1), long[2]: offset(2)}


@pytest.mark.parametrize("name", ["g" * 1999 + "é", "g\0", "\x7f#", "a" * 32_767])
def test_documents_of_any_name_are_kept(url: str, name: str) -> None:
    store = opened(url)
    assert store.change_documents(0, {("group", name): "{}", ("group", "other"): "[]"})
    assert store.documents() == (1, {("group", name): "{}", ("group", "other"): "[]"})
    assert store.change_documents(1, {("group", name): None})
    assert opened(url).documents() == (2, {("group", "other"): "[]"})


def test_a_write_without_the_lease_changes_nothing(url: str) -> None:
    store = opened(url)
    store.claim(1, [29])
    with pytest.raises(FencedError) as caught:
        store.write([(29, KEY, offset(1)), (30, OTHER, offset(1))])
    assert caught.value.partitions == {30}
    assert caught.value.error is ErrorCode.NOT_COORDINATOR
    assert dict(store.load(29)) == {}


def test_a_process_that_slept_through_its_lease_is_fenced_by_the_epoch(url: str) -> None:
    sleeper, successor = opened(url, lease_s=OVER_S), opened(url)
    assert sleeper.claim(1, [29]) == {29: 1}
    sleeper.write([(29, KEY, offset(1))])
    assert successor.claim(2, [29]) == {29: 2}
    successor.write([(29, KEY, offset(5))])
    with pytest.raises(FencedError):
        sleeper.write([(29, KEY, offset(2))])
    assert dict(successor.load(29)) == {KEY: offset(5)}


def test_a_lease_that_came_back_to_the_same_process_has_a_new_epoch(url: str) -> None:
    first, second = opened(url, lease_s=OVER_S), opened(url, lease_s=OVER_S)
    first.claim(1, [3])
    second.claim(2, [3])
    assert first.claim(1, [3]) == {3: 3}
    with pytest.raises(FencedError):
        second.write([(3, KEY, offset(1))])


def test_a_lease_goes_to_another_process_after_its_release(url: str) -> None:
    first, second = opened(url), opened(url)
    first.claim(1, [1, 2])
    assert second.claim(2, [1, 2, 3]) == {3: 1}
    first.release([1])
    assert second.claim(2, [1, 2]) == {1: 2}


def test_renewing_returns_live_nodes_and_owners(url: str) -> None:
    first, second = opened(url), opened(url)
    first.register(1, "127.0.0.1", 9001)
    second.register(2, "127.0.0.1", 9002)
    first.claim(1, [0, 1])
    second.claim(2, [2])
    view = second.renew()
    assert [(node.node_id, node.port) for node in view.nodes] == [(1, 9001), (2, 9002)]
    assert view.owners == {0: 1, 1: 1, 2: 2}
    assert view.own_epochs == {2: 1}


def test_renewing_tells_when_the_first_lease_of_another_process_runs_out(url: str) -> None:
    first, second, third = opened(url), opened(url, lease_s=60), opened(url, lease_s=30)
    first.claim(1, [0])
    assert first.renew().next_lapse_s == math.inf
    second.claim(2, [1])
    third.claim(3, [2])
    assert 20 < first.renew().next_lapse_s <= 30


def test_renewing_reports_a_place_taken_by_another_process(url: str) -> None:
    sleeper, successor = opened(url, lease_s=OVER_S), opened(url)
    sleeper.register(1, "127.0.0.1", 9001)
    assert sleeper.renew().registered
    successor.register(1, "127.0.0.1", 9002)
    assert not sleeper.renew().registered


def test_a_lease_that_is_being_written_under_is_not_claimed_nor_waited_for(url: str) -> None:
    sleeper, successor = opened(url, lease_s=OVER_S), opened(url)
    sleeper.claim(1, [4, 5])
    with psycopg.connect(url) as writer:
        writer.execute("SELECT FROM kafka_shim_leases WHERE partition = 4 FOR SHARE")
        assert successor.claim(2, [4, 5]) == {5: 2}
    assert successor.claim(2, [4, 5]) == {4: 2}


def test_a_writer_that_stands_still_is_ended_by_the_server(url: str) -> None:
    sleeper, successor = opened(url, lease_s=0.6), opened(url)
    sleeper.claim(1, [4])

    def sleep_while_writing() -> None:
        with sleeper._data as connection, connection.transaction():
            connection.execute("SELECT FROM kafka_shim_leases WHERE partition = 4 FOR SHARE")
            with psycopg.connect(url) as other:
                other.execute("SELECT FROM kafka_shim_leases WHERE partition = 4 FOR UPDATE")
                assert successor.claim(2, [4]) == {}
            connection.execute("SELECT 1")

    with pytest.raises(StoreError):
        sleep_while_writing()


def test_all_processes_of_a_database_see_one_seed(url: str) -> None:
    assert opened(url).cluster_seed == opened(url).cluster_seed != 0


def test_a_closed_process_frees_its_leases_and_its_place_at_once(url: str) -> None:
    first, second = opened(url), opened(url)
    first.register(1, "127.0.0.1", 9001)
    first.claim(1, [0])
    first.close()
    second.register(1, "127.0.0.1", 9002)
    assert second.claim(1, [0]) == {0: 2}


def test_a_node_id_in_use_is_refused_with_advice(url: str) -> None:
    first, second = opened(url), opened(url)
    first.register(1, "127.0.0.1", 9001)
    with pytest.raises(StoreError, match="--node-id"):
        second.register(1, "127.0.0.1", 9002)


def test_a_database_of_another_partition_count_is_refused_with_advice(url: str) -> None:
    opened(url)
    with pytest.raises(StoreError, match="partitions=50"):
        PostgresStore(url, 10).open()


def test_a_broken_connection_is_one_error_and_the_next_write_succeeds(url: str) -> None:
    store = opened(url)
    store.claim(1, [29])
    store.write([(29, KEY, offset(1))])
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with pytest.raises(StoreError) as caught:
        store.write([(29, KEY, offset(2))])
    assert caught.value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    store.write([(29, KEY, offset(3))])
    assert dict(store.load(29)) == {KEY: offset(3)}


def test_a_probe_writes_and_leaves_nothing(url: str) -> None:
    store = opened(url)
    with psycopg.connect(url, autocommit=True) as admin:
        before = admin.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
        store.probe()
        (written,) = admin.execute("SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), %s)", before).fetchone()
        assert written > PROBE_BYTES
        assert admin.execute("SELECT count(*) FROM kafka_shim_records").fetchone() == (0,)
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with pytest.raises(StoreError):
        store.probe()
    store.probe()


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        PostgresStore("postgresql://shim@127.0.0.1:1/postgres", 50).open()
