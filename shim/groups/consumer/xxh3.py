"""XXH3, the 64-bit variant without seed: the hash function that Kafka's metadata hash of a group is made with.

Decides nothing. For inputs of four bytes and more, which is all that a metadata hash has. Source: the specification of
xxHash 0.8 (XXH3_64bits); a test compares it with what Kafka computes.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Final

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK: Final = 2**64 - 1
_PRIME32: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64: Final = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MIX: Final = (0x165667919E3779F9, 0x9FB21C651E98DF25)
_STRIPE: Final = 64
_BLOCK: Final = 1024


def xxh3_64(data: bytes) -> int:
    """The hash, not negative. `data` has at least four bytes."""
    length = len(data)
    if length <= 8:
        return _up_to_8(data)
    if length <= 16:
        low = _word(data, 0) ^ _word(_SECRET, 24) ^ _word(_SECRET, 32)
        high = _word(data, length - 8) ^ _word(_SECRET, 40) ^ _word(_SECRET, 48)
        return _avalanche(length + int.from_bytes(low.to_bytes(8, "little"), "big") + high + _fold(low, high))
    if length <= 240:
        return _up_to_128(data) if length <= 128 else _up_to_240(data)
    return _long(data)


def _up_to_8(data: bytes) -> int:
    (first,), (last,) = unpack_from("<I", data), unpack_from("<I", data, len(data) - 4)
    mixed: int = (last + (first << 32)) ^ _word(_SECRET, 8) ^ _word(_SECRET, 16)
    mixed ^= _rotate(mixed, 49) ^ _rotate(mixed, 24)
    mixed = mixed * _MIX[1] & _MASK
    mixed ^= (mixed >> 35) + len(data)
    mixed = mixed * _MIX[1] & _MASK
    return mixed ^ mixed >> 28


def _up_to_128(data: bytes) -> int:
    total = len(data) * _PRIME64[0]
    for step in range((len(data) - 1) // 32 + 1):
        total += _mix(data, 16 * step, 32 * step) + _mix(data, len(data) - 16 * (step + 1), 32 * step + 16)
    return _avalanche(total)


def _up_to_240(data: bytes) -> int:
    total = _avalanche(len(data) * _PRIME64[0] + sum(_mix(data, 16 * step, 16 * step) for step in range(8)))
    total += sum(_mix(data, 16 * step, 16 * (step - 8) + 3) for step in range(8, len(data) // 16))
    return _avalanche(total + _mix(data, len(data) - 16, 119))


def _long(data: bytes) -> int:
    lanes = [_PRIME32[2], *_PRIME64[:4], _PRIME32[1], _PRIME64[4], _PRIME32[0]]
    scramble = unpack_from("<8Q", _SECRET, len(_SECRET) - _STRIPE)
    length = len(data)
    for block in range(0, length, _BLOCK):
        for stripe in range(block, min(block + _BLOCK, length - 1) - _STRIPE + 1, _STRIPE):
            _accumulate(lanes, data, stripe, (stripe - block) // 8)
        if block + _BLOCK < length:
            for lane, key in enumerate(scramble):
                value = lanes[lane]
                lanes[lane] = (value ^ value >> 47 ^ key) * _PRIME32[0] & _MASK
    _accumulate(lanes, data, length - _STRIPE, len(_SECRET) - _STRIPE - 7)
    keys = unpack_from("<8Q", _SECRET, 11)
    pairs = range(0, 8, 2)
    merged = sum(_fold(lanes[lane] ^ keys[lane], lanes[lane + 1] ^ keys[lane + 1]) for lane in pairs)
    return _avalanche(length * _PRIME64[0] + merged)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    words = unpack_from("<8Q", data, at)
    for lane, (word, key) in enumerate(zip(words, unpack_from("<8Q", _SECRET, secret_at), strict=True)):
        keyed = word ^ key
        lanes[lane ^ 1] = lanes[lane ^ 1] + word & _MASK
        lanes[lane] = lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK


def _mix(data: bytes, at: int, secret_at: int) -> int:
    low, high = unpack_from("<QQ", data, at)
    key_low, key_high = unpack_from("<QQ", _SECRET, secret_at)
    return _fold(low ^ key_low, high ^ key_high)


def _fold(one: int, other: int) -> int:
    product = one * other
    return product & _MASK ^ product >> 64


def _avalanche(value: int) -> int:
    value &= _MASK
    value ^= value >> 37
    value = value * _MIX[0] & _MASK
    return value ^ value >> 32


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")
