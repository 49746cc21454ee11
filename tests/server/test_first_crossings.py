"""Thirty fresh clusters on PostgreSQL; each ends its first transaction between two processes at once.

The transactional id and the group live in different processes. Clients look up coordinators only at the process of the
transactional id, so the others know no more of the cluster than they must.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

import pytest
import trio

from kafka_shim.apis.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafka_shim.apis.end_txn import EndTxnRequest, EndTxnResponse
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafka_shim.apis.wire import Message
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.postgres import PostgresStore
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.server import Server, ServerConfig, serve
from tests import postgres
from tests.server.wire import Client
from tests.waiting import until_in_trio as until

pytestmark = [
    pytest.mark.second_stage("ninety servers on PostgreSQL"),
    pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed"),
]

CLUSTERS = 30
PROCESSES = 3
BOUND_S = 10.0
"""Seconds to wait for a marker, which takes milliseconds on an idle machine; a lost marker never comes."""
READY_S = 120.0
LEASE_S = 30.0
GROUP = "group"


def id_elsewhere(processes: list[Server]) -> str:
    """Return a transactional id with another coordinator than the group."""
    owners = processes[0].cluster.ownership.owners
    home = owners[partition_for(GROUP, 50)]
    names = (f"id-{number}" for number in range(1000))
    return next(name for name in names if owners[partition_for(name, 50)] != home)


def is_shared_out(processes: list[Server]) -> bool:
    """Return True if every process has its part of the partitions and knows all others."""
    owners = [process.cluster.ownership.owners for process in processes]
    counts = [list(owners[0].values()).count(number + 1) for number in range(PROCESSES)]
    return sorted(counts) == [16, 17, 17] and owners.count(owners[0]) == PROCESSES


def cross(addresses: dict[int, str], coordinator: int, name: str) -> float:
    """Commit an offset of the group in a transaction of this id; return the seconds until it was visible."""
    with ExitStack() as stack:
        clients = {node: stack.enter_context(Client(address)) for node, address in addresses.items()}
        mine = clients[coordinator]

        def find(key: str, key_type: int) -> int:
            answer = mine.ask(FindCoordinatorRequest(key, key_type), 2, FindCoordinatorResponse)
            assert answer.error_code == 0
            return int(answer.node_id)

        def ask(client: Client, request: Message, version: int, kind: type[Message]) -> Message:
            answer = client.ask(request, version, kind)
            assert getattr(answer, "error_code", 0) == 0, answer
            return answer

        assert find(name, 1) == coordinator
        home = clients[find(GROUP, 0)]
        assert home is not mine
        given = mine.ask(InitProducerIdRequest(name, 60_000), 2, InitProducerIdResponse)
        assert given.error_code == 0
        producer = given.producer_id, given.producer_epoch
        ask(mine, AddOffsetsToTxnRequest(name, *producer, GROUP), 1, AddOffsetsToTxnResponse)
        topics = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 7, -1, "")])]
        commit = TxnOffsetCommitRequest(name, GROUP, *producer, topics=topics)
        committed = home.ask(commit, 2, TxnOffsetCommitResponse)
        assert committed.topics[0].partitions[0].error_code == 0
        ask(mine, EndTxnRequest(name, *producer, True), 1, EndTxnResponse)
        ended = time.monotonic()
        fetch = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic("t", [0])], require_stable=True)
        while time.monotonic() - ended < BOUND_S:
            (found,) = home.ask(fetch, 7, OffsetFetchResponse).topics[0].partitions
            if found.committed_offset == 7:
                return time.monotonic() - ended
        pytest.fail(f"after {BOUND_S} s the offset of {name} is not there: error {found.error_code}")


async def test_first_transactions_between_processes_end() -> None:
    names = [f"cluster_{number}" for number in range(CLUSTERS)]
    threads = trio.to_thread.current_default_thread_limiter()
    before, threads.total_tokens = threads.total_tokens, 10 * CLUSTERS * PROCESSES
    waited: list[float] = []
    try:
        with postgres.postgres_server(*names, connections=4 * CLUSTERS * PROCESSES) as url, ExitStack() as stack:
            async with trio.open_nursery() as nursery:

                async def start(name: str, node_id: int, made: dict[int, Server]) -> None:
                    store = PostgresStore(f"{url.rpartition('/')[0]}/{name}", 50, lease_s=LEASE_S)
                    stack.enter_context(closing(store))
                    await trio.to_thread.run_sync(store.open)
                    config = ServerConfig(node_id=node_id, cluster=ClusterConfig(topics={"t": 1}))
                    made[node_id] = await nursery.start(serve, config, store)

                async def cross_first(processes: list[Server], all_ready: trio.Event) -> None:
                    name = id_elsewhere(processes)
                    coordinator = processes[0].cluster.ownership.owners[partition_for(name, 50)]
                    addresses = {number + 1: process.bootstrap for number, process in enumerate(processes)}
                    await all_ready.wait()
                    waited.append(await trio.to_thread.run_sync(cross, addresses, coordinator, name))

                clusters: list[dict[int, Server]] = [{} for _ in names]
                async with trio.open_nursery() as starting:
                    for name, made in zip(names, clusters, strict=True):
                        for node_id in range(1, PROCESSES + 1):
                            starting.start_soon(start, name, node_id, made)
                ordered = [[made[number + 1] for number in range(PROCESSES)] for made in clusters]
                for processes in ordered:
                    await until(lambda processes=processes: is_shared_out(processes), READY_S)
                    for process in processes:
                        await process.cluster.loader.idle.wait()
                all_ready = trio.Event()
                async with trio.open_nursery() as crossing:
                    for processes in ordered:
                        crossing.start_soon(cross_first, processes, all_ready)
                    all_ready.set()
                nursery.cancel_scope.cancel()
    finally:
        threads.total_tokens = before
    assert len(waited) == CLUSTERS
