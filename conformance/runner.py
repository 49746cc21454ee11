"""Runs the cells against one target, many at a time, and gives each a verdict.

Maps the exceptions of a case to verdicts. Runs a cell again if a crash, a moved coordinator or a busy machine may have
caused its failure.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_shim.apis.releases import DEFAULT_RELEASE, is_at_least
from kafka_shim.apis.wire import DecodeError
from kafka_shim.conformance.case import Case
from kafka_shim.conformance.cells import Cell, Selection, cells_of
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.peers import Peers
from kafka_shim.conformance.protocol import BY_NAME
from kafka_shim.conformance.story import Step, story_of
from kafka_shim.conformance.targets import ForeignTarget, Instance, Target
from kafka_shim.conformance.targets.capabilities import lack_of
from kafka_shim.conformance.targets.secured import SECURITY
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Failed, Level, NotServed, Skipped, Unadvertised, Verdict
from kafka_shim.conformance.wire import Closed, NoAnswer, Tape, Undecodable, WireTrouble

ALONE_AT_A_TIME: Final = 8
"""The limit of instances that run beside each other after crashes."""

MOVES_FOLLOWED: Final = 4
"""The limit of attempts for a cell when its coordinator moves during each."""

TIMED_AT_A_TIME: Final = 6
"""The limit of timed cells that run beside each other when they run again."""

FEW: Final = 3
"""So many failures of a run may come from a busy moment, though their cells do not measure time: a request on a second
connection may overtake the one before.
"""

_FAILURES: Final = frozenset({Verdict.FAIL, Verdict.NON_STRICT, Verdict.TIMEOUT})

TARGET_STOPPED: Final = "the target stopped listening during this cell or an earlier one; the suite cannot restart it"

NO_USERS: Final = "the suite knows no users of the target"

DYING: Final = 1.0
"""Seconds before a crash is noticed in which the crash may already have changed answers."""


@dataclass
class Result:
    """The verdict of a cell, with reason and evidence.

    `due`: the API key and version without an answer, if that is the reason. `instance`: the instance it ran on, if it
    ran; `finished_at`: its end by the monotonic clock. `is_timed`: see `Trial`; `first`: the first verdict of a timed
    cell that passed when it ran again with more time. `story`: its answers.
    """

    cell: Cell
    verdict: Verdict
    reason: str
    seconds: float
    tape: Tape
    due: tuple[int, int] | None = None
    instance: Instance | None = None
    finished_at: float = 0.0
    is_timed: bool = False
    first: str = ""
    story: list[Step] = field(default_factory=list)


@dataclass
class Run:
    """A finished run. `violations` are the broken invariants in its trace, beside the verdicts."""

    target: str
    description: str
    results: list[Result] = field(default_factory=list)
    release: str = DEFAULT_RELEASE
    """The release of Kafka with the rules of the target."""
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


class Runner:
    """Starts a target, runs cases against it, and stops it; `release` is that to judge it by, empty for its own."""

    def __init__(
        self,
        target: Target,
        *,
        jobs: int,
        turns: int = 1,
        seed: int | None = None,
        selection: Selection | None = None,
        release: str = "",
    ) -> None:
        self.target = target
        self.peers = Peers(target, release)
        self._jobs = jobs
        self._turns = turns
        self._seed = seed
        self._selection = selection or Selection()
        self._answered: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._alone = threading.local()
        self._run_id = f"{random.Random(seed).getrandbits(32) if seed is not None else random.getrandbits(32):08x}"

    def plan(self, cases: list[Case]) -> list[Cell]:
        """Return the cells of a run. Starts the target to learn its advertised versions, and stops it."""
        try:
            self.peers.start({case.profile for case in cases})
            return self.cells(cases)
        finally:
            self.target.stop()

    def run(
        self,
        cases: list[Case],
        planned: Callable[[int], None],
        finished: Callable[[Result], None] = lambda result: None,
        is_unexpected: Callable[[Result], bool] = lambda result: True,
    ) -> Run:
        """Start the target, run every cell, stop the target.

        Calls `planned` with the number of cells, and `finished` with the first result of each. A cell that a crash may
        have spoilt runs again. So does a failure that `is_unexpected`, because a busy machine may have caused it:
        if its cell measures time, or if there are only a few.
        """
        start = time.monotonic()
        try:
            self.peers.start({case.profile for case in cases})
            run = Run(self.target.name, self.peers.describe(), release=self.peers.release())
            cells = self.cells(cases)
            planned(len(cells))

            def one(cell: Cell) -> Result:
                result = self.run_cell(cell)
                finished(result)
                return result

            def once_more(result: Result) -> Result:
                if not ran_during_crash(result):
                    return result
                if result.instance is not None and result.instance.process is None:
                    passed = result.verdict is Verdict.PASS
                    return result if passed else replace(result, verdict=Verdict.SKIP, reason=TARGET_STOPPED, due=None)
                return self._run_alone(result.cell)

            aside = self._jobs // 2
            with ThreadPoolExecutor(max(1, aside)) as waiting, ThreadPoolExecutor(self._jobs) as pool:

                def begin(cell: Cell) -> Result | Future[Result]:
                    """Run a cell; a long one, that only waits, runs in the other pool."""
                    return waiting.submit(one, cell) if aside and cell.case.is_long else one(cell)

                outcomes = list(pool.map(begin, cells))
                run.results = [each.result() if isinstance(each, Future) else each for each in outcomes]
            with ThreadPoolExecutor(min(self._jobs, ALONE_AT_A_TIME)) as pool:
                run.results = list(pool.map(once_more, run.results))

            def has_failed(result: Result) -> bool:
                return result.verdict in _FAILURES and is_unexpected(result)

            are_few = sum(has_failed(each) and not each.is_timed for each in run.results) <= FEW

            def with_more_time(result: Result) -> Result:
                may_be_late = has_failed(result) and (result.is_timed or are_few)
                return self._run_with_more_time(result) if may_be_late else result

            with ThreadPoolExecutor(min(self._jobs, TIMED_AT_A_TIME)) as pool:
                run.results = list(pool.map(with_more_time, run.results))
        finally:
            self.target.stop()
        run.results = [self._with_version_not_served(result) for result in run.results]
        run.violations = self.target.violations
        run.seconds = time.monotonic() - start
        return run

    def cells(self, cases: list[Case]) -> list[Cell]:
        """Return the cells of the cases in running order. The target must be started."""
        cells = []
        for case in cases:
            if case.profile == SECURITY and not self._can_have_users:
                continue
            peer = self.peers.of(case.profile)
            if peer is not None and not is_at_least(peer.release, case.since):
                continue
            of_case = cells_of([case], peer.versions if peer else {}, self._turns)
            cells += [cell for cell in of_case if self._selection.has(cell)]
        if self._seed is not None:
            random.Random(self._seed).shuffle(cells)
        return cells

    @property
    def _can_have_users(self) -> bool:
        """True unless the suite itself starts the target, and cannot start it with users."""
        return SECURITY in self.target.profiles or isinstance(self.target, ForeignTarget)

    def run_cell(self, cell: Cell) -> Result:
        """Run one cell; never raises because of the target."""
        peer = self.peers.running(cell.case.profile)
        if peer is None:
            return Result(cell, Verdict.SKIP, "the target was not started", 0.0, Tape())
        if peer.instance.process is None and peer.instance.ended_at is not None:
            return Result(cell, Verdict.SKIP, TARGET_STOPPED, 0.0, Tape())
        if cell.version < 0:
            why = f"{_name_of_lack(cell.case, peer)} is not advertised"
            return Result(cell, Verdict.UNIMPLEMENTED, why, 0.0, Tape())
        return self._run_with(peer, cell)

    def _run_with(self, peer: Peer, cell: Cell, *, more_time: bool = False) -> Result:
        """Run a cell; again, in a new group, if its coordinator moved during the attempt."""
        for attempt in range(MOVES_FOLLOWED):
            result, has_moved = self._run_once(peer, cell, more_time, attempt)
            if not has_moved:
                break
        return result

    def _run_once(self, peer: Peer, cell: Cell, more_time: bool, attempt: int) -> tuple[Result, bool]:
        """Run a cell; return its result, and True if its coordinator moved."""
        if cell.case.profile == SECURITY and not peer.instance.secured:
            return Result(cell, Verdict.SKIP, NO_USERS, 0.0, Tape()), False
        missing = cell.case.needs - peer.instance.capabilities
        if missing:
            return Result(cell, Verdict.SKIP, lack_of(missing, peer.limits), 0.0, Tape()), False
        start = time.monotonic()
        trial = Trial(
            peer,
            f"{cell.case.id.replace('/', '-')}-v{cell.version}",
            f"{self._run_id}-{cell.turn}{'-more-time' * more_time}{'-again' * attempt}",
            api=cell.case.api,
            version=cell.version,
            cap=cell.case.cap,
            is_timed=cell.case.profile != "default" or "short-sessions" in cell.case.needs,
            has_more_time=more_time,
        )
        due = None
        try:
            for name in cell.case.uses:
                peer.newest(name)
            cell.case.body(trial)
            verdict, reason = Verdict.PASS, ""
        except Failed as failure:
            verdict, reason = Verdict.FAIL, str(failure)
        except (Closed, Undecodable) as trouble:
            verdict, reason, due = Verdict.FAIL, str(trouble), trouble.due
        except DecodeError as error:
            verdict, reason = Verdict.FAIL, f"an answer cannot be read: {error}"
        except NoAnswer as trouble:
            verdict, reason = Verdict.TIMEOUT, str(trouble)
        except Unadvertised as absent:
            verdict, reason = Verdict.UNIMPLEMENTED, str(absent)
        except NotServed as refused:
            verdict, reason = Verdict.DECLARED_NOT_SERVED, str(refused)
        except Skipped as skipped:
            verdict, reason = Verdict.SKIP, str(skipped)
        except LookupError as lack:
            # Cases read required entries by index or key; a missing entry is a failure of the target.
            verdict, reason = Verdict.FAIL, f"an answer lacks a required entry: {lack!r}"
        except Exception:
            verdict, reason = Verdict.HARNESS_ERROR, traceback.format_exc()
        finally:
            trial.end()
        if verdict is Verdict.FAIL and cell.case.level is not Level.MUST:
            verdict = Verdict.NON_STRICT
        with self._lock:
            self._answered |= trial.answered
        has_moved = False
        if verdict not in (Verdict.PASS, Verdict.SKIP, Verdict.UNIMPLEMENTED):
            peer.instance.has_crashed()
            has_moved = _has_moved(trial)
        end = time.monotonic()
        story = story_of(trial.tape.trips, trial.unique, trial.group, peer.topic_names())
        result = Result(
            cell, verdict, reason, end - start, trial.tape, due, peer.instance, end, trial.is_timed, story=story
        )
        return result, has_moved

    def _run_with_more_time(self, result: Result) -> Result:
        """Run a failure again, with more time and few cells beside it.

        On a busy machine a heartbeat of the case, or a measured answer, may be late.
        """
        peer = self.peers.running(result.cell.case.profile)
        if peer is None:
            return result
        again = self._run_with(peer, result.cell, more_time=True)
        if peer.instance.has_crashed():
            return self._run_alone(result.cell)
        return replace(again, first=f"{result.verdict}: {result.reason}") if again.verdict is Verdict.PASS else again

    def _run_alone(self, cell: Cell) -> Result:
        """Run a cell alone, so that a crash is its own.

        This thread keeps the instance for its next cell. A crash counts against a cell only if its instance was new.
        """
        instances: dict[str, Peer] = self._alone.__dict__
        profile = cell.case.profile
        while True:
            used = profile in instances
            peer = instances.setdefault(profile, instances.get(profile) or self.peers.another(profile))
            again = self._run_with(peer, cell)
            if not peer.instance.has_crashed():
                return again
            del instances[profile]
            if not used:
                guilty = Verdict.FAIL if cell.case.level is Level.MUST else Verdict.NON_STRICT
                return replace(again, verdict=guilty, reason=f"the target crashed: {again.reason}", due=None)

    def _with_version_not_served(self, result: Result) -> Result:
        """Change a missing answer to declared-not-served if no cell ever got an answer in that version."""
        if result.due is None or result.due in self._answered:
            return result
        return replace(result, verdict=Verdict.DECLARED_NOT_SERVED)


def _name_of_lack(case: Case, peer: Peer) -> str:
    """Return the API of a case, with the case's versions if the target has only other ones."""
    api = str(case.api)
    if BY_NAME[api].key not in peer.versions or case.versions is None:
        return api
    first, last = case.versions
    return f"{api} {first}" if first == last else f"{api} {first} to {last}"


def _has_moved(trial: Trial) -> bool:
    try:
        return trial.has_moved()
    except WireTrouble:
        return False


def ran_during_crash(result: Result) -> bool:
    """Return True if the target was crashing while the cell ran."""
    ended_at = None if result.instance is None else result.instance.ended_at
    return ended_at is not None and result.finished_at > ended_at - DYING
