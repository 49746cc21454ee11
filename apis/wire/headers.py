"""Request and response headers.

The header version follows from API key and version alone, by the first flexible version of each API. A request with an
unknown key or version is read with the version 1 header: every request header begins with its fields. Source: KIP-482;
`flexibleVersions` of each API in Kafka 4.4.
"""

from __future__ import annotations

import struct
from typing import Final

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire.exceptions import DecodeError, EncodeError, explain
from kafka_shim.apis.wire.primitives import MAX_ELEMENTS, TEXT_ERRORS, skip_tagged

_NEVER: Final = 0x8000

# fmt: off
FIRST_FLEXIBLE: Final[dict[int, int]] = dict(enumerate((
    #  0      1  2  3       4       5  6       7  8  9
    9,       12, 6, 9,      4,      2, 6,      3, 8, 6,  # 0 Produce
    3,        6, 4, 4,      4,      5, 3, _NEVER, 3, 5,  # 10 FindCoordinator
    4,        2, 2, 4,      3,      3, 3,      1, 3, 2,  # 20 DeleteTopics
    2,        2, 4, 2,      2,      2, 2,      2, 2, 2,  # 30 CreateAcls
    2,        2, 2, 2,      1,      0, 0, _NEVER, 1, 1,  # 40 ExpireDelegationToken
    0,        0, 0, 1,      1,                           # 50 DescribeUserScramCredentials
    *(0,) * 40,                                          # 55 and above: flexible from the first
)))
# fmt: on

"""First flexible version of each API key; `private.py` adds those of private keys."""


_FIXED: Final = struct.Struct(">hhih")
_unpack: Final = _FIXED.unpack_from
_pack_id: Final = struct.Struct(">i").pack
_unpack_id: Final = struct.Struct(">i").unpack_from
_first_flexible: Final = FIRST_FLEXIBLE.get


def is_flexible(api_key: int, version: int) -> bool:
    """Return True if the request has a version 2 header; its response then has a version 1 header, except for
    ApiVersions.
    """
    return version >= FIRST_FLEXIBLE.get(api_key, _NEVER)


def decode_request_header(data: bytes) -> tuple[int, int, int, str | None, int]:
    """Decode the header at the start of a frame: version 2 if `is_flexible`, version 1 otherwise.

    Returns `(api_key, version, correlation_id, client_id, body_offset)`. Raises DecodeError.
    """
    offset = 0
    try:
        api_key, version, correlation_id, length = _unpack(data)
        if length >= 0:
            offset = 10 + length
            client_id = data[10:offset].decode("utf-8", TEXT_ERRORS)
        else:
            offset = 10
            client_id = None
        if version >= _first_flexible(api_key, _NEVER):
            if data[offset]:
                offset, _ = skip_tagged(data, offset, MAX_ELEMENTS)
            else:
                offset += 1
        elif offset > len(data):
            raise IndexError
    except (DecodeError, IndexError, struct.error) as error:
        raise explain(error, data, offset, "RequestHeader") from None
    return api_key, version, correlation_id, client_id, offset


def encode_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode the header of a request, without the frame's size. Raises EncodeError."""
    name = None if client_id is None else client_id.encode()
    try:
        head = _FIXED.pack(api_key, version, correlation_id, -1 if name is None else len(name))
    except struct.error as error:
        raise EncodeError(f"RequestHeader: {error}") from error
    return head + (name or b"") + (b"\x00" if is_flexible(api_key, version) else b"")


def decode_response_header(data: bytes, api_key: int, version: int) -> tuple[int, int]:
    """Return the correlation id of a response to a request of `version`, and the offset of its body. Raises
    DecodeError.
    """
    try:
        (correlation_id,) = _unpack_id(data)
        if is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS:
            return correlation_id, skip_tagged(data, 4, MAX_ELEMENTS)[0]
    except (DecodeError, IndexError, struct.error) as error:
        raise explain(error, data, 4, "ResponseHeader") from None
    return correlation_id, 4


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Encode the header of the response to a request of `version`, without the frame's size.

    ApiVersions always has header version 0: the client does not know the broker's versions yet.
    """
    if is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS:
        return _pack_id(correlation_id) + b"\x00"
    return _pack_id(correlation_id)
