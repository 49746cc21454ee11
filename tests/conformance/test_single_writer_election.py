"""The recipe of single-writer election on its page, with two candidates; the writer dies."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.targets import open_target
from kafka_shim.conformance.wire import Connection, Tape

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recipes" / "single_writer_election.md"
SESSION_MS = 600


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    target = open_target("shim")
    try:
        instance = target.start("default")
        yield instance.host, instance.port
    finally:
        target.stop()


def candidate(address: tuple[str, int], name: str) -> tuple[Connection, Iterator[tuple[str, int] | None]]:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), namespace)
    stand: Callable[..., Iterator[tuple[str, int] | None]] = namespace["stand_for_election"]
    connection = Connection(
        Endpoint(*address), patience=10, deadline=time.monotonic() + 60, tape=Tape(), label=name, client_id=name
    )
    return connection, stand(connection.call, "writers", name, SESSION_MS)


def test_the_recipe_has_thirty_lines_at_most() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 30


def test_the_writer_is_succeeded_when_it_dies(address: tuple[str, int]) -> None:
    first_wire, first = candidate(address, "first")
    assert next(first) == ("first", 1)
    assert next(first) is None
    first_wire.reset()
    _, second = candidate(address, "second")
    # The second waits until the session of the first ends, and is then alone in the group.
    writer, generation = next(second) or ("", 0)
    assert writer == "second"
    assert generation > 1
    assert next(second) is None


def test_a_suspended_writer_learns_of_its_successor(address: tuple[str, int]) -> None:
    _, first = candidate(address, "first")
    assert next(first) == ("first", 1)
    _, second = candidate(address, "second")
    assert next(second) == ("second", 2)
    # Its session has ended: it stops writing, joins again, and learns the present writer.
    rejoined = next(first, None)
    assert rejoined is not None
    assert rejoined[1] > 2
