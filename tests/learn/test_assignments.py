"""Assignors side by side: shares, moves, and partitions that stand still."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kafka_shim.commands.assign import assign
from kafka_shim.learn.assignments import Divided, side_by_side

ALL = ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform")


def by_name(topics: dict[str, int], before: list[str], after: list[str]) -> dict[str, Divided]:
    return {each.assignor: each for each in side_by_side(topics, before, after)}


@pytest.mark.parametrize("change", ["ab abc", "abc bc", "abc abd", "a abcdefgh", "ab c"])
@pytest.mark.parametrize("topics", [{"orders": 7}, {"orders": 3, "payments": 3}, {"one": 1}])
def test_every_partition_has_one_owner(topics: dict[str, int], change: str) -> None:
    before, after = change.split()
    everything = sorted((topic, number) for topic, count in topics.items() for number in range(count))
    for each in side_by_side(topics, list(before), list(after)):
        owned = sorted((topic, n) for by in each.after.values() for topic, ns in by.items() for n in ns)
        assert owned == everything, each.assignor
        assert set(each.after) <= set(after)
        # A division that is not even may move less.
        assert each.moved >= each.needed or each.most - each.fewest > 1


def test_sticky_assignors_move_fewer_partitions_than_range() -> None:
    plans = by_name({"orders": 6}, ["a", "b"], ["a", "b", "c"])
    assert tuple(plans) == ALL
    assert plans["range"].after == {"a": {"orders": [0, 1]}, "b": {"orders": [2, 3]}, "c": {"orders": [4, 5]}}
    assert plans["range"].moved == 3
    for name in ("sticky", "cooperative-sticky", "uniform"):
        assert plans[name].moved == plans[name].needed == 2
    assert [plans[name].stopped for name in ALL] == [6, 6, 6, 2, 2]


def test_range_is_uneven_with_several_topics() -> None:
    plans = by_name({"one": 3, "two": 3, "three": 3}, ["a", "b"], ["a", "b"])
    assert (plans["range"].fewest, plans["range"].most) == (3, 6)
    for name in ALL[1:]:
        assert plans[name].most - plans[name].fewest == 1


def test_learn_command_plays_lessons() -> None:
    done = CliRunner().invoke(assign, ["--topic", "orders:6", "--members", "2", "--joins", "1"])
    assert done.exit_code == 0
    assert "cooperative-sticky (cooperative)" in done.output
    assert "orders 0, 1" in done.output
    rows = json.loads(CliRunner().invoke(assign, ["--leaves", "a", "--json"]).output)
    assert [each["assignor"] for each in rows] == list(ALL)
    assert rows[0]["before"]["a"] == {"orders": [0, 1, 2]}
    for words in (["--leaves", "z"], ["--topic", "orders"], ["--members", "1", "--leaves", "a"]):
        refused = CliRunner().invoke(assign, words)
        assert refused.exit_code == 1
        assert refused.output.startswith("Error: ")
