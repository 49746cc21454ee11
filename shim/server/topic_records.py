"""Topics and settings of a process that has its store alone, as records of this store.

Decides when a change of them is written, and what they are after a start and after a batch that failed: what the store
has. An answer that shows a change waits for its batch, as one that shows a group does. It does not know what is in a
document (`shim/broker/documents.py`). Processes that share a store have `catalogue.py` instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final, NamedTuple

import trio

from kafka_shim.broker import documents
from kafka_shim.broker.documents import Documents
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.groups.outbox import Outbox
from kafka_shim.persistence.document_records import DOCUMENTS
from kafka_shim.persistence.records import DocumentKey, DocumentValue
from kafka_shim.persistence.store import StoreError
from kafka_shim.server.durability import Durability
from kafka_shim.server.loading import RETRY_SECONDS

log: Final = logging.getLogger("kafka_shim.server")


class DocumentsStored(NamedTuple):
    """An effect: the store has these changes; None is a document that is gone."""

    changes: dict[tuple[str, str], str | None]


class TopicRecords:
    """The documents of `topics`. `group_changed(group_id)` is called for each group whose settings change here.

    It writes nothing before `begin`. Topics that are declared at every start, and `__consumer_offsets`, need no record
    until a client changes them.
    """

    def __init__(self, topics: Topics, outbox: Outbox, group_changed: Callable[[str], None]) -> None:
        self.partition = DOCUMENTS
        self.batch = 0
        """The newest batch that has a record of these."""
        self._topics = topics
        self._outbox = outbox
        self._group_changed = group_changed
        self._now: dict[tuple[str, str], str] = {}
        """As they are here."""
        self._stored: dict[tuple[str, str], str] = {}
        """As the store has them, or as they are declared."""
        self._is_on = False

    async def load(self, durability: Durability) -> list[tuple[Any, Any]]:
        """The records of the store. Raises StoreError if it cannot be used."""
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
        """The store has these records. A declared topic that it has too keeps its id and settings; it has as many
        partitions as the one that has more of them."""
        topics = self._topics
        found = {(key.kind, key.name): value.text.decode() for key, value in records if isinstance(key, DocumentKey)}
        declared = {topic.name: len(topic.partitions) for topic in topics.all()}
        if (documents.TOPIC, OFFSETS_TOPIC) in found:
            topics.ensure_offsets_topic()
        documents.apply({**documents.describe(topics), **found}, topics, self._group_changed)
        for name, partitions in declared.items():
            topic = topics.named(name)
            if topic is not None and partitions > len(topic.partitions):
                topics.grow(topic, topics.placed(partitions - len(topic.partitions), len(topic.partitions[0].replicas)))
        self._stored = documents.describe(topics)
        self._now = dict(self._stored)
        self._is_on = True

    def changed(self, name: str) -> None:
        """A topic was created, has grown or has other settings, or it is gone."""
        if not self._is_on:
            return
        key = documents.TOPIC, name
        topic = self._topics.named(name)
        after = {} if topic is None else documents.of_topic(topic)
        if name == OFFSETS_TOPIC and key not in self._now:
            # It is the same whenever it is created: who looks for a coordinator does not wait for the store.
            self._now |= after
            self._stored |= after
        else:
            self._write(after, {key})

    def settings_changed(self) -> None:
        """A client has set something for groups, brokers or features."""
        if self._is_on:
            before = {key for key in self._now if key[0] != documents.TOPIC}
            self._write(documents.of_settings(self._topics.settings), before)

    def _write(self, after: Documents, before: set[tuple[str, str]]) -> None:
        """The documents with the keys `before` are `after` now."""
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
        """The store has a batch."""
        for key, text in effect.changes.items():
            _set(self._stored, key, text)

    def lost(self) -> None:
        """A batch has failed: topics and settings are as the store has them again."""
        self._is_on = False
        documents.apply(self._stored, self._topics, self._group_changed)
        self._now = dict(self._stored)
        self._is_on = True


def _set(kept: dict[tuple[str, str], str], key: tuple[str, str], text: str | None) -> None:
    if text is None:
        kept.pop(key, None)
    else:
        kept[key] = text
