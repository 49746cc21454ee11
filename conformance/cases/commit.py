"""Cases about OffsetCommit: the permitted clients, in each state of the group."""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.offsets import commit, fetch
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level


@case("commit/member/1", "A member of a Stable group commits", source="semantics 7.1 OC1", api="OffsetCommit")
def by_member(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    t.equal(member.commit(topic, {0: 10, 2: 12}), {0: 0, 2: 0}, "errors")
    answer = fetch(t, {topic: [0, 1, 2]})
    t.equal([answer[topic, n][0] for n in range(3)], [10, -1, 12], "offsets")


@case(
    "commit/member/2",
    "A member's commit is seen by others as soon as it is answered",
    source="semantics 3.1",
    api="OffsetCommit",
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


@case(
    "commit/member/4",
    "A wrong generation is refused (22)",
    source="semantics 7.1 OC5; client cases R11, R12",
    api="OffsetCommit",
)
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
    "A client without a member id and generation may commit to a group that does not exist",
    source="semantics 3.1, 7.1 OC6",
    api="OffsetCommit",
)
def simple(t: Trial) -> None:
    topic = t.topic()
    t.equal(commit(t, topic, {0: 7}), {0: 0}, "errors")
    t.equal(fetch(t, {topic: [0]})[topic, 0], (7, -1, "", 0), "the answer to OffsetFetch")


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
    "A client that is not a member may not commit while the group has members (25)",
    source="semantics 3.1",
    api="OffsetCommit",
)
def simple_into_live(t: Trial) -> None:
    topic = t.topic()
    t.stable(1)
    t.equal(commit(t, topic, {0: 1}), {0: E.UNKNOWN_MEMBER_ID}, "errors")


@case(
    "commit/simple/4",
    "After all members have left any client may commit again",
    source="semantics 3.1; survey rdkafka-mock 17",
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
    source="semantics 3.1; survey kfake 6",
    api="OffsetCommit",
)
def into_empty(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    member.leave()
    t.equal(member.commit(topic, {0: 1}), {0: E.UNKNOWN_MEMBER_ID}, "errors")


@case("commit/state/2", "In CompletingRebalance a commit is answered 27", source="semantics 3.1", api="OffsetCommit")
def in_completing(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.joined(1)
    t.equal(member.commit(topic, {0: 1}), {0: E.REBALANCE_IN_PROGRESS}, "errors")


@case(
    "commit/state/3",
    "In PreparingRebalance a commit of the current generation is accepted",
    source="semantics 3.1; survey rdkafka-mock 7",
    api="OffsetCommit",
)
def in_preparing(t: Trial) -> None:
    topic = t.topic()
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    t.equal(follower.commit(topic, {0: 5}), {0: 0}, "errors of a member the round waits for")
    t.equal(leader.commit(topic, {1: 6}), {1: 0}, "errors of a member that has joined again")
    t.equal(fetch(t, {topic: [0]})[topic, 0][0], 5, "the offset")


@case(
    "commit/state/4",
    "A commit of the generation before is refused (22) in Stable",
    source="semantics 3.1; invariant I6",
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
    t.equal(codes, {0: E.UNKNOWN_MEMBER_ID}, "errors with an unknown instance id")
