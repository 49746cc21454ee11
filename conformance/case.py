"""What a case is, what a verdict is, and the register of all cases.

A case is a function of a `Trial`. It is declared once and run once per version of the API it is about; a cell is one
(case, version). Decides nothing about running: see `runner.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafka_shim.conformance.trial import Trial


class Level(StrEnum):
    """How much depends on it.

    MUST: some client misbehaves without it. SHOULD: no known client does, but Kafka does it so. MAY: what Kafka does
    where others may differ.
    """

    MUST = "must"
    SHOULD = "should"
    MAY = "may"


class Verdict(StrEnum):
    """What a cell came to."""

    PASS = "pass"
    FAIL = "fail"
    NON_STRICT = "non-strict"
    """Works, but not as Apache Kafka does: a case below must level that did not hold."""
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


class Failed(Exception):
    """A requirement does not hold."""


class Skipped(Exception):
    """What the case needs is not there; the text says what."""


class Unadvertised(Exception):
    """The target does not advertise what the case cannot do without."""


class NotServed(Exception):
    """The target refuses a version it advertises."""


Body = Callable[["Trial"], None]


@dataclass(frozen=True)
class Case:
    """One requirement. `api` and `versions` say what it is run for; `needs` what the target must be capable of."""

    id: str
    title: str
    source: str
    level: Level
    api: str | None
    versions: tuple[int, int] | None
    needs: frozenset[str]
    uses: frozenset[str]
    profile: str
    cap: float
    body: Body
    module: str


CASES: Final[dict[str, Case]] = {}


def case(
    id: str,
    title: str,
    *,
    source: str,
    api: str | None = None,
    versions: tuple[int, int] | None = None,
    level: Level = Level.MUST,
    needs: tuple[str, ...] = (),
    uses: tuple[str, ...] = (),
    profile: str = "default",
    cap: float = 30.0,
) -> Callable[[Body], Body]:
    """Register a case.

    `id`: `area/section/n`, never reused. `title`: the requirement, in our own words. `source`: KIP, semantics section,
    issue. `api`: the API whose versions it is run for, once each; None runs it once. `versions`: the first and last of
    them it applies to; None means all. `needs`: capabilities of the target. `uses`: further APIs it cannot do without.
    `profile`: the settings the target is started with. `cap`: seconds after which a cell is given up, beside the
    target's own delays.
    """

    def register(body: Body) -> Body:
        if id in CASES:
            raise ValueError(f"two cases are called {id}")
        CASES[id] = Case(
            id,
            title,
            source,
            level,
            api,
            versions,
            frozenset(needs),
            frozenset(uses),
            profile,
            cap,
            body,
            body.__module__,
        )
        return body

    return register


def all_cases() -> list[Case]:
    """Every case there is, by id."""
    import kafka_shim.conformance.cases

    for module in pkgutil.iter_modules(kafka_shim.conformance.cases.__path__):
        importlib.import_module(f"kafka_shim.conformance.cases.{module.name}")
    return sorted(CASES.values(), key=lambda each: each.id)


def select(cases: list[Case], patterns: tuple[str, ...], level: str) -> list[Case]:
    """The cases any of `patterns` matches (all without a pattern), down to `level` (`must`, `should`, `all`)."""
    levels = {"must": {Level.MUST}, "should": {Level.MUST, Level.SHOULD}}.get(level, set(Level))
    return [
        each
        for each in cases
        if each.level in levels and (not patterns or any(fnmatchcase(each.id, pattern) for pattern in patterns))
    ]
