"""How the control server is run beside the coordinator."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import trio
import trio.testing

from kafka_shim.server import reactor
from kafka_shim.server.server import listen
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
