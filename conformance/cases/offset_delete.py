"""Cases about OffsetDelete (KIP-496): offsets that a group may lose, with and without subscribed members."""

from __future__ import annotations

from functools import partial

from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.offsets import commit, fetch
from kafka_shim.conformance.member import Protocols, subscription
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

delete_case = partial(case, api="OffsetDelete")


def subscribed(*topics: str) -> Protocols:
    """Return the protocols of a member subscribed to topics."""
    return (("range", subscription(*topics)),)


def delete(t: Trial, partitions: dict[str, list[int]], group: str | None = None) -> OffsetDeleteResponse:
    """Send OffsetDelete for partitions by topic."""
    topics = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(each) for each in indexes])
        for topic, indexes in partitions.items()
    ]
    answer: OffsetDeleteResponse = t.call(OffsetDeleteRequest(t.group if group is None else group, topics))
    return answer


def codes(answer: OffsetDeleteResponse) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions}


@delete_case(
    "offset-delete/subscribed/1",
    "Offsets of a topic the group is subscribed to stay (86), those of others go",
    source="semantics 7.1 OD1",
)
def still_subscribed(t: Trial) -> None:
    one, other = t.topic(3), t.topic(1)
    (member,) = t.stable(1, protocols=subscribed(one))
    member.commit(one, {0: 5})
    member.commit(other, {0: 6})
    answer = delete(t, {one: [0], other: [0]})
    t.expect(answer, error_code=0)
    t.equal(codes(answer), {(one, 0): E.GROUP_SUBSCRIBED_TO_TOPIC, (other, 0): 0}, "errors")
    t.equal({key: value[0] for key, value in fetch(t, None).items()}, {(one, 0): 5}, "what is left")


@delete_case("offset-delete/subscribed/2", "When the members have left the offsets go", source="semantics 7.1 OD2")
def after_leave(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1, protocols=subscribed(topic))
    member.commit(topic, {0: 5, 1: 6})
    member.leave()
    t.equal(codes(delete(t, {topic: [0]})), {(topic, 0): 0}, "errors")
    t.equal({key: value[0] for key, value in fetch(t, None).items()}, {(topic, 1): 6}, "what is left")


@delete_case(
    "offset-delete/subscribed/3",
    "A subscription that cannot be read counts as one to every topic",
    source="semantics 3.4, 3.5",
)
def unreadable(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1, protocols=(("range", b"\x00"),))
    member.commit(topic, {0: 5})
    t.equal(codes(delete(t, {topic: [0]})), {(topic, 0): E.GROUP_SUBSCRIBED_TO_TOPIC}, "errors")


@delete_case("offset-delete/partition/1", "An unknown partition is answered 3", source="semantics 7.1 OD3")
def unknown_partition(t: Trial) -> None:
    topic = t.topic(3)
    commit(t, topic, {0: 5})
    answer = delete(t, {topic: [0, 9], "no-such": [0]})
    expected = {(topic, 0): 0, (topic, 9): E.UNKNOWN_TOPIC_OR_PARTITION, ("no-such", 0): E.UNKNOWN_TOPIC_OR_PARTITION}
    t.equal(codes(answer), expected, "errors")


@delete_case(
    "offset-delete/partition/2",
    "An offset that was never committed is deleted without complaint",
    source="semantics 3.5",
)
def never_committed(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 5})
    t.equal(codes(delete(t, {topic: [1]})), {(topic, 1): 0}, "errors")


@delete_case(
    "offset-delete/partition/3",
    "A topic of which no partition is named is not in the answer",
    source="semantics 3.5 step 1; proved on Apache Kafka 4.2.2",
    level=Level.MAY,
)
def no_partitions(t: Trial) -> None:
    one, other = t.topic(3), t.topic(1)
    commit(t, one, {0: 5})
    answer = delete(t, {other: [], one: [0]})
    t.expect(answer, error_code=0)
    t.equal([topic.name for topic in answer.topics], [one], "topics answered")


@delete_case("offset-delete/group/1", "An unknown group is answered 69, without partitions", source="semantics 7.1 OD4")
def unknown_group(t: Trial) -> None:
    t.expect(delete(t, {t.topic(): [0]}), error_code=E.GROUP_ID_NOT_FOUND, topics=[])


@delete_case("offset-delete/group/2", "An empty group id is invalid (24)", source="semantics 7.1 OD5")
def empty_group_id(t: Trial) -> None:
    t.expect(delete(t, {t.topic(): [0]}, group=""), error_code=E.INVALID_GROUP_ID, topics=[])


@delete_case(
    "offset-delete/group/3", "The error of the group replaces those of the partitions", source="semantics 7.1 OD6"
)
def only_top(t: Trial) -> None:
    t.expect(delete(t, {"no-such": [0]}), error_code=E.GROUP_ID_NOT_FOUND, topics=[])


@delete_case(
    "offset-delete/group/4",
    "A group of another protocol type with members keeps its offsets (68)",
    source="semantics 3.5",
)
def other_type(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1, protocol_type="connect")
    member.commit(topic, {0: 5})
    t.expect(delete(t, {topic: [0]}), error_code=E.NON_EMPTY_GROUP, topics=[])


@delete_case(
    "offset-delete/group/5",
    "The group itself stays when its last offset goes",
    source="semantics 3.5",
    uses=("DescribeGroups",),
)
def group_stays(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 5})
    delete(t, {topic: [0]})
    t.expect(t.describe(), error_code=0, group_state="Empty")


@delete_case(
    "offset-delete/group/6",
    "A deleted group takes its offsets with it",
    source="semantics 2.11",
    uses=("DeleteGroups",),
)
def with_group(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 5})
    t.equal(t.call(DeleteGroupsRequest([t.group])).results[0].error_code, 0, "the deletion's error")
    t.equal(fetch(t, None), {}, "what is left")
