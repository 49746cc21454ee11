"""A long answer is encoded in pieces, with the same bytes as a short one."""

import json
from typing import Any

import pytest

from kafka_shim.control.streamed import PIECE, in_pieces

LONG = [{"member": f"member-{number}", "text": "x" * 90} for number in range(5000)]


async def pieces_of(document: dict[str, Any]) -> list[bytes]:
    return [each async for each in in_pieces(document)]


@pytest.mark.parametrize(
    "document", [{}, {"a": []}, {"a": [], "b": None, "c": {"d": [1]}}, {"a": [1, "\N{EURO SIGN}"]}]
)
async def test_a_short_document_is_one_piece(document: dict[str, Any]) -> None:
    (piece,) = await pieces_of(document)
    assert json.loads(piece) == document


async def test_a_long_list_is_many_pieces() -> None:
    document = {"group": "g", "members": LONG, "offsets": LONG, "ephemeral": False}
    pieces = await pieces_of(document)
    assert json.loads(b"".join(pieces)) == document
    assert len(pieces) > 10
    assert max(map(len, pieces)) < PIECE + 200
