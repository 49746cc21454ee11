"""Annotated hex: every byte of a frame belongs to one field, of every API in every version."""

from __future__ import annotations

import pytest

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header, encode_response_header
from kafka_shim.learn.frames import Span, answer_spans, lines, request_spans
from tests.apis.strategies import edges


def without_gaps(spans: list[Span], data: bytes) -> bool:
    ends = [0, *(span.end for span in spans)]
    return all(span.start == end for span, end in zip(spans, ends, strict=False)) and ends[-1] == len(data)


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_byte_is_of_one_field(key: int) -> None:
    api = APIS[key]
    for version in api.request.versions:
        for high in (False, True):
            body = edges(api.request, version, high=high).encode(version)
            data = frame(encode_request_header(key, version, 7, "me") + body)
            assert without_gaps(request_spans(data), data), (api.name, version, high)
            body = edges(api.response, version, high=high).encode(version)
            data = frame(encode_response_header(key, version, 7) + body)
            assert without_gaps(answer_spans(data, key, version), data), (api.name, version, high)


def test_a_heartbeat_reads_as_its_fields() -> None:
    data = frame(encode_request_header(12, 4, 1, "c") + HeartbeatRequest("g", 3, "c-1", None).encode(4))
    shown = list(lines(data, request_spans(data)))
    assert shown[1].split() == ["4", "00", "0c", "api_key", "12", "Heartbeat"]
    assert [line.split()[-2:] for line in shown if "generation_id" in line] == [["generation_id", "3"]]
    assert any(line.split()[-2:] == ["member_id", "'c-1'"] for line in shown)
    assert any(line.split()[-2:] == ["group_instance_id", "null"] for line in shown)
