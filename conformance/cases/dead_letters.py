"""Cases about dead letter queues of share groups (KIP-1191)."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Final

from kafka_shim.apis.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.configs import GROUP, change
from kafka_shim.conformance.cases.releases import RELEASE, set_value
from kafka_shim.conformance.cases.share import prepared
from kafka_shim.conformance.cases.streams import CONFIGURES
from kafka_shim.conformance.record_batch import read_records
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level
from kafka_shim.persistence.batch import Record

ACCEPT: Final = 1
REJECT: Final = 3
QUEUE: Final = "errors.deadletterqueue.topic.name"
REJECTED: Final = "Offset rejected by client."
EXCEEDED: Final = "Offset delivery count exceeded the threshold."

acknowledge_case = partial(
    case,
    source="KIP-1191; semantics 4.14",
    api="ShareAcknowledge",
    uses=("ShareGroupHeartbeat", "ShareFetch", "Produce", "Fetch", "CreateTopics", *CONFIGURES),
    since="4.4",
)


def queue(t: Trial, source: str, partitions: int = 1, *, prefix: str = "dlq.", enabled: bool = True) -> str:
    """Return a new topic that may be the queue of a group. Its partition 0 has the leader of the source's.

    Where several processes of ours share a store, letters go to a partition of the process that writes them.
    """
    return t.until(
        lambda: _new_queue(t, partitions, prefix, enabled),
        lambda name: t.peer.routes.leader(name, 0) == t.peer.routes.leader(source, 0),
        "no queue has the leader of the topic",
    )


def _new_queue(t: Trial, partitions: int, prefix: str, enabled: bool) -> str:
    name = f"{prefix}{uuid.uuid4().hex}"
    configs = [CreatableTopicConfig("errors.deadletterqueue.group.enable", str(enabled).lower())]
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], configs)], 10_000)
    t.expect(t.call(request).topics[0], error_code=0)
    return t.new_topic(partitions, name)


def letters(t: Trial, topic: str) -> list[Record]:
    """Return the records of partition 0 of a queue."""
    place = FetchPartition(0, fetch_offset=0, partition_max_bytes=2**20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic, partitions=[place])])
    wire = t.connect_to(t.peer.routes.leader(topic, 0), "queue")
    data = wire.call(request, 12).responses[0].partitions[0].records or b""
    return list(read_records(data))


def expect_letters(t: Trial, topic: str, number: int) -> list[Record]:
    """Wait for this number of letters."""
    return t.until(lambda: letters(t, topic), lambda contents: len(contents) >= number, "the letters never came")


def headers(t: Trial, topic: str, offset: int, count: int, cause: str) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of a letter about a record of partition 0."""
    values = {"topic": topic, "partition": 0, "offset": offset, "group": t.group, "delivery.count": count}
    return tuple((f"__dlq.errors.{name}", str(value).encode()) for name, value in (values | {"message": cause}).items())


@acknowledge_case(
    "share/dead/1",
    "A rejected record is written to the queue of its group with headers alone, an accepted one is not",
)
def rejection(t: Trial) -> None:
    topic, member = prepared(t, b"a", b"b", b"c")
    to = queue(t, topic, 2)
    set_value(t, QUEUE, to)
    t.equal(member.acquire(), [(0, 2, 1)], "the delivery")
    t.equal(member.said_of((0, 2, [REJECT, ACCEPT, REJECT])), 0, "the error")
    contents = expect_letters(t, to, 2)
    t.equal(
        [each.headers for each in contents], [headers(t, topic, each, 1, REJECTED) for each in (0, 2)], "the headers"
    )
    t.equal({(each.key, each.value) for each in contents}, {(None, None)}, "keys and values")


@acknowledge_case(
    "share/dead/2",
    "A record that is released at its delivery limit goes to the queue, with key and value if the group copies records",
)
def at_limit(t: Trial) -> None:
    topic, member = prepared(t, b"a")
    to = queue(t, topic)
    set_value(t, QUEUE, to)
    set_value(t, "errors.deadletterqueue.copy.record.enable", "true")
    set_value(t, "share.delivery.count.limit", "2")
    for count in (1, 2):
        t.equal(member.acquire(), [(0, 0, count)], "the delivery")
        t.equal(member.said_of((0, 0, [RELEASE])), 0, "the error")
    (letter,) = expect_letters(t, to, 1)
    t.equal(letter.headers, headers(t, topic, 0, 2, EXCEEDED), "the headers")
    t.equal((letter.key, letter.value), (None, b"a"), "key and value")


@acknowledge_case(
    "share/dead/3",
    "A queue that is not enabled, is missing or lacks the prefix takes no letter, and the member sees no error",
)
def refusals(t: Trial) -> None:
    topic, member = prepared(t, b"a", b"b", b"c", b"d")
    disabled, other, to = queue(t, topic, enabled=False), queue(t, topic, prefix="other."), queue(t, topic)
    t.equal(member.acquire(), [(0, 3, 1)], "the delivery")
    for offset, name in enumerate((disabled, other, f"dlq.{uuid.uuid4().hex}", to)):
        set_value(t, QUEUE, name)
        t.equal(member.said_of((offset, offset, [REJECT])), 0, f"the error of offset {offset}")
    contents = expect_letters(t, to, 1)
    t.equal([each.headers for each in contents], [headers(t, topic, 3, 1, REJECTED)], "the headers")
    t.equal([letters(t, disabled), letters(t, other)], [[], []], "the letters of queues that are refused")


@case(
    "incremental-alter-configs/group/5",
    "The name of a dead letter queue does not begin with two underscores (40), all else is checked later",
    source="KIP-1191; semantics 4.14",
    api="IncrementalAlterConfigs",
    level=Level.SHOULD,
    since="4.4",
)
def queue_of_group(t: Trial) -> None:
    for name, error in (("__a", E.INVALID_CONFIG), ("_a", E.NONE), ("a b", E.NONE), ("", E.NONE)):
        t.equal(change(t, GROUP, t.group, errors_deadletterqueue_topic_name=name), error, f"the error of {name!r}")
