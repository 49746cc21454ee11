"""A real server on a real SQLite file in trouble: one sentence at start; errors 15 or 16, and no lost commit, while it
runs."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
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
from kafka_shim.persistence import sqlite
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.server import durability
from kafka_shim.testing import CoordinatorServer
from tests.server.conversation import fetch
from tests.server.wire import Client
from tests.waiting import PATIENCE_S, until

MANY = 500
"""Partitions of a commit that takes more than a page of the file."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "offsets.db", 50)
    store.open()
    yield store
    store.close()


def commit(client: Client, offset: int, partitions: int = 1) -> set[int]:
    """Commit the same offset for this number of partitions; return the errors."""
    rows = [OffsetCommitRequestPartition(p, offset, committed_metadata="") for p in range(partitions)]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=rows)])
    answer = client.ask(request, 2, OffsetCommitResponse)
    return {each.error_code for each in answer.topics[0].partitions}


def committed(client: Client) -> int:
    answer = client.ask(fetch(), 5, OffsetFetchResponse)
    return answer.error_code or answer.topics[0].partitions[0].committed_offset


def serve(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--store", f"sqlite:{path}"]
    return subprocess.run(command, capture_output=True, text=True)


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


def health(server: CoordinatorServer) -> tuple[int, dict[str, object]]:
    answer = httpx.get(f"{server.control_url}/health")
    return answer.status_code, answer.json()


def test_health_says_that_the_disk_is_full_until_there_is_room(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed = threading.Event()
    probe = store.probe

    def noted() -> None:
        try:
            probe()
        finally:
            probed.set()

    monkeypatch.setattr(store, "probe", noted)
    server = CoordinatorServer(store=store, topics={"t": MANY}, control=True)
    with server, Client(server.bootstrap) as client:
        assert health(server) == (200, {"status": "ok"})
        store._opened().execute("PRAGMA max_page_count=1")
        assert commit(client, 2, MANY) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        until(lambda: committed(client) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert probed.wait(PATIENCE_S)
        assert health(server) == (503, {"status": "degraded", "store": "failed"})
        store._opened().execute("PRAGMA max_page_count=1000000")
        until(lambda: health(server) == (200, {"status": "ok"}))
        assert commit(client, 3, MANY) == {ErrorCode.NONE}


SMALL_DISK = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"']
"""A command that runs the rest of its arguments, the first a folder that is a file system of 2 MiB for it alone."""


def has_small_disks() -> bool:
    try:
        return not subprocess.run([*SMALL_DISK, "/mnt", "true"], capture_output=True, check=False).returncode
    except FileNotFoundError:
        return False


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.skipif(not has_small_disks(), reason="this system lets no user mount a file system")
def test_health_comes_back_without_a_client_when_a_real_disk_has_room(tmp_path: Path) -> None:
    command = [*SMALL_DISK, str(tmp_path), sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0"]
    command += ["--store", f"sqlite:{tmp_path}/offsets.db", "--topic", f"t:{MANY}", "--control", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            addresses = dict(part.split("=", 1) for part in process.stdout.readline().split()[1:])

            def status() -> int:
                return httpx.get(f"{addresses['control']}/health").status_code

            ballast = Path(f"/proc/{process.pid}/root{tmp_path}/ballast")
            with Client(addresses["kafka"]) as client:
                assert commit(client, 1) == {ErrorCode.NONE}
                fill(ballast)
                assert commit(client, 2, MANY) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
            until(lambda: status() == 503)
            ballast.unlink()
            until(lambda: status() == 200)
            with Client(addresses["kafka"]) as client:
                assert committed(client) == 1
                assert commit(client, 3, MANY) == {ErrorCode.NONE}
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def test_a_removed_file_fails_commits_and_health(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "LOOK_SECONDS", 0.0)
    server = CoordinatorServer(store=store, topics={"t": MANY}, control=True)
    with server, Client(server.bootstrap) as client:
        assert commit(client, 1) == {ErrorCode.NONE}
        store.path.unlink()
        assert commit(client, 2) == {ErrorCode.NOT_COORDINATOR}
        until(lambda: committed(client) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        status, found = health(server)
        assert (status, found["store"]) == (503, "failed")
    assert "stop the server, put the file back or restore it from a copy" in caplog.text


def test_a_server_without_clients_notices_that_its_file_is_removed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(durability, "LOOK_SECONDS", 0.01)
    with CoordinatorServer(store=store, topics={"t": MANY}, control=True) as server:
        assert health(server)[0] == 200
        store.path.rename(store.path.with_name("aside.db"))
        until(lambda: health(server)[0] == 503)
        assert health(server)[1]["store"] == "failed"
    assert len([each for each in caplog.messages if "put the file back or restore it from a copy" in each]) == 1


def test_a_read_only_file_keeps_all_acknowledged_commits(store: SqliteStore) -> None:
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


def test_a_file_in_use_is_one_sentence_at_start(store: SqliteStore) -> None:
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
