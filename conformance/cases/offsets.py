"""OffsetCommit and OffsetFetch: who may commit, what comes back, and what is no error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from apis.wire.errors import ErrorCode as E
from conformance.case import Level, NotServed, case
from conformance.trial import Trial

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
    """OffsetCommit by anybody; the error code of each partition."""
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
    wanted: Mapping[str, list[int]] | None,
    *,
    group: str | None = None,
    stable: bool = False,
    code: int = 0,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> dict[tuple[str, int], Partition]:
    """OffsetFetch of one group; what each partition was answered. `wanted` None asks for all."""
    version = t.version_of("OffsetFetch")
    group = t.group if group is None else group
    ids = t.peer.topic_ids
    if version <= 7:
        topics = None if wanted is None else [OffsetFetchRequestTopic(name, parts) for name, parts in wanted.items()]
        answer = t.call(OffsetFetchRequest(group, topics, require_stable=stable))
        t.expect(answer, error_code=code if version >= 2 else 0)
        found = answer.topics
    else:
        listed = (
            None
            if wanted is None
            else [OffsetFetchRequestTopics(name, ids.get(name, b"\7" * 16), parts) for name, parts in wanted.items()]
        )
        asked = OffsetFetchRequestGroup(group, member_id, member_epoch, listed)
        answer = t.call(OffsetFetchRequest(groups=[asked], require_stable=stable))
        t.equal([each.group_id for each in answer.groups], [group], "groups answered")
        t.expect(answer.groups[0], error_code=code)
        found = answer.groups[0].topics
    if {each.error_code for topic in found for each in topic.partitions} == {E.UNSUPPORTED_VERSION}:
        raise NotServed(f"OffsetFetch v{version} is answered UNSUPPORTED_VERSION (35)")
    names = {topic_id: name for name, topic_id in ids.items()}
    return {
        (names.get(topic.topic_id, "?") if version >= 10 else topic.name, each.partition_index): (
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for topic in found
        for each in topic.partitions
    }


# -- commit


@case("commit/member/1", "A member of a Stable group commits", source="semantics 7.1 OC1", api="OffsetCommit")
def by_member(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    t.equal(member.commit(topic, {0: 10, 2: 12}), {0: 0, 2: 0}, "errors")
    found = fetch(t, {topic: [0, 1, 2]})
    t.equal([found[topic, n][0] for n in range(3)], [10, -1, 12], "offsets")


@case(
    "commit/member/2", "A member's commit is seen by others as soon as it is answered", source="R29", api="OffsetCommit"
)
def seen_at_once(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    for offset in range(5):
        t.equal(member.commit(topic, {0: offset}), {0: 0}, "errors")
        t.equal(fetch(t, {topic: [0]})[topic, 0][0], offset, "the offset fetched right after")


@case(
    "commit/group/1",
    "A generation in a group that does not exist: 69 from v9, 22 before",
    source="semantics 3.1, 7.1 OC2",
    api="OffsetCommit",
)
def unknown_group(t: Trial) -> None:
    topic = t.topic()
    code = E.GROUP_ID_NOT_FOUND if t.version >= 9 else E.ILLEGAL_GENERATION
    t.equal(commit(t, topic, {0: 1}, generation=5, member_id="somebody"), {0: code}, "errors")


@case(
    "commit/group/2", "The empty group id is a group like another", source="semantics 3.1, 7.1 OC3", api="OffsetCommit"
)
def empty_group_id(t: Trial) -> None:
    topic = t.topic()
    code = E.GROUP_ID_NOT_FOUND if t.version >= 9 else E.ILLEGAL_GENERATION
    t.equal(commit(t, topic, {0: 1}, group="", generation=5, member_id="somebody"), {0: code}, "errors")


@case(
    "commit/member/3",
    "An empty member id with a generation is unknown (25)",
    source="semantics 7.1 OC4",
    api="OffsetCommit",
)
def empty_member(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    t.equal(commit(t, topic, {0: 1}, generation=member.generation), {0: E.UNKNOWN_MEMBER_ID}, "errors")


@case("commit/member/4", "A wrong generation is refused (22)", source="semantics 7.1 OC5; R11, R12", api="OffsetCommit")
def wrong_generation(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    for generation in (0, 2, -1):
        codes = commit(t, topic, {0: 1}, generation=generation, member_id=member.id)
        t.equal(codes, {0: E.ILLEGAL_GENERATION}, f"errors of generation {generation}")


@case(
    "commit/member/5",
    "A member id that is not in the group is unknown (25)",
    source="semantics 3.1",
    api="OffsetCommit",
)
def unknown_member(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    codes = commit(t, topic, {0: 1}, generation=member.generation, member_id="nobody")
    t.equal(codes, {0: E.UNKNOWN_MEMBER_ID}, "errors")


@case(
    "commit/simple/1",
    "Anybody may commit to a group that does not exist, without a member id and generation",
    source="semantics 3.1, 7.1 OC6",
    api="OffsetCommit",
)
def simple(t: Trial) -> None:
    topic = t.topic()
    t.equal(commit(t, topic, {0: 7}), {0: 0}, "errors")
    t.equal(fetch(t, {topic: [0]})[topic, 0], (7, -1, "", 0), "what is fetched")


@case(
    "commit/simple/2",
    "A group made by a commit is Empty and has no protocol type",
    source="semantics 3.1",
    api="OffsetCommit",
    uses=("DescribeGroups",),
)
def simple_described(t: Trial) -> None:
    commit(t, t.topic(), {0: 7})
    t.expect(t.describe(), error_code=0, group_state="Empty", protocol_type="", members=[])


@case(
    "commit/simple/3",
    "Who is no member may not commit while the group has members (25)",
    source="semantics 3.1",
    api="OffsetCommit",
)
def simple_into_live(t: Trial) -> None:
    topic = t.topic()
    t.stable(1)
    t.equal(commit(t, topic, {0: 1}), {0: E.UNKNOWN_MEMBER_ID}, "errors")


@case(
    "commit/simple/4",
    "When all members have left anybody may commit again",
    source="semantics 3.1; peers 2.17",
    api="OffsetCommit",
)
def simple_into_empty(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    member.leave()
    t.equal(commit(t, topic, {0: 1}), {0: 0}, "errors")


@case("commit/simple/5", "A group made by a commit takes members", source="semantics 3.1", api="OffsetCommit")
def simple_then_join(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 3})
    (member,) = t.stable(1)
    t.equal(member.generation, 1, "the first generation")
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 3, "the offset")


@case(
    "commit/state/1",
    "With a generation into an Empty group the member is unknown (25)",
    source="semantics 3.1; peers 3.6",
    api="OffsetCommit",
)
def into_empty(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    member.leave()
    t.equal(member.commit(topic, {0: 1}), {0: E.UNKNOWN_MEMBER_ID}, "errors")


@case("commit/state/2", "In CompletingRebalance a commit is told 27", source="semantics 3.1", api="OffsetCommit")
def in_completing(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.joined(1)
    t.equal(member.commit(topic, {0: 1}), {0: E.REBALANCE_IN_PROGRESS}, "errors")


@case(
    "commit/state/3",
    "In PreparingRebalance a commit of the current generation is accepted",
    source="semantics 3.1; R28; peers 2.7",
    api="OffsetCommit",
)
def in_preparing(t: Trial) -> None:
    topic = t.topic()
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.equal(follower.commit(topic, {0: 5}), {0: 0}, "errors of one who is waited for")
    t.equal(leader.commit(topic, {1: 6}), {1: 0}, "errors of one who has joined again")
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 5, "the offset")


@case(
    "commit/state/4",
    "A commit of the generation before is refused (22) in Stable",
    source="semantics 3.1; I6",
    api="OffsetCommit",
)
def old_generation(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    old = member.generation
    t.settle([member])
    t.equal(member.commit(topic, {0: 1}), {0: 0}, "errors of the new generation")
    t.equal(
        member.commit(topic, {0: 1}, generation_id_or_member_epoch=old),
        {0: E.ILLEGAL_GENERATION},
        "errors of the old one",
    )


@case(
    "commit/session/1",
    "A commit renews the session as a heartbeat does",
    source="semantics 2.7, 3.1",
    api="OffsetCommit",
    needs=("short-sessions",),
)
def renews(t: Trial) -> None:
    topic = t.topic()
    session = t.limits.session * 2
    (member,) = t.stable(1, session_timeout=session)
    t.lapse(session * 2.2, lambda: t.equal(member.commit(topic, {0: 1}), {0: 0}, "errors"), every=session / 6)


@case(
    "commit/static/1",
    "A static member commits with its instance id",
    source="KIP-345",
    api="OffsetCommit",
    versions=(7, 10),
)
def static(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1, instance_id="instance-1")
    t.equal(member.commit(topic, {0: 1}), {0: 0}, "errors")
    t.equal(
        member.commit(topic, {0: 1}, member_id="another"), {0: E.FENCED_INSTANCE_ID}, "errors with another member id"
    )
    t.equal(
        member.commit(topic, {0: 1}, group_instance_id="another"),
        {0: E.UNKNOWN_MEMBER_ID},
        "errors with another instance",
    )


@case(
    "commit/static/2",
    "An instance id without member id and generation is judged as a member's",
    source="semantics 3.1",
    api="OffsetCommit",
    versions=(7, 10),
    level=Level.SHOULD,
)
def instance_alone(t: Trial) -> None:
    topic = t.topic()
    t.stable(1, instance_id="instance-1")
    codes = commit(t, topic, {0: 1}, group_instance_id="instance-1")
    t.equal(codes, {0: E.FENCED_INSTANCE_ID}, "errors")
    codes = commit(t, topic, {0: 1}, group_instance_id="another")
    t.equal(codes, {0: E.UNKNOWN_MEMBER_ID}, "errors with an instance nobody has")


@case(
    "commit/topic/1",
    "A topic that does not exist is told (3), the others are committed",
    source="semantics 3.1",
    api="OffsetCommit",
    versions=(2, 9),
)
def unknown_topic(t: Trial) -> None:
    topic = t.topic()
    known = OffsetCommitRequestTopic(topic, bytes(16), [OffsetCommitRequestPartition(0, 4, committed_metadata="")])
    unknown = OffsetCommitRequestTopic(
        "no-such", bytes(16), [OffsetCommitRequestPartition(0, 4, committed_metadata="")]
    )
    answer = t.call(OffsetCommitRequest(t.group, topics=[unknown, known]))
    codes = {each.name: each.partitions[0].error_code for each in answer.topics}
    t.equal(codes, {topic: 0, "no-such": E.UNKNOWN_TOPIC_OR_PARTITION}, "errors")


@case(
    "commit/topic/2",
    "A topic id that does not exist is told (100)",
    source="KIP-848; semantics 3.1",
    api="OffsetCommit",
    versions=(10, 10),
)
def unknown_topic_id(t: Trial) -> None:
    t.equal(commit(t, "", {0: 4}, topic_id=b"\7" * 16), {0: E.UNKNOWN_TOPIC_ID}, "errors")


@case(
    "commit/topic/3",
    "A partition that does not exist is told (3), the others are committed",
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
    source="semantics 3.1; peers 3.8",
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
    t.equal(fetch(t, {topic: [0]})[topic, 0], (7, 3, "", 0), "what is fetched")


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
    found = fetch(t, {topic: [0, 1]})
    t.equal([found[topic, n][0] for n in (0, 1)], [2**62, -5], "offsets")


@case(
    "commit/offset/2", "The last commit wins, even when it goes back", source="semantics 3.1; I11", api="OffsetCommit"
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


# -- fetch


@case(
    "fetch/one/1",
    "Partitions asked about are answered, those never committed with -1",
    source="semantics 7.1 OF1",
    api="OffsetFetch",
)
def explicit(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 11})
    found = fetch(t, {topic: [0, 1]})
    t.equal(found, {(topic, 0): (11, -1, "", 0), (topic, 1): NO_OFFSET}, "what is fetched")


@case(
    "fetch/unknown/1",
    "A group that does not exist has no offsets, and that is no error",
    source="semantics 3.3, 7.1 OF2; peers 3.7",
    api="OffsetFetch",
)
def unknown_group_is_fine(t: Trial) -> None:
    topic = t.topic()
    t.equal(fetch(t, {topic: [0]}), {(topic, 0): NO_OFFSET}, "what is fetched")


@case(
    "fetch/unknown/2",
    "A topic that does not exist has no offsets, and that is no error",
    source="semantics 3.3, 7.1 OF3",
    api="OffsetFetch",
    versions=(0, 9),
)
def unknown_topic_is_fine(t: Trial) -> None:
    t.equal(fetch(t, {"no-such": [0, 5]}), {("no-such", 0): NO_OFFSET, ("no-such", 5): NO_OFFSET}, "what is fetched")


@case(
    "fetch/unknown/3",
    "A topic id that does not exist is told (100) for each partition",
    source="semantics 3.3",
    api="OffsetFetch",
    versions=(10, 10),
)
def unknown_id(t: Trial) -> None:
    t.equal(fetch(t, {"no-such": [0]}), {("?", 0): (-1, -1, "", E.UNKNOWN_TOPIC_ID)}, "what is fetched")


@case(
    "fetch/unknown/4",
    "A partition that does not exist has no offset, and that is no error",
    source="semantics 3.3",
    api="OffsetFetch",
)
def unknown_partition_is_fine(t: Trial) -> None:
    topic = t.topic(3)
    t.equal(fetch(t, {topic: [77]}), {(topic, 77): NO_OFFSET}, "what is fetched")


@case(
    "fetch/all/1",
    "Without topics all that was committed is answered",
    source="semantics 7.1 OF6; peers 2.17",
    api="OffsetFetch",
    versions=(2, 10),
)
def everything(t: Trial) -> None:
    one, other = t.topic(3), t.topic(1)
    commit(t, one, {0: 1, 2: 3})
    commit(t, other, {0: 4})
    found = {key: value[0] for key, value in fetch(t, None).items()}
    t.equal(found, {(one, 0): 1, (one, 2): 3, (other, 0): 4}, "what is fetched")


@case(
    "fetch/all/2",
    "All of a group that does not exist is nothing, and that is no error",
    source="semantics 7.1 OF7",
    api="OffsetFetch",
    versions=(2, 10),
)
def everything_of_nobody(t: Trial) -> None:
    t.equal(fetch(t, None), {}, "what is fetched")


@case("fetch/none/1", "An empty list of topics is answered with nothing", source="semantics 3.3", api="OffsetFetch")
def nothing(t: Trial) -> None:
    commit(t, t.topic(), {0: 1})
    t.equal(fetch(t, {}), {}, "what is fetched")


@case(
    "fetch/many/1",
    "Several groups in one request: each is answered by itself",
    source="KIP-709; semantics 7.1 OF8",
    api="OffsetFetch",
    versions=(8, 10),
)
def many(t: Trial) -> None:
    topic = t.topic()
    groups = [f"{t.group}-{n}" for n in range(3)]
    for n, group in enumerate(groups):
        commit(t, topic, {0: n}, group=group)
    wanted = OffsetFetchRequestTopics(topic, t.topic_id(topic), [0])
    asked = [
        OffsetFetchRequestGroup(groups[0], topics=[wanted]),
        OffsetFetchRequestGroup(groups[1], topics=None),
        OffsetFetchRequestGroup(groups[2], topics=[]),
        OffsetFetchRequestGroup(t.group + "-missing", topics=[wanted]),
    ]
    answer = {each.group_id: each for each in t.call(OffsetFetchRequest(groups=asked)).groups}
    offsets = {
        group: [p.committed_offset for topic in each.topics for p in topic.partitions] for group, each in answer.items()
    }
    t.equal(offsets, {groups[0]: [0], groups[1]: [1], groups[2]: [], t.group + "-missing": [-1]}, "offsets")
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
        fetch(t, {topic: [0, 1]}, stable=True), {(topic, 0): (11, -1, "", 0), (topic, 1): NO_OFFSET}, "what is fetched"
    )
    t.equal(fetch(t, None, stable=True), {(topic, 0): (11, -1, "", 0)}, "all that is fetched")


@case(
    "fetch/member/1",
    "A classic group's offsets are told whatever member id and epoch is said",
    source="semantics 3.3",
    api="OffsetFetch",
    versions=(9, 10),
)
def any_member(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    member.commit(topic, {0: 3})
    found = fetch(t, {topic: [0]}, member_id="nobody", member_epoch=99)
    t.equal(found[topic, 0][0], 3, "the offset")


@case(
    "fetch/group-id/1",
    "The empty group id is a group like another",
    source="semantics 3.3",
    api="OffsetFetch",
    level=Level.SHOULD,
)
def empty_id(t: Trial) -> None:
    t.equal(fetch(t, {t.topic(): [2]}, group="")[t.topic(), 2], NO_OFFSET, "what is fetched")


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
    "Every partition asked about is answered, in a topic of many",
    source="semantics 3.3",
    api="OffsetFetch",
)
def hundred(t: Trial) -> None:
    topic = t.topic(100)
    commit(t, topic, {n: n * n for n in range(100)})
    found = fetch(t, {topic: list(range(100))})
    t.equal([found[topic, n][0] for n in range(100)], [n * n for n in range(100)], "offsets")
