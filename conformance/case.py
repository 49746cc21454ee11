"""What a case is, and the register of all cases.

A case is a function of a `Trial`. It is declared once and run once per version of the API it is about; a cell is one
(case, version). Decides nothing about running: see `runner.py`.
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
    is_long: bool = False


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
) -> Callable[[Body], Body]:
    """Register a case.

    `id`: `area/section/n`, never reused. `title`: the requirement, in our own words. `source`: KIP, semantics section,
    issue. `api`: the API whose versions it is run for, once each; None runs it once. `versions`: the first and last of
    them it applies to; None means all. `needs`: capabilities of the target. `uses`: further APIs it cannot do without.
    `profile`: the settings the target is started with. `cap`: seconds after which a cell ends as failed, beside the
    target's own delays. `is_long`: there are targets on which it does nothing but wait, for many seconds; others do not
    wait for it.
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
            is_long,
        )
        return body

    return register
