"""Cases about logs: deleted records, pages of topics, log directories, elections of leaders, moves of replicas."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_shim.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafka_shim.apis.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_shim.apis.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_shim.apis.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafka_shim.apis.describe_quorum import DescribeQuorumRequest, PartitionAsked, TopicAsked
from kafka_shim.apis.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kafka_shim.apis.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafka_shim.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_shim.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.record_batch import record_batch
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

EARLIEST, LATEST = -2, -1
START_MS = 1_700_000_000_000
CORDONED_SINCE = 5
"""The version of DescribeLogDirs that tells whether a directory is cordoned."""
SOURCE = "semantics 6.3"

records_case = partial(
    case, api="DeleteRecords", source=SOURCE, level=Level.SHOULD, uses=("Produce", "ListOffsets", "CreateTopics")
)
pages_case = partial(case, api="DescribeTopicPartitions", source=SOURCE, level=Level.SHOULD, uses=("CreateTopics",))
elect_case = partial(case, api="ElectLeaders", source=SOURCE, level=Level.SHOULD)
reassign_case = partial(case, api="AlterPartitionReassignments", source=SOURCE, level=Level.SHOULD)


def filled(t: Trial, count: int = 5, **configs: str) -> str:
    """Create a topic of one partition with this many records, one batch each, 1 ms apart."""
    topic = t.new_topic(1)
    for number in range(count):
        produce(t, topic, 0, record_batch([b"value"], START_MS + number))
    return topic


def produce(t: Trial, topic: str, index: int, data: bytes, transactional_id: str | None = None) -> int:
    """Write a batch; return its base offset."""
    request = ProduceRequest(
        transactional_id, -1, 10_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(index, data)])]
    )
    # Version 13 has topic ids instead of names.
    version = min(t.version_of("Produce"), 12)
    answer = t.until(
        lambda: t.call(request, version).responses[0].partition_responses[0],
        lambda got: got.error_code not in (E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_OR_PARTITION),
        "nothing can be written",
    )
    t.expect(answer, error_code=0)
    return int(answer.base_offset)


def offset_at(t: Trial, topic: str, timestamp: int) -> int:
    """Return the offset that ListOffsets answers for a timestamp."""
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, timestamp)])])
    answer = t.call(request).topics[0].partitions[0]
    t.expect(answer, error_code=0)
    return int(answer.offset)


def delete(t: Trial, topic: str, *offsets: tuple[int, int]) -> dict[int, tuple[int, int]]:
    """Send DeleteRecords for partitions and offsets; return error and low watermark of each partition."""
    partitions = [DeleteRecordsPartition(*each) for each in offsets]
    answer = t.call(DeleteRecordsRequest([DeleteRecordsTopic(topic, partitions)], 10_000))
    t.equal([each.name for each in answer.topics], [topic], "topics answered")
    return {each.partition_index: (each.error_code, each.low_watermark) for each in answer.topics[0].partitions}


def replicas(t: Trial, topic: str) -> dict[int, list[int]]:
    """Return the replicas of each partition."""
    answer = t.call(MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False))
    return {each.partition_index: each.replica_nodes for each in answer.topics[0].partitions}


@records_case("delete-records/start/1", "Records below an offset go: the log begins there for ListOffsets")
def start(t: Trial) -> None:
    topic = filled(t)
    t.equal(delete(t, topic, (0, 3)), {0: (0, 3)}, "error and low watermark")
    t.equal((offset_at(t, topic, EARLIEST), offset_at(t, topic, LATEST)), (3, 5), "start and end of the log")


@records_case("delete-records/start/2", "A log never begins earlier again")
def back(t: Trial) -> None:
    topic = filled(t)
    delete(t, topic, (0, 3))
    t.equal(delete(t, topic, (0, 1)), {0: (0, 3)}, "error and low watermark")
    t.equal(offset_at(t, topic, EARLIEST), 3, "start of the log")


@records_case("delete-records/start/3", "Offset -1 is the high watermark: all that is there goes")
def all_of_it(t: Trial) -> None:
    topic = filled(t)
    t.equal(delete(t, topic, (0, -1)), {0: (0, 5)}, "error and low watermark")
    t.equal((offset_at(t, topic, EARLIEST), offset_at(t, topic, LATEST)), (5, 5), "start and end of the log")
    t.equal(produce(t, topic, 0, record_batch([b"next"], START_MS)), 5, "the offset of the next record")


@records_case("delete-records/start/4", "Records before the start are found by no timestamp")
def by_time(t: Trial) -> None:
    topic = filled(t)
    delete(t, topic, (0, 3))
    t.equal(offset_at(t, topic, START_MS), 3, "the first record at or after a time before it")


@records_case("delete-records/refused/1", "Offsets beyond the high watermark or below -1: OFFSET_OUT_OF_RANGE (1)")
def out_of_range(t: Trial) -> None:
    topic = filled(t)
    t.equal(delete(t, topic, (0, 6)), {0: (E.OFFSET_OUT_OF_RANGE, -1)}, "error and low watermark beyond the end")
    t.equal(delete(t, topic, (0, -2)), {0: (E.OFFSET_OUT_OF_RANGE, -1)}, "error and low watermark of -2")
    t.equal(offset_at(t, topic, EARLIEST), 0, "start of the log")


@records_case("delete-records/refused/2", "A partition or topic that does not exist: UNKNOWN_TOPIC_OR_PARTITION (3)")
def no_partition(t: Trial) -> None:
    topic = filled(t, 1)
    expected = {99: (E.UNKNOWN_TOPIC_OR_PARTITION, -1)}
    t.equal(delete(t, topic, (99, 0)), expected, "error and low watermark of a partition")
    t.equal(delete(t, f"{topic}-none", (99, 0)), expected, "error and low watermark of a topic")


@records_case("delete-records/refused/3", "A topic that is only compacted: POLICY_VIOLATION (44)")
def compacted(t: Trial) -> None:
    topic = f"{t.new_topic(1)}-compacted"
    configs = [CreatableTopicConfig("cleanup.policy", "compact")]
    t.expect(t.call(CreateTopicsRequest([CreatableTopic(topic, 1, 1, [], configs)], 10_000)).topics[0], error_code=0)
    # A broker may not know the topic yet, or not lead it.
    coming = {E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_LEADER_OR_FOLLOWER}
    result = t.until(lambda: delete(t, topic, (0, 0)), lambda got: got[0][0] not in coming, "no broker leads the topic")
    t.equal(result, {0: (E.POLICY_VIOLATION, -1)}, "error and low watermark")


def page(t: Trial, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else Cursor(*cursor)
    return t.call(DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, at))


def topics_of(answer: Any) -> list[tuple[str, int, list[int]]]:
    return [(each.name, each.error_code, [p.partition_index for p in each.partitions]) for each in answer.topics]


@pages_case(
    "topic-partitions/page/1", "Topics come in the order of their names, with leader, replicas and those in sync"
)
def in_order(t: Trial) -> None:
    first, second = sorted([t.new_topic(2), t.new_topic(1)])
    counts = {name: t.peer.partitions[name] for name in (first, second)}
    answer = page(t, second, first, second)
    expected = [(name, 0, list(range(counts[name]))) for name in (first, second)]
    t.equal(topics_of(answer), expected, "topics, errors and partitions")
    t.expect(answer, next_cursor=None)
    for topic in answer.topics:
        t.equal(topic.topic_id, t.topic_id(topic.name), "the topic's id")
        for each in topic.partitions:
            t.expect(each, error_code=0, isr_nodes=each.replica_nodes, offline_replicas=[])
            t.check(each.leader_id in each.replica_nodes, f"the leader {each.leader_id} is no replica")


@pages_case("topic-partitions/page/2", "A page ends at the limit, and the cursor is the start of the next")
def pages(t: Trial) -> None:
    first, second = sorted([t.new_topic(2), t.new_topic(2)])
    answer = page(t, first, second, limit=3)
    t.equal(topics_of(answer), [(first, 0, [0, 1]), (second, 0, [0])], "topics, errors and partitions")
    t.expect(answer, next_cursor=Cursor(second, 1))
    answer = page(t, first, second, limit=3, cursor=(second, 1))
    t.equal(topics_of(answer), [(second, 0, [1])], "topics, errors and partitions of the next page")
    t.expect(answer, next_cursor=None)


@pages_case("topic-partitions/page/3", "A page that is full at the end of a topic goes on with partition 0 of the next")
def at_the_end(t: Trial) -> None:
    first, second = sorted([t.new_topic(2), t.new_topic(2)])
    answer = page(t, first, second, limit=2)
    t.equal(topics_of(answer), [(first, 0, [0, 1])], "topics, errors and partitions")
    t.expect(answer, next_cursor=Cursor(second, 0))


@pages_case("topic-partitions/page/4", "A limit below 1 is 1: every page moves on", level=Level.MAY)
def least(t: Trial) -> None:
    topic = t.new_topic(2)
    for limit in (0, -1):
        t.equal(topics_of(page(t, topic, limit=limit)), [(topic, 0, [0])], f"a page of {limit}")


@pages_case(
    "topic-partitions/unknown/1",
    "Topics that do not exist answer UNKNOWN_TOPIC_OR_PARTITION (3), illegal names INVALID_TOPIC_EXCEPTION (17)",
)
def unknown_topics(t: Trial) -> None:
    topic = t.new_topic(1)
    missing = f"{topic}-none"
    expected = [("..", E.INVALID_TOPIC_EXCEPTION, []), (topic, 0, [0]), (missing, E.UNKNOWN_TOPIC_OR_PARTITION, [])]
    t.equal(topics_of(page(t, missing, "..", topic, limit=2)), expected, "topics, errors and partitions")
    answer = page(t, missing, "..", topic, limit=1)
    t.equal(topics_of(answer), expected[:2], "topics, errors and partitions of a full page")
    t.expect(answer, next_cursor=Cursor(missing, 0))


@pages_case(
    "topic-partitions/cursor/1",
    "A cursor at a topic that is not in the request, or below partition 0: INVALID_REQUEST (42) for every topic",
    level=Level.MAY,
)
def bad_cursor(t: Trial) -> None:
    topic = t.new_topic(1)
    for cursor in ((f"{topic}-none", 0), (topic, -1)):
        t.equal(topics_of(page(t, topic, cursor=cursor)), [(topic, E.INVALID_REQUEST, [])], f"a page at {cursor}")


@case(
    "log-dirs/size/1",
    "The leader of a partition has it in a directory, with the bytes of its records; version 5 says it is not cordoned",
    source=SOURCE,
    api="DescribeLogDirs",
    level=Level.SHOULD,
    uses=("Produce", "Metadata"),
)
def log_dirs(t: Trial) -> None:
    topic = t.new_topic(1)
    data = record_batch([b"x" * 500], START_MS)
    produce(t, topic, 0, data)
    request = DescribeLogDirsRequest(
        [DescribableLogDirTopic(topic, [0, 99]), DescribableLogDirTopic(f"{topic}-none", [0])]
    )
    result = []
    for endpoint in t.peer.routes.everywhere():
        answer = t.connect_to(endpoint, "log dirs").call(request, t.version)
        if t.version >= 3:
            t.expect(answer, error_code=0)
        for each in answer.results:
            t.expect(each, error_code=0)
            t.check(bool(each.log_dir), "a directory has no name")
            if t.version >= CORDONED_SINCE:
                t.expect(each, is_cordoned=False)
            result += [(topic.name, p) for topic in each.topics for p in topic.partitions]
    t.check(bool(result), "no broker has the partition")
    for name, partition in result:
        t.equal((name, partition.partition_index), (topic, 0), "a partition in a directory")
        t.expect(partition, partition_size=len(data), offset_lag=0, is_future_key=False)


def elect(
    t: Trial, places: list[TopicPartitions] | None, election_type: int = 0
) -> tuple[Any, dict[tuple[str, int], int]]:
    """Send ElectLeaders; return the answer, and the error of each partition in it."""
    answer = t.call(ElectLeadersRequest(election_type, places, 10_000))
    return answer, {
        (each.topic, one.partition_id): one.error_code
        for each in answer.replica_election_results
        for one in each.partition_result
    }


@elect_case("elect-leaders/preferred/1", "Where the preferred replica leads: ELECTION_NOT_NEEDED (84)")
def not_needed(t: Trial) -> None:
    topic = t.topic(3)
    answer, errors = elect(t, [TopicPartitions(topic, [0, 2])])
    t.expect(answer, error_code=0)
    t.equal(errors, {(topic, 0): E.ELECTION_NOT_NEEDED, (topic, 2): E.ELECTION_NOT_NEEDED}, "errors")


@elect_case("elect-leaders/preferred/2", "A partition that does not exist: UNKNOWN_TOPIC_OR_PARTITION (3)")
def no_such_partition(t: Trial) -> None:
    topic = t.topic(3)
    places = [TopicPartitions(topic, [99]), TopicPartitions(f"{topic}-none", [0])]
    expected = {(topic, 99): E.UNKNOWN_TOPIC_OR_PARTITION, (f"{topic}-none", 0): E.UNKNOWN_TOPIC_OR_PARTITION}
    t.equal(elect(t, places)[1], expected, "errors")


@elect_case("elect-leaders/preferred/3", "No partition named means all, and only those that change are answered")
def everywhere(t: Trial) -> None:
    topic = t.topic(3)
    answer, errors = elect(t, None)
    t.expect(answer, error_code=0)
    t.check(E.ELECTION_NOT_NEEDED not in errors.values(), "the answer has a partition with an unchanged leader")
    t.equal([each for each in errors if each[0] == topic], [], "partitions of a topic with preferred leaders")


@elect_case(
    "elect-leaders/unclean/1", "A partition that has a leader keeps it: ELECTION_NOT_NEEDED (84)", versions=(1, 2)
)
def unclean(t: Trial) -> None:
    topic = t.topic(3)
    t.equal(elect(t, [TopicPartitions(topic, [1])], 1)[1], {(topic, 1): E.ELECTION_NOT_NEEDED}, "errors")


@elect_case("elect-leaders/unclean/2", "An unknown kind of election: INVALID_REQUEST (42)", versions=(1, 2))
def unknown_kind(t: Trial) -> None:
    topic = t.topic(3)
    answer, errors = elect(t, [TopicPartitions(topic, [1])], 2)
    t.expect(answer, error_code=E.INVALID_REQUEST)
    t.equal(errors, {(topic, 1): E.INVALID_REQUEST}, "errors")


def reassign(t: Trial, topic: str, replicas: dict[int, list[int] | None]) -> dict[int, int]:
    partitions = [ReassignablePartition(*each) for each in replicas.items()]
    request = AlterPartitionReassignmentsRequest(10_000, topics=[ReassignableTopic(topic, partitions)])
    answer = t.expect(t.call(request), error_code=0)
    t.equal([each.name for each in answer.responses], [topic], "topics answered")
    return {each.partition_index: each.error_code for each in answer.responses[0].partitions}


@reassign_case("reassign/same/1", "A partition that is where it is to be is accepted, and nothing is under way")
def unchanged(t: Trial) -> None:
    topic = t.topic(3)
    now = replicas(t, topic)
    t.equal(reassign(t, topic, {0: now[0], 1: now[1]}), {0: 0, 1: 0}, "errors")
    if t.peer.offers("ListPartitionReassignments"):
        listed = [ListPartitionReassignmentsTopics(topic, [0, 1, 99])]
        t.expect(t.call(ListPartitionReassignmentsRequest(10_000, listed)), error_code=0, topics=[])
    t.equal(replicas(t, topic), now, "replicas")


@reassign_case("reassign/cancel/1", "Nothing under way, nothing to cancel: NO_REASSIGNMENT_IN_PROGRESS (85)")
def cancel(t: Trial) -> None:
    topic = t.topic(3)
    t.equal(reassign(t, topic, {0: None}), {0: E.NO_REASSIGNMENT_IN_PROGRESS}, "errors")


@reassign_case(
    "reassign/refused/1",
    "No broker, unknown brokers or one twice: INVALID_REPLICA_ASSIGNMENT (39); no such partition: "
    "UNKNOWN_TOPIC_OR_PARTITION (3)",
)
def refused(t: Trial) -> None:
    topic = t.topic(3)
    node = replicas(t, topic)[0][0]
    moves: dict[int, list[int] | None] = {0: [], 1: [4711], 2: [node, node], 99: [node]}
    invalid = E.INVALID_REPLICA_ASSIGNMENT
    expected = {0: invalid, 1: invalid, 2: invalid, 99: E.UNKNOWN_TOPIC_OR_PARTITION}
    t.equal(reassign(t, topic, moves), expected, "errors")
    t.equal(reassign(t, f"{topic}-none", {0: [node]}), {0: E.UNKNOWN_TOPIC_OR_PARTITION}, "errors of no topic")


def quorum(t: Trial, topic: str, index: int) -> Any:
    answer = t.call(DescribeQuorumRequest([TopicAsked(topic, [PartitionAsked(index)])]))
    t.expect(answer, error_code=0)
    t.equal([each.topic_name for each in answer.topics], [topic], "topics answered")
    return answer, answer.topics[0].partitions[0]


@case(
    "quorum/leader/1",
    "The metadata log has a leader that votes, and brokers that follow it",
    source=SOURCE,
    api="DescribeQuorum",
    level=Level.SHOULD,
)
def quorum_leader(t: Trial) -> None:
    answer, data = quorum(t, "__cluster_metadata", 0)
    t.expect(data, partition_index=0, error_code=0)
    voters = [each.replica_id for each in data.current_voters]
    t.check(data.leader_id in voters, f"the leader {data.leader_id} is no voter")
    t.check(data.high_watermark > 0 and data.leader_epoch > 0, f"high watermark and epoch are {data!r}")
    observers = {each.replica_id for each in data.observers}
    t.equal(observers & set(voters), set(), "observers that vote")
    if t.version >= 2:
        t.equal([each.node_id for each in answer.nodes], voters, "the nodes that vote")


@case(
    "quorum/unknown/1",
    "No other partition has a quorum: UNKNOWN_TOPIC_OR_PARTITION (3)",
    source=SOURCE,
    api="DescribeQuorum",
    level=Level.SHOULD,
)
def no_quorum(t: Trial) -> None:
    for topic, index in (("__cluster_metadata", 1), (t.topic(3), 0)):
        t.expect(quorum(t, topic, index)[1], partition_index=index, error_code=E.UNKNOWN_TOPIC_OR_PARTITION)
