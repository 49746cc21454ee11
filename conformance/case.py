"""The declaration of a case, and the register of all cases.

A case is a function of a `Trial`. It is declared once and runs once per version of its API; a cell is one (case,
version).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

Body = Callable[[Trial], None]


@dataclass(frozen=True)
class Case:
    """One requirement: `api` and `versions` select its cells; `needs` lists the capabilities the target must have."""

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
    is_long: bool = False
    since: str = ""


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
    is_long: bool = False,
    since: str = "",
) -> Callable[[Body], Body]:
    """Register a case.

    `id`: `area/section/n`, never reused. `title`: the requirement, in our own words. `source`: KIP, semantics section,
    issue. `api`: the case runs once per version of this API; None runs it once. `versions`: the first and last version
    it applies to; None means all. `needs`: capabilities of the target. `uses`: other APIs that the case requires.
    `profile`: the settings of the target. `cap`: seconds until a running cell fails, in addition to the target's own
    delays. `is_long`: on some targets the case only waits, for many seconds; other cells run beside it.
    `since`: the first release of Kafka with the requirement; older targets have no cell of it.
    """

    def register(body: Body) -> Body:
        if id in CASES:
            raise ValueError(f"two cases have the id {id}")
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
            is_long,
            since,
        )
        return body

    return register
