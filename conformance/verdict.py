"""Verdicts, requirement levels, and the exceptions that cases raise."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """The weight of a case.

    MUST: without it some client misbehaves. SHOULD: Kafka does it, and no client we know depends on it. MAY: Kafka does
    it, and other brokers need not.
    """

    MUST = "must"
    SHOULD = "should"
    MAY = "may"


class Verdict(StrEnum):
    """The result of a cell."""

    PASS = "pass"
    FAIL = "fail"
    NON_STRICT = "non-strict"
    """It works, but not as in Apache Kafka: a case below level must fails."""
    UNIMPLEMENTED = "unimplemented"
    """The target does not advertise the API or version."""
    DECLARED_NOT_SERVED = "declared-not-served"
    """The target advertises the API and version and never answers it, or refuses its version."""
    SKIP = "skip"
    """The case needs something that this target or this run does not have."""
    TIMEOUT = "timeout"
    """A due answer never came."""
    HARNESS_ERROR = "harness-error"
    """The suite failed; this never counts against the target."""


NOT_JUDGED = frozenset({Verdict.SKIP, Verdict.UNIMPLEMENTED, Verdict.HARNESS_ERROR})
"""Verdicts that prove nothing about the target."""


class Failed(Exception):
    """A requirement does not hold. `field` names the wrong field, `Message.field`, where the case compared one."""

    def __init__(self, text: str, field: str | None = None) -> None:
        super().__init__(text)
        self.field = field


class Skipped(Exception):
    """The target cannot reach the situation of the case; the text says why."""


class Unadvertised(Exception):
    """The target does not advertise an API or version that the case requires."""


class NotServed(Exception):
    """The target refuses a version it advertises."""
