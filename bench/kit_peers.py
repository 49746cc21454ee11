"""The test kit beside its peers: `python -m bench.kit_peers [--runs 7] [--mockafka PYTHON]`.

Each run is a fresh process that imports, starts its Kafka, produces a record, joins a group and gets the record, with
the same client, confluent-kafka. Peers take turns, so that load on the machine is shared. Mockafka has classes in place
of the client's; it runs under the interpreter of an environment with `mockafka-py`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable

MEASURE = """
import json, resource, time
began, used = time.perf_counter(), time.process_time()
{program}
took, used = time.perf_counter() - began, time.process_time() - used
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({{"s": took, "CPU s": used, "import CPU s": imported, "MB": peak}}))
"""
CLIENT = """
from confluent_kafka import Consumer, Producer
"""
IMPORTED = """
imported = time.process_time() - used
"""
RECORD = """
producer = Producer({"bootstrap.servers": bootstrap})
producer.produce("orders", b"first")
producer.flush()
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
while (message := consumer.poll(10)) is None or message.error():
    pass
assert message.value() == b"first"
"""
KIT = f"""{CLIENT}
from kafka_shim.testing import CoordinatorServer
{IMPORTED}
server = CoordinatorServer(topics={{"orders": 4}})
server.start()
bootstrap = server.bootstrap
{RECORD}"""
RDKAFKA = f"""{CLIENT}
{IMPORTED}
mock = Producer({{"bootstrap.servers": "mock", "test.mock.num.brokers": 1}})
broker = next(iter(mock.list_topics(timeout=10).brokers.values()))
bootstrap = f"{{broker.host}}:{{broker.port}}"
{RECORD}"""
MOCKAFKA = f"""
from mockafka import FakeConsumer, FakeProducer
from mockafka.admin_client import FakeAdminClientImpl, NewTopic
{IMPORTED}
FakeAdminClientImpl().create_topics([NewTopic("orders", 4)])
producer = FakeProducer()
producer.produce(topic="orders", value=b"first", partition=0)
consumer = FakeConsumer()
consumer.subscribe(["orders"])
message = consumer.poll()
assert message.value(payload=None) == b"first"
"""
ALONE = f"""{CLIENT}
{IMPORTED}"""


def measure(python: str, program: str) -> dict[str, float]:
    """Run a program in a process of its own, and return its measures."""
    done = subprocess.run(
        [python, "-c", MEASURE.format(program=program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def main() -> None:
    """Measure and print; the first run of each, which may write byte code, does not count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--mockafka", metavar="PYTHON", help="the interpreter of an environment with mockafka-py")
    options = parser.parse_args()
    peers = {
        "kafka_shim.testing": (sys.executable, KIT),
        "librdkafka's mock cluster": (sys.executable, RDKAFKA),
        "the client alone, imported": (sys.executable, ALONE),
    }
    if options.mockafka:
        peers["mockafka"] = (options.mockafka, MOCKAFKA)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in peers}
    for number in range(options.runs + 1):
        for name, (python, program) in peers.items():
            measured = measure(python, program)
            if number:
                runs[name].append(measured)
    shapes: tuple[tuple[str, Callable[[list[float]], float]], ...] = (("least", min), ("median", statistics.median))
    for title, shape in shapes:
        for name, several in runs.items():
            figures = "  ".join(f"{shape([each[key] for each in several]):7.3f} {key}" for key in several[0])
            print(f"{title:6}  {name:28}{figures}", flush=True)


if __name__ == "__main__":
    main()
