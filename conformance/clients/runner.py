"""Runs client cases: every case with every client that can do what it needs, against one coordinator.

Decides what an exception out of a case means, as the runner of the server cases does.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from conformance.case import Failed, Skipped, Verdict
from conformance.clients.builds import ClientMissing
from conformance.clients.case import ClientCase
from conformance.clients.crew import Client, Told
from conformance.clients.scenario import Scenario
from conformance.targets import Instance, Target


@dataclass(frozen=True)
class ClientResult:
    """What one case came to with one client. `story` is the group's frames."""

    case: ClientCase
    client: Client
    verdict: Verdict
    reason: str
    seconds: float
    story: str


def abilities(client: Client) -> frozenset[str]:
    """What cases may need of a client."""
    found = set(client.abilities)
    if "cooperative-sticky" in client.assignors:
        found.add("cooperative")
    if client.static:
        found.add("static")
    return frozenset(found)


def run_one(instance: Instance, case: ClientCase, client: Client) -> ClientResult:
    """Run one case with one client; never raises for what the client does."""
    missing = case.needs - abilities(client)
    start = time.monotonic()
    story = ""
    if missing:
        return ClientResult(case, client, Verdict.SKIP, f"the client has no {', '.join(sorted(missing))}", 0.0, "")
    try:
        with Scenario(instance, client) as scenario:
            try:
                case.body(scenario)
            finally:
                story = scenario.story()
        verdict, reason = Verdict.PASS, ""
    except Failed as failure:
        verdict, reason = Verdict.FAIL, str(failure)
    except Told as told:
        verdict, reason = Verdict.FAIL, str(told)
    except (ClientMissing, Skipped) as missing_client:
        verdict, reason = Verdict.SKIP, str(missing_client)
    except Exception:
        verdict, reason = Verdict.HARNESS_ERROR, traceback.format_exc()
    return ClientResult(case, client, verdict, reason, time.monotonic() - start, story)


def run(
    target: Target,
    cases: list[ClientCase],
    clients: list[Client],
    *,
    jobs: int,
    finished: Callable[[ClientResult], None] = lambda result: None,
) -> list[ClientResult]:
    """Start the target, run every case with every client, stop the target."""

    def one(pair: tuple[ClientCase, Client]) -> ClientResult:
        result = run_one(instance, *pair)
        finished(result)
        return result

    try:
        instance = target.start("default")
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, [(case, client) for client in clients for case in cases]))
    finally:
        target.stop()
