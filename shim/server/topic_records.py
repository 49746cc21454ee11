"""Topics and settings of a process with a store of its own, as records of this store.

A change is written with the next batch, and an answer that shows it waits for that batch, as for groups. After a start,
and after a failed batch, topics and settings return to the state of the store. Processes that share a store have
`catalogue.py` instead. `shim/broker/documents.py` defines the documents.

`open_as` checks the format of any store: the newest release that opened it, and the id of its cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import count
from typing import Any, Final, NamedTuple

import trio

from kafka_shim.apis.releases import RELEASES
from kafka_shim.broker import documents
from kafka_shim.broker.admin.features import unsupported
from kafka_shim.broker.documents import Documents
from kafka_shim.broker.settings import Format
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.groups.outbox import Outbox
from kafka_shim.persistence.own_records import DOCUMENTS
from kafka_shim.persistence.records import DocumentKey, DocumentValue
from kafka_shim.persistence.store import StoreError
from kafka_shim.server.durability import Durability
from kafka_shim.server.loading import RETRY_SECONDS

log: Final = logging.getLogger("kafka_shim.server")


class DocumentsStored(NamedTuple):
    """An effect: the store has these changes. None means a deleted document."""

    changes: dict[tuple[str, str], str | None]


class TopicRecords:
    """The documents of `topics`, of a broker of `release`.

    It writes nothing before `begin`. Topics that are declared at every start, and `__consumer_offsets`, need no record
    until a client changes them.
    """

    def __init__(self, topics: Topics, outbox: Outbox, release: str) -> None:
        self.partition = DOCUMENTS
        self.batch = 0
        """The newest batch that holds such a record."""
        self._topics = topics
        self._outbox = outbox
        self._release = release
        self._now: dict[tuple[str, str], str] = {}
        """The documents in memory."""
        self._stored: dict[tuple[str, str], str] = {}
        """The documents in the store, or as declared."""
        self._is_on = False

    async def load(self, durability: Durability) -> list[tuple[Any, Any]]:
        """Return the records of the store. Raises StoreError if it is unusable."""
        for attempt in count():
            try:
                return await durability.load(DOCUMENTS)
            except StoreError as error:
                if error.is_final:
                    raise
                log.error("topics and settings were not loaded: %s", error)
                await trio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
        raise AssertionError

    def begin(self, records: Iterable[tuple[Any, Any]]) -> None:
        """Apply the records of the store. A declared topic that is stored keeps its id and settings, and gets the
        larger number of partitions. Raises StoreError for a store of a newer release."""
        topics = self._topics
        stored = {(key.kind, key.name): value.text.decode() for key, value in records if isinstance(key, DocumentKey)}
        declared = {topic.name: len(topic.partitions) for topic in topics.all()}
        if (documents.TOPIC, OFFSETS_TOPIC) in stored:
            topics.ensure_offsets_topic()
        documents.apply({**documents.describe(topics), **stored}, topics)
        for name, partitions in declared.items():
            topic = topics.named(name)
            if topic is not None and partitions > len(topic.partitions):
                topics.grow(topic, topics.placed(partitions - len(topic.partitions), len(topic.partitions[0].replicas)))
        self._stored = documents.describe(topics)
        self._now = dict(self._stored)
        self._is_on = True
        open_as(self._release, topics)
        self.settings_changed()

    def changed(self, name: str) -> None:
        """Write the change of a topic that was created, deleted, extended or configured."""
        if not self._is_on:
            return
        key = documents.TOPIC, name
        topic = self._topics.named(name)
        after = {} if topic is None else documents.of_topic(topic)
        if name == OFFSETS_TOPIC and key not in self._now:
            # It is equal whenever it is created, so FindCoordinator need not wait for the store.
            self._now |= after
            self._stored |= after
        else:
            self._write(after, {key})

    def settings_changed(self) -> None:
        """Write a change of settings that belong to no topic or group."""
        if self._is_on:
            before = {key for key in self._now if key[0] not in (documents.TOPIC, documents.GROUP)}
            self._write(documents.of_settings(self._topics.settings), before)

    def group_changed(self, group_id: str) -> None:
        """Write a change of the settings of a group."""
        if self._is_on:
            self._write(documents.of_group(self._topics.settings, group_id), {(documents.GROUP, group_id)})

    def _write(self, after: Documents, before: set[tuple[str, str]]) -> None:
        """Write the difference between the documents with the keys `before` and those of `after`."""
        changes = documents.changes({key: self._now[key] for key in before if key in self._now}, after)
        if not changes:
            return
        for key, text in changes.items():
            value = None if text is None else DocumentValue(text.encode())
            self._outbox.write(self, DocumentKey(*key), value)
            _set(self._now, key, text)
        self._outbox.when_durable(self, DocumentsStored(changes))
        self._topics.batch = self.batch

    def stored(self, effect: DocumentsStored) -> None:
        """Note that the store has a batch."""
        for key, text in effect.changes.items():
            _set(self._stored, key, text)

    def lost(self) -> None:
        """Return to the state of the store after a failed batch."""
        self._is_on = False
        try:
            documents.apply(self._stored, self._topics)
        finally:
            self._now = dict(self._stored)
            self._is_on = True


def _set(texts: dict[tuple[str, str], str], key: tuple[str, str], text: str | None) -> None:
    if text is None:
        texts.pop(key, None)
    else:
        texts[key] = text


def open_as(release: str, topics: Topics) -> None:
    """Make the store of these topics one of `release`, with the id of its cluster, or of `topics` for a new store.

    Raises StoreError if the store has a feature at a level that the release does not support. Kafka does not start then
    either.
    """
    settings = topics.settings
    before = settings.format or Format(release, topics.cluster_id)
    above = unsupported(release, before.release, settings)
    if above or before.release not in RELEASES:
        levels = ", ".join(above) or "its features"
        raise StoreError(
            f"The store is one of Kafka {before.release}, with {levels}, which Kafka {release} does not support: start"
            f" with --as-version {before.release}, where these levels can be lowered first."
        )
    settings.format = Format(release, before.cluster_id)
    topics.cluster_id = before.cluster_id
