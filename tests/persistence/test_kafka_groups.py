"""Groups with server-side assignment move between a real Kafka and our coordinator by their records.

A consumer group (KIP-848), a share group and a streams group, each in the middle of a change. The scripted members
notice nothing: epochs, assignments and metadata hash stay the same.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_shim.apis.consumer_group_describe import group_error as consumer_error
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.profiles import is_served
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.apis.share_group_describe import ShareGroupDescribeRequest
from kafka_shim.apis.share_group_describe import group_error as share_error
from kafka_shim.apis.streams_group_describe import StreamsGroupDescribeRequest
from kafka_shim.apis.streams_group_describe import group_error as streams_error
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.groups.epochs.metadata_hash import metadata_hash
from kafka_shim.persistence.interchange import export_offsets, import_offsets
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.records import ConsumerGroupMetadataKey
from tests.groups.consumer.context import Consumer
from tests.groups.share.context import Cluster as ShareCluster
from tests.groups.share.context import Sharer
from tests.groups.streams.context import Cluster as StreamsCluster
from tests.groups.streams.context import Member as Thread
from tests.groups.streams.context import one_subtopology
from tests.waiting import until

from .real_kafka import PARTITIONS, RealKafka

pytestmark = pytest.mark.second_stage("a real Kafka")

TOPICS = {"orders": 3, "payments": 300, "changelog": 3}
READ = ("orders", "payments")
COMING = {E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}
SETTINGS = f"offsets.topic.num.partitions={PARTITIONS}", "group.streams.initial.rebalance.delay.ms=0"
DESCRIBE = {
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
    "streams": StreamsGroupDescribeRequest,
}
PATIENCE_S = 60


class Ours(StreamsCluster, ShareCluster):
    """Our coordinator without sockets, with a group of each kind; `prefix` begins their ids."""

    creates = False

    def __init__(self, prefix: str, release: str = DEFAULT_RELEASE) -> None:
        self.prefix = prefix
        super().__init__(*SETTINGS, release=release)

    def group_id(self, kind: str) -> str:
        return f"{self.prefix}-{kind}"

    def beat(self, request: Any, client_id: str = "c") -> Any:
        request.group_id = self.group_id("consumer")
        return super().beat(request, client_id)

    def share_beat(self, request: Any) -> Any:
        request.group_id = self.group_id("share")
        return super().share_beat(request)

    def streams_beat(self, request: Any) -> Any:
        request.group_id = self.group_id("streams")
        return super().streams_beat(request)

    def described_by(self, kind: str) -> Any:
        request, refused = {
            "consumer": (ConsumerGroupDescribeRequest, consumer_error),
            "share": (ShareGroupDescribeRequest, share_error),
            "streams": (StreamsGroupDescribeRequest, streams_error),
        }[kind]
        described = self.service.ask_each(request, [self.group_id(kind)], refused)[0]
        # As a client reads it.
        version, response = newest(request.api_key), APIS[request.api_key].response
        return response.decode(response(groups=[described]).encode(version), version).groups[0]


class Theirs(Ours):
    """The same members, but connected to a real Kafka."""

    bootstrap = ""

    def beat(self, request: Any, client_id: str = "c") -> Any:
        request.group_id = self.group_id("consumer")
        return ask(self.bootstrap, request, client_id)

    def share_beat(self, request: Any) -> Any:
        request.group_id = self.group_id("share")
        return ask(self.bootstrap, request, request.member_id)

    def streams_beat(self, request: Any) -> Any:
        request.group_id = self.group_id("streams")
        return ask(self.bootstrap, request, "c")

    def described_by(self, kind: str) -> Any:
        return ask(self.bootstrap, DESCRIBE[kind]([self.group_id(kind)])).groups[0]


def newest(key: int) -> int:
    """Return the newest version of an API in Kafka."""
    return max(each for each in APIS[key].request.versions if is_served(DEFAULT_RELEASE, key, each))


def ask(bootstrap: str, request: Any, client_id: str = "test") -> Any:
    """Send one request over the wire; repeat it until the coordinator is available."""
    api, version = APIS[request.api_key], newest(request.api_key)
    host, port = bootstrap.split(":")

    def answered() -> Any:
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            data = encode_request_header(api.key, version, 1, client_id) + request.encode(version)
            connection.sendall(len(data).to_bytes(4) + data)
            stream = connection.makefile("rb")
            answer = stream.read(int.from_bytes(stream.read(4)))
        response = api.response.decode(answer[decode_response_header(answer, api.key, version)[1] :], version)
        (each,) = getattr(response, "groups", None) or getattr(response, "coordinators", None) or (response,)
        return None if each.error_code in COMING else response

    return until(answered, lambda: f"no coordinator answers {request}", PATIENCE_S)


def make_topics(bootstrap: str, group_id: str) -> dict[str, tuple[bytes, int]]:
    """Create the topics in Kafka; return their ids and numbers of partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
        future.result(30)
    # The first search for a coordinator creates the offsets topic; its id is in each folder's partition.metadata.
    ask(bootstrap, FindCoordinatorRequest(coordinator_keys=[group_id]))
    topics = {}
    for name, future in admin.describe_topics(TopicCollection(list(TOPICS))).items():
        topic_id = future.result(30).topic_id
        halves = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
        topics[name] = b"".join((half % 2**64).to_bytes(8) for half in halves), TOPICS[name]
    return topics


# The state of a group of each kind.


def again(act: Callable[[], Any], done: Callable[[], bool]) -> None:
    """Send heartbeats until a condition holds: Kafka creates share states only after its answer."""

    def acted() -> bool:
        answer = act()
        assert answer.error_code == 0, answer
        return done()

    until(acted, lambda: "It never came to be.", PATIENCE_S)


def begin_consumer(cluster: Ours) -> list[Consumer]:
    """Start three members, one static, one with a pattern; the first still has to give partitions up."""
    first = cluster.consumer("first", *READ)
    assert first.join().error_code == 0
    first.obey()
    static = cluster.consumer("static", *READ, instance_id="instance")
    assert static.join().error_code == 0
    pattern = cluster.consumer("pattern", regex="ord.*")
    assert pattern.join(subscribed_topic_names=None).error_code == 0
    assert first.full().error_code == 0
    return [first, static, pattern]


def begin_share(cluster: Ours) -> list[Sharer]:
    """Start two members; the first has all partitions and has not learned of the second."""
    first, second = cluster.sharer("first", *READ), cluster.sharer("second", *READ)
    assert first.join().error_code == 0
    again(first.heartbeat, lambda: len(first.assigned) == 303)
    assert second.join().error_code == 0
    return [first, second]


def begin_streams(cluster: Ours) -> list[Thread]:
    """Start two processes; the first still has to give tasks up."""
    first, second = (cluster.member(name, one_subtopology("orders", stateful=True)) for name in ("first", "second"))
    assert first.join().error_code == 0
    again(first.report, lambda: len(first.active) == 3)
    first.report()
    assert second.join().error_code == 0
    again(first.report, lambda: len(first.active) < 3)
    return [first, second]


def owned_by(member: Any) -> set[tuple[str, int]]:
    owned: set[tuple[str, int]] = {Consumer: "owned", Sharer: "assigned", Thread: "active"}[type(member)]
    return set(getattr(member, owned))


def beat(member: Any) -> Any:
    """Send a heartbeat of a member that follows its assignment."""
    if isinstance(member, Consumer):
        return member.obey()
    return member.heartbeat() if isinstance(member, Sharer) else member.report()


BEGIN: dict[str, Callable[[Ours], list[Any]]] = {
    "consumer": begin_consumer,
    "share": begin_share,
    "streams": begin_streams,
}
EVERYTHING = {
    "consumer": {(name, number) for name in READ for number in range(TOPICS[name])},
    "share": {(name, number) for name in READ for number in range(TOPICS[name])},
    "streams": {("0", number) for number in range(3)},
}


def go_on(cluster: Ours, kind: str, members: list[Any], before: Any) -> None:
    """Continue with another coordinator, without a new epoch, until the members own everything exactly once."""
    group_epoch = before.group_epoch
    for each in members:
        each.cluster = cluster

    def is_stable() -> bool:
        for each in members:
            answer = beat(each)
            assert answer.error_code == 0, (each.member_id, answer)
        return all(each.epoch == group_epoch for each in members) and cluster.described_by(kind).group_state == "Stable"

    until(is_stable, lambda: [each.epoch for each in members], PATIENCE_S)
    owned = [each for member in members for each in owned_by(member)]
    assert len(owned) == len(set(owned))
    assert set(owned) == EVERYTHING[kind]
    if kind == "streams":
        assert cluster.described_by(kind).topology == before.topology


def plain(described: Any) -> Any:
    """Return a description of a group independent of its order."""
    if isinstance(described, list):
        return sorted((plain(each) for each in described), key=repr)
    if hasattr(described, "__slots__") and not isinstance(described, (str, bytes, int)):
        fields = {name: plain(getattr(described, name)) for name in described.__slots__}
        # A coordinator without sockets has no client hosts; partitions of internal topics are computed again at the
        # next heartbeat.
        unknown = ("client_host", "authorized_operations", "topology")
        return {name: value for name, value in fields.items() if name not in unknown}
    return described


@dataclass
class Moved:
    """Groups of all kinds just after their move to `cluster`, their members, and their earlier descriptions."""

    cluster: Ours
    members: dict[str, list[Any]]
    before: dict[str, Any]


@dataclass
class Stopped:
    """A stopped Kafka that had the groups in `before`, and its topics."""

    kafka: RealKafka
    topics: dict[str, tuple[bytes, int]]
    members: dict[str, list[Any]]
    before: dict[str, Any]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    kafka = RealKafka(tmp_path_factory.mktemp("kafka"))
    theirs = Theirs("theirs")
    with kafka.running() as bootstrap:
        theirs.bootstrap = bootstrap
        theirs.topics.by_name |= make_topics(bootstrap, theirs.group_id("consumer"))
        members = {kind: begin(theirs) for kind, begin in BEGIN.items()}
        before = {kind: theirs.described_by(kind) for kind in BEGIN}
    return Stopped(kafka, theirs.topics.by_name, members, before)


@pytest.fixture(scope="module")
def come_to_us(stopped: Stopped) -> Moved:
    """Load Kafka's groups into our coordinator."""
    ours, store = Ours("theirs"), MemoryStore()
    ours.topics.by_name |= stopped.topics
    assert import_offsets(stopped.kafka.data, store, PARTITIONS, keep_topic_ids=True).problems == []
    ours.durable = {partition: dict(store.load(partition)) for partition in range(PARTITIONS)}
    ours.crash()
    return Moved(ours, stopped.members, stopped.before)


@pytest.fixture(scope="module")
def come_to_kafka(stopped: Stopped, come_to_us: Moved, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    """Load our groups into a running Kafka."""
    ours, theirs, store = Ours("ours"), Theirs("ours"), MemoryStore()
    ours.topics.by_name |= stopped.topics
    members = {kind: begin(ours) for kind, begin in BEGIN.items()}
    before = {kind: ours.described_by(kind) for kind in BEGIN}
    store.write([(partition, *record) for partition, records in ours.durable.items() for record in records.items()])
    exported = tmp_path_factory.mktemp("exported")
    assert export_offsets(store, PARTITIONS, exported, 1234, codec="none", keep_topic_ids=True) > 0
    for folder in exported.iterdir():
        for file in (stopped.kafka.data / folder.name).iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        shutil.copytree(folder, stopped.kafka.data / folder.name, dirs_exist_ok=True)
    with stopped.kafka.running() as bootstrap:
        theirs.bootstrap = bootstrap
        theirs.topics.by_name |= stopped.topics
        yield Moved(theirs, members, before)


def test_the_metadata_hash_that_kafka_wrote_is_ours(come_to_us: Moved) -> None:
    ours = come_to_us.cluster
    key = ConsumerGroupMetadataKey(ours.group_id("consumer"))
    (stored,) = [records[key] for records in ours.durable.values() if key in records]
    assert stored.metadata_hash == metadata_hash(READ, ours.topics)


@pytest.mark.parametrize("kind", BEGIN)
def test_we_go_on_with_a_group_of_kafka(kind: str, come_to_us: Moved) -> None:
    before = come_to_us.before[kind]
    assert plain(come_to_us.cluster.described_by(kind)) == plain(before)
    go_on(come_to_us.cluster, kind, come_to_us.members[kind], before)


@pytest.mark.parametrize("kind", BEGIN)
def test_kafka_goes_on_with_a_group_of_ours(kind: str, come_to_kafka: Moved) -> None:
    before = come_to_kafka.before[kind]
    assert plain(come_to_kafka.cluster.described_by(kind)) == plain(before)
    go_on(come_to_kafka.cluster, kind, come_to_kafka.members[kind], before)
