"""Merges the refused and the answered topics of a response into one list.

As in Kafka's response builders, refused partitions come first, and a topic appears once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar


class Topic(Protocol):
    """A topic of a response."""

    partitions: list[Any]


T = TypeVar("T", bound=Topic)


def merge(topics: Iterable[T], known_by: Callable[[T], Hashable]) -> list[T]:
    """Merge topics of equal `known_by(topic)`, in order of first appearance. Changes the first of each in place."""
    merged: dict[Hashable, T] = {}
    for topic in topics:
        first = merged.setdefault(known_by(topic), topic)
        if first is not topic:
            first.partitions += topic.partitions
    return list(merged.values())
