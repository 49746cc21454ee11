"""The kit on a platform without epoll, such as macOS: in a process whose `select` module has none."""

import subprocess
import sys

import pytest

from tests.test_imports import ROOT

pytestmark = pytest.mark.second_stage("real clients")

PROGRAM = """
import selectors, sys, types
import kafka, trio
import select

# trio and the standard library are imported with epoll, all of ours without.
without = types.ModuleType("select")
vars(without).update({name: value for name, value in vars(select).items() if "epoll" not in name.lower()})
sys.modules["select"] = without

from kafka_shim.server import reactor
from kafka_shim.testing import CoordinatorServer, polling

assert not reactor.AVAILABLE
with CoordinatorServer(topics={"orders": 4}, brokers=2) as server:
    consumer = kafka.KafkaConsumer(
        "orders", bootstrap_servers=server.bootstrap, group_id="billing", client_id="real",
        auto_offset_reset="earliest", heartbeat_interval_ms=100,
    )
    doomed = server.puppet("billing", ["orders"], session_timeout=10)
    with polling(consumer) as polled:
        server.group("billing").stable(members=["real", "puppet"])
        doomed.crash()
        server.clock.advance(10)
        server.group("billing").stable(owners={"real": {"orders": range(4)}})
        server.produce("orders", "a", "b")
        polled.wait_records(2)
    consumer.close()
    for kind in ("consumer_puppet", "share_puppet", "streams_puppet"):
        getattr(server, kind)(kind, ["orders"])
        server.group(kind).stable(members=1)
print("well")
"""


def test_every_kind_of_group_works_without_epoll() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "well\n", done.stderr
