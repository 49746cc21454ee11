"""An exception in a loop that processes on one database run costs one turn, one change or one answer."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from kafka_shim.apis.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.store import Entry
from kafka_shim.server import catalogue
from tests import postgres
from tests.server.conversation import commit
from tests.server.test_failures import Mistake, mistaken, once
from tests.server.test_leases import LEASE_S, Process, acknowledged, answer, processes
from tests.waiting import until_in_trio as until

pytestmark = [
    pytest.mark.second_stage("several servers on PostgreSQL"),
    pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed"),
]

Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres.postgres_server() as url:
        yield url


@pytest.fixture
def url(server: str) -> str:
    postgres.empty(server)
    return server


def creation(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


async def created(process: Process, name: str) -> int:
    """Ask a process to create a topic; return the error code."""
    response = await answer(process.client(), 7, creation(name))
    code: int = response.topics[0].error_code
    return code


@asynccontextmanager
async def joined(url: str, lease_s: float = LEASE_S) -> AsyncIterator[Process]:
    """Start process 2 beside another, and stop it."""
    second = Process(url, 2, lease_s)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(nursery.start, second.run)
            yield second
            nursery.cancel_scope.cancel()
    finally:
        second.store.close()


@pytest.mark.parametrize("step", ["renew", "see", "wait"])
async def test_turn_of_leases_that_raises_is_counted_and_the_next_renews(
    url: str, monkeypatch: Patch, step: str
) -> None:
    # A busy machine may stop the process for longer than the usual lease of these tests.
    async with processes(url, 1, lease_s=6.0) as made:
        (alone,) = made
        owner = alone.cluster.ownership if step == "see" else alone.store
        monkeypatch.setattr(owner, step, once(getattr(owner, step)))
        await until(lambda: alone.cluster.failures.by_border == {"leases": 1})
        shared = alone.cluster.shared
        assert shared is not None
        lapses_at = shared.leases.lapses_at
        await until(lambda: lapses_at < shared.leases.lapses_at < float("inf"))
        await acknowledged(alone.client(), 5)
        assert alone.cluster.failures.by_border == {"leases": 1}


async def test_look_for_ended_transactions_that_raises_stops_no_move_of_partitions(
    url: str, monkeypatch: Patch
) -> None:
    async with processes(url, 1, lease_s=6.0) as made:
        (alone,) = made
        assert alone.cluster.shared is not None
        monkeypatch.setattr(alone.cluster.shared.leases, "on_renewed", mistaken)
        async with joined(url, 6.0) as second:
            await until(lambda: len(second.node.groups.shards) == 25)
        assert alone.cluster.failures.by_border.keys() == {"leases"}


async def test_leases_whose_end_raises_leave_the_process_without_partitions(url: str, monkeypatch: Patch) -> None:
    async with processes(url, 1) as made:
        (alone,) = made
        cluster = alone.cluster
        assert cluster.shared is not None
        assert cluster.ownership.own_partitions()
        monkeypatch.setattr(cluster.durability, "abandon", once(cluster.durability.abandon))
        cluster.ticks.fire(cluster.shared.leases.lapses_at)
        assert cluster.ownership.own_partitions() == set()
        assert cluster.failures.by_border == {"leases": 1}
        await until(lambda: set(cluster.nodes[1].groups.partitions().values()) == {"active"})
        await acknowledged(alone.client(), 5)


async def test_changes_that_cannot_be_applied_are_read_again(url: str, monkeypatch: Patch) -> None:
    async with processes(url, 1, 2) as made:
        one, other = made
        real: Callable[..., None] = catalogue.apply
        calls: list[int] = []

        def apply(documents: Any, topics: Any, *rest: Any) -> None:
            if topics is other.cluster.topics and not calls:
                calls.append(1)
                raise Mistake
            real(documents, topics, *rest)

        monkeypatch.setattr(catalogue, "apply", apply)
        assert await created(one, "new") == ErrorCode.NONE
        await until(lambda: other.cluster.topics.named("new"))
        assert other.cluster.failures.by_border == {"catalogue": 1}
        assert one.cluster.failures.by_border == {}


async def test_change_that_raises_is_answered_and_the_next_is_made(url: str, monkeypatch: Patch) -> None:
    async with processes(url, 1) as made:
        (alone,) = made
        monkeypatch.setattr(catalogue, "describe", once(catalogue.describe))
        assert await created(alone, "first") == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await created(alone, "second") == ErrorCode.NONE
        assert alone.cluster.failures.by_border == {"catalogue": 1}


async def test_creation_on_demand_that_raises_is_made_at_the_next_request(url: str, monkeypatch: Patch) -> None:
    async with processes(url, 1) as made:
        (alone,) = made
        monkeypatch.setattr(catalogue, "describe", once(catalogue.describe))
        request = MetadataRequest([MetadataRequestTopic(name="wanted")])

        def is_created() -> bool:
            alone.client().say(9, request)
            return alone.cluster.topics.named("wanted") is not None

        await until(is_created)
        assert alone.cluster.failures.by_border == {"catalogue": 1}


async def test_an_exception_in_unloading_keeps_no_partition(url: str, monkeypatch: Patch) -> None:
    async with processes(url, 1) as made:
        groups = made[0].node.groups
        monkeypatch.setattr(groups, "unload", once(groups.unload))
        async with joined(url) as second:
            await until(lambda: len(second.node.groups.shards) == 25)
        assert made[0].cluster.failures.by_border == {"partition": 1}


async def test_leases_are_released_after_the_write_under_way(url: str, caplog: pytest.LogCaptureFixture) -> None:
    # A lease that cannot end within the test, even when the machine stands still for seconds.
    async with processes(url, 1, lease_s=30.0) as made:
        (first,) = made
        store = first.store
        write, release = store.write, store.release
        begun, may_end = threading.Event(), threading.Event()
        steps: list[str] = []

        def slow_write(batch: Sequence[Entry]) -> None:
            begun.set()
            may_end.wait()
            write(batch)
            steps.append("written")

        def noted_release(partitions: Sequence[int]) -> None:
            steps.append("released")
            release(partitions)

        store.write, store.release = slow_write, noted_release  # type: ignore[method-assign]
        # A group in every partition, so that some of them move.
        for number in range(200):
            first.client().say(7, commit(5, group=f"g-{number}"))
        await until(begun.is_set)
        try:
            async with joined(url, lease_s=30.0) as second:
                await until(lambda: len(first.cluster.ownership.own_partitions()) == 25)
                await trio.testing.wait_all_tasks_blocked()
                assert steps == []
                may_end.set()
                await until(lambda: len(second.node.groups.shards) == 25)
        finally:
            may_end.set()
        assert steps[:2] == ["written", "released"]
        # On a busy machine a renewal may come late; then the leases run out, as they must.
        errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert [error for error in errors if "the leases have run out" not in error] == []


async def topics_of(process: Process, *names: str) -> list[tuple[int, int]]:
    """Ask a process for topics; return the error and the number of partitions of each."""
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
    response = await answer(process.client(), 9, request)
    return [(each.error_code, len(each.partitions)) for each in response.topics]


@asynccontextmanager
async def deafened(process: Process, monkeypatch: Patch) -> AsyncIterator[None]:
    """Keep the process from hearing of changes that others write into the database."""
    is_deaf, may_end = threading.Event(), threading.Event()

    def wait(seconds: float) -> None:
        is_deaf.set()
        may_end.wait()

    monkeypatch.setattr(process.store, "wait", wait)
    try:
        await until(is_deaf.is_set)
        yield
    finally:
        may_end.set()


@pytest.mark.parametrize("others", [0, 40], ids=["whole", "in parts"])
async def test_metadata_shows_a_change_that_its_process_has_not_heard_of(
    url: str, monkeypatch: Patch, others: int
) -> None:
    async with processes(url, 1, 2) as made:
        one, deaf = made
        async with deafened(deaf, monkeypatch):
            assert await created(one, "new") == ErrorCode.NONE
            names = ["new", *(f"absent-{number}" for number in range(others))]
            expected = [(ErrorCode.NONE, 1)] + [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)] * others
            assert await topics_of(deaf, *names) == expected
        (served,) = [each for each in deaf.node.table.endpoints.values() if each.api.name == "Metadata"]
        assert served.calls == 1


async def test_share_state_is_set_in_a_partition_that_its_process_has_not_heard_of(
    url: str, monkeypatch: Patch
) -> None:
    async with processes(url, 1, 2) as made:
        one, deaf = made
        async with deafened(deaf, monkeypatch):
            new = CreatableTopic("new", -1, -1, [CreatableReplicaAssignment(0, [2])])
            response = await answer(one.client(), 7, CreateTopicsRequest(topics=[new]))
            (topic,) = response.topics
            assert topic.error_code == ErrorCode.NONE
            state = InitializeStateData(topic.topic_id, [PartitionData(0, state_epoch=1, start_offset=0)])
            response = await answer(deaf.client(), 0, InitializeShareGroupStateRequest("group", [state]))
            assert [each.error_code for each in response.results[0].partitions] == [ErrorCode.NONE]


async def test_metadata_is_answered_when_the_look_for_changes_fails(url: str, monkeypatch: Patch) -> None:
    async with processes(url, 1) as made:
        (alone,) = made
        assert await created(alone, "known") == ErrorCode.NONE
        with monkeypatch.context() as patch:
            patch.setattr(alone.store, "documents_version", mistaken)
            assert await topics_of(alone, "known") == [(ErrorCode.NONE, 1)]
        assert alone.cluster.failures.by_border == {"catalogue": 1}


async def test_metadata_is_answered_when_the_look_for_changes_hangs(url: str, monkeypatch: Patch) -> None:
    async with processes(url, 1) as made:
        (alone,) = made
        assert await created(alone, "known") == ErrorCode.NONE
        may_end = threading.Event()
        looks: list[int] = []

        def hanging() -> int:
            looks.append(1)
            may_end.wait()
            return 0

        monkeypatch.setattr(alone.store, "documents_version", hanging)
        try:
            for _ in range(2):
                assert await topics_of(alone, "known") == [(ErrorCode.NONE, 1)]
            assert looks == [1]
        finally:
            may_end.set()
