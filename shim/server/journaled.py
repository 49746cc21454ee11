"""The parts of a process with a journal. Each notes an input (`journal.py`), then does the work of its base class."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka_shim.groups.service import GroupService
from kafka_shim.persistence.keys import encode_key
from kafka_shim.persistence.records import encode_value
from kafka_shim.persistence.store import StoreError
from kafka_shim.server.computations import Computations
from kafka_shim.server.connection import Transport
from kafka_shim.server.durability import Durability
from kafka_shim.server.journal import BROKEN, SENT, UNSENT, Journal, text_of
from kafka_shim.server.loading import Loader
from kafka_shim.server.node import Node
from kafka_shim.server.session import Session
from kafka_shim.server.ticks import Ticks


class JournaledSession(Session):
    """A session that notes the start of a connection, the bytes of the client, and the end."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal, node: Node, transport: Transport, client_host: str, number: int) -> None:
        self._journal = journal
        with journal.input("open", connection=number, node=node.id, host=client_host, peer=transport.peer):
            super().__init__(node, _JournaledTransport(journal, self, transport), client_host, number)

    def receive(self, data: bytes, now: float) -> None:
        journal = self._journal
        if journal.inside:
            super().receive(data, now)
            return
        journal.enter(now)
        try:
            super().receive(data, now)
        finally:
            journal.leave("bytes", {"connection": self.number, "data": text_of(data)})

    def drained(self, now: float) -> None:
        with self._journal.input("drained", now, connection=self.number):
            super().drained(now)

    def lost(self) -> None:
        if not self.closed:
            with self._journal.input("lost", connection=self.number):
                super().lost()


class _JournaledTransport:
    """A transport that notes sent bytes and the outcome."""

    __slots__ = ("_journal", "_session", "_transport", "peer")

    def __init__(self, journal: Journal, session: Session, transport: Transport) -> None:
        self.peer = transport.peer
        self._journal = journal
        self._session = session
        self._transport = transport

    @property
    def paused(self) -> bool:
        return self._transport.paused

    def send(self, data: bytes) -> bool:
        whole, session = self._transport.send(data), self._session
        outcome = BROKEN if session.closed else SENT if whole else UNSENT
        self._journal.answered(session.number, data, outcome)
        return whole

    def pause(self) -> None:
        self._transport.pause()

    def resume(self) -> None:
        self._transport.resume()

    def close(self) -> None:
        self._transport.close()


class _Noting:
    """A part that notes its inputs in a journal; the class after it does the work."""

    def __init__(self, journal: Journal, *parts: Any) -> None:
        super().__init__(*parts)
        self._journal = journal


class JournaledTicks(_Noting, Ticks):
    """Ticks that note each run of timers, and each settling of an outbox that is not empty."""

    def settle(self, now: float) -> None:
        outbox = self._outbox
        anything = outbox.records or outbox.replies or outbox.effects or outbox.computations or outbox.events
        if self._journal.inside or not anything:
            super().settle(now)
            return
        with self._journal.input("settle", now):
            super().settle(now)

    def fire(self, now: float) -> None:
        with self._journal.input("fire", now):
            super().fire(now)


class JournaledComputations(_Noting, Computations):
    """Computations that note the moment of each result."""

    def finish(self, number: int, result: Any, now: float) -> None:
        with self._journal.input("computed", now, number=number):
            super().finish(number, result, now)


class JournaledDurability(_Noting, Durability):
    """Durability that notes the records and the outcome of each batch of a store that blocks."""

    def next_batch(self) -> tuple[int, list[tuple[int, Any, Any]]]:
        with self._journal.input("batch"):
            return super().next_batch()

    def succeeded(self, number: int, now: float) -> None:
        with self._journal.input("written", now, batch=number):
            super().succeeded(number, now)

    def failed(self, number: int, records: list[tuple[int, Any, Any]], error: StoreError, now: float) -> None:
        with self._journal.input("unwritten", now, batch=number, error=error.error, reason=str(error)):
            super().failed(number, records, error, now)

    def distrust(self, partitions: Collection[int], now: float, groups: Collection[str] = ()) -> None:
        with self._journal.input("distrusted", now, partitions=sorted(partitions), groups=sorted(groups)):
            super().distrust(partitions, now, groups)

    def settle(self, now: float) -> None:
        with self._journal.input("answers", now):
            super().settle(now)


def encoded(records: list[tuple[Any, Any]]) -> list[tuple[str, str]]:
    """Return records in the form of the journal."""
    return [(text_of(encode_key(key)), text_of(encode_value(key, value))) for key, value in records]


class JournaledLoader(_Noting, Loader):
    """A loader that notes the stored records of a partition."""

    def loaded(self, groups: GroupService, partition: int, records: list[tuple[Any, Any]]) -> None:
        with self._journal.input("loaded", partition=partition, records=encoded(records)):
            super().loaded(groups, partition, records)

    def unloadable(self, groups: GroupService, partition: int) -> None:
        with self._journal.input("unloadable", partition=partition):
            super().unloadable(groups, partition)

    def load_again(self, groups: GroupService, partition: int) -> None:
        with self._journal.input("again", partition=partition):
            super().load_again(groups, partition)
