"""Every state within a few steps keeps the invariants, for every kind of group; `make fuzz` goes further."""

import os

import pytest

from kafka_shim.groups.share.group import ShareGroup
from tests.groups.exhaustive.consumer import ConsumerWorld
from tests.groups.exhaustive.explore import BrokenError, explore
from tests.groups.exhaustive.share import ShareWorld
from tests.groups.exhaustive.worlds import WORLDS

FUZZES = "FUZZ_SECONDS" in os.environ


@pytest.mark.parametrize("name", WORLDS)
def test_every_state_keeps_the_invariants(name: str) -> None:
    explored = WORLDS[name]
    found = explore(explored.world(), explored.full if FUZZES else explored.usual, settle_every=8)
    assert found.states > 100


def test_loading_restores_a_saved_state() -> None:
    world = ConsumerWorld("ab", 2)
    for step in ("join", "a"), ("join", "b"), ("obey", "a"):
        world.take(step)
    saved, key = world.save(), world.key()
    world.take(("crash",))
    world.take(("obey", "b"))
    assert world.key() != key
    world.load(saved)
    assert world.key() == key
    world.check()
    world.settle()


def test_a_state_that_breaks_a_rule_is_shown_with_the_steps_that_lead_there(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ShareWorld("ab", 1)
    check = world.check

    def nobody_is_with_another() -> None:
        check()
        group = world.group
        assert not isinstance(group, ShareGroup) or len(group.members) < 2

    monkeypatch.setattr(world, "check", nobody_is_with_another)
    with pytest.raises(BrokenError) as broken:
        explore(world, 4)
    assert broken.value.path == [("join", "a"), ("join", "b")]
