"""The pytest plugin: a coordinator as a fixture, configured by a marker, with its story in the report of a failed test.

It imports nothing of ours until a fixture is used, so that it costs nothing in other runs. pytest would rewrite the
assertions of every module in a package with a plugin; here it rewrites this module alone.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from kafka_shim.testing import AsyncCoordinator, CoordinatorServer
    from kafka_shim.testing.coordinator import Coordinator

MARKER: Final = "kafka_coordinator"
_MARKER_HELP: Final = (
    "kafka_coordinator(topics=..., config=..., brokers=..., release=..., faults=..., security=..., users=...): the"
    " configuration of this test's coordinator; the arguments are those of kafka_shim.testing.CoordinatorServer."
)
STORY_LINES: Final = 200

_running: Final = pytest.StashKey[list["_Running"]]()


class _Running(NamedTuple):
    """A coordinator that a test uses; `since` is the number of the last event before the test."""

    server: Coordinator
    since: int


class Coordinators:
    """Starts coordinators for one test; they stop after it."""

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
    """The coordinator of all tests of a session, and a prefix for this test's groups and topics.

    The methods put `prefix` before the names in their arguments.
    """

    server: CoordinatorServer
    prefix: str

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers for clients."""
        return self.server.bootstrap

    def name(self, name: str) -> str:
        """Return a name with this test's prefix; a name with the prefix is returned unchanged."""
        return name if name.startswith(self.prefix) else self.prefix + name

    def group(self, name: str) -> Any:
        """Return the waits for a group of this test."""
        return self.server.group(self.name(name))

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """Return the number of records after the committed offset of a group of this test, by topic and partition."""
        lag = self.server.lag(self.name(group))
        return {(topic.removeprefix(self.prefix), partition): behind for (topic, partition), behind in lag.items()}

    def produce(self, topic: str, *values: Any, **fields: Any) -> list[tuple[int, int]]:
        """Append records to a topic of this test; return the partition and offset of each."""
        return self.server.produce(self.name(topic), *values, **fields)

    def records(self, topic: str, partition: int | None = None, *, committed: bool = True) -> list[Any]:
        """Return the records of a topic of this test, or of one partition, as a consumer sees them."""
        return self.server.records(self.name(topic), partition, committed=committed)

    def puppet(self, group: str, topics: list[str], **script: Any) -> Any:
        """Start a scripted member of a group of this test, on topics of this test."""
        return self.server.puppet(self.name(group), [self.name(topic) for topic in topics], **script)

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic of this test; return its whole name."""
        self.server.create_topic(self.name(name), partitions)
        return self.name(name)


@pytest.fixture
def kafka_coordinator_factory(request: pytest.FixtureRequest) -> Iterator[Coordinators]:
    """Starts coordinators, each on its own ports; they stop after the test."""
    factory = Coordinators(request.node)
    yield factory
    factory.stop()


@pytest.fixture
def kafka_coordinator(kafka_coordinator_factory: Coordinators) -> CoordinatorServer:
    """A coordinator for this test alone, configured by its `kafka_coordinator` marker."""
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
        raise pytest.UsageError(f"The coordinator of the session is shared: a test may set topics, not {refused}.")
    for name, partitions in marked.get("topics", {}).items():
        server.create_topic(_prefix(request.node) + name, partitions)
    return SharedCoordinator(server, _prefix(request.node))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Take the package from those with assertions to rewrite, before a conftest imports it.

    Rewriting compiles some 300 modules again in each process. pytest has no public way to refuse it: if its set has
    another name one day, that time is lost and nothing else.
    """
    hook = getattr(early_config.pluginmanager, "rewrite_hook", None)
    getattr(hook, "_must_rewrite", set()).discard("kafka_shim")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER_HELP)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a passed test if a fault that it declared never happened, or a wait was never awaited."""
    own = list(_of(item))
    for server in _scoped(item):
        _of(item).append(_Running(server, server.call(lambda of=server: of.kit.history.seen)))
    result = yield
    for running in own:
        running.server.verify()
    for running in _of(item):
        running.server.waits.check()
    return result


_HIDDEN: Final = ("concurrent", "contextlib", "kafka_shim", "outcome", "trio")
_RUNNERS: Final = ("_pytest", "pluggy", "pytest")


def _hide_frames(error: BaseException) -> None:
    """Take the kit's frames and trio's from the traceback of an error, and of those in its group.

    They stay where the kit has a defect.
    """
    for each in _errors(error):
        frames = list(_frames(each.__traceback__))
        users = [frame for frame in frames if _package(frame) not in _HIDDEN]
        ends_in_kit = frames[-1:] != users[-1:]
        if users and (not ends_in_kit or isinstance(each, BaseExceptionGroup) or _is_sentence(each)):
            for frame, after in zip(users, [*users[1:], None], strict=True):
                frame.tb_next = after
            each.__traceback__ = users[0]


def _touches_kit(error: BaseException) -> bool:
    return any("kafka_shim" in _packages(each) for each in _errors(error))


def _only_kit(error: BaseException) -> bool:
    """Return True for an error with the remedy for a test's author, if pytest called the kit, and no frame of the test.

    Frames of other plugins may be above that, as of pytest-asyncio's hook around each fixture.
    """
    packages = [_package(each) for each in _frames(error.__traceback__)]
    if "kafka_shim" not in packages:
        return False
    first = packages.index("kafka_shim")
    called_by_pytest = first > 0 and packages[first - 1] in _RUNNERS
    return called_by_pytest and {*packages[first:]} <= {*_HIDDEN, *_RUNNERS} and _is_sentence(error)


def _is_sentence(error: BaseException) -> bool:
    # Not at the top: a run without the kit must not load it.
    from kafka_shim.testing.calls import SENTENCES

    return isinstance(error, (*SENTENCES, pytest.UsageError))


def _errors(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those in its group."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _errors(each)


def _packages(error: BaseException) -> set[str]:
    return {_package(each) for each in _frames(error.__traceback__)}


def _package(frame: TracebackType) -> str:
    return str(frame.tb_frame.f_globals.get("__name__")).split(".")[0]


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the story of its groups and the path of the trace to the report of a failed test."""
    error = call.excinfo.value if call.excinfo is not None and not item.config.getoption("fulltrace") else None
    # Before the kit's frames are hidden: they tell whose error it is.
    is_one_sentence = error is not None and _only_kit(error)
    if error is not None and _touches_kit(error):
        _hide_frames(error)
    report = yield
    if call.excinfo is not None and is_one_sentence:
        report.longrepr = call.excinfo.exconly().removeprefix(f"{type(error).__module__}.")
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
    printed = [f"({left_out} lines before these)"] * (left_out > 0) + story[-STORY_LINES:]
    return "\n".join([*(printed or ["Nothing has happened."]), f"The trace: {path}"])


def _trace_path(item: pytest.Item, number: int) -> Path:
    from pathlib import Path
    from tempfile import mkdtemp

    factory = getattr(item.config, "_tmp_path_factory", None)
    folder = Path(mkdtemp()) if factory is None else factory.mktemp("kafka-coordinator", numbered=True)
    return Path(folder) / f"{_slug(item.nodeid)[-80:]}-{number}.jsonl"


def _scoped(item: pytest.Item) -> list[Coordinator]:
    """Return the coordinators of the project's own fixtures; see `coordinator_fixture`."""
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
    """Return the arguments of the markers; those of the closest one win."""
    arguments: dict[str, Any] = {}
    for mark in item.iter_markers(MARKER):
        if mark.args:
            raise pytest.UsageError(f"The marker {MARKER} takes keywords alone: {_MARKER_HELP}")
        arguments = dict(mark.kwargs) | arguments
    if arguments:
        _check_names(arguments)
    return arguments


def _check_names(arguments: dict[str, Any]) -> None:
    from inspect import signature

    from kafka_shim.lab.interception import similar
    from kafka_shim.testing import CoordinatorServer

    names = [each for each in signature(CoordinatorServer).parameters if each != "self"]
    for name in arguments:
        if name not in names:
            raise pytest.UsageError(f"The marker {MARKER} has no argument {name!r}; {similar(name, names)}")


def _prefix(item: pytest.Item) -> str:
    return f"{_slug(item.name)[:60]}-{hash(item.nodeid) & 0xFFFFFF:06x}-"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
