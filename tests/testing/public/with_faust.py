"""The test of a public thread, for Faust. `test_frameworks.py` runs it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_shim.testing import CoordinatorServer, watching

APPLICATION = """
import asyncio
import os

import faust

app = faust.App(
    "billing",
    broker=f"kafka://{os.environ['KAFKA']}",
    broker_commit_interval=0.1,
    store="memory://",
    topic_disable_leader=True,
    web_enabled=False,
)
bills = app.topic("bills", value_serializer="raw")


@app.agent(app.topic("orders", value_type=bytes, value_serializer="raw"), concurrency=2)
async def bill(stream):
    async for order in stream:
        if order == os.environ["SLOW"].encode():
            await asyncio.Event().wait()
        await bills.send(value=order)
"""
Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def start(kafka_coordinator: CoordinatorServer, tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "billing.py").write_text(APPLICATION)
    workers: list[subprocess.Popen[bytes]] = []

    def start(slow: str) -> subprocess.Popen[bytes]:
        """Start a worker; its work on the order `slow` never ends."""
        environment = os.environ | {"KAFKA": kafka_coordinator.bootstrap, "SLOW": slow}
        command = [sys.executable, "-m", "faust", "-A", "billing", "worker", "-l", "error"]
        workers.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE))
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()
        worker.communicate()


@pytest.mark.kafka_coordinator(topics={"orders": 1, "bills": 1})
def test_an_offset_is_committed_past_a_record_in_work(kafka_coordinator: CoordinatorServer, start: Start) -> None:
    """Faust 0.15.3 commits past a record in work; the worker dies, and the record is lost.

    https://github.com/faust-streaming/faust/pull/707 (Faust, 2026, still open)
    """
    group = kafka_coordinator.group("billing")

    def billed() -> list[bytes]:
        return sorted(record.value or b"" for record in kafka_coordinator.records("bills"))

    kafka_coordinator.produce("orders", "1", "2", "3", "4", "5")
    worker = start("1")
    with watching(worker):
        group.wait_for(lambda now: len(billed()) == 4, "four of five billed")
        group.committed("orders", 0, at_least=5)
    worker.kill()
    kafka_coordinator.expire("billing", group.now.members[0].member_id)
    with watching(start("none")):
        kafka_coordinator.produce("orders", "6")
        group.committed("orders", 0, at_least=6)
    assert billed() == [b"2", b"3", b"4", b"5", b"6"]
