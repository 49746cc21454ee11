"""Breadth first through all states of a world, each hashed, checked and shown once.

Two states with equal keys are one. The `World` defines states and steps. The path to a state that breaks a rule is the
shortest one there is.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

Step = tuple[str, ...]


class World(Protocol):
    """A space of states. `key` consists of tuples, numbers, texts and bytes; two states with equal keys have the same
    futures."""

    def save(self) -> Any: ...

    def load(self, saved: Any) -> None: ...

    def key(self) -> object: ...

    def steps(self) -> Iterable[Step]: ...

    def take(self, step: Step) -> None: ...

    def check(self) -> None: ...

    def settle(self) -> None: ...


class Explored(NamedTuple):
    """`states` were seen within `depth` steps, by `transitions` steps; `complete`: there are no others."""

    states: int
    transitions: int
    depth: int
    complete: bool


class BrokenError(AssertionError):
    """A state in which something does not hold, and the steps that lead there."""

    def __init__(self, path: list[Step], problem: BaseException) -> None:
        steps = "\n".join(f"  {' '.join(step)}" for step in path)
        super().__init__(f"{type(problem).__name__}: {problem}\nafter\n{steps}")
        self.path = path


def explore(world: World, depth: int, settle_every: int = 1) -> Explored:
    """Look at every state within `depth` steps. Raises `BrokenError`.

    Of every `settle_every`-th state it is tried whether its members, left alone, come to rest.
    """
    start = _digest(world)
    came: dict[bytes, tuple[bytes, Step] | None] = {start: None}
    level = [(start, world.save())]
    transitions = 0
    for distance in range(1, depth + 1):
        following = []
        for origin, saved in level:
            world.load(saved)
            for step in list(world.steps()):
                world.load(saved)
                transitions += 1
                try:
                    world.take(step)
                    reached = _digest(world)
                    if reached in came:
                        continue
                    came[reached] = origin, step
                    world.check()
                    if distance < depth:
                        following.append((reached, world.save()))
                    if len(came) % settle_every == 0:
                        world.settle()
                except Exception as problem:
                    raise BrokenError([*_path(came, origin), step], problem) from problem
        level = following
        if not level and distance < depth:
            return Explored(len(came), transitions, distance, complete=True)
    return Explored(len(came), transitions, depth, complete=False)


def _digest(world: World) -> bytes:
    # Version 2 of the format is the newest that does not depend on which objects are shared.
    return blake2b(marshal.dumps(world.key(), 2), digest_size=16).digest()


def _path(came: dict[bytes, tuple[bytes, Step] | None], reached: bytes) -> list[Step]:
    path = []
    before = came[reached]
    while before is not None:
        reached, step = before
        path.append(step)
        before = came[reached]
    return path[::-1]
