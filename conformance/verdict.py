"""What a cell can come to, how much depends on a case, and the exceptions by which a case says so."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """How much depends on a case.

    MUST: some client misbehaves without it. SHOULD: no client that we know does, but Kafka does it so. MAY: what Kafka
    does and others need not.
    """

    MUST = "must"
    SHOULD = "should"
    MAY = "may"


class Verdict(StrEnum):
    """What a cell came to."""

    PASS = "pass"
    FAIL = "fail"
    NON_STRICT = "non-strict"
    """Works, but not as Apache Kafka does: a case below level must that did not hold."""
    UNIMPLEMENTED = "unimplemented"
    """The target does not advertise the API or version."""
    DECLARED_NOT_SERVED = "declared-not-served"
    """The target advertises the API and version and never answers it, or refuses its version."""
    SKIP = "skip"
    """The case needs what this target or this run does not have."""
    TIMEOUT = "timeout"
    """An answer that was due never came."""
    HARNESS_ERROR = "harness-error"
    """The suite is at fault; never counted against the target."""


NOT_JUDGED = frozenset({Verdict.SKIP, Verdict.UNIMPLEMENTED, Verdict.HARNESS_ERROR})
"""Verdicts that say nothing about what the target does."""


class Failed(Exception):
    """A requirement does not hold. `field` names what was wrong, `Message.field`, where the case looked at one."""

    def __init__(self, text: str, field: str | None = None) -> None:
        super().__init__(text)
        self.field = field


class Skipped(Exception):
    """The target cannot be brought into the situation of the case; the text says why."""


class Unadvertised(Exception):
    """The target does not advertise what the case cannot do without."""


class NotServed(Exception):
    """The target refuses a version it advertises."""
