"""Merges the refused and the answered topics of a response into one list.

As in Kafka's response builders, refused partitions come first, and a topic appears once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def merge(topics: Iterable[T], known_by: Callable[[T], Hashable], partitions: str = "partitions") -> list[T]:
    """Merge topics of equal `known_by(topic)`, in order of first appearance; `partitions` is the name of their array.
    Changes the first of each in place."""
    merged: dict[Hashable, T] = {}
    for topic in topics:
        first = merged.setdefault(known_by(topic), topic)
        if first is not topic:
            getattr(first, partitions).extend(getattr(topic, partitions))
    return list(merged.values())
