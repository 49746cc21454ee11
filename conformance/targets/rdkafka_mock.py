"""librdkafka's mock cluster, from the confluent-kafka wheel, in a separate process because it may abort.

The wheel has no Python names for the mock cluster, but contains the whole library, so ctypes calls its C functions.
Only they can set the initial rebalance delay to 0.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Final

from kafka_shim.conformance.targets.base import READY_SECONDS, Children, Instance, Limits, LineReader, TargetError

_PROGRAM: Final = """\
import ctypes, pathlib, resource, sys
import confluent_kafka
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
folder = pathlib.Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
rd = ctypes.CDLL(str(next(folder.glob("librdkafka-*"))))
for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_handle_mock_cluster"):
    getattr(rd, name).restype = ctypes.c_void_p
rd.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
why = ctypes.create_string_buffer(512)
conf = ctypes.c_void_p(rd.rd_kafka_conf_new())
for name, value in ((b"test.mock.num.brokers", b"1"), (b"log_level", b"0")):
    if rd.rd_kafka_conf_set(conf, name, value, why, ctypes.c_size_t(512)) != 0:
        sys.exit(why.value.decode())
producer = rd.rd_kafka_new(0, conf, why, ctypes.c_size_t(512))
if not producer:
    sys.exit(why.value.decode())
cluster = ctypes.c_void_p(rd.rd_kafka_handle_mock_cluster(ctypes.c_void_p(producer)))
rd.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, ctypes.c_int32(0))
address = rd.rd_kafka_mock_cluster_bootstraps(cluster).decode()
print("ready", address, confluent_kafka.libversion()[0], flush=True)
sys.stdin.read()
"""


class RdkafkaMockTarget:
    """The target `rdkafka-mock`."""

    name = "rdkafka-mock"
    profiles = frozenset({"default"})

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._children = Children()

    def start(self, profile: str) -> Instance:
        if importlib.util.find_spec("confluent_kafka") is None:
            raise TargetError("librdkafka's mock is in a client library: pip install 'kafka-group-shim[clients]'")
        process = self._children.start([sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE)
        _, address, version = LineReader(process).wait_for("ready ", READY_SECONDS).split()
        host, _, port = address.rpartition(":")
        # Its later rounds last 1 s less than the session, even if all have joined.
        limits = Limits(min_session_timeout=1, initial_rebalance_delay=0, usual_session=3_000)
        description = f"librdkafka {version} mock"
        return Instance(host, int(port), profile, limits, description=description, process=process)

    def stop(self) -> None:
        self._children.end()
