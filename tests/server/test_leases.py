"""Several processes on one PostgreSQL database, here clusters of one test: owners of partitions, and late answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest
import trio

from kafka_shim.apis.describe_cluster import DescribeClusterRequest
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import Node as Address
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.postgres import PostgresStore
from kafka_shim.persistence.store import Entry, StoreError
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.placement import id_of, leader_of
from tests import postgres
from tests.server.conversation import Client, commit, committed, error_of_commit, fetch, heartbeat, join, sync
from tests.waiting import until_in_trio as until

pytestmark = [
    pytest.mark.second_stage("several servers on PostgreSQL"),
    pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed"),
]

PARTITION = partition_for("g", 50)
LEASE_S = 1.2
LONG_LEASE_S = 24.0
"""For tests in which no lease runs out by itself: a busy machine renews late."""
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres.postgres_server() as url:
        yield url


@pytest.fixture
def url(server: str) -> str:
    postgres.empty(server)
    return server


class Process:
    """A cluster of one node, with its own store and clock: `away` is the time it has slept, in seconds."""

    def __init__(self, url: str, node_id: int, lease_s: float) -> None:
        self.away = 0.0
        self.store = PostgresStore(url, 50, lease_s=lease_s)
        self.store.open()
        self.cluster = make_cluster(
            [Address(node_id, "127.0.0.1", 9000 + node_id)],
            ClusterConfig(
                settings={"group.initial.rebalance.delay.ms": "0"},
                topics={"t": 6},
                clock=lambda: trio.current_time() + self.away,
            ),
            self.store,
        )
        self.node = self.cluster.nodes[node_id]
        self._scope = trio.CancelScope()

    def client(self) -> Client:
        return Client(self.cluster, self.node)

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        with self._scope:
            await self.cluster.run(task_status)

    def crash(self) -> None:
        """Stop at once: the leases stay, and run out."""
        self._scope.cancel()

    def leave(self) -> None:
        self._scope.cancel()
        self.store.close()


@asynccontextmanager
async def processes(url: str, *node_ids: int, lease_s: float = LEASE_S) -> AsyncIterator[list[Process]]:
    """Start processes and wait until they have shared the partitions."""
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        made = []
        for node_id in node_ids:
            process = Process(url, node_id, lease_s)
            stack.callback(process.store.close)
            await nursery.start(process.run)
            await process.cluster.loaded.wait()
            made.append(process)
        await until(lambda: is_shared(made))
        yield made
        nursery.cancel_scope.cancel()


def is_shared(made: list[Process]) -> bool:
    """Return True if every process has its share loaded, and all agree on the owners."""
    owners = made[0].cluster.ownership.owners
    shares = [len(process.node.groups.shards) for process in made]
    return (
        len(owners) == 50
        and all(process.cluster.ownership.owners == owners for process in made)
        and sum(shares) == 50
        and max(shares) - min(shares) <= 1
    )


def owner_first(made: list[Process]) -> list[Process]:
    """Return the processes, the coordinator of "g" first."""
    return sorted(made, key=lambda process: process.cluster.ownership.owners[PARTITION] != process.node.id)


async def answer(client: Client, version: int, request: Message) -> Any:
    """Return the answer to a request that waits for the store."""
    client.say(version, request)
    heard: list[Any] = []

    def answered() -> bool:
        heard.extend(client.heard)
        return bool(heard)

    await until(answered)
    (only,) = heard
    return only


async def acknowledged(client: Client, offset: int) -> None:
    assert error_of_commit(await answer(client, 7, commit(offset))) == ErrorCode.NONE


async def stable_group(client: Client) -> str:
    """Make "g" a group of one member in generation 1; return the member's id."""
    member: str = (await answer(client, 3, join())).member_id
    assert (await answer(client, 3, sync(1, member, member))).error_code == ErrorCode.NONE
    return member


async def test_all_processes_name_the_same_nodes_coordinators_leaders_and_topics(url: str) -> None:
    async with processes(url, 1, 2, 3) as made:
        clients = [process.client() for process in made]
        described = [client.ask(0, DescribeClusterRequest()) for client in clients]
        assert [[(b.broker_id, b.port) for b in each.brokers] for each in described] == [
            [(1, 9001), (2, 9002), (3, 9003)]
        ] * 3
        assert len({each.cluster_id for each in described}) == 1
        for group in ("g", "h", "i", "j"):
            found = [client.ask(2, FindCoordinatorRequest(key=group)) for client in clients]
            assert len({each.node_id for each in found}) == 1
            (owner,) = [p for p in made if p.node.groups.partition_of(group) in p.node.groups.shards]
            assert found[0].node_id == owner.node.id
        answers = [await answer(client, 12, MetadataRequest(topics=None)) for client in clients]
        metadata = [{topic.name: topic for topic in each.topics} for each in answers]
        assert metadata[0]["t"] == metadata[1]["t"] == metadata[2]["t"]
        assert metadata[0]["__consumer_offsets"].topic_id == id_of(made[0].store.cluster_seed, "__consumer_offsets")
        offsets = [[each.leader_id for each in topics["__consumer_offsets"].partitions] for topics in metadata]
        assert offsets[0] == offsets[1] == offsets[2] == [made[0].cluster.ownership.owners[p] for p in range(50)]


async def test_a_process_that_joins_has_its_share_without_waiting_for_a_renewal(url: str) -> None:
    began = trio.current_time()
    async with processes(url, 1, 2, 3, lease_s=60.0):
        assert trio.current_time() - began < 10.0


async def test_only_the_owner_of_its_partition_has_a_group(url: str) -> None:
    async with processes(url, 1, 2) as made:
        owner, other = owner_first(made)
        await acknowledged(owner.client(), 5)
        assert committed(owner.client()) == 5
        assert committed(other.client()) == "error 16"
        assert other.client().ask(3, join()).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_successor_has_acknowledged_commits_of_a_dead_process_within_the_lease(url: str) -> None:
    async with processes(url, 1, 2) as made:
        owner, other = owner_first(made)
        await acknowledged(owner.client(), 5)
        member = await stable_group(owner.client())
        owner.crash()
        died = trio.current_time()
        await until(lambda: len(other.node.groups.shards) == 50)
        assert trio.current_time() - died < LEASE_S + 2.0
        assert committed(other.client()) == 5
        assert other.client().ask(3, heartbeat(1, member)).error_code == ErrorCode.NONE
        assert other.client().ask(2, FindCoordinatorRequest(key="g")).node_id == other.node.id
        assert {b.broker_id for b in other.client().ask(0, DescribeClusterRequest()).brokers} == {other.node.id}


async def test_a_leaving_process_hands_over_at_once(url: str) -> None:
    async with processes(url, 1, 2, lease_s=6.0) as made:
        owner, other = owner_first(made)
        owner.leave()
        left = trio.current_time()
        await until(lambda: len(other.node.groups.shards) == 50)
        assert trio.current_time() - left < 4.0


async def test_a_process_that_slept_refuses_all_requests_until_its_leases_are_renewed(url: str) -> None:
    async with processes(url, 1, 2, lease_s=LONG_LEASE_S) as made:
        owner, _ = owner_first(made)
        await acknowledged(owner.client(), 5)
        sleeper, parked = owner.client(), owner.client()
        member = await stable_group(sleeper)
        parked.say(3, join())
        assert parked.heard == []
        owner.away = LONG_LEASE_S
        # No timer and no renewal in between could notice it.
        assert sleeper.ask(3, heartbeat(1, member)).error_code == ErrorCode.NOT_COORDINATOR
        assert [answer.error_code for answer in parked.heard] == [ErrorCode.NOT_COORDINATOR]
        assert committed(sleeper) == "error 16"
        assert error_of_commit(sleeper.ask(7, commit(6))) == ErrorCode.NOT_COORDINATOR
        assert sleeper.ask(2, FindCoordinatorRequest(key="g")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert owner.node.groups.shards == {}


async def test_requests_from_before_a_sleep_are_refused_after_it(url: str) -> None:
    async with processes(url, 1, 2, lease_s=LONG_LEASE_S) as made:
        owner, _ = owner_first(made)
        await acknowledged(owner.client(), 5)
        client = owner.client()
        write = owner.store.write

        def write_and_sleep(batch: Sequence[Entry]) -> None:
            write(batch)
            owner.away = LONG_LEASE_S

        owner.store.write = write_and_sleep
        client.say(7, commit(6))
        client.say(5, fetch())
        heard: list[Any] = []
        await until(lambda: len(heard.__iadd__(client.heard)) == 2)
        assert heard[1].error_code == ErrorCode.NOT_COORDINATOR


async def test_a_process_that_slept_goes_on_with_leases_that_are_still_free(url: str) -> None:
    async with processes(url, 1) as made:
        (alone,) = made
        await acknowledged(alone.client(), 5)
        alone.away = LEASE_S + 0.1
        assert committed(alone.client()) == "error 16"
        await until(lambda: len(alone.node.groups.shards) == 50)
        assert committed(alone.client()) == 5
        assert alone.store.epochs[PARTITION] == 1


async def test_a_partition_with_a_new_owner_is_fenced_and_given_up_alone(url: str) -> None:
    async with processes(url, 1, lease_s=600.0) as made:
        (alone,) = made
        thief = PostgresStore(url, 50, lease_s=600.0)
        thief.open()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE kafka_shim_leases SET expires = now() WHERE partition = %s", (PARTITION,))
        thief.claim(2, [PARTITION])
        client, neighbour = alone.client(), alone.client()
        client.say(7, commit(5))
        neighbour.say(7, commit(6, group="h"))
        await alone.cluster.durability.flushed()
        assert [error_of_commit(answer) for answer in client.heard] == [ErrorCode.NOT_COORDINATOR]
        assert [error_of_commit(answer) for answer in neighbour.heard] == [ErrorCode.NONE]
        assert committed(alone.client()) == "error 16"
        assert committed(alone.client(), group="h") == 6
        assert list(thief.load(PARTITION)) == []
        assert set(alone.node.groups.shards) == set(range(50)) - {PARTITION}
        thief.close()


async def test_a_read_that_waited_for_a_fenced_write_is_refused(url: str) -> None:
    async with processes(url, 1, lease_s=600.0) as made:
        (alone,) = made
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE kafka_shim_leases SET epoch = epoch + 1 WHERE partition = %s", (PARTITION,))
        writer, reader = alone.client(), alone.client()
        writer.say(7, commit(5))
        reader.say(5, fetch())
        await alone.cluster.durability.flushed()
        assert [answer.error_code for answer in reader.heard] == [ErrorCode.NOT_COORDINATOR]


async def test_a_lost_database_ends_the_leases_and_its_return_brings_them_back(url: str) -> None:
    # Shorter leases run out on a busy machine before the database is lost.
    async with processes(url, 1, lease_s=6.0) as made:
        (alone,) = made
        await acknowledged(alone.client(), 5)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("ALTER TABLE kafka_shim_leases RENAME TO kafka_shim_leases_hidden")
            await until(lambda: not alone.node.groups.shards)
            assert committed(alone.client()) == "error 16"
            admin.execute("ALTER TABLE kafka_shim_leases_hidden RENAME TO kafka_shim_leases")
        await until(lambda: len(alone.node.groups.shards) == 50)
        assert committed(alone.client()) == 5


async def test_an_id_in_use_is_refused_and_the_id_of_a_dead_process_is_free_after_its_lease(url: str) -> None:
    async with processes(url, 1) as made:
        rival = Process(url, 1, LEASE_S)
        with pytest.raises(ExceptionGroup) as refused:
            async with trio.open_nursery() as nursery:
                await nursery.start(rival.run)
        assert refused.group_contains(StoreError, match="--node-id")
        rival.store.close()
        made[0].crash()
        async with processes(url, 1) as again:
            assert len(again[0].node.groups.shards) == 50


def test_a_leaving_node_moves_only_its_own_leaders() -> None:
    places = [("t", partition) for partition in range(300)]
    before = {place: leader_of(*place, [1, 2, 3]) for place in places}
    after = {place: leader_of(*place, [1, 3]) for place in places}
    assert {before[place] for place in places if before[place] != after[place]} == {2}
    assert all(60 < list(before.values()).count(node) < 140 for node in (1, 2, 3))
