"""Runs client cases: every case with every capable client of its protocol, against one coordinator.

Maps the exceptions of a case to verdicts, as the runner of the server cases does, and keeps evidence.
"""

from __future__ import annotations

import json
import shutil
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kafka_shim.conformance import processes
from kafka_shim.conformance.clients.builds import ClientMissing
from kafka_shim.conformance.clients.case import ClientCase
from kafka_shim.conformance.clients.client_processes import Client, MemberFailed
from kafka_shim.conformance.clients.consumer_scenario import HEARTBEAT, ConsumerScenario
from kafka_shim.conformance.clients.relay import Exchange
from kafka_shim.conformance.clients.scenario import Scenario
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.peers import probe
from kafka_shim.conformance.targets import Instance, Target
from kafka_shim.conformance.targets.shim import ShimTarget
from kafka_shim.conformance.verdict import Failed, Level, Skipped, Verdict

QUIET: Final = frozenset({Verdict.PASS, Verdict.SKIP, Verdict.UNIMPLEMENTED})
"""Verdicts without evidence."""


@dataclass(frozen=True)
class ClientResult:
    """The result of one case with one client.

    `target` is the coordinator it ran against. `story` is the group's frames, a line each. `exchanges`, `logs` (reports
    and log of each member) and `trace` (the coordinator's, of this group) are evidence, kept for failures. `violations`
    are the broken invariants in the coordinator's trace of this group.
    """

    case: ClientCase
    client: Client
    verdict: Verdict
    reason: str
    seconds: float
    story: str = ""
    target: str = ""
    turn: int = 0
    group: str = ""
    exchanges: list[Exchange] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


@dataclass
class ClientRun:
    """A finished run. `missing` has the reason for each client that is not available."""

    target: str
    description: str
    results: list[ClientResult]
    seconds: float
    violations: list[str]
    missing: dict[str, str]


def abilities(client: Client) -> frozenset[str]:
    """Return the abilities of a client that cases may need."""
    names = set(client.abilities)
    if "cooperative-sticky" in client.assignors:
        names.add("cooperative")
    if client.static:
        names.add("static")
    return frozenset(names)


def run_one(instance: Instance, case: ClientCase, client: Client) -> ClientResult:
    """Run one case with one client; never raises because of the client."""
    missing = case.needs - abilities(client)
    if missing:
        return ClientResult(case, client, Verdict.SKIP, f"the client has no {', '.join(sorted(missing))}", 0.0)
    start = time.monotonic()
    kind = ConsumerScenario if case.protocol == "consumer" else Scenario
    result = ClientResult(case, client, Verdict.PASS, "", 0.0)
    scenario = kind(instance, client)
    try:
        try:
            with scenario:
                case.body(scenario)
                scenario.aftermath()
        finally:
            result = replace(result, story=scenario.story(), group=scenario.group)
    except (Failed, MemberFailed) as failure:
        failed = Verdict.FAIL if case.level is Level.MUST else Verdict.NON_STRICT
        result = replace(result, verdict=failed, reason=str(failure))
    except (ClientMissing, Skipped) as skipped:
        result = replace(result, verdict=Verdict.SKIP, reason=str(skipped))
    except Exception:
        result = replace(result, verdict=Verdict.HARNESS_ERROR, reason=traceback.format_exc())
    if result.verdict not in (Verdict.PASS, Verdict.SKIP) and scenario.relay.troubles:
        result = replace(result, verdict=Verdict.HARNESS_ERROR, reason=scenario.relay.troubles[0])
    if result.verdict not in QUIET:
        logs = [member.log() for member in scenario.processes.members]
        result = replace(result, exchanges=scenario.relay.exchanges, logs=logs)
    return replace(result, seconds=time.monotonic() - start)


def run(
    target: Target,
    cases: list[ClientCase],
    clients: list[Client],
    *,
    jobs: int,
    turns: int = 1,
    planned: Callable[[int], None] = lambda cells: None,
    finished: Callable[[ClientResult], None] = lambda result: None,
) -> ClientRun:
    """Start the target, run every case with every client of its protocol, stop the target."""
    start = time.monotonic()
    missing = {client.name: why for client in clients if (why := unavailable(client))}
    cells = [
        (case, client, turn)
        for client in clients
        for case in cases
        if case.protocol == client.protocol
        for turn in range(turns)
    ]
    planned(len(cells))
    traces = processes.temporary_folder("conformance-client-traces-")
    if isinstance(target, ShimTarget):
        target.keep_traces_in = traces
    try:
        try:
            peer = probe(target.start("default"))

            def one(cell: tuple[ClientCase, Client, int]) -> ClientResult:
                case, client, turn = cell
                result = replace(run_cell(peer, target.name, case, client, missing), turn=turn)
                finished(result)
                return result

            with ThreadPoolExecutor(jobs) as pool:
                results = list(pool.map(one, cells))
        finally:
            target.stop()
        results = with_traces(results, traces, target.violations)
    finally:
        shutil.rmtree(traces, ignore_errors=True)
    description = peer.instance.description
    return ClientRun(target.name, description, results, time.monotonic() - start, target.violations, missing)


def unavailable(client: Client) -> str:
    """Return the reason why a client is not available, or an empty text. Builds the client if needed."""
    try:
        client.command()
    except ClientMissing as missing:
        return str(missing)
    return ""


def run_cell(peer: Peer, target: str, case: ClientCase, client: Client, missing: dict[str, str]) -> ClientResult:
    """Run one case with one client on the target of that name, or return why it cannot run here."""
    if client.name in missing:
        return ClientResult(case, client, Verdict.SKIP, missing[client.name], 0.0, target=target)
    if case.protocol == "consumer" and not peer.offers(HEARTBEAT):
        why = f"the target does not serve {HEARTBEAT}"
        return ClientResult(case, client, Verdict.UNIMPLEMENTED, why, 0.0, target=target)
    return replace(run_one(peer.instance, case, client), target=target)


def with_traces(results: list[ClientResult], folder: Path, violations: list[str]) -> list[ClientResult]:
    """Return the results with the coordinator's trace of their groups."""
    broken = {each.group: [line for line in violations if f" group {each.group} " in line] for each in results}
    traces: dict[str, list[str]] = {
        each.group: [] for each in results if each.group and (each.verdict not in QUIET or broken[each.group])
    }
    for file in sorted(folder.rglob("*.jsonl*")) if traces else ():
        with open(file) as lines:
            for line in lines:
                group = json.loads(line).get("group")
                if group in traces:
                    traces[group].append(line.rstrip())
    return [
        replace(each, trace=traces.get(each.group, []), violations=broken[each.group] if each.group else [])
        for each in results
    ]
