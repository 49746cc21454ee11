"""A consumer group (KIP-848) moves between a real Kafka and us by its records, in the midst of a reconciliation.

Its members, which are moved by hand, do not notice: the epochs, the assignments and the metadata hash stay.
"""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.groups.consumer.topic_hash import group_hash, topic_hash
from kafka_shim.persistence.interchange import export_offsets, import_offsets
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.records import ConsumerGroupMetadataKey
from tests.groups.consumer.context import Cluster, Consumer
from tests.groups.context import GROUP

from .real_kafka import PARTITIONS, RealKafka

TOPICS = {"orders": 3, "payments": 300}
COMING = {E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}


def ask(bootstrap: str, request: Any, client_id: str = "test") -> Any:
    """One request over the wire, again while the coordinator is not there yet."""
    api, version = APIS[request.api_key], APIS[request.api_key].request.versions[-1]
    host, port = bootstrap.split(":")
    limit = time.monotonic() + 60
    while True:
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            data = encode_request_header(api.key, version, 1, client_id) + request.encode(version)
            connection.sendall(len(data).to_bytes(4) + data)
            stream = connection.makefile("rb")
            answer = stream.read(int.from_bytes(stream.read(4)))
        response = api.response.decode(answer[decode_response_header(answer, api.key, version)[1] :], version)
        (each,) = getattr(response, "groups", None) or getattr(response, "coordinators", None) or (response,)
        if each.error_code not in COMING or time.monotonic() > limit:
            return response
        time.sleep(0.2)


class RealCluster(Cluster):
    """The same as `Cluster`, but its members speak to a real Kafka."""

    bootstrap = ""

    def beat(self, request: ConsumerGroupHeartbeatRequest, client_id: str = "c") -> ConsumerGroupHeartbeatResponse:
        answer: ConsumerGroupHeartbeatResponse = ask(self.bootstrap, request, client_id)
        return answer

    def described(self) -> DescribedGroup:
        (group,) = ask(self.bootstrap, ConsumerGroupDescribeRequest([GROUP])).groups
        return group


def make_topics(bootstrap: str, cluster: Cluster) -> None:
    """The topics in Kafka, and what our coordinator knows of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
        future.result(30)
    # The first search for a coordinator makes the offsets topic; its id is in each folder's partition.metadata.
    ask(bootstrap, FindCoordinatorRequest(coordinator_keys=[GROUP]))
    for name, future in admin.describe_topics(TopicCollection(list(TOPICS))).items():
        topic_id = future.result(30).topic_id
        halves = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
        cluster.topics.by_name[name] = b"".join((half % 2**64).to_bytes(8) for half in halves), TOPICS[name]


def in_the_midst(cluster: Cluster) -> list[Consumer]:
    """Three members, one of them static, one subscribed by pattern; the first is to give partitions up."""
    first = cluster.consumer("first", *TOPICS)
    assert first.join().error_code == 0
    first.obey()
    static = cluster.consumer("static", *TOPICS, instance_id="instance")
    assert static.join().error_code == 0
    pattern = cluster.consumer("pattern", regex="ord.*")
    assert pattern.join(subscribed_topic_names=None).error_code == 0
    assert first.full().error_code == 0
    return [first, static, pattern]


def go_on(cluster: Cluster, members: list[Consumer]) -> None:
    """The members go on with another coordinator until they share everything."""
    for each in members:
        each.cluster = cluster
    for _ in range(30):
        for each in members:
            answer = each.obey()
            assert answer.error_code == 0, (each.member_id, answer)
        if cluster.described().group_state == "Stable":
            break
    owned = [each for member in members for each in member.owned]
    assert len(owned) == len(set(owned))
    assert set(owned) == {(name, number) for name, count in TOPICS.items() for number in range(count)}


def shown(group: DescribedGroup) -> Any:
    """What does not depend on an order."""
    return (
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        {
            member.member_id: (
                member.member_epoch,
                member.instance_id,
                member.subscribed_topic_regex,
                sorted(member.subscribed_topic_names),
                *(
                    {each.topic_name: sorted(each.partitions) for each in part.topic_partitions}
                    for part in (member.assignment, member.target_assignment)
                ),
            )
            for member in group.members
        },
    )


def test_we_go_on_with_a_group_of_a_real_kafka(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path)
    settings = f"offsets.topic.num.partitions={PARTITIONS}"
    theirs, ours = RealCluster(settings), Cluster(settings)
    with kafka.running() as bootstrap:
        make_topics(bootstrap, ours)
        theirs.bootstrap, theirs.topics = bootstrap, ours.topics
        members = in_the_midst(theirs)
        before = shown(theirs.described())
    store = MemoryStore()
    assert import_offsets(kafka.data, store, PARTITIONS, keep_topic_ids=True).problems == []
    ours.durable = {partition: dict(store.load(partition)) for partition in range(PARTITIONS)}
    ours.crash()
    (stored,) = [records[ConsumerGroupMetadataKey(GROUP)] for records in ours.durable.values() if records]
    hashes = [(name, topic_hash(topic_id, name, count)) for name, (topic_id, count) in ours.topics.by_name.items()]
    assert stored.metadata_hash == group_hash(hashes)
    assert shown(ours.described()) == before
    go_on(ours, members)


def test_a_real_kafka_goes_on_with_a_group_of_ours(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path)
    settings = f"offsets.topic.num.partitions={PARTITIONS}"
    theirs, ours = RealCluster(settings), Cluster(settings)
    with kafka.running() as bootstrap:
        make_topics(bootstrap, ours)
    members = in_the_midst(ours)
    before = shown(ours.described())
    store = MemoryStore()
    store.write([(partition, *record) for partition, records in ours.durable.items() for record in records.items()])
    assert export_offsets(store, PARTITIONS, tmp_path / "ours", 1234, codec="none", keep_topic_ids=True) > 0
    for folder in (tmp_path / "ours").iterdir():
        for file in (kafka.data / folder.name).iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        shutil.copytree(folder, kafka.data / folder.name, dirs_exist_ok=True)
    with kafka.running() as bootstrap:
        theirs.bootstrap, theirs.topics = bootstrap, ours.topics
        assert shown(theirs.described()) == before
        go_on(theirs, members)
