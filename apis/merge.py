"""Puts together the answers for topics that were refused at once and for those a rule answered.

Decides only the order: as Kafka's response builders do, refused partitions come first, and what belongs to one topic is
one topic in the answer. What a topic is known by, name or id, is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar


class Topic(Protocol):
    """A topic of a response."""

    partitions: list[Any]


T = TypeVar("T", bound=Topic)


def merge(topics: Iterable[T], known_by: Callable[[T], Hashable]) -> list[T]:
    """The topics in order of first appearance, with the partitions of later ones; changes them in place."""
    merged: dict[Hashable, T] = {}
    for topic in topics:
        first = merged.setdefault(known_by(topic), topic)
        if first is not topic:
            first.partitions += topic.partitions
    return list(merged.values())
