"""The choice of an assignor for a group, and user assignors that misbehave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_shim.groups.assignors.registry import Assignors
from kafka_shim.groups.assignors.spec import AssignorError, GroupSpec, MemberSpec, group_spec

ONE, TWO, MISSING = b"1" * 16, b"2" * 16, b"3" * 16
SPEC = group_spec({"a": MemberSpec(frozenset([ONE, TWO])), "b": MemberSpec(frozenset([ONE]))}, {ONE: 2, TWO: 2})


class Own:
    name = "own"

    def __init__(self, answer: Callable[[GroupSpec], Any]) -> None:
        self.assign = answer


def assign(answer: Callable[[GroupSpec], Any]) -> Any:
    return Assignors([Own(answer)]).assign("own", SPEC)


def test_an_own_assignor_may_answer_any_collections_and_leave_partitions_out() -> None:
    assert assign(lambda spec: {"a": {ONE: [1], TWO: ()}}) == {"a": {ONE: frozenset([1])}}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"c": {ONE: [0]}}, "assignor own assigned partitions to c, who is not a member"),
        ({"b": {TWO: [0]}}, "to b, who does not subscribe to it"),
        ({"a": {MISSING: [0]}}, "to a, who does not subscribe to it"),
        ({"a": {ONE: [2]}}, r"assigned partitions \[2\] of topic .*, which has 2"),
        ({"a": {ONE: [-1]}}, r"assigned partitions \[-1\] of topic .*, which has 2"),
        ({"a": {ONE: [0]}, "b": {ONE: [0, 1]}}, r"assigned partitions \[0\] of topic .* to two members"),
        ([], "assignor own answered list, not a mapping"),
        ({"a": 3}, "assignor own failed: AttributeError"),
    ],
)
def test_a_wrong_answer_is_refused_in_one_sentence(answer: Any, sentence: str) -> None:
    with pytest.raises(AssignorError, match=sentence):
        assign(lambda spec: answer)


def test_a_failing_assignor_is_an_assignor_error() -> None:
    def divide(spec: GroupSpec) -> Any:
        return 1 // 0

    with pytest.raises(AssignorError, match="assignor own failed: ZeroDivisionError"):
        assign(divide)


def test_the_name_most_members_ask_for_wins() -> None:
    assignors = Assignors()
    assert assignors.choose([]) == "uniform"
    assert assignors.choose([None, None, "range"]) == "range"
    assert assignors.choose(["range", "uniform", "range"]) == "range"
    assert assignors.choose(["range", "uniform"]) == "uniform", "a tie is decided by the names"
    assert list(assignors.names) == ["uniform", "range"]
