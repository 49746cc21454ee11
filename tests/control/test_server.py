"""How the control server is run beside the coordinator."""

import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
import trio.testing

from kafka_shim.control.server import _Connection
from kafka_shim.server import reactor
from kafka_shim.server.history import EventHistory
from kafka_shim.server.server import listen
from kafka_shim.testing import CoordinatorServer
from tests.server.wire import cluster

PYPROJECT = Path(__file__).resolve().parent.parent.parent / "pyproject.toml"


def test_hypercorn_has_a_release_with_these_internals() -> None:
    # `hypercorn.trio.serve` ends only when all its clients have gone, and one that raises ends all; so the control
    # server runs hypercorn's connections itself, by names that hypercorn does not document. Before allowing another
    # release, run tests/control and tests/hostile with it.
    dependencies = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["cli"]
    assert [each for each in dependencies if each.startswith("hypercorn")] == ["hypercorn>=0.18,<0.19"]
    assert version("hypercorn").startswith("0.18.")


@pytest.mark.skipif(not reactor.AVAILABLE, reason="this platform has no epoll")
async def test_exception_between_steps_is_counted_and_the_reactor_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster()
    served = reactor.Reactor(made)
    served.accept(listen("127.0.0.1", 0, 1)[0], made.nodes[1])

    def spoilt() -> bool:
        raise RuntimeError("a mistake of ours")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.run)
        await trio.testing.wait_all_tasks_blocked()
        with monkeypatch.context() as patch:
            patch.setattr(served, "drain", spoilt)
            reactor.BetweenSteps(served).before_task_step(trio.lowlevel.current_task())
        await trio.testing.wait_all_tasks_blocked()
        assert not served.epoll.closed
        assert made.failures.by_border == {"tick": 1}
        nursery.cancel_scope.cancel()


def mistaken(*_: Any) -> Any:
    raise RuntimeError("a mistake of ours")


async def mistaken_at_once(*_: Any) -> None:
    mistaken()


def failures(server: CoordinatorServer) -> Any:
    answer = httpx.get(f"{server.control_url}/health")
    assert answer.status_code == 200
    return answer.json().get("failures")


def test_operation_that_raises_costs_its_answer_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with CoordinatorServer(control=True) as server, httpx.Client(base_url=server.control_url) as http:
        with monkeypatch.context() as patch:
            patch.setattr(EventHistory, "dropped", property(mistaken))
            assert [http.get("/v1/server").status_code for _ in range(2)] == [500, 500]
        assert http.get("/v1/server").status_code == 200
        assert failures(server) == {"control": 2}
    # A client cannot fill the log with tracebacks.
    assert [bool(each.exc_info) for each in caplog.records if "control" in each.getMessage()] == [True, False]


def test_stream_that_raises_ends_its_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with CoordinatorServer(control=True) as server:
        with monkeypatch.context() as patch:
            patch.setattr(EventHistory, "dropped", property(mistaken))
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{server.control_url}/v1/events?since=0&seconds=0")
        assert failures(server) == {"control": 1}


def test_control_connection_that_raises_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with CoordinatorServer(control=True) as server:
        with monkeypatch.context() as patch:
            patch.setattr(_Connection, "run", mistaken_at_once)
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{server.control_url}/health")
        assert failures(server) == {"control": 1}
