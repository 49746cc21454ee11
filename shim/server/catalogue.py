"""Topics and settings of a cluster of several processes: each process may change them, and all see the same.

A change runs on a draft, a copy of the newest documents in the store. The store takes the result unless another process
changed the documents first; then the change runs again. Apply a change only after the store accepted it; the other
processes apply it when they read it. `shim/broker/documents.py` defines the documents.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from math import inf
from typing import Final, TypeVar

import trio

from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.broker import AppliesToTopics
from kafka_shim.broker.documents import apply, changes, describe
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import OFFSETS_TOPIC, TopicError, Topics
from kafka_shim.persistence.store import SharedStore, StoreError
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.topic_records import open_as

log: Final = logging.getLogger("kafka_shim.server")

RETRY_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 1.0
"""At most so long a request waits for a look; then its answer has the topics as this process knows them."""

MAX_WANTED: Final = 10_000
"""The most topics that clients can request before they are created; of more a client has to ask again."""
MAX_NEW: Final = 1000
"""The most partitions of requested topics in one change, or those of one topic: others wait while they are created."""

MOST_REFUSED: Final = 3
"""The most refusals of one change that the log has."""

_Result = TypeVar("_Result")


class Catalogue:
    """The catalogue of one process.

    `topics` are those of its brokers. `check(now)` is called before answers leave. `settle(now)` is called after
    answers left and after topics changed.
    """

    def __init__(
        self,
        store: SharedStore,
        topics: Topics,
        clock: Callable[[], float],
        check: Callable[[float], None],
        settle: Callable[[float], None],
        failures: Failures,
        release: str,
    ) -> None:
        self.version = -1
        """The version of the newest documents that this process has read."""
        self._store = store
        self._topics = topics
        self._clock = clock
        self._check = check
        self._settle = settle
        self._failures = failures
        self._release = release
        self.looked_at = -inf
        """See `Shared.looked_at`. A look that failed counts."""
        self._looking: list[Exchange] = []
        self._look_wanted = trio.Event()
        self._documents: dict[tuple[str, str], str] = {}
        self._draft: Topics | None = None
        """A copy of the documents between two changes; None if it must be created again."""
        self._wanted: dict[str, None] = {}
        """The topics that clients request, oldest first, until they are created."""
        self._topic_wanted = trio.Event()
        self._one_at_a_time = trio.Lock()
        self._request, self._requests = trio.open_memory_channel[tuple[AppliesToTopics, Exchange | None]](inf)

    def change(self, change: AppliesToTopics, exchange: object) -> None:
        """Apply a change (see `Shared.change`) and answer the exchange, if any, once the store has it."""
        assert exchange is None or isinstance(exchange, Exchange)
        self._request.send_nowait((change, exchange))

    def look(self, exchange: object) -> None:
        """See `Shared.look`."""
        assert isinstance(exchange, Exchange)
        self._looking.append(exchange)
        self._look_wanted.set()

    def want(self, name: str) -> None:
        """Create a topic with default settings, unless it exists, or too many are still to be created."""
        if len(self._wanted) < MAX_WANTED:
            self._wanted[name] = None
            self._topic_wanted.set()

    async def run(
        self, declared: Mapping[str, int], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Create the missing declared topics, then those that clients request, until cancelled. Raises StoreError for
        a store of a newer release."""
        await self._change(lambda draft: open_as(self._release, draft))
        await self._make(declared)
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve_changes)
            nursery.start_soon(self._serve_wants)
            nursery.start_soon(self._serve_looks)

    async def refresh(self) -> None:
        """Apply the changes of other processes; the next call repeats one that has raised. Raises StoreError."""
        async with self._one_at_a_time:
            try:
                await self._read()
            except StoreError:
                raise
            except Exception as error:
                self._failures.note(Border.CATALOGUE, "applying the changes of other processes", error)

    async def _serve_changes(self) -> None:
        async for change, exchange in self._requests:
            response: Message | None = None
            failure = ErrorCode.REQUEST_TIMED_OUT
            try:
                response = await self._change(change.apply)
            except StoreError as error:
                log.error("a change of topics or settings was not written: %s", error)
            except Exception as error:
                self._failures.note(Border.CATALOGUE, "a change of topics or settings", error)
                failure = ErrorCode.UNKNOWN_SERVER_ERROR
            now = self._clock()
            # An answer lets the next request of its connection run.
            self._check(now)
            if exchange is not None:
                try:
                    if response is None:
                        exchange.fail(failure, now)
                    else:
                        exchange.answer(response, 0, now)
                except Exception as error:
                    exchange.broken(error)
            self._settle(now)

    async def _serve_looks(self) -> None:
        async with trio.open_nursery() as nursery:
            ended = trio.Event()
            ended.set()
            while True:
                await self._look_wanted.wait()
                self._look_wanted = trio.Event()
                began, waiting, self._looking = self._clock(), self._looking, []
                with trio.move_on_after(LOOK_SECONDS):
                    # The look before may still hang.
                    await ended.wait()
                    ended = trio.Event()
                    nursery.start_soon(self._look, ended)
                    await ended.wait()
                self.looked_at = began
                self._check(self._clock())
                for exchange in waiting:
                    # The rule was called once already.
                    exchange.endpoint.calls -= 1
                    try:
                        exchange.run(began)
                    except Exception as error:
                        exchange.broken(error)
                self._settle(self._clock())

    async def _look(self, ended: trio.Event) -> None:
        try:
            version = await trio.to_thread.run_sync(self._store.documents_version, abandon_on_cancel=True)
            if version != self.version:
                await self.refresh()
        except StoreError as error:
            log.error("changes of topics by other processes are not seen: %s", error)
        except Exception as error:
            self._failures.note(Border.CATALOGUE, "a look for changes of other processes", error)
        finally:
            ended.set()

    async def _serve_wants(self) -> None:
        while True:
            await self._topic_wanted.wait()
            self._topic_wanted = trio.Event()
            while self._wanted:
                most = max(1, MAX_NEW // self._topics.settings.number("num.partitions"))
                names = [*islice(self._wanted, most)]
                await self._make_wanted(names)
                for name in names:
                    del self._wanted[name]

    async def _make_wanted(self, names: Sequence[str]) -> None:
        what = f"topic {names[0]}" if len(names) == 1 else f"topic {names[0]} and {len(names) - 1} more"
        try:
            refused: dict[str, TopicError] = {}
            await self._make(dict.fromkeys(names, -1), refused)
        except StoreError as error:
            log.error("not created, %s: %s", what, error)
            await trio.sleep(RETRY_SECONDS)
        except Exception as error:
            self._failures.note(Border.CATALOGUE, f"the creation of {what}", error)
        else:
            for name, refusal in islice(refused.items(), MOST_REFUSED):
                log.warning("topic %s, which a client requested, is not created: %s", name, refusal.message)

    async def _make(self, counts: Mapping[str, int], refused: dict[str, TopicError] | None = None) -> None:
        """Create the missing topics of these numbers of partitions. Raises TopicError, with none of them created,
        unless `refused` takes the refusals by name."""

        def declare(draft: Topics) -> None:
            # Clients may find their coordinator through any process, so every process shows the topic from the start.
            draft.ensure_offsets_topic()
            if refused is not None:
                # The store may have refused the draft before.
                refused.clear()
            for name, partitions in counts.items():
                try:
                    if draft.named(name) is None:
                        draft.declare(name, partitions)
                except TopicError as error:
                    if refused is None:
                        raise
                    refused[name] = error

        await self._change(declare)

    async def _change(self, rule: Callable[[Topics], _Result]) -> _Result:
        async with self._one_at_a_time:
            while True:
                await self._read()
                draft, self._draft = self._drafted(), None
                # Each takes milliseconds with thousands of topics: others are served in between. The draft is ours.
                await trio.lowlevel.checkpoint()
                result = rule(draft)
                await trio.lowlevel.checkpoint()
                documents = describe(draft)
                await trio.lowlevel.checkpoint()
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
        now = self._clock()
        apply(documents, self._topics)
        self.version, self._documents = version, documents
        self._topics.settle(now)
        self._settle(now)

    def _drafted(self) -> Topics:
        topics, draft = self._topics, self._draft
        if draft is None:
            draft = Topics(
                [*topics.nodes.values()], Settings(topics.settings.static), topics.new_id, cluster_id=topics.cluster_id
            )
            draft.offsets_topic_id = topics.offsets_topic_id
        draft.nodes = dict(topics.nodes)
        apply(self._documents, draft)
        if topics.named(OFFSETS_TOPIC) is not None:
            draft.ensure_offsets_topic()
        return draft
