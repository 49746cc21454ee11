"""Files of commands with the bytes of clients: only their owner may read them, under any umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.cli import cli
from kafka_shim.testing import CoordinatorServer
from tests.hostile.serving import serving
from tests.lab.test_replay import record

LOG = """\
[2026-11-27 09:26:06,123] INFO [GroupCoordinator 0]: Member m in group billing has failed, removing it from the group \
(kafka.coordinator.group.GroupCoordinator)
"""


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()}


def test_files_of_a_server_are_its_owners_alone(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    store, journal, trace = (str(files / name) for name in ("store.db", "journal.jsonl", "trace.jsonl"))
    options = ["--store", f"sqlite:{store}", "--journal", journal, "--trace", trace]
    # The second start sets the files of the first aside; these may come from a version without this protection.
    for _ in range(2):
        for path in files.iterdir():
            path.chmod(0o644)
        with serving(tmp_path, *options) as server, server.connect() as peer:
            assert peer.ask(HeartbeatRequest("g", 1, "m"), 4).error_code == 25
            during = modes(files)
        assert {"store.db", "journal.jsonl", "trace.jsonl"} <= during.keys()
        assert set(during.values()) == {"0o600"}, during
    assert {"journal.jsonl.1", "trace.jsonl.1"} <= during.keys()


def test_files_made_from_a_run_are_their_owners_alone(tmp_path: Path) -> None:
    record(4, tmp_path)
    made = tmp_path / "made"
    made.mkdir()
    trace, journal = str(tmp_path / "trace.jsonl"), str(tmp_path / "journal.jsonl")
    for name in ("written.jsonl", "trace.html", "run.html", "from-log.jsonl"):
        (made / name).write_bytes(b"older")
        (made / name).chmod(0o644)
    log = tmp_path / "server.log"
    log.write_text(LOG)
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.write_trace(made / "written.jsonl")
    for command in (
        ["trace", "export", trace, "--html", str(made / "trace.html"), "--no-replay"],
        ["replay", journal, "--html", str(made / "run.html")],
        ["trace", "from-log", str(log), "--out", str(made / "from-log.jsonl")],
    ):
        ended = CliRunner().invoke(cli, command)
        assert ended.exit_code == 0, ended.output
    assert modes(made) == dict.fromkeys(("written.jsonl", "trace.html", "run.html", "from-log.jsonl"), "0o600")
