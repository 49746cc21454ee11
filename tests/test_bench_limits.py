"""The worst request of every API is accepted, reaches the bound, and has a line on the page."""

import re
from pathlib import Path

import pytest

from bench.limits import BYTES_A_BYTE, FORMS, MANY, MARK, MEMORY_MIB, STEP_MS, requests_of, served
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import DecodeError, Message, Struct

PAGE = Path(__file__).parents[1] / "docs" / "limits-of-requests.md"


def elements_of(value: object) -> int:
    """Return the number of elements of all arrays of a message."""
    if isinstance(value, list):
        return len(value) + sum(elements_of(each) for each in value)
    if isinstance(value, Message | Struct):
        return sum(elements_of(getattr(value, each.name)) for each in type(value).fields)
    return 0


@pytest.mark.parametrize(("key", "version"), list(served()), ids=lambda value: str(value))
def test_worst_requests_are_within_the_bound_and_reach_it(key: int, version: int) -> None:
    cls, bound = APIS[key].request, 200
    requests = dict(requests_of(key, version, bound))
    assert tuple(requests) == FORMS
    for request in requests.values():
        data = request.encode(version)
        try:
            cls.decoder(version)(data, 0, bound)
        except DecodeError as error:
            raise AssertionError(f"{type(request)} is beyond the bound") from error
    assert max(map(elements_of, requests.values())) >= bound * 0.9 - 10 or not elements_of(requests["distinct"])


ROWS = [[each.strip() for each in line.split("|")[1:-1]] for line in PAGE.read_text().partition(MARK)[2].splitlines()]


BESIDE_TESTS = {"ConsumerGroupDescribe"}
"""The APIs with a wait that was measured beside tests and is longer than the aim, though no step is; the page says
so."""


def test_every_api_has_a_line_on_the_page() -> None:
    assert [row[0] for row in ROWS] == [APIS[key].name for key, _ in served()]


def test_a_longer_step_than_the_aim_has_an_api_of_many_names_alone() -> None:
    assert {row[0] for row in ROWS if int(row[2]) > STEP_MS} <= MANY
    prose = PAGE.read_text().partition(MARK)[0]
    assert all(re.search(rf"\b{api}\b", prose) for api in MANY)


def test_a_longer_wait_than_the_aim_has_an_api_that_the_page_names() -> None:
    assert {row[0] for row in ROWS if int(row[4]) > STEP_MS} <= MANY | BESIDE_TESTS


def test_memory_is_within_the_aim() -> None:
    assert all(int(row[6]) <= BYTES_A_BYTE or int(row[5]) <= MEMORY_MIB for row in ROWS)
