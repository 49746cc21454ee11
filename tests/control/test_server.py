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


def test_hypercorn_is_of_the_releases_whose_inside_is_used() -> None:
    # `hypercorn.trio.serve` ends only when all its clients have gone, and one that raises ends all; so the control
    # server runs hypercorn's connections itself, by names that hypercorn does not document. Before allowing another
    # release, run tests/control and tests/hostile with it.
    dependencies = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    assert [each for each in dependencies if each.startswith("hypercorn")] == ["hypercorn>=0.18,<0.19"]
    assert version("hypercorn").startswith("0.18.")


@pytest.mark.skipif(not reactor.AVAILABLE, reason="this platform has no epoll")
async def test_what_goes_wrong_between_steps_ends_the_reactor(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster()
    served = reactor.Reactor(made, [(listen("127.0.0.1", 0, 1)[0], made.nodes[1])])

    def spoilt() -> bool:
        raise RuntimeError("a mistake of ours")

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="a mistake of ours"), flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.run)
            await trio.testing.wait_all_tasks_blocked()
            monkeypatch.setattr(served, "drain", spoilt)
            reactor.BetweenSteps(served).before_task_step(trio.lowlevel.current_task())
    assert served.epoll.closed
