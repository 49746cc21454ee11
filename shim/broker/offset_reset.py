"""The values of `share.auto.offset.reset`, which tells a share group its first offset.

After Kafka's `ShareGroupAutoOffsetResetStrategy` of 4.2 and Java's `Duration.parse`, with durations of as many
seconds as fit into 64 bits (semantics 4.13).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_MOST: Final = 2**63 - 1
_DURATION: Final = re.compile(
    r"by_duration:(?P<sign>[-+]?)[Pp](?:(?P<days>[-+]?[0-9]+)[Dd])?"
    r"(?:[Tt](?=[-+0-9])(?:(?P<hours>[-+]?[0-9]+)[Hh])?(?:(?P<minutes>[-+]?[0-9]+)[Mm])?"
    r"(?:(?P<seconds>[-+]?[0-9]+)(?:[.,](?P<fraction>[0-9]{0,9}))?[Ss])?)?"
)
_UNITS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


class OffsetReset(NamedTuple):
    """A start: `earliest`; or `back_ms` before now, None for `latest`."""

    earliest: bool = False
    back_ms: int | None = None


def offset_reset(text: str) -> OffsetReset | None:
    """Return the strategy of this name, None if it has no meaning."""
    text = text.strip()
    if text in ("earliest", "latest"):
        return OffsetReset(earliest=text == "earliest")
    duration_ms = _duration_ms(text)
    return None if duration_ms is None else OffsetReset(back_ms=duration_ms)


def _duration_ms(text: str) -> int | None:
    match = _DURATION.fullmatch(text)
    if match is None or not any(match[unit] for unit in _UNITS):
        return None
    try:
        parts = [int(match[unit] or 0) * size for unit, size in _UNITS.items()]
    except ValueError:
        # Python reads no number of more than 4,300 digits.
        return None
    seconds = sum(parts)
    if max(map(abs, (*parts, seconds))) > _MOST:
        return None
    nanoseconds = int((match["fraction"] or "").ljust(9, "0"))
    if (match["seconds"] or "").startswith("-"):
        nanoseconds = -nanoseconds
    total = seconds * 10**9 + nanoseconds
    if match["sign"] == "-":
        total = -total
    return None if total < 0 else total // 10**6
