"""Topics and settings of a cluster of several processes: changed by one of them, the same in all.

Decides in which order changes are made. A change is tried on a draft, which is as the newest documents of the store
say; what the draft has become is written if nobody else has changed them since, or else the change is tried anew.
Only what is written is true: then it is done here, as it is by the others when they hear of it. It does not know what a
change is (`shim/broker/`), nor what is in a document (`shim/broker/documents.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import Final, TypeVar

import trio

from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.documents import apply, changes, describe
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import OFFSETS_TOPIC, TopicError, Topics
from kafka_shim.persistence.store import SharedStore, StoreError
from kafka_shim.server.exchange import Exchange

log: Final = logging.getLogger("kafka_shim.server")

RETRY_SECONDS: Final = 1.0

Rule = Callable[[Topics], Message]
_Result = TypeVar("_Result")


class Catalogue:
    """The part of one process. `topics` are those its brokers show; `settle(now)` is called when they have changed and
    when answers have left, before which `check(now)` is; `group_changed(group_id)` for the values of a group.
    """

    def __init__(
        self,
        store: SharedStore,
        topics: Topics,
        clock: Callable[[], float],
        check: Callable[[float], None],
        settle: Callable[[float], None],
        group_changed: Callable[[str], None],
    ) -> None:
        self.version = -1
        """Of the newest documents that this process has read."""
        self._store = store
        self._topics = topics
        self._clock = clock
        self._check = check
        self._settle = settle
        self._group_changed = group_changed
        self._documents: dict[tuple[str, str], str] = {}
        self._draft: Topics | None = None
        """As the documents say, between two changes; None when it must be made anew."""
        self._being_created: set[str] = set()
        self._one_at_a_time = trio.Lock()
        self._request, self._requests = trio.open_memory_channel[tuple[Rule, Exchange | None]](inf)
        self._want, self._to_make = trio.open_memory_channel[str](inf)

    def change(self, rule: Rule, exchange: object) -> None:
        """See `Shared.change`: the exchange, if there is one, is answered when the change is written."""
        assert exchange is None or isinstance(exchange, Exchange)
        self._request.send_nowait((rule, exchange))

    def want(self, name: str) -> None:
        """Make a topic with the defaults, unless somebody else does."""
        if name not in self._being_created:
            self._being_created.add(name)
            self._want.send_nowait(name)

    async def run(
        self, declared: Mapping[str, int], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Make the declared topics that are not there, and then those that clients request, until cancelled."""
        await self._make(declared)
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve_changes)
            nursery.start_soon(self._serve_wants)

    async def refresh(self) -> None:
        """Learn what others have changed. Raises StoreError."""
        async with self._one_at_a_time:
            await self._read()

    async def _serve_changes(self) -> None:
        async for rule, exchange in self._requests:
            response: Message | None = None
            failure = ErrorCode.REQUEST_TIMED_OUT
            try:
                response = await self._change(rule)
            except StoreError as error:
                log.error("a change of topics or settings was not written: %s", error)
            except Exception:
                log.exception("a change of topics or settings failed")
                failure = ErrorCode.UNKNOWN_SERVER_ERROR
            now = self._clock()
            # What the client has sent since is served as soon as it has its answer.
            self._check(now)
            if exchange is None:
                pass
            elif response is None:
                exchange.fail(failure, now)
            else:
                exchange.answer(response, 0, now)
            self._settle(now)

    async def _serve_wants(self) -> None:
        async for name in self._to_make:
            try:
                await self._make({name: -1})
            except TopicError as refused:
                log.warning("topic %s, which a client requested, is not created: %s", name, refused.message)
            except StoreError as error:
                log.error("topic %s was not made: %s", name, error)
                await trio.sleep(RETRY_SECONDS)
            self._being_created.discard(name)

    async def _make(self, counts: Mapping[str, int]) -> None:
        def declare(draft: Topics) -> None:
            for name, partitions in counts.items():
                if draft.named(name) is None:
                    draft.declare(name, partitions)

        await self._change(declare)

    async def _change(self, rule: Callable[[Topics], _Result]) -> _Result:
        async with self._one_at_a_time:
            while True:
                await self._read()
                draft, self._draft = self._drafted(), None
                result = rule(draft)
                documents = describe(draft)
                changed = changes(self._documents, documents)
                if not changed:
                    self._draft = draft
                    return result
                if await trio.to_thread.run_sync(self._store.change_documents, self.version, changed):
                    self._draft = draft
                    self._learn(self.version + 1, documents)
                    return result

    async def _read(self) -> None:
        version, documents = await trio.to_thread.run_sync(self._store.documents)
        if version != self.version:
            self._learn(version, documents)

    def _learn(self, version: int, documents: dict[tuple[str, str], str]) -> None:
        self.version, self._documents = version, documents
        now = self._clock()
        apply(documents, self._topics, self._group_changed)
        self._topics.settle(now)
        self._settle(now)

    def _drafted(self) -> Topics:
        topics, draft = self._topics, self._draft
        if draft is None:
            draft = Topics([*topics.nodes.values()], Settings(topics.settings.static), topics.new_id)
            draft.offsets_topic_id = topics.offsets_topic_id
        draft.nodes = dict(topics.nodes)
        apply(self._documents, draft, lambda group_id: None)
        if topics.named(OFFSETS_TOPIC) is not None:
            draft.ensure_offsets_topic()
        return draft
