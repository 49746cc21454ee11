"""A real server on a real SQLite file in trouble: one sentence at start; 15 or 16, and nothing lost, while it runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.offset_fetch import OffsetFetchResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.testing import CoordinatorServer
from tests.server.conversation import fetch
from tests.server.wire import Client
from tests.waiting import until

MANY = 500
"""Partitions of a commit that takes more than a page of the file."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "offsets.db", 50)
    store.open()
    yield store
    store.close()


def commit(client: Client, offset: int, partitions: int = 1) -> set[int]:
    """Commit the same offset for so many partitions; the errors."""
    rows = [OffsetCommitRequestPartition(p, offset, committed_metadata="") for p in range(partitions)]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=rows)])
    answer = client.ask(request, 2, OffsetCommitResponse)
    return {each.error_code for each in answer.topics[0].partitions}


def committed(client: Client) -> int:
    answer = client.ask(fetch(), 5, OffsetFetchResponse)
    return answer.error_code or answer.topics[0].partitions[0].committed_offset


def serve(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--store", f"sqlite:{path}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def test_a_disk_that_is_full_refuses_commits_until_there_is_room(store: SqliteStore) -> None:
    with CoordinatorServer(store=store, topics={"t": MANY}) as server, Client(server.bootstrap) as client:
        assert commit(client, 1) == {ErrorCode.NONE}
        store._opened().execute("PRAGMA max_page_count=1")
        assert commit(client, 2, MANY) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        until(lambda: committed(client) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert committed(client) == 1
        store._opened().execute("PRAGMA max_page_count=1000000")
        assert commit(client, 3, MANY) == {ErrorCode.NONE}
        assert committed(client) == 3


def test_a_file_that_becomes_read_only_is_served_no_more_and_has_all_that_was_acknowledged(store: SqliteStore) -> None:
    with CoordinatorServer(store=store, topics={"t": MANY}) as server, Client(server.bootstrap) as client:
        assert commit(client, 1) == {ErrorCode.NONE}
        store._opened().execute("PRAGMA query_only=1")
        assert commit(client, 2) == {ErrorCode.NOT_COORDINATOR}
        until(lambda: committed(client) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert committed(client) == ErrorCode.NOT_COORDINATOR
        assert commit(client, 3) == {ErrorCode.NOT_COORDINATOR}
        found = client.ask(FindCoordinatorRequest("g"), 2, FindCoordinatorResponse)
        assert found.error_code == ErrorCode.NONE
    store.close()
    store.open()
    with CoordinatorServer(store=store, topics={"t": MANY}) as server, Client(server.bootstrap) as client:
        assert committed(client) == 1


def test_a_file_that_another_process_has_is_one_sentence_at_start(store: SqliteStore) -> None:
    ended = serve(store.path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"kafka-shim: The store {store.path} is in use by another process.\n"


def test_a_corrupted_file_is_one_sentence_at_start(store: SqliteStore) -> None:
    store.write([(n % 50, OffsetCommitKey(f"g{n}", "t", 0), OffsetCommitValue(1)) for n in range(5000)])
    store.close()
    damaged = bytearray(store.path.read_bytes())
    for page in range(3, len(damaged) // 4096):
        damaged[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    store.path.write_bytes(damaged)
    ended = serve(store.path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"kafka-shim: The store {store.path} is corrupted: restore it from a copy.\n"
