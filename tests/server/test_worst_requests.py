"""Each API's worst requests, in small, on a server without sockets: no step grows so that others would wait too long.

A step is the work of a server between two looks at its sockets. It is counted in calls of functions and not in
time, so the verdict does not depend on the machine; its memory in bytes that Python takes. Both grow evenly with the
elements of a request, and are continued to the elements that the API accepts. A new API joins by itself;
`python -m bench.limits` measures the whole requests in time.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from bench.limits import BYTES_A_BYTE, MANY, MEMORY_MIB, SCRAM, request_of, served
from kafka_shim.apis.api import Api
from kafka_shim.server import parts
from kafka_shim.server.elements import elements_accepted
from tests.server.turns import Turns
from tests.server.wire import Wire, cluster, request

CALLS: Final = 500_000
"""Calls of the longest step: about 50 ms of a processor."""
CALLS_OF_MANY: Final = 2_000_000
"""The same for requests that name all partitions of a client."""
SIZES: Final = (64, 128, 256)
"""Elements of three requests."""
FORMS: Final = ("distinct", "same", "deep")


def calls(step: Callable[[], object]) -> int:
    """Count the calls of functions in a step, those of built-in ones too."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
    return count


class Read(Wire):
    """A client that reads all at once, and keeps nothing."""

    def send(self, data: bytes) -> bool:
        return True


def steps(data: bytes) -> list[int]:
    """Send a request to a new server; return the calls of each step."""
    wire = Read(cluster(topics={"t": 2}))
    waiting = Turns(wire)
    of_steps = [calls(lambda: wire.receive(data))]
    while waiting._exchanges:
        of_steps.append(calls(waiting.turn))
    return of_steps


def memory(data: bytes) -> int:
    """Return the bytes that a new server takes at most for a request."""
    wire = Read(cluster(topics={"t": 2}))
    waiting = Turns(wire)
    tracemalloc.start()
    try:
        wire.receive(data)
        waiting.all()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def continued(of_sizes: list[int], elements: int) -> float:
    """Return the figure of so many elements from those of `SIZES`. Fails if they do not grow evenly."""
    small, middle, large = of_sizes
    first, second = (middle - small) / (SIZES[1] - SIZES[0]), (large - middle) / (SIZES[2] - SIZES[1])
    assert second <= 1.5 * max(first, 0) + 5, f"{of_sizes} grows faster than the elements"
    return large + max(second, 0) * (elements - SIZES[2])


SERVED: Final = [each for each in served() if each[0] not in SCRAM]
"""Users of SCRAM need a server with listeners that know them: `bench.limits` has one."""


@pytest.fixture(autouse=True)
def one_part_a_turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parts, "TURN", -1.0)
    # A collection would free objects of other tests.
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda value: getattr(value, "name", str(value)))
def test_no_step_of_a_worst_request_is_longer_than_others_may_wait(api: Api, version: int) -> None:
    bound = CALLS_OF_MANY if api.name in MANY else CALLS
    # The first use of an API compiles its codec and imports modules.
    steps(request(request_of(api, version, "distinct", SIZES[0]), version))
    for form in FORMS:
        longest = [max(steps(request(request_of(api, version, form, size), version))) for size in SIZES]
        assert continued(longest, elements_accepted(api.key)) <= bound, form


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda value: getattr(value, "name", str(value)))
def test_no_worst_request_takes_more_memory_than_the_aim(api: Api, version: int) -> None:
    memory(request(request_of(api, version, "distinct", SIZES[0]), version))
    for form in FORMS:
        requests = [request(request_of(api, version, form, size), version) for size in SIZES[1:]]
        more = elements_accepted(api.key) / (SIZES[2] - SIZES[1])
        taken = more * (memory(requests[1]) - memory(requests[0]))
        size = more * (len(requests[1]) - len(requests[0]))
        assert taken <= max(BYTES_A_BYTE * size, MEMORY_MIB * 2**20), form


def test_a_figure_that_grows_with_the_square_of_the_elements_is_none_of_these() -> None:
    assert continued([164, 228, 356], 10_000) == 10_100
    with pytest.raises(AssertionError, match="faster than the elements"):
        continued([size * size for size in SIZES], 10_000)
