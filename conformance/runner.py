"""Runs cells against one target, many at a time, and gives each its verdict.

Knows what an exception out of a case means; knows nothing of any case or of how a target is started.
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

from kafka_shim.apis.wire import DecodeError
from kafka_shim.conformance.case import Case
from kafka_shim.conformance.cells import Cell, Selection, cells_of
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.peers import Peers
from kafka_shim.conformance.protocol import BY_NAME
from kafka_shim.conformance.story import Step, story_of
from kafka_shim.conformance.targets import Instance, Target
from kafka_shim.conformance.targets.capabilities import lack_of
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Failed, Level, NotServed, Skipped, Unadvertised, Verdict
from kafka_shim.conformance.wire import Closed, NoAnswer, Tape, Undecodable, WireTrouble

ALONE_AT_A_TIME: Final = 8
"""How many instances may run beside each other after crashes."""

MOVES_FOLLOWED: Final = 4
"""How often a cell is tried whose coordinator moves while it runs."""

CALM_AT_A_TIME: Final = 6
"""How many cells may run beside each other that are judged again because time plays a part in them."""

_DOUBTED: Final = frozenset({Verdict.FAIL, Verdict.NON_STRICT, Verdict.TIMEOUT})

GONE: Final = "the target, which is not ours to start, stopped listening while this cell or one before it ran"

DYING: Final = 1.0
"""Seconds before a crash is noticed in which what a target did, or did not do, may have been the crash."""


@dataclass
class Result:
    """What a cell came to.

    `due`: the API key and version left unanswered, where that is the reason. `instance`: where it ran, if it ran;
    `finished_at`: when it was over, by the monotonic clock. `is_timed`: see `Trial`; `first`: what such a cell came to
    beside others, where it passed when it was run again. `story`: what it was answered.
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
    """A finished run. `violations` are the invariants that its trace shows broken, whatever the cells came to."""

    target: str
    description: str
    results: list[Result] = field(default_factory=list)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


class Runner:
    """Runs cases against a target that it starts and stops."""

    def __init__(
        self,
        target: Target,
        *,
        jobs: int,
        turns: int = 1,
        seed: int | None = None,
        selection: Selection | None = None,
    ) -> None:
        self.target = target
        self.peers = Peers(target)
        self._jobs = jobs
        self._turns = turns
        self._seed = seed
        self._selection = selection or Selection()
        self._answered: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._alone = threading.local()
        self._run_id = f"{random.Random(seed).getrandbits(32) if seed is not None else random.getrandbits(32):08x}"

    def plan(self, cases: list[Case]) -> list[Cell]:
        """The cells a run would have. Starts the target to learn what it advertises, and stops it."""
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
        is_news: Callable[[Result], bool] = lambda result: True,
    ) -> Run:
        """Start the target, run every cell, stop the target.

        `planned` hears how many cells there are, `finished` each result. It is what a cell first came to: one that a
        crash may have spoilt is run again before it counts, and so is a failure that a busy machine may have made, if
        it `is_news`.
        """
        start = time.monotonic()
        try:
            self.peers.start({case.profile for case in cases})
            run = Run(self.target.name, self.peers.describe())
            cells = self.cells(cases)
            planned(len(cells))

            def one(cell: Cell) -> Result:
                result = self.run_cell(cell)
                finished(result)
                return result

            def once_more(result: Result) -> Result:
                if not is_spoilt(result):
                    return result
                if result.instance is not None and result.instance.process is None:
                    held = result.verdict is Verdict.PASS
                    return result if held else replace(result, verdict=Verdict.SKIP, reason=GONE, due=None)
                return self._run_alone(result.cell)

            def calmly(result: Result) -> Result:
                is_doubted = result.is_timed and result.verdict in _DOUBTED and is_news(result)
                return self._run_calmly(result) if is_doubted else result

            aside = self._jobs // 2
            with ThreadPoolExecutor(max(1, aside)) as waiting, ThreadPoolExecutor(self._jobs) as pool:

                def begin(cell: Cell) -> Result | Future[Result]:
                    """Run a cell; one that only waits goes aside when its turn comes."""
                    return waiting.submit(one, cell) if aside and cell.case.is_long else one(cell)

                begun = list(pool.map(begin, cells))
                run.results = [each.result() if isinstance(each, Future) else each for each in begun]
            with ThreadPoolExecutor(min(self._jobs, ALONE_AT_A_TIME)) as pool:
                run.results = list(pool.map(once_more, run.results))
            with ThreadPoolExecutor(min(self._jobs, CALM_AT_A_TIME)) as pool:
                run.results = list(pool.map(calmly, run.results))
        finally:
            self.target.stop()
        run.results = [self._judged_again(result) for result in run.results]
        run.violations = self.target.violations
        run.seconds = time.monotonic() - start
        return run

    def cells(self, cases: list[Case]) -> list[Cell]:
        """The cells of the cases, in the order they are run, once the target has been started."""
        cells = []
        for case in cases:
            peer = self.peers.of(case.profile)
            of_case = cells_of([case], peer.versions if peer else {}, self._turns)
            cells += [cell for cell in of_case if self._selection.has(cell)]
        if self._seed is not None:
            random.Random(self._seed).shuffle(cells)
        return cells

    def run_cell(self, cell: Cell) -> Result:
        """Run one cell; never raises for what the target does."""
        peer = self.peers.living(cell.case.profile)
        if peer is None:
            return Result(cell, Verdict.SKIP, "the target was not started", 0.0, Tape())
        if peer.instance.process is None and peer.instance.ended_at is not None:
            return Result(cell, Verdict.SKIP, GONE, 0.0, Tape())
        if cell.version < 0:
            why = f"{_name_of_lack(cell.case, peer)} is not advertised"
            return Result(cell, Verdict.UNIMPLEMENTED, why, 0.0, Tape())
        return self._run_with(peer, cell)

    def _run_with(self, peer: Peer, cell: Cell, *, calm: bool = False) -> Result:
        """Run a cell; once more, in a new group, when its coordinator moved meanwhile."""
        for attempt in range(MOVES_FOLLOWED):
            result, has_moved = self._run_once(peer, cell, calm, attempt)
            if not has_moved:
                break
        return result

    def _run_once(self, peer: Peer, cell: Cell, calm: bool, attempt: int) -> tuple[Result, bool]:
        """Run a cell; what it came to, and whether its coordinator moved meanwhile."""
        missing = cell.case.needs - peer.instance.capabilities
        if missing:
            return Result(cell, Verdict.SKIP, lack_of(missing, peer.limits), 0.0, Tape()), False
        start = time.monotonic()
        trial = Trial(
            peer,
            f"{cell.case.id.replace('/', '-')}-v{cell.version}",
            f"{self._run_id}-{cell.turn}{'-calm' * calm}{'-again' * attempt}",
            api=cell.case.api,
            version=cell.version,
            cap=cell.case.cap,
            is_timed=cell.case.profile != "default",
            is_calm=calm,
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
            # Cases take what an answer must hold by its place; what a target leaves out is not there.
            verdict, reason = Verdict.FAIL, f"an answer does not hold what it must: {lack!r}"
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
        story = story_of(trial.tape.trips, trial.unique, trial.group, peer.topic_ids)
        result = Result(
            cell, verdict, reason, end - start, trial.tape, due, peer.instance, end, trial.is_timed, story=story
        )
        return result, has_moved

    def _run_calmly(self, result: Result) -> Result:
        """Run a timed cell that did not pass again, with few beside it and more time.

        On a busy machine a heartbeat of the case may be late, or an answer whose time is measured.
        """
        peer = self.peers.living(result.cell.case.profile)
        if peer is None:
            return result
        again = self._run_with(peer, result.cell, calm=True)
        if peer.instance.has_crashed():
            return self._run_alone(result.cell)
        return replace(again, first=f"{result.verdict}: {result.reason}") if again.verdict is Verdict.PASS else again

    def _run_alone(self, cell: Cell) -> Result:
        """Run a cell alone, so that a crash is its own.

        The instance belongs to this thread and is kept for its next cell. A crash is blamed only on a cell that had a
        new instance to itself.
        """
        mine: dict[str, Peer] = self._alone.__dict__
        profile = cell.case.profile
        while True:
            used = profile in mine
            peer = mine.setdefault(profile, mine.get(profile) or self.peers.another(profile))
            again = self._run_with(peer, cell)
            if not peer.instance.has_crashed():
                return again
            del mine[profile]
            if not used:
                guilty = Verdict.FAIL if cell.case.level is Level.MUST else Verdict.NON_STRICT
                return replace(again, verdict=guilty, reason=f"the target crashed: {again.reason}", due=None)

    def _judged_again(self, result: Result) -> Result:
        """A failure for want of any answer to a version nobody ever got an answer to is a version not served."""
        if result.due is None or result.due in self._answered:
            return result
        return replace(result, verdict=Verdict.DECLARED_NOT_SERVED)


def _name_of_lack(case: Case, peer: Peer) -> str:
    """The API of a case, with the versions that it is about if the target has others."""
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


def is_spoilt(result: Result) -> bool:
    """Whether a cell ran on a target that was crashing, whoever's fault that was."""
    ended_at = None if result.instance is None else result.instance.ended_at
    return ended_at is not None and result.finished_at > ended_at - DYING
