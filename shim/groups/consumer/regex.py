"""Subscriptions by regular expression: which patterns are legal, and which topics they match.

Decides syntax and matching, which are RE2's: Kafka uses RE2J, this the library RE2J was ported from. A pattern matches
whole names. When patterns are resolved anew is in `subscriptions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import re2


class ResolvedRegex(NamedTuple):
    """The topics a pattern matched. `timestamp_ms` is Unix time; `version` is for brokers, see `RESOLVED_HERE`."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


RESOLVED_HERE = 0
"""The version of what was resolved here. Kafka writes the version of its metadata, of which we have none; what is older
than any makes a broker that takes the group over resolve its patterns once."""


class RegexError(ValueError):
    """A pattern that is none: INVALID_REGULAR_EXPRESSION (128). The message is the reason."""


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """The compiled pattern. Raises `RegexError`."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise RegexError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None


def matches(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    """The topics that the pattern matches; none if a newer coordinator accepted a pattern that is none here."""
    try:
        match = compiled(pattern).fullmatch
    except RegexError:
        return frozenset()
    return frozenset(topic for topic in topics if match(topic))
