"""Compression of the records in a batch, as Kafka's clients do it: gzip, snappy, LZ4, zstd.

A few bytes can claim to be huge, so all reading here has a limit. Java frames snappy in its own way, "xerial": a magic,
two versions, then blocks with their lengths. Kafka's readers refuse LZ4 frames with blocks that depend on one another.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the number in a batch's attributes."""

_USUAL_RATIO: Final = 8
_LEAST_ROOM: Final = 64 * 1024

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_LENGTH: Final = Struct(">i")

# Of an LZ4 frame: magic, flags for independent blocks of at most 64 KiB, and the checksum byte of these flags. Then
# each block after its length; the top bit of the length marks a block that is stored uncompressed.
_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
_LZ4_LENGTH: Final = Struct("<I")


class CannotDecompress(ValueError):
    """Bytes that are not compressed so, or that have more than the limit."""


def decompress(codec: str, data: bytes, limit: int) -> bytes:
    """Return at most `limit` bytes, decompressed. Raises CannotDecompress."""
    if codec == "none" or (codec == "zstd" and not data):
        return data
    # Most servers never look inside a compressed batch, so those that do pay for the import.
    import cramjam

    decompress_into = {
        "gzip": cramjam.gzip.decompress_into,
        "snappy": cramjam.snappy.decompress_raw_into,
        "lz4": cramjam.lz4.decompress_into,
        "zstd": cramjam.zstd.decompress_into,
    }[codec]
    is_xerial = codec == "snappy" and data.startswith(_XERIAL_MAGIC)
    blocks = list(_xerial_blocks(data)) if is_xerial else [data]
    # Most records take no more room than that, and room costs time: it is zeroed first.
    room = min(max(len(data) * _USUAL_RATIO, _LEAST_ROOM), limit)
    while True:
        output = bytearray(room)
        size = 0
        try:
            for block in blocks:
                size += decompress_into(block, memoryview(output)[size:])
        except cramjam.DecompressionError as error:
            if room == limit:
                raise CannotDecompress(f"{codec} data cannot be decompressed to {limit} bytes: {error}") from error
            room = min(room * _USUAL_RATIO, limit)
        else:
            return bytes(memoryview(output)[:size])


def compress(codec: str, data: bytes) -> bytes:
    """Compress data with one of `CODECS`."""
    return data if codec == "none" else _COMPRESS[codec](data)


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    at = len(_XERIAL_HEADER)
    while at + _LENGTH.size <= len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        if size < 0:
            raise CannotDecompress("a block of snappy has a negative length")
        at += _LENGTH.size
        yield data[at : at + size]
        at += size


def _snappy(data: bytes) -> bytes:
    import cramjam

    out = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
        out += (_LENGTH.pack(len(block)), block)
    return b"".join(out)


def _lz4(data: bytes) -> bytes:
    import cramjam

    out = [_LZ4_HEADER]
    for at in range(0, len(data), _LZ4_BLOCK):
        block = data[at : at + _LZ4_BLOCK]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            out += (_LZ4_LENGTH.pack(len(packed)), packed)
        else:
            out += (_LZ4_LENGTH.pack(len(block) | _LZ4_STORED), block)
    out.append(_LZ4_LENGTH.pack(0))
    return b"".join(out)


def _zstd(data: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(data))


_COMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    # As in Java, without a time, so that equal records give equal bytes.
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}
