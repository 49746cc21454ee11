"""Annotated hex: every byte of a frame belongs to one field, for every API and version, and for broken bytes too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.annotated import Piece, answer_pieces, lines, request_pieces
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header, encode_response_header
from tests.apis.strategies import edges

HEARTBEAT = 12


def without_gaps(pieces: list[Piece], data: bytes) -> bool:
    ends = [0, *(piece.end for piece in pieces)]
    return all(piece.start == end for piece, end in zip(pieces, ends, strict=False)) and ends[-1] == len(data)


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_byte_is_of_one_field(key: int) -> None:
    api = APIS[key]
    for version in api.request.versions:
        for high in (False, True):
            body = edges(api.request, version, high=high).encode(version)
            data = frame(encode_request_header(key, version, 7, "me") + body)
            pieces, sent = request_pieces(data)
            assert sent == (key, version, 7)
            assert without_gaps(pieces, data), (api.name, version, high)
            assert "?" not in {piece.path for piece in pieces}
            body = edges(api.response, version, high=high).encode(version)
            data = frame(encode_response_header(key, version, 7) + body)
            pieces = answer_pieces(data, key, version)
            assert without_gaps(pieces, data), (api.name, version, high)
            assert "?" not in {piece.path for piece in pieces}
            assert without_gaps(answer_pieces(data[4:], key, version, with_size=False), data[4:])


def test_a_heartbeat_reads_as_its_fields() -> None:
    data = frame(encode_request_header(HEARTBEAT, 4, 1, "c") + HeartbeatRequest("g", 3, "c-1", None).encode(4))
    annotated = list(lines(data, request_pieces(data)[0]))
    assert annotated[1].split() == ["0004", "00", "0c", "api_key", "12", "Heartbeat"]
    assert [line.split()[-2:] for line in annotated if "generation_id" in line] == [["generation_id", "3"]]
    assert any(line.split()[-2:] == ["member_id", "'c-1'"] for line in annotated)
    assert any(line.split()[-2:] == ["group_instance_id", "null"] for line in annotated)
    answer = frame(encode_response_header(HEARTBEAT, 4, 1) + HeartbeatResponse(0, 25).encode(4))
    assert ("error_code", "25 UNKNOWN_MEMBER_ID") in {
        (piece.path, piece.text) for piece in answer_pieces(answer, HEARTBEAT, 4)
    }


@given(st.binary(max_size=80), st.sampled_from(sorted(APIS)), st.integers(0, 12))
def test_broken_bytes_have_no_name_from_there_on(body: bytes, key: int, version: int) -> None:
    data = frame(encode_request_header(key, version, 1, "c") + body)
    assert without_gaps(request_pieces(data)[0], data)
    assert without_gaps(answer_pieces(data, key, version), data)
    assert without_gaps(request_pieces(data[:-1])[0], data[:-1])


def test_truncated_frame_is_printed_to_its_end() -> None:
    data = b"\0\0\0\x09\0\x0c\0\0\0\0\0\1\x7f"
    pieces, sent = request_pieces(data)
    assert sent == (12, 0, 1)
    assert list(lines(data, pieces))[-1].split() == ["000c", "7f", "?", "bytes", "of", "no", "field"]
