"""Cases about the contents of OffsetCommit: topics, partitions, metadata, offsets."""

from __future__ import annotations

from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.offsets import commit, fetch
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level


@case(
    "commit/topic/1",
    "An unknown topic is answered 3, the others are committed",
    source="semantics 3.1",
    api="OffsetCommit",
    versions=(2, 9),
)
def unknown_topic(t: Trial) -> None:
    topic = t.topic()
    existing = OffsetCommitRequestTopic(topic, bytes(16), [OffsetCommitRequestPartition(0, 4, committed_metadata="")])
    unknown = OffsetCommitRequestTopic(
        "no-such", bytes(16), [OffsetCommitRequestPartition(0, 4, committed_metadata="")]
    )
    answer = t.call(OffsetCommitRequest(t.group, topics=[unknown, existing]))
    codes = {each.name: each.partitions[0].error_code for each in answer.topics}
    t.equal(codes, {topic: 0, "no-such": E.UNKNOWN_TOPIC_OR_PARTITION}, "errors")


@case(
    "commit/topic/2",
    "An unknown topic id is answered 100",
    source="KIP-848; semantics 3.1",
    api="OffsetCommit",
    versions=(10, 10),
)
def unknown_topic_id(t: Trial) -> None:
    t.equal(commit(t, "", {0: 4}, topic_id=b"\7" * 16), {0: E.UNKNOWN_TOPIC_ID}, "errors")


@case(
    "commit/topic/3",
    "An unknown partition is answered 3, the others are committed",
    source="semantics 3.1",
    api="OffsetCommit",
)
def unknown_partition(t: Trial) -> None:
    topic = t.topic(3)
    t.equal(commit(t, topic, {0: 4, 3: 4}), {0: 0, 3: E.UNKNOWN_TOPIC_OR_PARTITION}, "errors")


@case(
    "commit/topic/4",
    "When no topic exists the group is not judged at all",
    source="semantics 3.1",
    api="OffsetCommit",
    versions=(2, 9),
    level=Level.SHOULD,
)
def group_not_judged(t: Trial) -> None:
    codes = commit(t, "no-such", {0: 1}, generation=5, member_id="nobody")
    t.equal(codes, {0: E.UNKNOWN_TOPIC_OR_PARTITION}, "errors")


@case(
    "commit/topic/5", "The answer names topics by id from v10, by name before", source="semantics 1", api="OffsetCommit"
)
def names(t: Trial) -> None:
    topic = t.topic()
    request = OffsetCommitRequest(
        t.group,
        topics=[
            OffsetCommitRequestTopic(
                topic, t.topic_id(topic), [OffsetCommitRequestPartition(0, 4, committed_metadata="")]
            )
        ],
    )
    answer = t.call(request).topics[0]
    t.expect(
        answer, name="" if t.version >= 10 else topic, topic_id=t.topic_id(topic) if t.version >= 10 else bytes(16)
    )


@case(
    "commit/topic/6",
    "No topic at all: nothing is answered and nothing is wrong",
    source="semantics 3.1",
    api="OffsetCommit",
    level=Level.SHOULD,
)
def no_topics(t: Trial) -> None:
    t.expect(t.call(OffsetCommitRequest(t.group, 5, "nobody")), topics=[])


@case("commit/metadata/1", "Metadata comes back as it was sent", source="semantics 3.1", api="OffsetCommit")
def metadata(t: Trial) -> None:
    topic = t.topic()
    t.equal(commit(t, topic, {0: 7}, metadata="a note – é 😀"), {0: 0}, "errors")
    t.equal(fetch(t, {topic: [0]})[topic, 0][2], "a note – é 😀", "metadata")


@case("commit/metadata/2", "Null metadata comes back empty", source="semantics 3.1", api="OffsetCommit")
def null_metadata(t: Trial) -> None:
    topic = t.topic()
    t.equal(commit(t, topic, {0: 7}, metadata=None), {0: 0}, "errors")
    t.equal(fetch(t, {topic: [0]})[topic, 0][2], "", "metadata")


@case(
    "commit/metadata/3",
    "Metadata above the limit is refused (12), for its partition alone",
    source="semantics 3.1; survey kfake 8",
    api="OffsetCommit",
)
def metadata_too_large(t: Trial) -> None:
    topic = t.topic()
    limit = t.limits.offset_metadata_max_bytes
    topics = [
        OffsetCommitRequestTopic(
            topic,
            t.topic_id(topic),
            [
                OffsetCommitRequestPartition(0, 1, committed_metadata="x" * (limit + 1)),
                OffsetCommitRequestPartition(1, 1, committed_metadata="x" * limit),
            ],
        )
    ]
    answer = t.call(OffsetCommitRequest(t.group, topics=topics))
    codes = {each.partition_index: each.error_code for each in answer.topics[0].partitions}
    t.equal(codes, {0: E.OFFSET_METADATA_TOO_LARGE, 1: 0}, "errors")


@case(
    "commit/metadata/4",
    "Metadata is measured in UTF-16 units, not in bytes",
    source="semantics 3.1",
    api="OffsetCommit",
    level=Level.SHOULD,
)
def metadata_units(t: Trial) -> None:
    topic = t.topic()
    limit = t.limits.offset_metadata_max_bytes
    t.equal(commit(t, topic, {0: 1}, metadata="é" * limit), {0: 0}, "errors of two-byte characters")
    codes = commit(t, topic, {0: 1}, metadata="😀" * (limit // 2 + 1))
    t.equal(codes, {0: E.OFFSET_METADATA_TOO_LARGE}, "errors of characters of two units")


@case(
    "commit/epoch/1", "The leader epoch of a commit comes back", source="KIP-320", api="OffsetCommit", versions=(6, 10)
)
def leader_epoch(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 7}, leader_epoch=3)
    t.equal(fetch(t, {topic: [0]})[topic, 0], (7, 3, "", 0), "the answer to OffsetFetch")


@case(
    "commit/offset/1",
    "An offset is stored as it is: nothing checks it against the log, not even its sign",
    source="semantics 3.1",
    api="OffsetCommit",
    level=Level.SHOULD,
)
def any_offset(t: Trial) -> None:
    topic = t.topic()
    t.equal(commit(t, topic, {0: 2**62, 1: -5}), {0: 0, 1: 0}, "errors")
    answer = fetch(t, {topic: [0, 1]})
    t.equal([answer[topic, n][0] for n in (0, 1)], [2**62, -5], "offsets")


@case(
    "commit/offset/2",
    "The last commit wins, even when it goes back",
    source="semantics 3.1; invariant I11",
    api="OffsetCommit",
)
def last_wins(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 100})
    commit(t, topic, {0: 50})
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 50, "the offset")


@case("commit/offset/3", "Offsets outlive the members", source="semantics 3.4", api="OffsetCommit")
def outlive(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    member.commit(topic, {1: 42})
    member.leave()
    t.equal(fetch(t, {topic: [1]})[topic, 1][0], 42, "the offset")


@case("commit/retention/1", "A retention time is accepted", source="semantics 3.1", api="OffsetCommit", versions=(2, 4))
def retention(t: Trial) -> None:
    topic = t.topic()
    t.equal(commit(t, topic, {0: 7}, retention_time_ms=3_600_000), {0: 0}, "errors")
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 7, "the offset")


@case(
    "commit/topic/7",
    "A topic named twice: every partition is answered",
    source="semantics 3.1",
    api="OffsetCommit",
    level=Level.MAY,
)
def topic_twice(t: Trial) -> None:
    topic = t.topic()
    topics = [
        OffsetCommitRequestTopic(topic, t.topic_id(topic), [OffsetCommitRequestPartition(n, 4, committed_metadata="")])
        for n in (0, 1)
    ]
    answer = t.call(OffsetCommitRequest(t.group, topics=topics))
    codes = sorted((p.partition_index, p.error_code) for each in answer.topics for p in each.partitions)
    t.equal(codes, [(0, 0), (1, 0)], "errors")
