"""Remedies for known faults: the release to upgrade to, before any setting is changed.

`known_faults.py` decides which faults fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.finding import Finding
from kafka_shim.why.known_faults import BROKER, Case, known_faults, version_of
from kafka_shim.why.remedies import UPGRADE, Remedy


def with_upgrades(
    history: GroupHistory, rebalances: Sequence[Rebalance], findings: Sequence[Finding], remedies: Sequence[Remedy]
) -> list[Remedy]:
    """Return the remedies of findings with an upgrade before those of its finding, where a known fault fits."""
    together: dict[tuple[str, str, str], list[Case]] = {}
    for case in known_faults(history, rebalances, findings):
        who = "broker" if case.fault.product == BROKER else case.finding.client or "all"
        together.setdefault((who, case.finding.code, case.version), []).append(case)
    result = list(remedies)
    for (who, code, _), cases in together.items():
        place = next((number for number, each in enumerate(result) if each.code in (code, "")), len(result))
        result[place:place] = _upgrade(who, cases)
    return result


def _upgrade(who: str, cases: Sequence[Case]) -> Iterator[Remedy]:
    """Yield the remedy for the faults of one version: the release without any of them."""
    fault, _, version = cases[0]
    newest = max((each.fault.mended_for(version) for each in cases), key=version_of)
    names = ", ".join(each.fault.name for each in cases)
    older = "" if version else f", if it is older than {newest}"
    yield Remedy(
        who=who,
        side="broker" if fault.product == BROKER else "client",
        setting=UPGRADE,
        key="version",
        seen=f"{fault.product} {version}" if version else f"{fault.product} of unknown version",
        proposed=f"{newest} or later{older}",
        why=f"{'; '.join(each.fault.happens for each in cases)} ({names})",
        sources=tuple(each.fault.source for each in cases),
        code=cases[0].finding.code,
    )
