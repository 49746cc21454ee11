"""A server in which code raises all the time: `python -m tests.fuzz.failing EVERY SEED serve [options]`.

At the borders of `shim/server/failures.py`, but for those of security, other processes and laboratories, a call
raises with the probability 1 / EVERY, before or after its work: timers, alarms, parked fetches, rules, decoders,
encoders, sends, flushes, ticks, effects, listeners, records without bytes, whole writes and reads of the store, turns
and ends of leases, changes of the catalogue, and computations in threads, of which small groups have some here. The
bystander's own group is let alone, since a guard costs exactly the one concerned.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any
from zlib import crc32

from kafka_shim.broker.fetches import FetchApi
from kafka_shim.broker.share_fetches import ShareFetchApi
from kafka_shim.broker.share_partition import SharePartition
from kafka_shim.broker.transactions import Transactions
from kafka_shim.cli import cli
from kafka_shim.groups import regex
from kafka_shim.groups.classic.kind import Classic
from kafka_shim.groups.consumer import patterns, target
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.migration import conversion
from kafka_shim.groups.epochs.group import EpochGroup
from kafka_shim.groups.service import GroupService
from kafka_shim.persistence import postgres, sqlite, store
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.own_records import DOCUMENTS
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.postgres import PostgresStore
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.server import encrypted, reactor, streams
from kafka_shim.server.alarms import Alarm, Alarms
from kafka_shim.server.catalogue import Catalogue
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.durability import Durability
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.offsets_log import OffsetsLogs
from kafka_shim.server.ownership import Ownership
from kafka_shim.server.session import Session
from kafka_shim.server.table import Endpoint
from tests.fuzz.requests import PROTECTED

PARTITION = partition_for(PROTECTED, 50)


class Injected(Exception):
    """No code raises this by itself."""


class Faults:
    """Lets methods raise."""

    def __init__(self, every: int, seed: int) -> None:
        self._every = every
        self._chance = random.Random(seed)
        self._exchange: Any = None

    def strikes(self) -> bool:
        return self._chance.randrange(self._every) == 0

    def into(self, owner: Any, name: str, spares: Callable[..., bool] = lambda *arguments: False) -> None:
        """Let calls of a method or function raise, but those that `spares` says."""
        real = getattr(owner, name)

        def raising(*arguments: Any, **named: Any) -> Any:
            if not self.strikes() or spares(*arguments):
                return real(*arguments, **named)
            if self._chance.random() < 0.5:
                raise Injected(f"before {name}")
            real(*arguments, **named)
            raise Injected(f"after {name}")

        setattr(owner, name, raising)

    def into_encoders(self) -> None:
        """Let the encoding of answers raise, but those to the bystander."""
        answer = Exchange.answer

        def noted(exchange: Exchange, *arguments: Any) -> None:
            before, self._exchange = self._exchange, exchange
            try:
                answer(exchange, *arguments)
            finally:
                self._exchange = before

        Exchange.answer = noted  # type: ignore[method-assign]
        make = Endpoint.__init__

        def made(endpoint: Endpoint, *arguments: Any) -> None:
            make(endpoint, *arguments)
            self.into(endpoint, "body", lambda *_: self._exchange is None or is_of_bystander(self._exchange))

        Endpoint.__init__ = made  # type: ignore[method-assign]

    def into_accepting(self) -> None:
        """Let the beginning of a connection raise, but the first: the bystander's."""
        begin, carry = reactor.Reactor._begin, streams.Streams._carry

        def raising(served: reactor.Reactor, *arguments: Any) -> None:
            if served.connections and self.strikes():
                raise Injected("_begin")
            begin(served, *arguments)

        async def carrying(served: streams.Streams, connection: Any) -> None:
            if served.connections and self.strikes():
                raise Injected("_carry")
            await carry(served, connection)

        reactor.Reactor._begin = raising  # type: ignore[method-assign]
        streams.Streams._carry = carrying  # type: ignore[method-assign]

    def into_alarms(self) -> None:
        """Let alarms raise: of connections that wait for their turn, since their client was throttled."""
        at = Alarms.at

        def raising(alarms: Alarms, when: float, call: Callable[[float], None]) -> Alarm:
            def rung(now: float) -> None:
                if self.strikes():
                    raise Injected("an alarm")
                call(now)

            return at(alarms, when, rung)

        Alarms.at = raising  # type: ignore[method-assign]

    def into_sockets(self) -> None:
        """Let sockets take only the first half of an answer, so that the rest is flushed."""
        make = reactor.Connection.__init__

        def made(connection: reactor.Connection, *arguments: Any) -> None:
            make(connection, *arguments)
            send = connection._send

            def half(data: Any) -> int:
                # No edge of epoll follows once a flush has sent a part, since the socket could take all.
                return send(data[: len(data) // 2]) if not connection.unsent and self.strikes() else send(data)

            connection._send = half  # type: ignore[method-assign, assignment]

        reactor.Connection.__init__ = made  # type: ignore[method-assign]

    def into_catalogue(self) -> None:
        """Let changes of topics and settings raise once the server is ready: before, an exception is an end."""
        serve = Catalogue._serve_changes

        async def serving(catalogue: Catalogue) -> None:
            self.into(Catalogue, "_learn")
            await serve(catalogue)

        Catalogue._serve_changes = serving  # type: ignore[method-assign]

    def into_computations(self) -> None:
        """Compute for every group in threads, and let that raise."""
        target.LARGE = regex.LARGE = conversion.MANY_MEMBERS = 0  # type: ignore[misc]
        for kind in (target.TargetComputation, conversion.Conversion):
            self.into(kind, "compute", lambda computation: computation.group_id == PROTECTED)
        self.into(patterns.Resolution, "compute", lambda resolution: resolution.group.group_id == PROTECTED)

    def into_records(self) -> None:
        """Let some records have no bytes."""
        encode = store.encode_value

        def encode_value(key: Any, value: Any) -> bytes:
            # The same record again and again, or no guard could find out which one it was.
            if PROTECTED not in key and crc32(repr((key, value)).encode()) % (5 * self._every) == 0:
                raise Injected("encode_value")
            return encode(key, value)

        for module in (store, sqlite, postgres):
            module.encode_value = encode_value  # type: ignore[attr-defined]


def is_of_bystander(exchange: Any) -> bool:
    return bool(exchange.client.client_id == PROTECTED)


def has_bystander(_: Any, batch: Any) -> bool:
    return any(partition == PARTITION for partition, _, _ in batch)


def serves_bystander(session: Any, *_: Any) -> bool:
    return bool(session.client_id == PROTECTED)


def inject(every: int, seed: int) -> None:
    """Let code raise from now on."""
    faults = Faults(every, seed)
    faults.into(GroupService, "_fire", lambda _, shard, timer, now: timer.partition == PARTITION)
    for of_kind in (Classic, ConsumerGroup, EpochGroup):
        faults.into(of_kind, "fire", lambda _, timer, now: timer.partition == PARTITION)
    faults.into(FetchApi, "_response")
    faults.into(ShareFetchApi, "_answer")
    faults.into(Endpoint, "decode", lambda _, frame, *rest: PROTECTED.encode() in frame)
    faults.into_encoders()
    faults.into_records()
    for kind in (MemoryStore, SqliteStore, PostgresStore):
        faults.into(kind, "write", has_bystander)
    faults.into(Transactions, "apply")
    for stored in (SqliteStore, PostgresStore):
        # The documents, below 0, are read before the server is ready: there an exception is an end.
        faults.into(stored, "load", lambda _, partition: partition in (PARTITION, DOCUMENTS))
    faults.into(GroupService, "unload", lambda _, partition, now: partition == PARTITION)
    faults.into(SharePartition, "expire")
    faults.into(OffsetsLogs, "_append")
    faults.into(PostgresStore, "renew")
    faults.into(Ownership, "see")
    faults.into_catalogue()
    faults.into_alarms()
    faults.into_computations()
    faults.into(Ownership, "give_up")
    faults.into(Durability, "settle")
    faults.into_sockets()
    for kind in (reactor.Connection, encrypted.TlsConnection):
        faults.into(kind, "flush", lambda connection, now: serves_bystander(connection.session))
    faults.into(Session, "drained", serves_bystander)
    faults.into_accepting()
    start = Cluster.start

    def started(cluster: Cluster) -> None:
        def listener(events: Any, now: float) -> None:
            if faults.strikes():
                raise Injected("a listener")

        cluster.events.listen(listener)
        start(cluster)

    Cluster.start = started  # type: ignore[method-assign]


if __name__ == "__main__":
    inject(int(sys.argv[1]), int(sys.argv[2]))
    cli(sys.argv[3:])
