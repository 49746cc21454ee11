"""Runs random scripts on two targets, and shrinks the scripts with different answers.

A difference counts only if it repeats with longer quiet times, so that a slow machine is not mistaken for a wrong
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

from kafka_shim.conformance.contact import shows_a_move
from kafka_shim.conformance.differential.assigned import OTHER_TOPIC, TOPIC
from kafka_shim.conformance.differential.compare import Difference, compare
from kafka_shim.conformance.differential.play import Player, Versions
from kafka_shim.conformance.differential.script import PROTOCOLS, Script, scripts
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.peers import make_topics, probe
from kafka_shim.conformance.protocol import BY_KEY
from kafka_shim.conformance.runner import MOVES_FOLLOWED
from kafka_shim.conformance.targets import Target, TargetError

QUIET: Final = 0.03
LONGER_QUIETS: Final = (0.1, 0.2)
_EXAMPLES_AT_A_TIME: Final = 20
_SHRINKING_TRIES: Final = 25
HEARTBEATS: Final = {
    "consumer": "ConsumerGroupHeartbeat",
    "share": "ShareGroupHeartbeat",
    "streams": "StreamsGroupHeartbeat",
}


@dataclass(frozen=True)
class Finding:
    """A difference, and the shortest script differing that shows it. `seed` draws it again."""

    script: Script
    difference: Difference
    seed: int


@dataclass
class Report:
    """The result of a run: counts of scripts and steps, scripts cut short by a random choice, findings.

    `kinds` counts the differing scripts by the kind of their difference; a finding is the first of its kind.
    `violations` are the broken invariants in the traces of the targets. `repeated` counts the plays made again because
    a target ceased to coordinate or was too slow, by its description.
    """

    targets: tuple[str, str]
    scripts: int = 0
    steps: int = 0
    undetermined: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)


class Pair:
    """Two running targets that play the same scripts."""

    def __init__(self, first: Peer, second: Peer, kinds: Sequence[str] = ()) -> None:
        self.peers = (first, second)
        self.versions = common_versions(first, second)
        served = [name for name in PROTOCOLS if name == "classic" or HEARTBEATS[name] in self.versions]
        self.protocols = [name for name in served if name in (kinds or PROTOCOLS)]
        if not self.protocols:
            raise TargetError(f"the targets do not both have groups of the kind {', '.join(kinds)}")
        self.repeated: Counter[str] = Counter()
        """The plays made again, by the target that gave the reason."""
        self._numbers = itertools.count(1)
        self._plays = ThreadPoolExecutor(64)

    def compare(self, script: Script, quiet: float) -> tuple[Difference | None, int]:
        """Play a script on both; return the first difference, and the number of compared steps.

        Play it again in a new group, once the target is ready, if a target ceased to coordinate meanwhile or was too
        slow to describe the group. Kafka's controller fences its broker when the machine lets it hear nothing in time.
        """
        for _ in range(MOVES_FOLLOWED):
            group = f"differential-{next(self._numbers)}"
            players = [Player(peer, group, self.versions, quiet) for peer in self.peers]
            first, second = self._plays.map(Player.play, players, itertools.repeat(script))
            both = list(zip(self.peers, players, strict=True))
            absent = [peer for peer, player in both if player.trouble or shows_a_move(player.tape)]
            if not absent:
                break
            self.repeated.update(peer.instance.description for peer in absent)
            for peer in absent:
                probe(peer.instance)
        for peer, player in both:
            if player.trouble:
                raise TargetError(f"{peer.instance.description} is too slow: {player.trouble}")
        outcome = compare(script, first, second, group)
        return outcome.difference, outcome.steps

    def confirmed(self, script: Script) -> Difference | None:
        """Return the difference of a script if it repeats with every longer quiet time."""
        difference = None
        for quiet in LONGER_QUIETS:
            difference, _ = self.compare(script, quiet)
            if difference is None:
                return None
        return difference


def common_versions(first: Peer, second: Peer) -> Versions:
    """Return the versions of each API that both targets and the suite have."""
    versions = {}
    for key in first.versions.keys() & second.versions.keys() & BY_KEY.keys():
        codec = BY_KEY[key].request.versions
        low = max(first.versions[key][0], second.versions[key][0], codec[0])
        high = min(first.versions[key][1], second.versions[key][1], codec[-1])
        if low <= high:
            versions[BY_KEY[key].name] = (low, high)
    return versions


def started(target: Target) -> Peer:
    """Start a target and create the topics of the scripts."""
    peer = probe(target.start("default"))
    make_topics(peer, [int(name.rpartition("-")[2]) for name in (TOPIC, OTHER_TOPIC)])
    return peer


def run(
    targets: tuple[Target, Target],
    count: int,
    *,
    seed: int,
    jobs: int,
    kinds: Sequence[str] = (),
    on_script: Callable[[int], None] = lambda scripts: None,
    on_finding: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Play `count` scripts of these kinds, without any of all, on both targets.

    Calls `on_script` after each script, and `on_finding` for each finding.
    """
    report = Report((targets[0].name, targets[1].name))
    try:
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(started, targets)
        pair = Pair(first, second, kinds)
        report.repeated = pair.repeated
        lock = threading.Lock()
        parts = [min(_EXAMPLES_AT_A_TIME, count - done) for done in range(0, count, _EXAMPLES_AT_A_TIME)]

        def part(number: int) -> None:
            _draw(pair, report, lock, seed * 1_000_003 + number, parts[number], on_script, on_finding)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(part, range(len(parts))))
    finally:
        for target in targets:
            target.stop()
    report.violations = [violation for target in targets for violation in target.violations]
    return report


class _Differs(Exception):
    """Makes Hypothesis shrink a script."""


def _draw(
    pair: Pair,
    report: Report,
    lock: threading.Lock,
    seed: int,
    count: int,
    on_script: Callable[[int], None],
    on_finding: Callable[[Finding], None],
) -> None:
    """Draw and play scripts from one seed; stop at the first new difference, shrunk."""
    import hypothesis

    differing: list[tuple[Script, Difference]] = []
    tries = 0

    def body(script: Script) -> None:
        nonlocal tries
        if differing:
            tries += 1
            if tries > _SHRINKING_TRIES:
                return
        difference, steps = pair.compare(script, QUIET)
        if not differing:
            with lock:
                report.scripts += 1
                report.steps += steps
                report.undetermined += difference is None and steps < len(script)
            on_script(1)
        if difference is None:
            return
        if differing:
            if difference.kind == differing[0][1].kind:
                differing.append((script, difference))
                raise _Differs
        elif (confirmed := pair.confirmed(script)) is not None:
            with lock:
                report.kinds[confirmed.kind] += 1
                if report.kinds[confirmed.kind] > 1:
                    return
            differing.append((script, confirmed))
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
    if differing:
        script, difference = shortest(pair, min(differing, key=lambda each: len(each[0])), differing[0][1].kind)
        finding = Finding(script, difference, seed)
        with lock:
            report.findings.append(finding)
        on_finding(finding)


def shortest(pair: Pair, longer: tuple[Script, Difference], kind: str) -> tuple[Script, Difference]:
    """Remove single steps as long as the targets still differ in the same way.

    After a pass that removed some, all that are left are tried again: nothing may need them any longer, or they stayed
    only because the machine was busy.
    """
    script, difference = longer
    before = None
    while script != before:
        before = script
        for at in reversed(range(len(script))):
            shorter = script[:at] + script[at + 1 :]
            if shorter and (still := pair.confirmed(shorter)) is not None and still.kind == kind:
                script, difference = shorter, still
    return script, difference


def replay(targets: tuple[Target, Target], on_script: Sequence[Script]) -> list[Difference | None]:
    """Play scripts of earlier runs; return the difference of each, None for those that no longer differ."""
    try:
        pair = Pair(started(targets[0]), started(targets[1]))
        return [pair.confirmed(script) for script in on_script]
    finally:
        for target in targets:
            target.stop()
