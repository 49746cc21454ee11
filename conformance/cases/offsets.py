"""Cases about OffsetFetch: its answers and errors; with helpers that commit and fetch offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level, NotServed

NO_OFFSET = (-1, -1, "", 0)
Partition = tuple[int, int, str, int]
"""Committed offset, leader epoch, metadata, error code."""


def commit(
    t: Trial,
    topic: str,
    offsets: Mapping[int, int],
    *,
    group: str | None = None,
    generation: int = -1,
    member_id: str = "",
    metadata: str | None = "",
    leader_epoch: int = -1,
    topic_id: bytes | None = None,
    **changes: Any,
) -> dict[int, int]:
    """Send OffsetCommit, without a member by default; return the error code of each partition."""
    if topic_id is None:
        topic_id = t.peer.topic_ids.get(topic, bytes(16))
    request = OffsetCommitRequest(
        t.group if group is None else group,
        generation,
        member_id,
        topics=[
            OffsetCommitRequestTopic(
                topic,
                topic_id,
                [
                    OffsetCommitRequestPartition(partition, offset, leader_epoch, committed_metadata=metadata)
                    for partition, offset in offsets.items()
                ],
            )
        ],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    answer = t.call(request)
    t.equal(len(answer.topics), 1, "number of topics answered")
    codes = {each.partition_index: each.error_code for each in answer.topics[0].partitions}
    if set(codes.values()) == {E.UNSUPPORTED_VERSION}:
        raise NotServed(f"OffsetCommit v{t.version_of('OffsetCommit')} is answered UNSUPPORTED_VERSION (35)")
    return codes


def fetch(
    t: Trial,
    partitions: Mapping[str, list[int]] | None,
    *,
    group: str | None = None,
    stable: bool = False,
    code: int = 0,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> dict[tuple[str, int], Partition]:
    """Send OffsetFetch for one group; return the answer for each partition. `partitions` None fetches all."""
    version = t.version_of("OffsetFetch")
    group = t.group if group is None else group
    ids = t.peer.topic_ids
    if version <= 7:
        topics = (
            None if partitions is None else [OffsetFetchRequestTopic(name, parts) for name, parts in partitions.items()]
        )
        answer = t.call(OffsetFetchRequest(group, topics, require_stable=stable))
        t.expect(answer, error_code=code if version >= 2 else 0)
        answers = answer.topics
    else:
        listed = (
            None
            if partitions is None
            else [
                OffsetFetchRequestTopics(name, ids.get(name, b"\7" * 16), parts) for name, parts in partitions.items()
            ]
        )
        group_request = OffsetFetchRequestGroup(group, member_id, member_epoch, listed)
        answer = t.call(OffsetFetchRequest(groups=[group_request], require_stable=stable))
        t.equal([each.group_id for each in answer.groups], [group], "groups answered")
        t.expect(answer.groups[0], error_code=code)
        answers = answer.groups[0].topics
    if {each.error_code for topic in answers for each in topic.partitions} == {E.UNSUPPORTED_VERSION}:
        raise NotServed(f"OffsetFetch v{version} is answered UNSUPPORTED_VERSION (35)")
    names = {topic_id: name for name, topic_id in ids.items()}
    return {
        (names.get(topic.topic_id, "?") if version >= 10 else topic.name, each.partition_index): (
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for topic in answers
        for each in topic.partitions
    }


@case(
    "fetch/one/1",
    "The partitions of the request are answered, those never committed with -1",
    source="semantics 7.1 OF1",
    api="OffsetFetch",
)
def explicit(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 11})
    fetched = fetch(t, {topic: [0, 1]})
    t.equal(fetched, {(topic, 0): (11, -1, "", 0), (topic, 1): NO_OFFSET}, "the answer to OffsetFetch")


@case(
    "fetch/unknown/1",
    "A group that does not exist has no offsets, and that is no error",
    source="semantics 3.3, 7.1 OF2; survey kfake 7",
    api="OffsetFetch",
)
def unknown_group_is_fine(t: Trial) -> None:
    topic = t.topic()
    t.equal(fetch(t, {topic: [0]}), {(topic, 0): NO_OFFSET}, "the answer to OffsetFetch")


@case(
    "fetch/unknown/2",
    "A topic that does not exist has no offsets, and that is no error",
    source="semantics 3.3, 7.1 OF3",
    api="OffsetFetch",
    versions=(0, 9),
)
def unknown_topic_is_fine(t: Trial) -> None:
    t.equal(
        fetch(t, {"no-such": [0, 5]}),
        {("no-such", 0): NO_OFFSET, ("no-such", 5): NO_OFFSET},
        "the answer to OffsetFetch",
    )


@case(
    "fetch/unknown/3",
    "An unknown topic id is answered 100 for each partition",
    source="semantics 3.3",
    api="OffsetFetch",
    versions=(10, 10),
)
def unknown_id(t: Trial) -> None:
    t.equal(fetch(t, {"no-such": [0]}), {("?", 0): (-1, -1, "", E.UNKNOWN_TOPIC_ID)}, "the answer to OffsetFetch")


@case(
    "fetch/id/1",
    "By the id of another topic there is no offset, also of one with the name of the first, which is gone (100)",
    source="KIP-848; semantics 3.3",
    api="OffsetFetch",
    versions=(10, 10),
    uses=("OffsetCommit", "DeleteTopics", "CreateTopics"),
)
def other_id(t: Trial) -> None:
    topic, other = t.new_topic(1), t.new_topic(1)
    t.equal(commit(t, topic, {0: 11}), {0: 0}, "errors")
    t.equal(fetch(t, {topic: [0], other: [0]}), {(topic, 0): (11, -1, "", 0), (other, 0): NO_OFFSET}, "two ids")
    old = t.topic_id(topic)
    t.expect(t.call(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=10_000)).responses[0], error_code=0)
    again = CreateTopicsRequest([CreatableTopic(topic, 1, 1, [], [])], 10_000)
    t.until(lambda: t.call(again).topics[0].error_code, lambda code: code == 0, "the name is never free")
    unknown = {(topic, 0): (-1, -1, "", E.UNKNOWN_TOPIC_ID)}
    t.until(lambda: fetch(t, {topic: [0]}), lambda got: got == unknown, "the old id still has an offset")
    t.until(lambda: t.topic_id(t.new_topic(1, topic)), lambda new: new != old, "the new topic never showed")
    t.equal(fetch(t, {topic: [0]}), {(topic, 0): NO_OFFSET}, "the answer for the new id")


@case(
    "fetch/unknown/4",
    "A partition that does not exist has no offset, and that is no error",
    source="semantics 3.3",
    api="OffsetFetch",
)
def unknown_partition_is_fine(t: Trial) -> None:
    topic = t.topic(3)
    t.equal(fetch(t, {topic: [77]}), {(topic, 77): NO_OFFSET}, "the answer to OffsetFetch")


@case(
    "fetch/all/1",
    "Without topics all that was committed is answered",
    source="semantics 7.1 OF6; survey rdkafka-mock 17",
    api="OffsetFetch",
    versions=(2, 10),
)
def everything(t: Trial) -> None:
    one, other = t.topic(3), t.topic(1)
    commit(t, one, {0: 1, 2: 3})
    commit(t, other, {0: 4})
    fetched = {key: value[0] for key, value in fetch(t, None).items()}
    t.equal(fetched, {(one, 0): 1, (one, 2): 3, (other, 0): 4}, "the answer to OffsetFetch")


@case(
    "fetch/all/2",
    "All of a group that does not exist is nothing, and that is no error",
    source="semantics 7.1 OF7",
    api="OffsetFetch",
    versions=(2, 10),
)
def everything_of_nobody(t: Trial) -> None:
    t.equal(fetch(t, None), {}, "the answer to OffsetFetch")


@case("fetch/none/1", "An empty list of topics is answered with nothing", source="semantics 3.3", api="OffsetFetch")
def nothing(t: Trial) -> None:
    commit(t, t.topic(), {0: 1})
    t.equal(fetch(t, {}), {}, "the answer to OffsetFetch")


@case(
    "fetch/many/1",
    "Several groups in one request: each is answered by itself",
    source="KIP-709; semantics 7.1 OF8",
    api="OffsetFetch",
    versions=(8, 10),
)
def many(t: Trial) -> None:
    topic = t.topic()
    groups = [t.another_group(str(n)) for n in range(3)]
    missing = t.another_group("missing")
    for n, group in enumerate(groups):
        commit(t, topic, {0: n}, group=group)
    entry = OffsetFetchRequestTopics(topic, t.topic_id(topic), [0])
    group_requests = [
        OffsetFetchRequestGroup(groups[0], topics=[entry]),
        OffsetFetchRequestGroup(groups[1], topics=None),
        OffsetFetchRequestGroup(groups[2], topics=[]),
        OffsetFetchRequestGroup(missing, topics=[entry]),
    ]
    answer = {each.group_id: each for each in t.call(OffsetFetchRequest(groups=group_requests)).groups}
    offsets = {
        group: [p.committed_offset for topic in each.topics for p in topic.partitions] for group, each in answer.items()
    }
    t.equal(offsets, {groups[0]: [0], groups[1]: [1], groups[2]: [], missing: [-1]}, "offsets")
    t.equal({each.error_code for each in answer.values()}, {0}, "errors")


@case(
    "fetch/stable/1",
    "To ask for stable offsets changes nothing where no transaction is open",
    source="KIP-447; semantics 7.1 OF9",
    api="OffsetFetch",
    versions=(7, 10),
)
def stable_offsets(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 11})
    t.equal(
        fetch(t, {topic: [0, 1]}, stable=True),
        {(topic, 0): (11, -1, "", 0), (topic, 1): NO_OFFSET},
        "the answer to OffsetFetch",
    )
    t.equal(fetch(t, None, stable=True), {(topic, 0): (11, -1, "", 0)}, "all that is fetched")


@case(
    "fetch/member/1",
    "A classic group's offsets are fetched with any member id and epoch",
    source="semantics 3.3",
    api="OffsetFetch",
    versions=(9, 10),
)
def any_member(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    member.commit(topic, {0: 3})
    fetched = fetch(t, {topic: [0]}, member_id="nobody", member_epoch=99)
    t.equal(fetched[topic, 0][0], 3, "the offset")


@case(
    "fetch/group-id/1",
    "The empty group id is a group like another",
    source="semantics 3.3",
    api="OffsetFetch",
    level=Level.SHOULD,
)
def empty_id(t: Trial) -> None:
    t.equal(fetch(t, {t.topic(): [2]}, group="")[t.topic(), 2], NO_OFFSET, "the answer to OffsetFetch")


@case("fetch/round/1", "Offsets may be fetched in the middle of a round", source="semantics 3.3", api="OffsetFetch")
def in_a_round(t: Trial) -> None:
    topic = t.topic()
    leader, _follower = t.stable(2)
    leader.commit(topic, {0: 8})
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 8, "the offset")


@case(
    "fetch/one/2",
    "Every partition of the request is answered, in a topic of many",
    source="semantics 3.3",
    api="OffsetFetch",
)
def hundred(t: Trial) -> None:
    topic = t.topic(100)
    commit(t, topic, {n: n * n for n in range(100)})
    fetched = fetch(t, {topic: list(range(100))})
    t.equal([fetched[topic, n][0] for n in range(100)], [n * n for n in range(100)], "offsets")
