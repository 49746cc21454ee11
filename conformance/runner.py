"""Runs cells against one target, many at a time, and gives each its verdict.

Knows what an exception out of a case means; knows nothing of any case or of how a target is started.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from apis.api_versions import ApiVersionsRequest
from apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apis.describe_groups import DescribeGroupsRequest
from apis.find_coordinator import FindCoordinatorRequest
from apis.metadata import MetadataRequest
from apis.wire import DecodeError
from conformance.case import Case, Failed, Level, NotServed, Skipped, Unadvertised, Verdict
from conformance.harmless import GROUP_KEYS, harmless
from conformance.protocol import BY_NAME, EXCHANGES
from conformance.targets import Instance, Target, TargetError
from conformance.targets.base import LIMIT_NAMES, end
from conformance.trial import Peer, Trial
from conformance.wire import Closed, Connection, NoAnswer, Tape, Undecodable, WireTrouble

_WARM_GROUPS: Final = [f"warm-up-{number}" for number in range(32)]
_BROKER_RESOURCE: Final = 4
ALONE_AT_A_TIME: Final = 8
"""How many instances may run beside each other after crashes."""

SHARED_TOPICS: Final = (1, 3, 8, 100)
_NOT_READY: Final = frozenset({14, 15, 16})


@dataclass(frozen=True)
class Cell:
    """One case at one version of its API; `turn` counts repetitions."""

    case: Case
    version: int
    turn: int = 0

    @property
    def name(self) -> str:
        return f"{self.case.id}@{self.version}" if self.case.api else self.case.id


@dataclass
class Result:
    """What a cell came to.

    `due`: the API key and version left unanswered, where that is the reason. `ended`: the target's process had ended.
    """

    cell: Cell
    verdict: Verdict
    reason: str
    seconds: float
    tape: Tape
    due: tuple[int, int] | None = None
    ended: bool = False


@dataclass
class Run:
    """A finished run. `violations` are the invariants that its trace shows broken, whatever the cells came to."""

    target: str
    description: str
    results: list[Result] = field(default_factory=list)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


def cells_of(cases: Iterable[Case], advertised: dict[int, tuple[int, int]], turns: int = 1) -> list[Cell]:
    """The cells of the cases: every version of a case's API that case, target and suite have in common.

    A case whose API the target lacks in all its versions keeps one cell, to be told unimplemented.
    """
    cells = []
    for case in cases:
        versions = [0]
        if case.api is not None:
            known = BY_NAME[case.api].request.versions
            low, high = case.versions or (known[0], known[-1])
            offered = advertised.get(BY_NAME[case.api].key, (1, 0))
            both = range(max(low, known[0], offered[0]), min(high, known[-1], offered[1]) + 1)
            versions = list(both) or [-1]
        cells += [Cell(case, version, turn) for version in versions for turn in range(turns)]
    return cells


class Runner:
    """Runs cases against a target that it starts and stops."""

    def __init__(self, target: Target, *, jobs: int, turns: int = 1, seed: int | None = None) -> None:
        self.target = target
        self._jobs = jobs
        self._turns = turns
        self._seed = seed
        self._peers: dict[str, Peer] = {}
        self._answered: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._run_id = f"{random.Random(seed).getrandbits(32) if seed is not None else random.getrandbits(32):08x}"

    def plan(self, cases: list[Case]) -> list[Cell]:
        """The cells a run would have. Starts the target to learn what it advertises, and stops it."""
        try:
            self._start({case.profile for case in cases} & self.target.profiles)
            return self._cells(cases)
        finally:
            self.target.stop()

    def run(
        self,
        cases: list[Case],
        planned: Callable[[int], None],
        finished: Callable[[Result], None] = lambda result: None,
    ) -> Run:
        """Start the target, run every cell, stop the target. `planned` hears their number, `finished` each result."""
        start = time.monotonic()
        try:
            self._start({case.profile for case in cases} & self.target.profiles)
            run = Run(self.target.name, next(iter(self._peers.values())).instance.description if self._peers else "")
            cells = self._cells(cases)
            planned(len(cells))

            def one(cell: Cell) -> Result:
                result = self.run_cell(cell)
                finished(result)
                return result

            with ThreadPoolExecutor(self._jobs) as pool:
                run.results = list(pool.map(one, cells))
            with ThreadPoolExecutor(min(self._jobs, ALONE_AT_A_TIME)) as pool:
                run.results = list(pool.map(self._alone, run.results))
        finally:
            self.target.stop()
        run.results = [self._judged_again(result) for result in run.results]
        run.violations = self.target.violations
        run.seconds = time.monotonic() - start
        return run

    def _cells(self, cases: list[Case]) -> list[Cell]:
        cells = []
        for case in cases:
            peer = self._peers.get(case.profile)
            cells += cells_of([case], peer.versions if peer else {}, self._turns)
        if self._seed is not None:
            random.Random(self._seed).shuffle(cells)
        return cells

    def _start(self, profiles: set[str]) -> None:
        with ThreadPoolExecutor(max(1, len(profiles))) as pool:
            for profile, peer in zip(sorted(profiles), pool.map(self._prepare, sorted(profiles)), strict=True):
                self._peers[profile] = peer

    def _prepare(self, profile: str) -> Peer:
        instance = self.target.start(profile)
        peer = probe(instance)
        if "configurable" not in instance.capabilities:
            instance.limits = instance.limits.configured(configuration(peer))
        find_served(peer)
        make_topics(peer)
        return peer

    def run_cell(self, cell: Cell) -> Result:
        """Run one cell; never raises for what the target does."""
        peer = self._living(cell.case.profile)
        if peer is None:
            return Result(cell, Verdict.SKIP, f"the target cannot be started with {cell.case.profile}", 0.0, Tape())
        if cell.version < 0:
            return Result(cell, Verdict.UNIMPLEMENTED, f"{cell.case.api} is not advertised", 0.0, Tape())
        return self._run_with(peer, cell)

    def _run_with(self, peer: Peer, cell: Cell) -> Result:
        missing = cell.case.needs - peer.instance.capabilities
        if missing:
            return Result(cell, Verdict.SKIP, f"the target lacks {', '.join(sorted(missing))}", 0.0, Tape())
        start = time.monotonic()
        trial = Trial(cell.case, cell.version, peer, f"{self._run_id}-{cell.turn}")
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
        except ConnectionRefusedError:
            verdict, reason = Verdict.FAIL, "the target no longer listens"
        except Exception:
            verdict, reason = Verdict.HARNESS_ERROR, traceback.format_exc()
        finally:
            trial.end()
        if verdict is Verdict.FAIL and cell.case.level is not Level.MUST:
            verdict = Verdict.NON_STRICT
        with self._lock:
            self._answered |= trial.answered
        ended = verdict not in (Verdict.PASS, Verdict.SKIP) and peer.instance.has_ended
        return Result(cell, verdict, reason, time.monotonic() - start, trial.tape, due, ended)

    def _living(self, profile: str) -> Peer | None:
        """The target of a profile, started again if it has crashed."""
        with self._lock:
            peer = self._peers.get(profile)
            if peer is not None and peer.instance.has_ended:
                peer = self._peers[profile] = self._another(peer)
            return peer

    def _another(self, crashed: Peer) -> Peer:
        """Another instance like one that crashed, what is known of that one taken over."""
        peer = probe(self.target.start(crashed.instance.profile))
        peer.served = crashed.served
        make_topics(peer)
        return peer

    def _alone(self, result: Result) -> Result:
        """A cell in which the target crashed is run again on an instance of its own, to tell who crashed it."""
        if not result.ended:
            return result
        peer = self._another(self._peers[result.cell.case.profile])
        again = self._run_with(peer, result.cell)
        if peer.instance.process is not None:
            end(peer.instance.process)
        if again.ended:
            return replace(again, verdict=Verdict.FAIL, reason=f"the target crashed: {again.reason}", due=None)
        return again

    def _judged_again(self, result: Result) -> Result:
        """A failure for want of any answer to a version nobody ever got an answer to is a version not served."""
        if result.due is None or result.due in self._answered:
            return result
        return replace(result, verdict=Verdict.DECLARED_NOT_SERVED)


def probe(instance: Instance, seconds: float = 60.0) -> Peer:
    """Ask a target what it advertises, and wait until its coordinators answer."""
    deadline = time.monotonic() + seconds
    while True:
        connection = None
        try:
            connection = Connection(
                instance.host, instance.port, patience=15.0, deadline=deadline, tape=Tape(), label="probe"
            )
            told = connection.call(ApiVersionsRequest(), 0)
            versions = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
            peer = Peer(instance, versions)
            if coordinators_ready(connection, peer):
                return peer
        except (WireTrouble, OSError) as trouble:
            if time.monotonic() > deadline:
                raise TargetError(f"{instance.host}:{instance.port} gives no usable answer: {trouble}") from trouble
        finally:
            if connection is not None:
                connection.close()
        if time.monotonic() > deadline:
            raise TargetError(f"the coordinators of {instance.host}:{instance.port} never became ready")
        time.sleep(0.05)


def coordinators_ready(connection: Connection, peer: Peer) -> bool:
    """Whether group coordinators are found and have loaded."""
    version = min(peer.newest("FindCoordinator"), 3)
    if connection.call(FindCoordinatorRequest(_WARM_GROUPS[0]), version).error_code != 0:
        return False
    try:
        version = peer.newest("DescribeGroups")
    except Unadvertised:
        return True
    described = connection.call(DescribeGroupsRequest(_WARM_GROUPS), version).groups
    return not any(group.error_code in _NOT_READY for group in described)


def find_served(peer: Peer) -> None:
    """Find the newest version of each API that is really answered: what is only declared is not leaned on.

    Where no version's answer can be read, the newest that has an answer is taken.
    """
    instance = peer.instance
    for key in (3, *GROUP_KEYS):
        low, high = peer.versions.get(key, (1, 0))
        for version in range(min(high, EXCHANGES[key].request.versions[-1]), low - 1, -1):
            connection = Connection(
                instance.host,
                instance.port,
                patience=instance.limits.patience,
                deadline=time.monotonic() + 60,
                tape=Tape(),
                label="probe",
            )
            try:
                connection.call(harmless(key, version, f"probe-{key}-{version}"), version)
                peer.served[key] = version
                break
            except Undecodable:
                peer.served.setdefault(key, version)
            except WireTrouble:
                if instance.has_ended:
                    return
            finally:
                connection.close()


def make_topics(peer: Peer) -> None:
    """Make the topics the cases share, so that none of them is new to the coordinator when a case begins."""
    case = Case("topics", "", "", Level.MUST, None, None, frozenset(), frozenset(), "", 30.0, lambda trial: None, "")
    trial = Trial(case, 0, peer, "topics")
    try:
        for partitions in SHARED_TOPICS:
            trial.topic(partitions)
    except (Unadvertised, Skipped, Failed, WireTrouble):
        """A target that makes no topics: the cases that need one will each say so."""
    finally:
        trial.end()


def configuration(peer: Peer) -> dict[str, str]:
    """The broker settings the suite derives its waits from, as far as the target tells them."""
    instance = peer.instance
    connection = Connection(
        instance.host, instance.port, patience=5.0, deadline=time.monotonic() + 10, tape=Tape(), label="probe"
    )
    try:
        version = peer.newest("DescribeConfigs")
        broker = connection.call(MetadataRequest([]), peer.newest("Metadata")).brokers[0]
        resource = DescribeConfigsResource(_BROKER_RESOURCE, str(broker.node_id), list(LIMIT_NAMES))
        answer = connection.call(DescribeConfigsRequest([resource]), version)
        return {each.name: each.value for result in answer.results for each in result.configs if each.value}
    except (WireTrouble, Unadvertised):
        return {}
    finally:
        connection.close()
