"""Random histories of a group of both protocols, which changes its kind again and again.

The exhaustive exploration takes every order of six or seven steps, with one crash and one change of the topic. A
history here has up to sixty steps, four members, three crashes and two changes.
"""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.groups.exhaustive.mixed import MixedWorld

CLIENTS = "abxy"
choices = st.lists(st.integers(0, 1 << 16), min_size=10, max_size=60)


@settings(max_examples=examples(300, fuzz=10_000))
@given(choices)
def test_a_group_that_changes_its_kind_keeps_what_is_promised(numbers: list[int]) -> None:
    world = MixedWorld(CLIENTS, 3)
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
