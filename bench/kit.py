"""The cost of the test kit: `python -m bench.kit`.

One coordinator with one consumer of kafka-python that joins and gets its partitions: the total time, and the part of
this project in it (start, stop, and CPU time of the coordinator's thread). A group of each kind, and a crash in it.
The time that the plugin adds to `pytest --version`, by alternate runs with and without it. Two hundred coordinators at
once. A thousand members in an hour of simulated time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import product

from kafka import KafkaConsumer

from kafka_shim.testing import CoordinatorServer, Network, Simulation, polling

TIMES = 21
SESSION = 45
"""Seconds, the longest default of a kind of group."""


def fixture() -> dict[str, float]:
    """Measure one coordinator with one consumer, in ms. In 100 of them kafka-python waits before it asks for topics."""
    began = time.perf_counter()
    with CoordinatorServer(topics={"orders": 4}) as server:
        started = time.perf_counter()
        before = server.call(time.thread_time)
        consumer = KafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing", client_id="one")
        with polling(consumer):
            server.group("billing").stable(owners={"one": {"orders": range(4)}})
            assigned = time.perf_counter()
            spent = server.call(time.thread_time) - before
        consumer.close()
        closed = time.perf_counter()
    ended = time.perf_counter()
    pieces = {
        "start": started - began,
        "consumer assigned": assigned - started,
        "stop": ended - closed,
        "start, assigned, stop": (assigned - began) + (ended - closed),
        "of which ours": (started - began) + spent + (ended - closed),
    }
    return {name: 1000 * seconds for name, seconds in pieces.items()}


def kinds() -> dict[str, float]:
    """Measure two puppets of each kind that join, and one that crashes, until the other has all: ms, and ms of CPU.

    Its session ends by the clock, or by `expire`.
    """
    took = {}
    ends: dict[str, Callable[[CoordinatorServer], object]] = {
        "clock": lambda server: server.clock.advance(SESSION),
        "expire": lambda server: server.expire("billing", "one"),
    }
    for kind, (name, end) in product(("puppet", "consumer_puppet", "share_puppet", "streams_puppet"), ends.items()):
        with CoordinatorServer(topics={"orders": 4}) as server:
            began, used = time.perf_counter(), time.process_time()
            puppets = [getattr(server, kind)("billing", ["orders"], client_id=each) for each in ("one", "two")]
            server.group("billing").stable(members=["one", "two"])
            puppets[0].crash()
            end(server)
            server.group("billing").stable(members=["two"])
            took[f"{kind}, {name}"] = 1000 * (time.perf_counter() - began)
            took[f"{kind}, {name}, CPU"] = 1000 * (time.process_time() - used)
    return took


def plugin() -> float:
    """Measure the milliseconds that the plugin adds to `pytest --version`."""
    took: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(TIMES):
        for used in took:
            began = time.perf_counter()
            command = [sys.executable, "-m", "pytest", *([] if used else ["-p", "no:kafka-shim"]), "--version"]
            subprocess.run(command, capture_output=True, check=True)
            took[used].append(1000 * (time.perf_counter() - began))
    return statistics.median(took[True]) - statistics.median(took[False])


def parallel(count: int) -> float:
    """Measure the seconds for this many coordinators at once, each with a member. Raises if one of them fails."""
    failed: list[BaseException] = []
    together = threading.Barrier(count)

    def run() -> None:
        try:
            with CoordinatorServer(topics={"orders": 4}) as server:
                server.puppet("billing", ["orders"])
                server.group("billing").stable(members=1, timeout=60)
                together.wait(60)
        except BaseException as failure:
            failed.append(failure)

    threads = [threading.Thread(target=run) for _ in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - began


def simulation() -> tuple[float, int]:
    """Measure the CPU seconds for a thousand members in a simulated hour; return them and the number of heartbeats."""
    began = time.process_time()
    simulated = Simulation(seed=1, topics={"orders": 1000}, network=Network(least=0.001, most=0.05, loss=0.00001))
    for _ in range(1000):
        simulated.puppet("billing", ["orders"])
    simulated.run(3600)
    took = time.process_time() - began
    assert len(simulated.group("billing").members) == 1000
    served = [each for node in simulated.cluster.nodes.values() for each in node.table.endpoints.values()]
    return took, sum(each.calls for each in served if each.api.name == "Heartbeat")


def main() -> None:
    """Measure and print."""
    fixture()
    runs = [fixture() | kinds() for _ in range(TIMES)]
    for name in runs[0]:
        values = sorted(run[name] for run in runs)
        shapes = {"least": values[0], "median": statistics.median(values), "worst": values[-1]}
        figures = ", ".join(f"{shape} {ms:6.1f} ms" for shape, ms in shapes.items())
        print(f"{name:28} {figures} of {TIMES}", flush=True)
    print(f"the plugin adds          {plugin():6.1f} ms to pytest --version, median of {TIMES} runs each", flush=True)
    print(f"200 coordinators at once {parallel(200):6.1f} s, each with a member", flush=True)
    took, heartbeats = simulation()
    print(f"1,000 members, an hour   {took:6.1f} s of CPU, {heartbeats:,} heartbeats 3 s apart")


if __name__ == "__main__":
    main()
