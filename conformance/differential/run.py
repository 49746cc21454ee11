"""Runs random scripts on two targets, and shrinks what they say differently.

Decides that a difference counts only if it shows again in a calmer run, so that a slow machine is not taken for a wrong
target. Hypothesis draws and shrinks; the same seed gives the same scripts.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from kafka_shim.conformance.differential.assigned import OTHER_TOPIC, TOPIC
from kafka_shim.conformance.differential.compare import Difference, compare
from kafka_shim.conformance.differential.play import Player, Versions
from kafka_shim.conformance.differential.script import PROTOCOLS, Script, scripts
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.peers import make_topics, probe
from kafka_shim.conformance.protocol import BY_KEY
from kafka_shim.conformance.targets import Target

CALM: Final = 0.03
CALMER: Final = (0.1, 0.2)
_EXAMPLES_AT_A_TIME: Final = 20
_SHRINKING_TRIES: Final = 25
_HEARTBEATS: Final = {
    "consumer": "ConsumerGroupHeartbeat",
    "share": "ShareGroupHeartbeat",
    "streams": "StreamsGroupHeartbeat",
}


@dataclass(frozen=True)
class Finding:
    """A difference and the shortest script found that shows it. `seed` draws it again."""

    script: Script
    difference: Difference
    seed: int


@dataclass
class Report:
    """What a run came to: scripts played, steps compared, scripts cut short by a choice that is free, findings.

    `kinds` counts the scripts that differ, by the kind of their difference; a finding is the first of its kind.
    `violations` are the invariants that the traces of the targets show broken, whatever the answers.
    """

    targets: tuple[str, str]
    scripts: int = 0
    steps: int = 0
    undetermined: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Pair:
    """Two running targets on which scripts are played side by side."""

    def __init__(self, left: Peer, right: Peer) -> None:
        self.peers = (left, right)
        self.versions = common_versions(left, right)
        self.protocols = [name for name in PROTOCOLS if name == "classic" or _HEARTBEATS[name] in self.versions]
        self._numbers = itertools.count(1)
        self._plays = ThreadPoolExecutor(64)

    def compare(self, script: Script, calm: float) -> tuple[Difference | None, int]:
        """Play a script on both; the first difference, and the steps compared."""
        group = f"differential-{next(self._numbers)}"
        left, right = self._plays.map(lambda peer: Player(peer, group, self.versions, calm).play(script), self.peers)
        outcome = compare(script, left, right, group)
        return outcome.difference, outcome.steps

    def confirmed(self, script: Script) -> Difference | None:
        """The difference of a script if it shows every time, calmly looked at."""
        found = None
        for calm in CALMER:
            found, _ = self.compare(script, calm)
            if found is None:
                return None
        return found


def common_versions(left: Peer, right: Peer) -> Versions:
    """The versions of each API that both targets advertise and the suite knows."""
    found = {}
    for key in left.versions.keys() & right.versions.keys() & BY_KEY.keys():
        codec = BY_KEY[key].request.versions
        low = max(left.versions[key][0], right.versions[key][0], codec[0])
        high = min(left.versions[key][1], right.versions[key][1], codec[-1])
        if low <= high:
            found[BY_KEY[key].name] = (low, high)
    return found


def started(target: Target) -> Peer:
    """A target that is ready, with the topics that scripts use."""
    peer = probe(target.start("default"))
    make_topics(peer, [int(name.rpartition("-")[2]) for name in (TOPIC, OTHER_TOPIC)])
    return peer


def run(
    targets: tuple[Target, Target],
    count: int,
    *,
    seed: int,
    jobs: int,
    played: Callable[[int], None] = lambda scripts: None,
    discovered: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Play `count` scripts on both targets. `played` hears of scripts as they are done, `discovered` of findings."""
    report = Report((targets[0].name, targets[1].name))
    try:
        with ThreadPoolExecutor(2) as pool:
            left, right = pool.map(started, targets)
        pair = Pair(left, right)
        lock = threading.Lock()
        parts = [min(_EXAMPLES_AT_A_TIME, count - done) for done in range(0, count, _EXAMPLES_AT_A_TIME)]

        def part(number: int) -> None:
            _draw(pair, report, lock, seed * 1_000_003 + number, parts[number], played, discovered)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(part, range(len(parts))))
    finally:
        for target in targets:
            target.stop()
    report.violations = [violation for target in targets for violation in target.violations]
    return report


class _Differs(Exception):
    """Raised for Hypothesis, which shrinks what raises."""


def _draw(
    pair: Pair,
    report: Report,
    lock: threading.Lock,
    seed: int,
    count: int,
    played: Callable[[int], None],
    discovered: Callable[[Finding], None],
) -> None:
    """Draw and play scripts from one seed; stop at the first new difference, shrunk."""
    import hypothesis

    found: list[tuple[Script, Difference]] = []
    tries = 0

    def body(script: Script) -> None:
        nonlocal tries
        if found:
            tries += 1
            if tries > _SHRINKING_TRIES:
                return
        difference, steps = pair.compare(script, CALM)
        if not found:
            with lock:
                report.scripts += 1
                report.steps += steps
                report.undetermined += difference is None and steps < len(script)
            played(1)
        if difference is None:
            return
        if found:
            if difference.kind == found[0][1].kind:
                found.append((script, difference))
                raise _Differs
        elif (confirmed := pair.confirmed(script)) is not None:
            with lock:
                report.kinds[confirmed.kind] += 1
                if report.kinds[confirmed.kind] > 1:
                    return
            found.append((script, confirmed))
            raise _Differs

    settings = hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
    )
    with suppress(_Differs, hypothesis.errors.Flaky, BaseExceptionGroup):
        hypothesis.seed(seed)(settings(hypothesis.given(scripts(pair.protocols))(body)))()
    if found:
        script, difference = shortest(pair, min(found, key=lambda each: len(each[0])), found[0][1].kind)
        finding = Finding(script, difference, seed)
        with lock:
            report.findings.append(finding)
        discovered(finding)


def shortest(pair: Pair, found: tuple[Script, Difference], kind: str) -> tuple[Script, Difference]:
    """Leave out single steps for as long as the targets still differ in the same way."""
    script, difference = found
    for at in reversed(range(len(script))):
        shorter = script[:at] + script[at + 1 :]
        if shorter and (still := pair.confirmed(shorter)) is not None and still.kind == kind:
            script, difference = shorter, still
    return script, difference


def replay(targets: tuple[Target, Target], played: Sequence[Script]) -> list[Difference | None]:
    """Play scripts of earlier runs; the difference of each, if it is still there."""
    try:
        pair = Pair(started(targets[0]), started(targets[1]))
        return [pair.confirmed(script) for script in played]
    finally:
        for target in targets:
            target.stop()
