"""The fuzzer of a whole server: so many requests in `make test`, FUZZ_SECONDS for each store in `make fuzz`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.examples import EVERYTHING
from tests.fuzz.server import Plan, run
from tests.postgres import binaries

REQUESTS = 15_000 if EVERYTHING else 5_000
LENGTH = {"seconds": float(os.environ["FUZZ_SECONDS"])} if "FUZZ_SECONDS" in os.environ else {"requests": REQUESTS}
SEED = int(os.environ.get("FUZZ_SEED", 1))
STORES = [("memory:", False), ("sqlite:", True), ("postgresql:", False)]
IDS = ["memory", "sqlite-tls", "postgresql"]
RAISING = [
    pytest.param(*each, id=name, marks=() if name == "sqlite-tls" else pytest.mark.everything("one more store"))
    for each, name in zip(STORES, IDS, strict=True)
]
pytestmark = [pytest.mark.second_stage("a fuzzer that runs for as long as it is given"), pytest.mark.timeout(0)]


def fuzzed(plan: Plan, folder: Path) -> dict[str, Any]:
    """The summary of a run that ended well, with no error of the bystander and none of its commits lost."""
    if plan.store == "postgresql:" and binaries() is None:
        pytest.skip("PostgreSQL's initdb is not installed")
    summary = run(plan, folder)
    assert summary["exit_code"] == 0, summary
    assert summary["bystander"]["first_errors"] == [], summary
    assert summary["commit_is_safe"], summary
    assert summary["answered"] > 0, summary
    return summary


@pytest.mark.parametrize(("store", "tls"), STORES, ids=IDS)
def test_no_client_disturbs_a_bystander(tmp_path: Path, store: str, tls: bool) -> None:
    summary = fuzzed(Plan(store=store, seed=SEED, tls=tls, **LENGTH), tmp_path)
    assert summary["undecodable"] == {}, summary


@pytest.mark.parametrize(("store", "tls"), RAISING)
def test_code_that_raises_costs_one_client_and_no_bystander(tmp_path: Path, store: str, tls: bool) -> None:
    plan = Plan(store=store, seed=SEED, tls=tls, faults=20, **LENGTH)
    summary = fuzzed(plan, tmp_path)
    # Timers, the ends of ticks, flushes, encoders and decoders, among others.
    assert {"_fire", "settle", "flush", "body", "decode"} <= summary["injected"].keys(), summary
