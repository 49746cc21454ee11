"""A coverage-guided fuzz target over every decoder: `python -m tests.fuzz.decoders [--newest] [libFuzzer options]`.

The first bytes choose the decoder; the rest is its input. It decodes the bytes or raises DecodeError, and no other
exception. A decoded message encodes, and decodes to an equal one. All this takes little CPU time: libFuzzer measures
slow inputs by the clock on the wall, which on a busy machine says nothing.

To watch the branches of a decoder costs 50 ms for each of some 560 decoders. With `--newest` the fuzzer watches only
those of the newest version of each message; it tries the others as often.
"""

from __future__ import annotations

import sys
import time

import atheris

with atheris.instrument_imports(include=["kafka_shim.apis", "kafka_shim.persistence"]):
    from kafka_shim.apis import consumer_protocol
    from kafka_shim.apis.registry import APIS
    from kafka_shim.apis.wire import DecodeError
    from kafka_shim.apis.wire.frames import FrameSplitter
    from kafka_shim.apis.wire.headers import decode_request_header
    from kafka_shim.persistence.records import RecordError, decode_key, decode_value

TYPES = [
    (message, version)
    for api in APIS.values()
    for message in (api.request, api.response)
    for version in message.versions
]
NEWEST = {message: max(message.versions) for message, _ in TYPES}
SLOW = 2.0
"""Seconds of CPU for one input of at most 4 KiB."""

newest_alone = "--newest" in sys.argv
instrumented: set[int] = set()


def kind_of(data: bytes) -> int:
    return int.from_bytes(data[:2], "big") % len(TYPES)


def instrument(kind: int) -> None:
    """Watch the decoder of a kind: it is generated at its first use, after the imports were instrumented."""
    message, version = TYPES[kind]
    if kind not in instrumented and (not newest_alone or version == NEWEST[message]):
        atheris.instrument_func(message.decoder(version))
        instrumented.add(kind)


def decode_message(data: bytes) -> None:
    message, version = TYPES[kind_of(data)]
    try:
        decoded = message.decode(data[2:], version)
    except DecodeError:
        return
    encoded = decoded.encode(version)
    assert message.decode(encoded, version) == decoded


def decode_header(data: bytes) -> None:
    try:
        *_, offset = decode_request_header(data)
    except DecodeError:
        return
    assert 8 <= offset <= len(data)


def decode_record(data: bytes) -> None:
    split = data[0] if data else 0
    try:
        key = decode_key(data[1 : 1 + split])
        decode_value(key, data[1 + split :])
    except (DecodeError, RecordError):
        return


def decode_embedded(data: bytes) -> None:
    consumer_protocol.subscription_from_bytes(data)
    consumer_protocol.assignment_from_bytes(data)


def split_frames(data: bytes) -> None:
    step = 1 + (data[0] if data else 0)
    whole, pieces = FrameSplitter(1 << 16), FrameSplitter(1 << 16)
    try:
        expected = list(whole.feed(data[1:]))
    except DecodeError:
        return
    got = [frame for at in range(1, len(data), step) for frame in pieces.feed(data[at : at + step])]
    assert got == expected


TARGETS = (decode_message, decode_message, decode_message, decode_header, decode_record, decode_embedded, split_frames)


def one_input(data: bytes) -> None:
    if not data:
        return
    target = TARGETS[data[0] % len(TARGETS)]
    if target is decode_message:
        instrument(kind_of(data[1:]))
    begin = time.process_time()
    target(data[1:])
    used = time.process_time() - begin
    assert used < SLOW, f"An input of {len(data)} bytes took {used:.1f} s of CPU time."


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
