"""Random histories of a group of each kind, and of one of both protocols that changes its kind again and again.

The exhaustive exploration takes every order of a few steps, with one crash and one change of the topic. A history here
has up to sixty steps, four clients, three crashes and two changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.groups.exhaustive.classic import ClassicWorld
from tests.groups.exhaustive.client_assigned import ClientAssignedWorld
from tests.groups.exhaustive.consumer import ConsumerWorld
from tests.groups.exhaustive.mixed import MixedWorld
from tests.groups.exhaustive.share import ShareWorld
from tests.groups.exhaustive.streams import StreamsWorld
from tests.groups.exhaustive.world import World

KINDS: Final[dict[str, tuple[Callable[[str, int], World], str]]] = {
    "classic": (ClassicWorld, "abrs"),
    "consumer": (ConsumerWorld, "abrs"),
    "client assignors": (ClientAssignedWorld, "abc"),
    "mixed": (MixedWorld, "abxy"),
    "share": (ShareWorld, "abcd"),
    "streams": (StreamsWorld, "abcd"),
}
choices = st.lists(st.integers(0, 1 << 16), min_size=10, max_size=60)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(150, fuzz=10_000))
@given(choices)
def test_a_group_keeps_the_invariants_and_settles(kind: str, numbers: list[int]) -> None:
    make, clients = KINDS[kind]
    world = make(clients, 3)
    world.crashes, world.changes = 3, 2
    kinds = []
    for number in numbers:
        steps = sorted(world.steps())
        world.take(steps[number % len(steps)])
        world.check()
        group = world.group
        if group is not None and type(group) not in kinds[-1:]:
            kinds.append(type(group))
    world.settle()
    event(f"the group had {len(kinds)} kinds, one after the other")
