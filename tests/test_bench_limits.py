"""The worst request of every API is accepted, reaches the bound, and has a line on the page."""

import re
from pathlib import Path

import pytest

from bench.limits import BYTES_A_BYTE, FORMS, MANY, MARK, MEMORY_MIB, STEP_MS, request_of, served
from kafka_shim.apis.api import Api
from kafka_shim.apis.wire import DecodeError
from kafka_shim.server.excerpts import elements_of

PAGE = Path(__file__).parents[1] / "docs" / "limits-of-requests.md"


@pytest.mark.parametrize(("api", "version"), list(served()), ids=lambda value: getattr(value, "name", str(value)))
def test_worst_requests_are_within_the_bound_and_reach_it(api: Api, version: int) -> None:
    cls, bound = api.request, 200
    requests = {form: request_of(api, version, form, bound) for form in FORMS}
    for request in requests.values():
        data = request.encode(version)
        try:
            cls.decoder(version)(data, 0, bound)
        except DecodeError as error:
            raise AssertionError(f"{type(request)} is beyond the bound") from error
    assert max(map(elements_of, requests.values())) >= bound * 0.9 - 10 or not elements_of(requests["distinct"])


ROWS = [[each.strip() for each in line.split("|")[1:-1]] for line in PAGE.read_text().partition(MARK)[2].splitlines()]


def test_every_api_has_a_line_on_the_page() -> None:
    assert [row[0] for row in ROWS] == [api.name for api, _ in served()]


def test_a_longer_step_than_the_aim_has_an_api_of_many_names_alone() -> None:
    assert {row[0] for row in ROWS if int(row[2]) > STEP_MS} <= MANY
    prose = PAGE.read_text().partition(MARK)[0]
    assert all(re.search(rf"\b{api}\b", prose) for api in MANY)


def test_a_longer_wait_than_the_aim_has_an_api_that_the_page_names() -> None:
    assert {row[0] for row in ROWS if int(row[4]) > STEP_MS} <= MANY


def test_memory_is_within_the_aim() -> None:
    assert all(int(row[6]) <= BYTES_A_BYTE or int(row[5]) <= MEMORY_MIB for row in ROWS)
