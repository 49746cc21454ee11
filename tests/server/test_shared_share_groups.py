"""Share groups that span processes: one database, three processes, a partition or two of a topic at each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kafka_shim.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    RequestPartition,
    RequestTopic,
)
from kafka_shim.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from kafka_shim.apis.delete_share_group_offsets import RequestTopic as DeletedTopic
from kafka_shim.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestGroup,
)
from kafka_shim.apis.describe_share_group_offsets import RequestTopic as OffsetsTopic
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.batch import Record, write_batch
from tests import postgres
from tests.server.shared import Process, processes
from tests.server.wire import Client
from tests.waiting import until

pytestmark = [
    pytest.mark.second_stage("several servers on PostgreSQL"),
    pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed"),
]

PARTITIONS = range(6)
RECORDS = 5
NODES = (1, 2, 3)
NOTHING = dict.fromkeys(PARTITIONS, (-1, -1))


class Cluster:
    """Three processes and a connection to each, with records in every partition of the topic `t`."""

    def __init__(self, started: list[Process], stack: ExitStack) -> None:
        self.processes = started
        self.clients = {each.node_id: stack.enter_context(Client(each.bootstrap)) for each in started}
        self.topic_id = bytes(16)
        self.leaders: dict[int, int] = {}
        until(self._all_agree)
        for partition, leader in self.leaders.items():
            data = write_batch([Record(number, 0, None, b"x") for number in range(RECORDS)])
            request = ProduceRequest(
                None, -1, 1000, [TopicProduceData("t", b"", [PartitionProduceData(partition, data)])]
            )
            answer = self.clients[leader].ask(request, 9, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == 0

    def _all_agree(self) -> bool:
        request = MetadataRequest([MetadataRequestTopic(name="t")])
        answers = [client.ask(request, 12, MetadataResponse).topics[0] for client in self.clients.values()]
        self.topic_id = answers[0].topic_id
        self.leaders = {each.partition_index: each.leader_id for each in answers[0].partitions}
        return set(self.leaders.values()) == set(NODES) and all(each == answers[0] for each in answers)

    def coordinator(self, group: str) -> Client:
        """Return the connection to the process that has loaded the group."""
        return self.clients[until(lambda: self._coordinator_of(group))]

    def _coordinator_of(self, group: str) -> int:
        found = self.clients[1].ask(FindCoordinatorRequest(group, 0), 2, FindCoordinatorResponse)
        request = DescribeShareGroupOffsetsRequest([RequestGroup(group, [])])
        if found.error_code:
            return 0
        answer = self.clients[found.node_id].ask(request, 1, DescribeShareGroupOffsetsResponse)
        return 0 if answer.groups[0].error_code else int(found.node_id)

    def alter(self, group: str, start_offset: int = 0) -> dict[int, int]:
        """Alter the start offsets in all partitions; return the errors."""
        topic = RequestTopic("t", [RequestPartition(partition, start_offset) for partition in PARTITIONS])
        request = AlterShareGroupOffsetsRequest(group, [topic])
        answer = self.coordinator(group).ask(request, 0, AlterShareGroupOffsetsResponse)
        return {each.partition_index: each.error_code for each in answer.responses[0].partitions}

    def progress(self, group: str) -> dict[int, tuple[int, int]]:
        """Return the start offset and the lag of each partition."""
        request = DescribeShareGroupOffsetsRequest([RequestGroup(group, [OffsetsTopic("t", [*PARTITIONS])])])
        answer = self.coordinator(group).ask(request, 1, DescribeShareGroupOffsetsResponse)
        return {each.partition_index: (each.start_offset, each.lag) for each in answer.groups[0].topics[0].partitions}

    def take(self, group: str, count: int) -> dict[int, list[tuple[int, int]]]:
        """Acquire the records of every partition at its leader, and accept the first `count` of each."""
        acquired = {}
        for partition, leader in self.leaders.items():
            member = f"m-{partition}"
            fetch = ShareFetchRequest(
                group, member, 0, 0, 1, max_records=100, batch_size=100,
                topics=[FetchTopic(self.topic_id, [FetchPartition(partition)])],
            )  # fmt: skip
            (topic,) = self.clients[leader].ask(fetch, 1, ShareFetchResponse).responses
            acquired[partition] = [
                (each.first_offset, each.last_offset) for each in topic.partitions[0].acquired_records
            ]
            accepted = [AcknowledgementBatch(0, count - 1, [1])] if count else []
            fetch.share_session_epoch = -1
            fetch.topics = [FetchTopic(self.topic_id, [FetchPartition(partition, accepted)])] if count else []
            self.clients[leader].ask(fetch, 1, ShareFetchResponse)
        return acquired


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres.postgres_server() as url:
        yield url


@pytest.fixture(scope="module")
def cluster(url: str) -> Iterator[Cluster]:
    # A dead process stays the leader of its partitions for the time of the tests.
    with processes(url, "--lease", "120", "--topic", "t:6", nodes=NODES) as started, ExitStack() as stack:
        yield Cluster(started, stack)


def test_altered_offsets_create_a_group_that_acquires_records_of_all_processes(cluster: Cluster) -> None:
    assert cluster.alter("altered") == dict.fromkeys(PARTITIONS, 0)
    assert cluster.take("altered", 0) == {partition: [(0, RECORDS - 1)] for partition in PARTITIONS}


def test_the_lag_is_known_for_partitions_of_all_processes(cluster: Cluster) -> None:
    assert cluster.progress("lagging") == NOTHING
    cluster.alter("lagging", 1)
    assert cluster.progress("lagging") == dict.fromkeys(PARTITIONS, (1, RECORDS - 1))
    cluster.alter("lagging")
    cluster.take("lagging", 2)
    assert cluster.progress("lagging") == dict.fromkeys(PARTITIONS, (2, RECORDS - 2))


def test_deleted_offsets_are_deleted_in_all_processes(cluster: Cluster) -> None:
    cluster.alter("deleted", 3)
    request = DeleteShareGroupOffsetsRequest("deleted", [DeletedTopic("t")])
    answer = cluster.coordinator("deleted").ask(request, 0, DeleteShareGroupOffsetsResponse)
    assert [each.error_code for each in answer.responses] == [0]
    assert cluster.progress("deleted") == NOTHING


def test_a_deleted_group_has_no_state_in_any_process(cluster: Cluster) -> None:
    cluster.alter("gone", 3)
    answer = cluster.coordinator("gone").ask(DeleteGroupsRequest(["gone"]), 2, DeleteGroupsResponse)
    assert answer.results[0].error_code == 0
    assert cluster.progress("gone") == NOTHING


def test_a_leader_that_does_not_answer_is_an_error_of_its_partitions(cluster: Cluster) -> None:
    coordinator = cluster.coordinator("refused")
    victim = next(each for each in cluster.processes if cluster.clients[each.node_id] is not coordinator)
    victim.kill()
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    errors = {each: unavailable if leader == victim.node_id else 0 for each, leader in cluster.leaders.items()}
    topic = RequestTopic("t", [RequestPartition(partition, 0) for partition in PARTITIONS])
    answer = coordinator.ask(AlterShareGroupOffsetsRequest("refused", [topic]), 0, AlterShareGroupOffsetsResponse)
    assert {each.partition_index: each.error_code for each in answer.responses[0].partitions} == errors
    deletion = DeleteShareGroupOffsetsRequest("refused", [DeletedTopic("t")])
    deleted = coordinator.ask(deletion, 0, DeleteShareGroupOffsetsResponse)
    assert deleted.responses[0].error_code == unavailable
