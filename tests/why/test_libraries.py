"""The library of each member of a large group, and of the clients that it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_shim.trace.clients import Library
from kafka_shim.trace.history import GroupHistory
from kafka_shim.why.memberships import libraries_of_refused, library_of_client, members_by_library


class Group:
    """Members of one client each, which count how often one of them is asked for its library."""

    def __init__(self, *libraries: Library) -> None:
        self.asked = 0
        self.members = {str(number): self._member(number, each) for number, each in enumerate(libraries)}

    def _member(self, number: int, library: Library) -> Any:
        group = self

        class Counted(SimpleNamespace):
            @property
            def library(self) -> Library:
                group.asked += 1
                return library

        return Counted(client_id=f"client-{number // 2}", joins_as=Library.LIBRDKAFKA)

    @property
    def history(self) -> GroupHistory:
        return cast(GroupHistory, self)


def test_the_libraries_of_a_large_group_cost_a_few_looks_at_each_member() -> None:
    group = Group(*[Library.LIBRDKAFKA] * 1000)
    assert libraries_of_refused(group.history) == {Library.LIBRDKAFKA: Library.LIBRDKAFKA}
    assert group.asked <= 5 * 1000


@pytest.mark.parametrize("later", [Library.KAFKA_PYTHON, Library.UNKNOWN])
def test_a_member_has_the_library_that_its_client_told_once(later: Library) -> None:
    group = Group(Library.LIBRDKAFKA, later, Library.LIBRDKAFKA)
    of_each = [library for _, library in members_by_library(group.history)]
    assert of_each == [library_of_client(group.history, each) for each in group.members.values()]
    assert (of_each[0] is Library.KAFKA_PYTHON) is (later is Library.KAFKA_PYTHON)


def test_a_refused_client_has_the_library_of_those_that_join_alike_if_it_is_one() -> None:
    alike, mixed = (
        Group(Library.LIBRDKAFKA, Library.KAFKA_PYTHON),
        Group(Library.LIBRDKAFKA, Library.KAFKA_PYTHON, Library.LIBRDKAFKA),
    )
    assert libraries_of_refused(alike.history) == {Library.LIBRDKAFKA: Library.KAFKA_PYTHON}
    assert libraries_of_refused(mixed.history) == {}
