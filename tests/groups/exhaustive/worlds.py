"""Every world that is explored, by its name: the kind of group, its clients, and how far to look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.groups.exhaustive.classic import ClassicWorld
from tests.groups.exhaustive.client_assigned import ClientAssignedWorld
from tests.groups.exhaustive.consumer import ConsumerWorld
from tests.groups.exhaustive.mixed import MixedWorld
from tests.groups.exhaustive.share import ShareWorld
from tests.groups.exhaustive.streams import StreamsWorld
from tests.groups.exhaustive.world import World


class Explored(NamedTuple):
    """`make` a world of these `clients`; tests take `usual` steps from its start, `make fuzz` takes `full`."""

    make: Callable[[str, int], World]
    clients: str
    usual: int
    full: int

    def world(self) -> World:
        return self.make(self.clients, 2)


WORLDS: Final = {
    "classic, two members": Explored(ClassicWorld, "ab", 5, 9),
    "classic, three members": Explored(ClassicWorld, "abc", 4, 6),
    "classic, a static member and its successor": Explored(ClassicWorld, "ars", 4, 6),
    "consumer, two members": Explored(ConsumerWorld, "ab", 4, 6),
    "consumer, three members": Explored(ConsumerWorld, "abc", 3, 6),
    "consumer, a static member and its successor": Explored(ConsumerWorld, "ars", 3, 6),
    "client assignors, two members": Explored(ClientAssignedWorld, "ab", 4, 6),
    "client assignors, three members": Explored(ClientAssignedWorld, "abc", 3, 5),
    "mixed, one of each protocol": Explored(MixedWorld, "ax", 4, 7),
    "mixed, two classic members": Explored(MixedWorld, "axy", 3, 6),
    "mixed, two new members": Explored(MixedWorld, "abx", 3, 6),
    "share, two members": Explored(ShareWorld, "ab", 4, 6),
    "share, three members": Explored(ShareWorld, "abc", 3, 6),
    "streams, two processes": Explored(StreamsWorld, "ac", 4, 6),
    "streams, two threads of a process": Explored(StreamsWorld, "ab", 4, 6),
    "streams, three threads of two processes": Explored(StreamsWorld, "abc", 3, 6),
}
