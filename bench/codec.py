"""Speed of the codec beside kio's and kafka-python's, measured in one run: `python bench/codec.py`.

All codecs handle the same bytes, and a check before the measurement makes sure that they agree. Each figure is the
median over rounds of the mean time of a call. The codecs take turns round by round, so that other work of the machine
affects all of them alike. A call drops its objects, and the garbage collector runs only between rounds.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import platform
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.join_group import JoinGroupResponse, JoinGroupResponseMember
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.wire.headers import decode_request_header, encode_request_header

Call = Callable[[], object]


class Case(NamedTuple):
    """One row: its name, the target in microseconds, and a call for each codec that supports it."""

    name: str
    target_us: float | None
    calls: dict[str, Call]


def decode_case(
    name: str, target_us: float | None, message: Any, version: int, theirs: tuple[str, str] | None, header: bytes = b""
) -> Case:
    """Make a case that decodes `message`, with its request header if there is one."""
    body = message.encode(version)
    decode = type(message).decoder(version)
    if header:
        frame = header + body

        def ours() -> object:
            return decode(frame, decode_request_header(frame)[4])
    else:

        def ours() -> object:
            return decode(body, 0)

    calls: dict[str, Call] = {"ours": ours}
    if theirs:
        calls |= {
            "kio": kio_decode(*theirs, version, header, body),
            "kafka-python": python_decode(theirs[1], version, header, body),
        }
    return Case(name, target_us, calls)


def kio_decode(module: str, name: str, version: int, header: bytes, body: bytes) -> Call:
    """Return kio's decoding of the same bytes."""
    from importlib import import_module

    from kio.serial import entity_reader

    kind = "request" if name.endswith("Request") else "response"
    cls = getattr(import_module(f"kio.schema.{module}.v{version}.{kind}"), name)
    read = entity_reader(cls)
    assert read(body, 0)[1] == len(body)
    if not header:
        return lambda: read(body, 0)
    read_header = entity_reader(cls.__header_schema__)
    frame = header + body

    def call() -> object:
        _, size = read_header(frame, 0)
        return read(frame, size)

    return call


def python_class(name: str) -> Any:
    """Return kafka-python's class of a message."""
    from kafka.protocol.consumer import group

    return getattr(group, name)


def python_message(name: str, version: int, body: bytes) -> Any:
    """Build kafka-python's message by its constructor, because a message from its `decode` cannot be encoded."""
    cls = python_class(name)
    decoded = cls.decode(body, version=version)
    return cls(version=version, **{each: getattr(decoded, each) for each in cls.fields})


def python_decode(name: str, version: int, header: bytes, body: bytes) -> Call:
    """Return kafka-python's decoding of the same bytes."""
    cls = python_class(name)
    data = header + body
    assert python_message(name, version, body).encode(version=version) == body
    return lambda: cls.decode(data, version=version, header=bool(header))


def encode_case(name: str, target_us: float | None, message: Any, version: int, theirs: tuple[str, str]) -> Case:
    """Make a case that encodes `message`; the other codecs encode their decoding of our bytes."""
    from importlib import import_module

    from kio.serial import entity_reader, entity_writer

    encode = type(message).encoder(version)
    body = encode(message)
    kind = "request" if theirs[1].endswith("Request") else "response"
    cls = getattr(import_module(f"kio.schema.{theirs[0]}.v{version}.{kind}"), theirs[1])
    entity, _ = entity_reader(cls)(body, 0)
    write = entity_writer(cls)

    def kio() -> bytes:
        buffer = io.BytesIO()
        write(buffer, entity)
        return buffer.getvalue()

    other = python_message(theirs[1], version, body)
    calls: dict[str, Call] = {
        "ours": lambda: encode(message),
        "kio": kio,
        "kafka-python": lambda: other.encode(version=version),
    }
    for codec, call in calls.items():
        assert call() == body, codec
    return Case(name, target_us, calls)


def member_id(index: int) -> str:
    """Return a member id of the usual form: client id and a UUID."""
    return f"consumer-{index:04}-6f1d2c3b-aaaa-4bbb-8ccc-{index:012}"


def commit(partitions: int, metadata: str = "") -> OffsetCommitRequest:
    """Return a commit of one topic."""
    rows = [
        OffsetCommitRequestPartition(index, 10_000 + index, 3, committed_metadata=metadata)
        for index in range(partitions)
    ]
    return OffsetCommitRequest(
        "billing", 7, member_id(1), None, topics=[OffsetCommitRequestTopic("orders", partitions=rows)]
    )


def subscription(index: int) -> bytes:
    """Return the bytes of a ConsumerProtocolSubscription; each call makes a new object, as in a real group."""
    return b"\x00\x01\x00\x00\x00\x02\x00\x06orders\x00\x08payments\xff\xff\xff\xff\x00\x00\x00\x00" + index.to_bytes(
        4, "big"
    )


def joined(members: int) -> JoinGroupResponse:
    """Return the answer of JoinGroup to a leader."""
    rows = [JoinGroupResponseMember(member_id(index), None, subscription(index)) for index in range(members)]
    return JoinGroupResponse(0, 0, 7, "consumer", "range", member_id(0), False, member_id(0), rows)


def cases() -> list[Case]:
    """Return all cases."""
    heartbeat = HeartbeatRequest("billing", 7, member_id(1), None)
    header = encode_request_header(12, 4, 1234, "consumer-1")
    commit_header = encode_request_header(8, 8, 1234, "consumer-1")
    return [
        decode_case(
            "Heartbeat v4 request with header, decode", 0.8, heartbeat, 4, ("heartbeat", "HeartbeatRequest"), header
        ),
        encode_case(
            "Heartbeat v4 response, encode", None, HeartbeatResponse(0, 27), 4, ("heartbeat", "HeartbeatResponse")
        ),
        decode_case(
            "OffsetCommit v8 request, 100 partitions, decode",
            30,
            commit(100),
            8,
            ("offset_commit", "OffsetCommitRequest"),
            commit_header,
        ),
        decode_case(
            "the same with metadata",
            None,
            commit(100, "from consumer-1"),
            8,
            ("offset_commit", "OffsetCommitRequest"),
            commit_header,
        ),
        decode_case(
            "OffsetCommit v7 request, 100 partitions, decode",
            None,
            commit(100),
            7,
            ("offset_commit", "OffsetCommitRequest"),
        ),
        encode_case(
            "JoinGroup v9 response, 1,000 members, encode", 180, joined(1000), 9, ("join_group", "JoinGroupResponse")
        ),
        decode_case(
            "JoinGroup v9 response, 1,000 members, decode", None, joined(1000), 9, ("join_group", "JoinGroupResponse")
        ),
    ]


def measure(case: Case, rounds: int, round_seconds: float) -> dict[str, float]:
    """Measure the median microseconds of a call, by codec."""
    numbers = {}
    for codec, call in case.calls.items():
        call()
        started = perf_counter()
        call()
        numbers[codec] = max(1, int(round_seconds / (perf_counter() - started)))
    samples: dict[str, list[float]] = {codec: [] for codec in case.calls}
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for codec, call in case.calls.items():
            repeat = range(numbers[codec])
            started = perf_counter()
            for _ in repeat:
                call()
            samples[codec].append((perf_counter() - started) / numbers[codec] * 1e6)
            gc.collect()
    gc.enable()
    return {codec: statistics.median(times) for codec, times in samples.items()}


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--round-seconds", type=float, default=0.02)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [(case, measure(case, options.rounds, options.round_seconds)) for case in cases()]
    if options.json:
        json.dump([{"name": c.name, "target_us": c.target_us, "median_us": m} for c, m in rows], sys.stdout, indent=2)
        return
    print(f"median us per call, Python {platform.python_version()}")
    print(f"{'':50}{'target':>9}{'ours':>9}{'kio':>9}{'kafka-python':>14}")
    for case, medians in rows:
        target = "" if case.target_us is None else f"< {case.target_us:g}"
        print(f"{case.name:50}{target:>9}{medians['ours']:9.2f}{medians['kio']:9.2f}{medians['kafka-python']:14.2f}")


if __name__ == "__main__":
    main()
