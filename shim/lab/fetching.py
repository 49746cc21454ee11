"""`Fetching`: the partitions that clients fetch from a position in the log, for a wait.

A consumer that owns a partition has no position yet: it asks for its committed offset, or for the end of the log with
`auto.offset.reset=latest`. Records that come before that are not for it. A Fetch proves the position.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

from kafka_shim.broker.fetch_state import FetchState
from kafka_shim.broker.fetches import FetchApi
from kafka_shim.server.cluster import Cluster


class Fetched(NamedTuple):
    """A partition that a client fetches, by the client id of its requests."""

    client_id: str
    topic: str
    partition: int


class Fetching:
    """Notes the fetches of all clients, in a `with` block; `changed` is called after a new one. `partitions` begin with
    the fetches that are parked.
    """

    def __init__(self, cluster: Cluster, changed: Callable[[], None]) -> None:
        self.partitions: set[Fetched] = set()
        self._cluster = cluster
        self._changed = changed

    def __enter__(self) -> Fetching:
        for node in self._cluster.nodes.values():
            fetches = node.broker.fetches
            for exchange, state in fetches.parked():
                self._note(fetches, exchange, state)
            fetches.listeners.append(self._on_fetch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self._cluster.nodes.values():
            node.broker.fetches.listeners.remove(self._on_fetch)

    def _on_fetch(self, fetches: FetchApi, exchange: object, state: FetchState) -> None:
        before = len(self.partitions)
        self._note(fetches, exchange, state)
        if len(self.partitions) > before:
            self._changed()

    def _note(self, fetches: FetchApi, exchange: Any, state: FetchState) -> None:
        topics = self._cluster.topics
        for part in state.parts.values():
            name = part.topic or topics.topic_name(part.topic_id) or ""
            topic = topics.named(name)
            partition = None if topic is None else topic.partition(part.index)
            if partition is not None and partition.leader == fetches.node_id and partition.log.has(part.offset):
                self.partitions.add(Fetched(exchange.client.client_id, name, part.index))
