"""Computations over HTTP take no thread from the store, and the end of the process does not wait for them."""

import threading
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
import trio

from kafka_shim.control.operations.simulations import Simulate, _played
from kafka_shim.lab.simulator import Simulation
from kafka_shim.testing import CoordinatorServer, open_coordinator
from tests.waiting import PATIENCE_S

MEMBER = {"puppet": {"kind": "consumer", "group": "billing", "topics": ["orders"]}}
REQUESTS: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("GET", "/semantics/2", None),
    ("GET", "/v1/lessons/fencing", None),
    ("GET", "/v1/topics/orders/records", None),
    ("GET", "/v1/groups/billing/why", None),
    ("POST", "/v1/assignments", {"topics": {"orders": 7}, "before": ["a"], "after": ["a", "b"]}),
    ("POST", "/v1/simulations", {"topics": {"orders": 2}, "members": [MEMBER], "seconds": 1}),
)


def test_requests_over_http_take_none_of_the_threads_of_the_store() -> None:
    async def take() -> list[object]:
        limiter = trio.to_thread.current_default_thread_limiter()
        borrowers = [object() for _ in range(int(limiter.available_tokens))]
        for each in borrowers:
            limiter.acquire_on_behalf_of_nowait(each)
        return borrowers

    async def give_back(borrowers: list[object]) -> None:
        for each in borrowers:
            trio.to_thread.current_default_thread_limiter().release_on_behalf_of(each)

    with CoordinatorServer(topics={"orders": 2}, control=True) as server:
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        server.produce("orders", "a record")
        borrowers = server.wait(take)
        try:
            with httpx.Client(base_url=server.control_url, timeout=PATIENCE_S) as http:
                statuses = {path: http.request(method, path, json=body).status_code for method, path, body in REQUESTS}
        finally:
            server.wait(give_back, borrowers)
    assert statuses == {path: 200 for _, path, _ in REQUESTS}


async def test_the_end_does_not_wait_for_the_reasons_of_rebalances() -> None:
    goes_on = threading.Event()

    def compute(group: str, entries: Iterable[object]) -> None:
        trio.from_thread.run_sync(scope.cancel)
        goes_on.wait(PATIENCE_S)

    async with open_coordinator() as kit:
        with trio.CancelScope() as scope:
            await kit.computed(compute, "billing")
        goes_on.set()
    assert scope.cancelled_caught


async def test_a_simulation_ends_with_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0

    class Cancelling(Simulation):
        def run(self, seconds: float) -> None:
            nonlocal runs
            runs += 1
            super().run(seconds)
            trio.from_thread.run_sync(scope.cancel)

    monkeypatch.setattr("kafka_shim.control.operations.simulations.Simulation", Cancelling)
    body = Simulate(topics={"orders": 1}, members=[], seconds=3600)
    async with open_coordinator() as kit:
        with trio.CancelScope() as scope:
            await kit.elsewhere(_played, body, is_long=True)
    assert scope.cancelled_caught
    assert runs == 1
