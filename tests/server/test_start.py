"""Exceptions while a server starts: wrong options are one sentence, and a defect of the server is never their fault."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.testing import CoordinatorServer
from tests import postgres
from tests.server.wire import Client
from tests.waiting import until

SERVE_WITH_DEFECT = """
import sys
from importlib import import_module
from kafka_shim.cli import main

def mistaken(*_, **__):
    raise {error}

owner = import_module("{module}")
*owners, function = "{function}".split(".")
for name in owners:
    owner = getattr(owner, name)
setattr(owner, function, mistaken)
main()
"""

DEFECTS = [
    ("kafka_shim.server.topic_records", "TopicRecords.begin"),
    ("kafka_shim.server.topic_records", "TopicRecords.load"),
    ("kafka_shim.server.ownership", "Ownership.take_all"),
    ("kafka_shim.server.reactor", "Reactor.__init__"),
]


def serving(defect: tuple[str, str], error: str, store: str) -> list[str]:
    """Return the command of a server in which a function raises."""
    module, function = defect
    code = SERVE_WITH_DEFECT.format(module=module, function=function, error=error)
    return [sys.executable, "-c", code, "serve", "--listen", "127.0.0.1:0", "--store", store]


def started_with(defect: tuple[str, str], error: str, store: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(serving(defect, error, store), capture_output=True, text=True)


def assert_says_its_own_defect(code: int, stderr: str, error: str) -> None:
    assert code == 1
    lines = stderr.splitlines()
    first = next(number for number, line in enumerate(lines) if "CRITICAL" in line)
    assert lines[first].endswith(f"CRITICAL the server ends because of a defect of its own, {error}")
    assert lines[first + 1].lstrip() == "Traceback (most recent call last):"


@pytest.mark.parametrize("error", ["ValueError('no option')", "OSError('no address')", "KeyError('absent')"])
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect[1])
def test_defect_during_the_start_is_not_called_bad_options(defect: tuple[str, str], error: str, tmp_path: Path) -> None:
    ended = started_with(defect, error, f"sqlite:{tmp_path / 'store.db'}")
    assert ended.stdout == ""
    assert_says_its_own_defect(ended.returncode, ended.stderr, error)


@pytest.mark.second_stage("PostgreSQL")
@pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed")
def test_first_read_of_the_catalogue_that_raises_is_not_called_bad_options() -> None:
    defect = ("kafka_shim.server.catalogue", "apply")
    with postgres.postgres_server() as url:
        ended = started_with(defect, "ValueError('no option')", url)
    assert ended.stdout == ""
    assert_says_its_own_defect(ended.returncode, ended.stderr, "ValueError('no option')")


def test_defect_after_the_ready_line_is_not_called_bad_options() -> None:
    command = serving(("kafka_shim.server.server", "Server.stop"), "ValueError('no option')", "memory:")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    assert_says_its_own_defect(process.returncode, stderr, "ValueError('no option')")


def test_options_that_the_server_refuses_are_one_sentence(tmp_path: Path) -> None:
    error = "ValueError('This cannot be.')"
    ended = started_with(("kafka_shim.server.server", "make_cluster"), error, f"sqlite:{tmp_path / 'store.db'}")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "kafka-shim: This cannot be.\n")


def commit(client: Client) -> int:
    rows = [OffsetCommitRequestPartition(0, 1, committed_metadata="")]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=rows)])
    answer = client.ask(request, 2, OffsetCommitResponse)
    return int(answer.topics[0].partitions[0].error_code)


def test_server_starts_with_a_partition_that_raises_and_serves_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "offsets.db", 50)
    store.open()
    with CoordinatorServer(store=store, topics={"t": 1}) as server, Client(server.bootstrap) as client:
        assert commit(client) == ErrorCode.NONE
    replay = Shard.replay

    def raising(shard: Shard, key: Any, value: Any) -> None:
        if shard.partition == partition_for("g", 50):
            raise RuntimeError("a defect")
        replay(shard, key, value)

    with monkeypatch.context() as patch:
        patch.setattr(Shard, "replay", raising)
        server = CoordinatorServer(store=store, topics={"t": 1}, control=True)
        with server, Client(server.bootstrap) as client:

            def health() -> tuple[int, dict[str, int]]:
                answer = httpx.get(f"{server.control_url}/health")
                return answer.status_code, answer.json()["partitions"]

            # The partition is loaded again and again, and is not failed during a load.
            until(lambda: health() == (503, {"failed": 1}))
            assert commit(client) in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            patch.undo()
            until(lambda: commit(client) == ErrorCode.NONE)
            assert httpx.get(f"{server.control_url}/health").json()["status"] == "ok"
    store.close()
