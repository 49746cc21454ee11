"""A coverage-guided fuzz target over every decoder: `python -m tests.fuzz.decoders [libFuzzer options]`.

The first bytes choose what is decoded; the rest is what a client might send. Any bytes are decoded or refused with
DecodeError, never anything else; what was decoded encodes, and decodes to itself again.
"""

from __future__ import annotations

import sys

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


instrumented: set[int] = set()


def decode_message(data: bytes) -> None:
    kind = int.from_bytes(data[:2], "big") % len(TYPES)
    message, version = TYPES[kind]
    if kind not in instrumented:
        # A decoder is generated when first asked for, after the imports were instrumented.
        atheris.instrument_func(message.decoder(version))
        instrumented.add(kind)
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
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
