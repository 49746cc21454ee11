"""Partitions of `__consumer_offsets` that move, brokers that stop, are killed and come back: the answers to clients."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_shim.apis.describe_cluster import DescribeClusterRequest
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import Node as Address
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.records import OffsetCommitKey
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.persistence.store import Entry, FencedError, Store
from kafka_shim.server.cluster import Cluster, ClusterConfig
from kafka_shim.server.compose import make_cluster
from tests.server.conversation import Client, commit, committed, error_of_commit, fetch, heartbeat, join, sync

ADDRESSES = [Address(1, "127.0.0.1", 9001), Address(2, "127.0.0.1", 9002), Address(3, "127.0.0.1", 9003)]
PARTITION = partition_for("g", 50)
OWNER = 1 + PARTITION % 3
"""The broker that coordinates group "g" to begin with."""
OTHER = 1 + (PARTITION + 1) % 3
"""The broker whose turn is next."""
THIRD = 6 - OWNER - OTHER


@asynccontextmanager
async def cluster_of(
    brokers: int = 3, store: Store | None = None, load_seconds: float = 0.0, **settings: str
) -> AsyncIterator[Cluster]:
    """Start a cluster on trio's clock."""
    named = {"group.initial.rebalance.delay.ms": "0"} | {
        name.replace("_", "."): text for name, text in settings.items()
    }
    config = ClusterConfig(settings=named, topics={"t": 3}, clock=trio.current_time, load_seconds=load_seconds)
    cluster = make_cluster(ADDRESSES[:brokers], config, store)
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        await cluster.loaded.wait()
        yield cluster
        nursery.cancel_scope.cancel()


def client(cluster: Cluster, node_id: int) -> Client:
    return Client(cluster, cluster.nodes[node_id])


def coordinator(client: Client, group: str = "g") -> int | str:
    """Return the coordinator of a group at this client's node, or `error N`."""
    found = client.ask(2, FindCoordinatorRequest(key=group))
    return f"error {found.error_code}" if found.error_code else found.node_id


def stable_group(client: Client) -> str:
    """Make "g" a group of one member in generation 1; return the member's id."""
    joined = client.ask(3, join())
    client.ask(3, sync(1, joined.member_id, joined.member_id))
    member_id: str = joined.member_id
    return member_id


# Moving


async def test_a_moved_partition_keeps_its_groups_at_the_other_broker() -> None:
    async with cluster_of() as cluster:
        old, new = client(cluster, OWNER), client(cluster, OTHER)
        member = stable_group(old)
        assert error_of_commit(old.ask(7, commit(5, generation_id_or_member_epoch=1, member_id=member))) == 0
        assert coordinator(new) == OWNER
        cluster.move_partition(PARTITION, OTHER)
        await cluster.loader.idle.wait()
        assert coordinator(old) == coordinator(new) == OTHER
        assert committed(old) == "error 16"
        assert committed(new) == 5
        assert new.ask(3, heartbeat(1, member)).error_code == ErrorCode.NONE
        assert old.ask(3, heartbeat(1, member)).error_code == ErrorCode.NOT_COORDINATOR


async def test_the_leader_of_a_moved_offsets_partition_is_its_coordinator() -> None:
    async with cluster_of() as cluster:
        member = client(cluster, THIRD)
        coordinator(member)
        cluster.move_partition(PARTITION, OTHER)
        (topic,) = member.ask(9, MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")])).topics
        leaders = {each.partition_index: each.leader_id for each in topic.partitions}
        assert leaders[PARTITION] == OTHER
        assert leaders[PARTITION + 3] == OWNER


async def test_parked_joins_and_syncs_are_answered_16_when_their_partition_moves() -> None:
    async with cluster_of() as cluster:
        leader, follower, third = (client(cluster, OWNER) for _ in range(3))
        first = leader.ask(3, join()).member_id
        leader.ask(3, sync(1, first, first))
        follower.say(3, join())
        leader.say(3, join(member_id=first))
        (second,) = follower.heard
        leader.heard.clear()
        follower.say(3, sync(2, second.member_id))
        assert follower.heard == []
        cluster.move_partition(PARTITION, OTHER)
        (answer,) = follower.heard
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        cluster.move_partition(PARTITION, OWNER)
        await cluster.loader.idle.wait()
        third.say(3, join())
        assert third.heard == []
        cluster.move_partition(PARTITION, OTHER)
        (answer,) = third.heard
        assert answer.error_code == ErrorCode.NOT_COORDINATOR


async def test_a_loading_partition_answers_14_and_heartbeats_0(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of() as cluster:
        old, new = client(cluster, OWNER), client(cluster, OTHER)
        member = stable_group(old)
        cluster.loader.seconds = 4.0
        cluster.move_partition(PARTITION, OTHER)
        moved = trio.current_time()
        await trio.sleep(3.9)
        assert coordinator(new) == OTHER
        assert committed(new) == "error 14"
        assert error_of_commit(new.ask(7, commit(5))) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert new.ask(3, join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert new.ask(3, sync(1, member)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert new.ask(3, heartbeat(1, member)).error_code == ErrorCode.NONE
        await cluster.loader.idle.wait()
        assert trio.current_time() - moved == pytest.approx(4.0, abs=0.01)
        assert new.ask(3, heartbeat(7, member)).error_code == ErrorCode.ILLEGAL_GENERATION


async def test_a_partition_that_moves_on_while_it_loads_is_loaded_once_where_it_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(load_seconds=4.0) as cluster:
        cluster.move_partition(PARTITION, OTHER)
        await trio.sleep(2)
        cluster.move_partition(PARTITION, THIRD)
        await trio.sleep(3)
        assert committed(client(cluster, OTHER)) == "error 16"
        assert committed(client(cluster, THIRD)) == "error 14"
        await cluster.loader.idle.wait()
        assert committed(client(cluster, THIRD)) == -1
        assert PARTITION not in cluster.nodes[OTHER].groups.partitions()


async def test_the_end_of_loading_is_signalled_though_more_partitions_came_in_between(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(load_seconds=4.0) as cluster:
        cluster.move_partition(PARTITION, OTHER)
        idle = cluster.loader.idle
        await trio.sleep(2)
        cluster.move_partition(PARTITION + 1, OTHER)
        with trio.fail_after(4.1):
            await idle.wait()


# Brokers


async def test_a_stopped_broker_answers_parked_requests_and_then_closes() -> None:
    async with cluster_of() as cluster:
        parked, other = client(cluster, OWNER), client(cluster, OTHER)
        stable_group(parked)
        waiting = client(cluster, OWNER)
        waiting.say(3, join())
        down: list[int] = []
        cluster.on_broker_down.append(lambda node: down.append(node.id))
        cluster.stop_broker(OWNER)
        (answer,) = waiting.heard
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        assert waiting.closed
        assert parked.closed
        assert not other.closed
        assert down == [OWNER]
        await cluster.loader.idle.wait()
        assert coordinator(other) == OTHER
        assert {broker.broker_id for broker in other.ask(0, DescribeClusterRequest()).brokers} == {OTHER, THIRD}


async def test_a_killed_broker_answers_nothing() -> None:
    async with cluster_of() as cluster:
        stable_group(client(cluster, OWNER))
        waiting = client(cluster, OWNER)
        waiting.say(3, join())
        cluster.kill_broker(OWNER)
        assert waiting.closed
        assert waiting.heard == []


async def test_a_successor_has_the_acknowledged_commits_of_a_killed_broker() -> None:
    async with cluster_of() as cluster:
        owner = client(cluster, OWNER)
        member = stable_group(owner)
        owner.ask(7, commit(5, generation_id_or_member_epoch=1, member_id=member))
        cluster.kill_broker(OWNER)
        await cluster.loader.idle.wait()
        successor = client(cluster, OTHER)
        assert coordinator(successor) == OTHER
        assert committed(successor) == 5
        assert successor.ask(3, heartbeat(1, member)).error_code == ErrorCode.NONE


async def test_a_consumer_group_does_not_rebalance_when_the_server_starts_again_on_its_store(tmp_path: Path) -> None:
    """Its members know the declared topics by ids, which are the same at each start."""
    epoch = 0
    joins: dict[str, Any] = {
        "rebalance_timeout_ms": 9_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    for fields in (joins, {}):
        store = SqliteStore(tmp_path / "offsets.db", 50)
        store.open()
        async with cluster_of(1, store) as cluster:
            member = client(cluster, 1)
            member.say(1, ConsumerGroupHeartbeatRequest("g", "m", epoch, **fields))
            cluster.settle(cluster.clock())
            await cluster.durability.flushed()
            (answer,) = member.heard
            assert (answer.error_code, answer.member_epoch) == (0, 2)
            epoch = 2
        store.close()


async def test_the_new_id_of_a_static_member_outlives_the_coordinator_that_gave_it() -> None:
    """KAFKA-10284."""
    async with cluster_of() as cluster:
        owner = client(cluster, OWNER)
        first = owner.ask(5, join(group_instance_id="i"))
        owner.ask(3, sync(1, first.member_id, first.member_id, group_instance_id="i"))
        again = client(cluster, OWNER).ask(5, join(group_instance_id="i"))
        assert again.member_id != first.member_id
        cluster.kill_broker(OWNER)
        await cluster.loader.idle.wait()
        successor = client(cluster, OTHER)
        beat = heartbeat(again.generation_id, again.member_id, group_instance_id="i")
        assert successor.ask(3, beat).error_code == ErrorCode.NONE
        beat = heartbeat(again.generation_id, first.member_id, group_instance_id="i")
        assert successor.ask(3, beat).error_code == ErrorCode.FENCED_INSTANCE_ID


async def test_a_restarted_broker_gets_its_first_partitions_back() -> None:
    async with cluster_of() as cluster:
        before = dict(cluster.ownership.owners)
        up: list[int] = []
        cluster.on_broker_up.append(lambda node: up.append(node.id))
        cluster.kill_broker(OWNER)
        assert OWNER not in cluster.ownership.owners.values()
        cluster.restart_broker(OWNER)
        await cluster.loader.idle.wait()
        assert cluster.ownership.owners == before
        assert up == [OWNER]
        assert coordinator(client(cluster, OTHER)) == OWNER
        assert committed(client(cluster, OWNER)) == -1


async def test_no_broker_owns_a_partition_until_the_first_returns() -> None:
    async with cluster_of(brokers=2) as cluster:
        cluster.kill_broker(1)
        cluster.kill_broker(2)
        assert cluster.ownership.owners == {}
        assert cluster.ownership.locate("g", 0)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        cluster.restart_broker(2)
        await cluster.loader.idle.wait()
        assert set(cluster.ownership.owners.values()) == {2}
        assert committed(client(cluster, 2)) == -1


async def test_the_topics_of_a_stopped_broker_are_led_by_others() -> None:
    async with cluster_of() as cluster:
        member = client(cluster, OTHER)
        cluster.stop_broker(OWNER)
        (topic,) = member.ask(9, MetadataRequest(topics=[MetadataRequestTopic(name="t")])).topics
        assert all(each.leader_id in (OTHER, THIRD) for each in topic.partitions)
        assert all(each.error_code == ErrorCode.NONE for each in topic.partitions)


async def test_impossible_operations_are_refused_in_one_sentence() -> None:
    async with cluster_of() as cluster:
        with pytest.raises(ValueError, match=r"There is no broker 7\."):
            cluster.stop_broker(7)
        with pytest.raises(ValueError, match=r"Broker 1 is running\."):
            cluster.restart_broker(1)
        cluster.kill_broker(1)
        with pytest.raises(ValueError, match=r"Broker 1 is not running\."):
            cluster.move_partition(0, 1)
        with pytest.raises(ValueError, match=r"__consumer_offsets has no partition 50\."):
            cluster.move_partition(50, 2)


# Batches


class SlowStore(MemoryStore):
    """A store that writes on permission; `refuse` are partitions that belong to another process."""

    durable_at_once = False

    def __init__(self) -> None:
        super().__init__()
        self.writing = threading.Event()
        self.let = threading.Event()
        self.refuse: set[int] = set()

    def write(self, batch: Sequence[Entry]) -> None:
        self.writing.set()
        assert self.let.wait(10)
        if fenced := {partition for partition, _, _ in batch} & self.refuse:
            raise FencedError(fenced)
        super().write(batch)


def stored(store: MemoryStore, group: str) -> Any:
    found = dict(store.load(partition_for(group, 50))).get(OffsetCommitKey(group, "t", 0))
    return None if found is None else found.offset


def another_group(same_node: bool) -> str:
    """Return a group of another partition, on the node of "g" or on another one."""
    return next(
        name
        for name in (f"g{number}" for number in range(1000))
        if (partition_for(name, 50) % 3 == PARTITION % 3) is same_node and partition_for(name, 50) != PARTITION
    )


async def test_only_requests_of_a_moved_partition_that_wait_for_the_store_get_16() -> None:
    store = SlowStore()
    store.let.set()
    async with cluster_of(store=store) as cluster:
        store.let.clear()
        neighbour = another_group(same_node=True)
        under_way, pending, other = (client(cluster, OWNER) for _ in range(3))
        under_way.say(7, commit(1))
        await trio.to_thread.run_sync(store.writing.wait)
        pending.say(7, commit(2))
        other.say(7, commit(3, group=neighbour))
        cluster.move_partition(PARTITION, OTHER)
        assert [error_of_commit(answer) for answer in under_way.heard] == [ErrorCode.NOT_COORDINATOR]
        assert [error_of_commit(answer) for answer in pending.heard] == [ErrorCode.NOT_COORDINATOR]
        assert other.heard == []
        store.let.set()
        await cluster.loader.idle.wait()
        await cluster.durability.flushed()
        assert [error_of_commit(answer) for answer in other.heard] == [ErrorCode.NONE]
        # Records on their way to the store may be there after the move; later ones are not.
        assert committed(client(cluster, OTHER)) == stored(store, "g") == 1
        assert stored(store, neighbour) == 3


async def test_list_groups_during_a_move_shows_the_remaining_groups() -> None:
    store = SlowStore()
    store.let.set()
    async with cluster_of(store=store) as cluster:
        store.let.clear()
        neighbour = another_group(same_node=True)
        for group in ("g", neighbour):
            client(cluster, OWNER).say(7, commit(1, group=group))
        lister = client(cluster, OWNER)
        lister.say(5, ListGroupsRequest())
        await trio.to_thread.run_sync(store.writing.wait)
        assert lister.heard == []
        cluster.move_partition(PARTITION, OTHER)
        store.let.set()
        await cluster.loader.idle.wait()
        await cluster.durability.flushed()
        (answer,) = lister.heard
        assert answer.error_code == ErrorCode.NONE
        assert [group.group_id for group in answer.groups] == [neighbour]


async def test_a_fenced_partition_is_given_up_and_the_rest_of_its_batch_is_written() -> None:
    store = SlowStore()
    store.let.set()
    async with cluster_of(store=store) as cluster:
        store.let.clear()
        neighbour = another_group(same_node=True)
        first, fenced, kept, reader = (client(cluster, OWNER) for _ in range(4))
        first.say(7, commit(0, group=neighbour))
        await trio.to_thread.run_sync(store.writing.wait)
        fenced.say(7, commit(1))
        kept.say(7, commit(2, group=neighbour))
        reader.say(5, fetch())
        store.refuse = {PARTITION}
        store.let.set()
        await cluster.durability.flushed()
        assert [error_of_commit(answer) for answer in fenced.heard] == [ErrorCode.NOT_COORDINATOR]
        assert [answer.error_code for answer in reader.heard] == [ErrorCode.NOT_COORDINATOR]
        assert [error_of_commit(answer) for answer in kept.heard] == [ErrorCode.NONE]
        assert stored(store, "g") is None
        assert stored(store, neighbour) == 2
        assert committed(client(cluster, OWNER)) == "error 16"
        assert committed(client(cluster, OWNER), group=neighbour) == 2
        assert cluster.durability.failures == 0


# Life of offsets (semantics 3.4), with time as a number

MINUTE = 60.0


async def test_offsets_of_a_group_without_members_expire_and_the_group_with_them(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    settings = {"offsets_retention_minutes": "10", "offsets_retention_check_interval_ms": "60000"}
    async with cluster_of(store=store, **settings) as cluster:
        owner = client(cluster, OWNER)
        owner.ask(7, commit(5))
        await trio.sleep(9.5 * MINUTE)
        assert committed(owner) == 5
        await trio.sleep(1.6 * MINUTE)
        assert committed(owner) == -1
        assert list(store.load(PARTITION)) == []


async def test_an_explicit_retention_of_old_versions_counts_from_the_commit(
    autojump_clock: trio.testing.MockClock,
) -> None:
    settings = {"offsets_retention_minutes": "1000", "offsets_retention_check_interval_ms": "1000"}
    async with cluster_of(**settings) as cluster:
        owner = client(cluster, OWNER)
        owner.ask(4, commit(5, retention_time_ms=20_000))
        await trio.sleep(19)
        assert committed(owner) == 5
        await trio.sleep(2.5)
        assert committed(owner) == -1


async def test_offsets_expire_after_their_partition_moved(autojump_clock: trio.testing.MockClock) -> None:
    settings = {"offsets_retention_minutes": "10", "offsets_retention_check_interval_ms": "60000"}
    async with cluster_of(**settings) as cluster:
        client(cluster, OWNER).ask(7, commit(5))
        await trio.sleep(5 * MINUTE)
        cluster.move_partition(PARTITION, OTHER)
        await trio.sleep(4.5 * MINUTE)
        new = client(cluster, OTHER)
        assert committed(new) == 5
        await trio.sleep(1.6 * MINUTE)
        assert committed(new) == -1


async def test_offsets_of_a_live_subscribed_member_never_expire(
    autojump_clock: trio.testing.MockClock,
) -> None:
    settings = {"offsets_retention_minutes": "10", "offsets_retention_check_interval_ms": "60000"}
    async with cluster_of(**settings) as cluster:
        owner = client(cluster, OWNER)
        member = stable_group(owner)
        owner.ask(7, commit(5, generation_id_or_member_epoch=1, member_id=member))
        for _ in range(60):
            await trio.sleep(20)
            assert owner.ask(3, heartbeat(1, member)).error_code == ErrorCode.NONE
        assert committed(owner) == 5
        # Then the member falls silent: its session ends, and the group's time as an empty one begins.
        await trio.sleep(9 * MINUTE)
        assert committed(owner) == 5
        await trio.sleep(3 * MINUTE)
        assert committed(owner) == -1


async def test_deleting_a_topic_deletes_its_offsets_on_every_broker() -> None:
    store = MemoryStore()
    async with cluster_of(store=store) as cluster:
        member = client(cluster, THIRD)
        member.ask(7, CreateTopicsRequest(topics=[CreatableTopic("gone", 1, 1)]))
        owners = [client(cluster, node_id) for node_id in (OWNER, OTHER)]
        groups = ["g", another_group(same_node=False)]
        owners[1] = client(cluster, cluster.ownership.owner_of(groups[1]).id)
        for owner, group in zip(owners, groups, strict=True):
            owner.ask(7, commit(5, group=group, topic="gone"))
            owner.ask(7, commit(6, group=group))
        states = [DeleteTopicState(name="gone")]
        deleted = member.ask(6, DeleteTopicsRequest(topics=states)).responses
        assert [each.error_code for each in deleted] == [ErrorCode.NONE]
        for owner, group in zip(owners, groups, strict=True):
            assert committed(owner, group, "gone") == -1
            assert committed(owner, group) == 6
            assert {key.topic for key, _ in store.load(partition_for(group, 50))} == {"t"}
