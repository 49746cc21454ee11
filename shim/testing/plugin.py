"""The pytest plugin: a coordinator as a fixture, configured by a marker, with its story when the test fails.

Decides how long a coordinator lives, which test it belongs to, and what a failed test's report says of it. It imports
nothing of ours until a fixture is used, so that it costs nothing in runs that do not use it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from kafka_shim.testing import AsyncCoordinator, CoordinatorServer
    from kafka_shim.testing.coordinator import Coordinator

MARKER: Final = "kafka_coordinator"
_MARKER_HELP: Final = (
    "kafka_coordinator(topics=..., config=..., brokers=..., release=..., faults=..., experimental=...): what the"
    " coordinator of this test is like; the arguments are those of kafka_shim.testing.CoordinatorServer."
)
STORY_LINES: Final = 200

_running: Final = pytest.StashKey[list["_Running"]]()


class _Running(NamedTuple):
    """A coordinator that a test uses; `since` is the number of the last event that was not the test's."""

    server: Coordinator
    since: int


class Coordinators:
    """Makes coordinators for one test; they end with it."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __call__(self, **arguments: Any) -> CoordinatorServer:
        """Start another coordinator; the arguments are those of `CoordinatorServer`, on top of the marker's."""
        from kafka_shim.testing import CoordinatorServer

        server = CoordinatorServer(**_marked(self._item) | arguments)
        server.start()
        _of(self._item).append(_Running(server, 0))
        return server

    def stop(self) -> None:
        """Stop them all."""
        for running in _of(self._item):
            running.server.stop()


class SharedCoordinator(NamedTuple):
    """The coordinator of all tests of a session, and what is this test's alone.

    `prefix` begins the names of this test's groups and topics; the methods put it before the names of their arguments.
    """

    server: CoordinatorServer
    prefix: str

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of clients."""
        return self.server.bootstrap

    def name(self, name: str) -> str:
        """A name of this test's own; one that is already so is given back."""
        return name if name.startswith(self.prefix) else self.prefix + name

    def group(self, name: str) -> Any:
        """Waits for what becomes of a group of this test."""
        return self.server.group(self.name(name))

    def puppet(self, group: str, topics: list[str], **script: Any) -> Any:
        """A scripted member of a group of this test, on topics of this test."""
        return self.server.puppet(self.name(group), [self.name(topic) for topic in topics], **script)

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Make a topic of this test; its whole name."""
        self.server.create_topic(self.name(name), partitions)
        return self.name(name)


@pytest.fixture
def kafka_coordinator_factory(request: pytest.FixtureRequest) -> Iterator[Coordinators]:
    """Starts coordinators, each on ports of its own; they stop after the test."""
    factory = Coordinators(request.node)
    yield factory
    factory.stop()


@pytest.fixture
def kafka_coordinator(kafka_coordinator_factory: Coordinators) -> CoordinatorServer:
    """A coordinator of this test's own, as its `kafka_coordinator` marker says."""
    return kafka_coordinator_factory()


@pytest.fixture
def kafka_coordinator_async(request: pytest.FixtureRequest) -> Iterator[AsyncCoordinator]:
    """The same for a test on an event loop, under pytest-asyncio or anyio: its waits are awaited."""
    from kafka_shim.testing import AsyncCoordinator

    server = AsyncCoordinator(**_marked(request.node))
    server.start()
    _of(request.node).append(_Running(server, 0))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def _kafka_coordinator_shared() -> Iterator[CoordinatorServer]:
    from kafka_shim.testing import CoordinatorServer

    with CoordinatorServer() as server:
        yield server


@pytest.fixture
def kafka_coordinator_session(
    request: pytest.FixtureRequest, _kafka_coordinator_shared: CoordinatorServer
) -> SharedCoordinator:
    """The coordinator that all tests of the session share, with a prefix for this test's groups and topics."""
    server = _kafka_coordinator_shared
    _of(request.node).append(_Running(server, server.call(lambda: server.kit.history.seen)))
    marked = _marked(request.node)
    if refused := ", ".join(sorted(set(marked) - {"topics"})):
        raise pytest.UsageError(f"The coordinator of the session is shared: a test says its topics, not its {refused}.")
    for name, partitions in marked.get("topics", {}).items():
        server.create_topic(_prefix(request.node) + name, partitions)
    return SharedCoordinator(server, _prefix(request.node))


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER_HELP)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that has passed fails after all if a fault that it declared never happened."""
    own = list(_of(item))
    for server in _scoped(item):
        _of(item).append(_Running(server, server.call(lambda of=server: of.kit.history.seen)))
    result = yield
    for running in own:
        running.server.verify()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test's report gets the story of its groups, and the path of the trace."""
    report = yield
    if report.failed and call.when == "call":
        for number, running in enumerate(_of(item), 1):
            report.sections.append(("kafka coordinator", _explained(item, running, number)))
    return report


def _explained(item: pytest.Item, running: _Running, number: int) -> str:
    server = running.server
    try:
        story = server.call(server.kit.story, None, running.since)
        path = _trace_path(item, number)
        server.write_trace(path)
    except RuntimeError as error:
        return f"{error} {error.__cause__ or ''}"
    left_out = len(story) - STORY_LINES
    shown = [f"({left_out} lines before these)"] * (left_out > 0) + story[-STORY_LINES:]
    return "\n".join([*(shown or ["Nothing has happened."]), f"The trace: {path}"])


def _trace_path(item: pytest.Item, number: int) -> Path:
    from pathlib import Path
    from tempfile import mkdtemp

    factory = getattr(item.config, "_tmp_path_factory", None)
    folder = Path(mkdtemp()) if factory is None else factory.mktemp("kafka-coordinator", numbered=True)
    return Path(folder) / f"{_slug(item.nodeid)[-80:]}-{number}.jsonl"


def _scoped(item: pytest.Item) -> list[Coordinator]:
    """The coordinators of fixtures that are the project's own; see `coordinator_fixture`."""
    from sys import modules

    ours = modules.get("kafka_shim.testing.coordinator")
    if ours is None:
        return []
    running = [each.server for each in _of(item)]
    values = getattr(item, "funcargs", {}).values()
    return [each for each in values if isinstance(each, ours.Coordinator) and each not in running]


def _of(item: pytest.Item) -> list[_Running]:
    return item.stash.setdefault(_running, [])


def _marked(item: pytest.Item) -> dict[str, Any]:
    """The arguments of the markers, the closest one's first."""
    arguments: dict[str, Any] = {}
    for mark in item.iter_markers(MARKER):
        if mark.args:
            raise pytest.UsageError(f"The marker {MARKER} takes keywords alone: {_MARKER_HELP}")
        arguments = dict(mark.kwargs) | arguments
    return arguments


def _prefix(item: pytest.Item) -> str:
    return f"{_slug(item.name)[:60]}-{hash(item.nodeid) & 0xFFFFFF:06x}-"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
