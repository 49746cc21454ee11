"""The worst request of every API: `python -m bench.limits [--api NAME ...] [--write docs/limits-of-requests.md]`.

For each API of the registry a server runs in a process of its own and gets the largest requests that it accepts, in
several forms: many names, one name many times, empty names, one element with many parts, long names, and one thing
that exists many times (`limits_state.py` makes it). `request_of` makes them from the fields of the API, so a new API
joins by itself. Measured are the longest step of the server between two looks at its sockets, in processor time; the
longest wait for a heartbeat on another connection, by the clock; and the memory that the server takes at most. With
`--watched` the server writes a trace and keeps all events, as with `--trace` and `--control` while its page is open.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import trio

from bench import limits_state
from kafka_shim.apis.api import Api
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.profiles import is_served
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.apis.scram import alter_user_scram_credentials, describe_user_scram_credentials
from kafka_shim.apis.wire import Message, Struct
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header
from kafka_shim.apis.wire.types import Array, Blob, Nested, Type
from kafka_shim.control.run import GARBAGE
from kafka_shim.control.workbench import Workbench
from kafka_shim.security.config import security_of
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.elements import elements_accepted
from kafka_shim.server.excerpts import elements_of
from kafka_shim.server.server import Server, ServerConfig, serve
from kafka_shim.server.trace_file import TraceFile

FORMS: Final = ("distinct", "same", "empty", "deep", "long", "existing")
LONG: Final = 30_000
"""Bytes of a long name."""
LARGEST: Final = 8 * 2**20
"""Bytes of a request with long names: time and memory grow with it evenly up to 100 MiB."""
STEP_MS: Final = 100
"""The aim for the longest step."""
MANY: Final = frozenset(
    (
        *("Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "OffsetForLeaderEpoch"),
        *("TxnOffsetCommit", "SyncGroup", "ShareFetch", "ShareAcknowledge"),
        *("ConsumerGroupHeartbeat", "StreamsGroupHeartbeat", "ShareGroupHeartbeat"),
        *("DescribeTopicPartitions", "DescribeConfigs"),
    )
)
"""The APIs whose step may be longer: one of their requests names all partitions, topics or members of a client, so a
lower bound would refuse large clusters. `docs/limits-of-requests.md` tells which."""
BYTES_A_BYTE: Final = 20
MEMORY_MIB: Final = 128
"""The aims for memory: so many bytes for each byte of a request, or so many MiB in all."""
MARK: Final = "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
"""The line of the page after which the table's lines come."""
_TAGGED: Final = 10
"""Elements that are left for tagged fields."""
SCRAM: Final = (describe_user_scram_credentials.API, alter_user_scram_credentials.API)
"""The APIs of a server that has SCRAM."""
_SCRAM: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
}
PATIENCE_S: Final = 30.0
"""A request that has no answer by then is parked, and counts as one without."""
_HEARTBEAT: Final = {"member_id": "AAAAAAAAAAAAAAAAAAAAAA", "member_epoch": 0, "rebalance_timeout_ms": 30_000}
_ACCEPTED: Final[dict[str, dict[str, Any]]] = {
    "Produce": {"acks": 1},
    "Fetch": {"session_epoch": -1, "max_wait_ms": 0, "forgotten_topics_data": []},
    "JoinGroup": {
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": "",
        "group_instance_id": "i",
        "protocol_type": "consumer",
    },
    "CreateTopics": {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []},
    "DescribeConfigs": {"resource_type": 2},
    "AlterConfigs": {"resource_type": 2},
    "IncrementalAlterConfigs": {"resource_type": 2},
    "ConsumerGroupHeartbeat": {**_HEARTBEAT, "topic_partitions": []},
    "ShareGroupHeartbeat": _HEARTBEAT,
}
"""By API, values of fields without which its requests would be refused early, or not answered."""


class Cost(NamedTuple):
    """The cost of one request; `answer` is its bytes, 0 where the connection was closed."""

    api: str
    form: str
    request: int
    answer: int
    step_ms: float
    wait_ms: float
    memory: int


def request_of(api: Api, version: int, form: str, elements: int | None = None, topic_id: bytes = bytes(16)) -> Message:
    """Return the worst request of an API in one form. `topic_id` is that of the topic that exists."""
    accepted = elements_accepted(api.key) if elements is None else elements
    values = _ACCEPTED.get(api.name, {})
    if form == "existing":
        values = {**values, **limits_state.VALUES.get(api.name, {})}
    request = api.request()
    _Form(form, version, values, topic_id).fill(request, accepted - _TAGGED)
    return request


class _Form(NamedTuple):
    """A form of the requests of an API, in a version of it; `values` are fields that stay as they are."""

    name: str
    version: int
    values: dict[str, Any]
    topic_id: bytes

    def fill(self, target: Any, elements: int) -> None:
        """Give a request so many elements."""
        arrays = self._arrays(type(target))
        for field in type(target).fields:
            if self.version not in field.versions:
                continue
            if field.name in self.values:
                setattr(target, field.name, self.values[field.name])
            elif isinstance(field.type, Array):
                setattr(target, field.name, self._array(field.type.element, elements // len(arrays)))
            elif isinstance(field.type, Blob) and field.type.is_text and self.version not in field.nullable:
                setattr(target, field.name, self._text(0) if self.name in ("long", "existing") else "g")

    def _arrays(self, cls: Any) -> list[Any]:
        return [
            each
            for each in cls.fields
            if isinstance(each.type, Array) and self.version in each.versions and each.name not in self.values
        ]

    def _array(self, element: Type[Any], elements: int) -> list[Any]:
        nested = isinstance(element, Nested) and bool(self._arrays(element.struct))
        if self.name == "deep" and nested:
            return [self._element(element, 0, elements - 1)]
        count = elements // 2 if nested else elements
        if self.name == "existing" and nested:
            one = self._element(element, 0, 1)
            return [one] * (elements // (1 + elements_of(one)))
        if self.name == "long":
            count = min(count, LARGEST // LONG)
        if self.name in ("same", "empty", "existing"):
            return [self._element(element, 0, 1)] * count
        return [self._element(element, number, 1) for number in range(count)]

    def _element(self, element: Type[Any], number: int, parts: int) -> Any:
        if isinstance(element, Blob):
            return self._text(number) if element.is_text else b""
        if not isinstance(element, Nested):
            return number % 2 if element.zero() == 0 else element.zero()
        made: Struct = element.struct()
        fields = [
            each for each in element.struct.fields if self.version in each.versions and self.version not in each.tagged
        ]
        has_name = any(isinstance(each.type, Blob) and each.type.is_text for each in fields)
        arrays = 0
        for field in fields:
            if field.name in self.values:
                setattr(made, field.name, self.values[field.name])
            elif isinstance(field.type, Array):
                arrays += 1
                below = 0 if self.name == "empty" else parts if arrays == 1 else 0
                inner = field.type.element
                below_that = 1 if self.name == "existing" else 0
                setattr(made, field.name, [self._element(inner, each, below_that) for each in range(below)])
            elif isinstance(field.type, Blob) and field.type.is_text:
                setattr(made, field.name, self._text(number))
            elif field.type.zero() == bytes(16) and not has_name and self.name != "empty":
                setattr(made, field.name, self._id(number))
        return made

    def _text(self, number: int) -> str:
        if self.name == "empty":
            return ""
        if self.name == "long":
            return f"{number:05}" + "x" * (LONG - 5)
        return limits_state.NAME if self.name in ("same", "existing") else f"n{number}"

    def _id(self, number: int) -> bytes:
        return self.topic_id if self.name == "existing" else (number + 1).to_bytes(16)


# The server


class _Steps(trio.abc.Instrument):
    """The longest step of any task, in processor time."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest = max(self.longest, time.thread_time() - self._began)


async def _server(*, has_scram: bool, is_watched: bool) -> None:
    """Serve, with the collection of garbage as `kafka-shim serve` has it.

    After every line of input print the longest step and the most memory since the line before.
    """
    steps = _Steps()
    gc.freeze()
    gc.set_threshold(GARBAGE)
    async with trio.open_nursery() as nursery:
        security = security_of(_SCRAM) if has_scram else None
        config = ServerConfig(security=security, cluster=ClusterConfig(topics={limits_state.NAME: 2}))
        server: Server = await nursery.start(serve, config)
        trio.lowlevel.add_instrument(steps)
        with _watching(server, nursery) if is_watched else nullcontext():
            print(server.bootstrap, flush=True)
            async for _ in trio.lowlevel.FdStream(os.dup(0)):
                status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
                peak, now = (int(status[name].split()[0]) * 1024 for name in ("VmHWM", "VmRSS"))
                print(json.dumps({"step": steps.longest, "peak": peak, "now": now}), flush=True)
                Path("/proc/self/clear_refs").write_text("5")
                steps.longest = 0.0
        nursery.cancel_scope.cancel()


@contextmanager
def _watching(server: Server, nursery: trio.Nursery) -> Iterator[None]:
    """Write a trace and keep all events during a block."""
    with (
        tempfile.TemporaryDirectory() as folder,
        TraceFile(Path(folder, "trace.jsonl"), server.cluster) as trace,
        Workbench(server, nursery).history.listening(),
    ):
        nursery.start_soon(trace.run)
        yield


class Measured:
    """A server in a process of its own."""

    def __init__(self, *, has_scram: bool = False, is_watched: bool = False) -> None:
        self._more = ["--scram"] * has_scram + ["--watched"] * is_watched

    def __enter__(self) -> Measured:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.limits", "--serve", *self._more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        host, _, port = self._process.stdout.readline().strip().rpartition(":")
        self.address = host, int(port)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def figures(self) -> dict[str, float]:
        """Return the figures since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        figures: dict[str, float] = json.loads(self._process.stdout.readline())
        return figures


class _Bystander(threading.Thread):
    """A client that sends heartbeats all the time, and its longest wait in seconds."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__()
        self.longest = 0.0
        self._address = address
        self._ended = threading.Event()
        self.served = threading.Event()
        """Set by the first answer."""

    def run(self) -> None:
        beat = frame(encode_request_header(12, 3, 1, "bystander") + HeartbeatRequest("g", 1, "m").encode(3))
        with socket.create_connection(self._address, timeout=PATIENCE_S) as sock:
            while not self._ended.wait(0.002):
                began = time.perf_counter()
                sock.sendall(beat)
                sock.recv(4096)
                if self.served.is_set():
                    self.longest = max(self.longest, time.perf_counter() - began)
                self.served.set()

    def end(self) -> float:
        """Return the longest wait."""
        self._ended.set()
        self.join()
        return self.longest


def measure(api: Api, version: int, forms: Collection[str] = FORMS, *, is_watched: bool = False) -> Iterator[Cost]:
    """Measure the worst requests of an API."""
    for form in forms:
        with Measured(has_scram=api in SCRAM, is_watched=is_watched) as server:
            topic_id = limits_state.make(server.address, api.name) if form == "existing" else bytes(16)
            request = request_of(api, version, form, topic_id=topic_id)
            data = frame(encode_request_header(api.key, version, 1, "bench") + request.encode(version))
            before = server.figures()["now"]
            bystander = _Bystander(server.address)
            bystander.start()
            bystander.served.wait(PATIENCE_S)
            server.figures()
            answer = _answer(server.address, data)
            wait = bystander.end()
            figures = server.figures()
        yield Cost(
            api.name, form, len(data), answer, figures["step"] * 1000, wait * 1000, int(figures["peak"] - before)
        )


def _answer(address: tuple[str, int], data: bytes) -> int:
    with socket.create_connection(address, timeout=PATIENCE_S) as sock:
        try:
            sock.sendall(data)
            head = sock.recv(4, socket.MSG_WAITALL)
            size = rest = struct.unpack(">i", head)[0] if len(head) == 4 else 0
            while rest and (piece := sock.recv(min(rest, 2**20))):
                rest -= len(piece)
        except (ConnectionError, TimeoutError):
            return 0
        return int(size)


# The table


def served() -> Iterator[tuple[Api, int]]:
    """Yield every API with its newest version that is served."""
    for key, api in APIS.items():
        versions = [each for each in api.request.versions if is_served(DEFAULT_RELEASE, key, each)]
        if versions:
            yield api, versions[-1]
    for api in SCRAM:
        yield api, api.request.versions[-1]


def rows(costs: list[Cost]) -> list[str]:
    """Make a line of the table for every API: the worst of its forms."""
    lines = []
    for api in [each.name for each, _ in served()]:
        of_api = [cost for cost in costs if cost.api == api]
        if not of_api:
            continue
        slowest = max(of_api, key=lambda cost: cost.step_ms)
        largest = max(of_api, key=lambda cost: cost.memory)
        times = largest.memory / max(largest.request, 1)
        lines.append(
            f"| {api} | {max(cost.request for cost in of_api) / 2**20:.1f} | {slowest.step_ms:.0f}"
            f" | {slowest.form} | {max(cost.wait_ms for cost in of_api):.0f}"
            f" | {largest.memory / 2**20:.0f} | {times:.0f} | {largest.form} |"
        )
    return lines


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--scram", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--watched", action="store_true", help="with a trace and a history of all events")
    parser.add_argument("--api", action="append", help="only these APIs")
    parser.add_argument("--form", action="append", choices=FORMS, help="only these forms")
    parser.add_argument("--costs", type=Path, help="what earlier runs printed, instead of measuring")
    parser.add_argument("--write", type=Path, help="the page whose table to write")
    options = parser.parse_args()
    if options.serve:
        trio.run(partial(_server, has_scram=options.scram, is_watched=options.watched))
        return
    costs = (
        [] if options.costs is None else [Cost(**json.loads(line)) for line in options.costs.read_text().splitlines()]
    )
    for api, version in served():
        if options.costs is None and (options.api is None or api.name in options.api):
            for cost in measure(api, version, options.form or FORMS, is_watched=options.watched):
                costs.append(cost)
                print(json.dumps(cost._asdict()), flush=True)
    if options.write is not None:
        head, mark, _ = options.write.read_text().partition(MARK)
        options.write.write_text(head + mark + "\n".join(rows(costs)) + "\n")


if __name__ == "__main__":
    main()
