"""Consumer groups (KIP-848): joining, epochs, what is owned by whom, leaving."""

from __future__ import annotations

from functools import partial
from typing import Any

from apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apis.wire.errors import ErrorCode as E
from conformance.case import Level, case
from conformance.consumer_member import ConsumerMember
from conformance.trial import Trial

consumer_case = partial(case, api="ConsumerGroupHeartbeat")


def disjoint(t: Trial, *members: ConsumerMember) -> set[tuple[str, int]]:
    """Everything the members own; `Failed` if something is owned twice."""
    owned = [each for member in members for each in member.owned]
    t.equal(len(owned), len(set(owned)), "number of partitions with one owner")
    return set(owned)


def partitions(topic: str, count: int) -> set[tuple[str, int]]:
    return {(topic, number) for number in range(count)}


# -- joining


@consumer_case(
    "consumer/join/1", "A member of a new group is given all partitions at epoch 1", source="KIP-848; semantics 4.5"
)
def first(t: Trial) -> None:
    topic = t.topic(3)
    member = t.consumer(topic)
    answer = member.join()
    t.expect(answer, member_epoch=1)
    t.check(answer.heartbeat_interval_ms > 0, "no heartbeat interval is told")
    t.converge(member)
    t.equal(member.owned, partitions(topic, 3), "what it owns")


@consumer_case(
    "consumer/join/2",
    "Subscribed to a topic that does not exist: epoch 1 with nothing; when it is made, epoch 2 and its partitions",
    source="semantics 7.1 CH3",
)
def missing_topic(t: Trial) -> None:
    name = f"later-{t.group}"
    member = t.consumer(name)
    t.expect(member.join(), member_epoch=1)
    t.equal(member.assigned, set(), "what it is assigned")
    t.new_topic(3, name)
    t.until(
        lambda: (member.obey(), member.owned)[1],
        lambda owned: owned == partitions(name, 3),
        "the partitions never came",
    )
    t.equal(member.epoch, 2, "its epoch")


@case(
    "consumer/join/3",
    "In version 0 a member without an id is given one",
    source="KIP-848; semantics 4.2",
    api="ConsumerGroupHeartbeat",
    versions=(0, 0),
)
def id_is_made(t: Trial) -> None:
    answer = t.consumer(t.topic()).full(member_id="")
    t.expect(answer, error_code=0, member_epoch=1)
    t.check(bool(answer.member_id), "no member id was given")


@case(
    "consumer/join/4",
    "From version 1 a member makes its own id: none is an invalid request (42)",
    source="KIP-1082; semantics 4.2",
    api="ConsumerGroupHeartbeat",
    versions=(1, 1),
)
def id_is_due(t: Trial) -> None:
    t.expect(t.consumer(t.topic()).full(member_id=""), error_code=E.INVALID_REQUEST)


@consumer_case("consumer/join/5", "The member id a member says is the one it has", source="KIP-1082")
def id_is_kept(t: Trial) -> None:
    member = t.consumer(t.topic())
    said = member.id
    t.expect(member.join(), member_id=said)


@consumer_case(
    "consumer/join/6",
    "An existing member that joins again with epoch 0 is given its state, not an error",
    source="R24, KAFKA-19233; semantics 4.4",
)
def joins_again(t: Trial) -> None:
    topic = t.topic(3)
    member = t.consumer(topic)
    member.join()
    t.converge(member)
    epoch = member.epoch
    t.expect(member.join(), member_epoch=epoch)
    t.converge(member)
    t.equal(member.owned, partitions(topic, 3), "what it owns")


@consumer_case(
    "consumer/join/7", "An empty list of topics is a subscription", source="semantics 4.2", level=Level.SHOULD
)
def no_topics(t: Trial) -> None:
    t.expect(t.consumer().join(), member_epoch=1)


# -- what a request must say


def invalid(t: Trial, **changes: Any) -> None:
    member = t.consumer(t.topic())
    t.expect(member.full(**changes), error_code=E.INVALID_REQUEST)


@consumer_case("consumer/validate/1", "A blank group id is an invalid request (42)", source="semantics 4.2; peers 3.10")
def blank_group(t: Trial) -> None:
    for text in ("", "  "):
        invalid(t, group_id=text)


@consumer_case(
    "consumer/validate/2", "An epoch below -2 is an invalid request (42)", source="semantics 4.2; peers 2.19, 3.10"
)
def low_epoch(t: Trial) -> None:
    for epoch in (-3, -7, -(2**31)):
        invalid(t, member_epoch=epoch)


@consumer_case(
    "consumer/validate/3",
    "Joining without a rebalance timeout is an invalid request (42)",
    source="semantics 4.2; peers 3.10",
)
def no_rebalance_timeout(t: Trial) -> None:
    invalid(t, rebalance_timeout_ms=-1)


@consumer_case(
    "consumer/validate/4",
    "Joining without a word on owned partitions, or with some, is an invalid request (42)",
    source="semantics 4.2",
)
def owned_at_join(t: Trial) -> None:
    invalid(t, topic_partitions=None)
    topic = t.topic()
    invalid(t, topic_partitions=[TopicPartitions(t.topic_id(topic), [0])])


@consumer_case(
    "consumer/validate/5",
    "Joining without a subscription is an invalid request (42)",
    source="semantics 4.2; peers 3.10",
)
def no_subscription(t: Trial) -> None:
    invalid(t, subscribed_topic_names=None)


@consumer_case(
    "consumer/validate/6",
    "A heartbeat after joining without a member id is an invalid request (42)",
    source="semantics 4.2",
)
def no_member_id(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.expect(member.heartbeat(member_id=""), error_code=E.INVALID_REQUEST)
    t.expect(member.heartbeat(member_id="", member_epoch=-1), error_code=E.INVALID_REQUEST)


@consumer_case(
    "consumer/validate/7", "A blank instance id or rack is an invalid request (42)", source="semantics 4.2; peers 3.10"
)
def blank_instance(t: Trial) -> None:
    invalid(t, instance_id="")
    invalid(t, rack_id="")


@consumer_case(
    "consumer/validate/8",
    "Leaving for a while (-2) without an instance id is an invalid request (42)",
    source="semantics 4.2, 8.1",
)
def static_leave_of_dynamic(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.expect(member.leave(-2), error_code=E.INVALID_REQUEST)


@consumer_case(
    "consumer/validate/9",
    "An assignor the coordinator does not have is refused (112)",
    source="semantics 4.2; peers 2.21",
)
def unknown_assignor(t: Trial) -> None:
    t.expect(t.consumer(t.topic(), assignor="dice").full(), error_code=E.UNSUPPORTED_ASSIGNOR)


@consumer_case("consumer/validate/10", "An invalid request says why", source="KIP-848", level=Level.SHOULD)
def says_why(t: Trial) -> None:
    t.check(bool(t.consumer(t.topic()).full(group_id="").error_message), "there is no message")


# -- who is known


@consumer_case(
    "consumer/unknown/1", "A heartbeat to a group that does not exist is told so (69)", source="semantics 4.3"
)
def unknown_group(t: Trial) -> None:
    t.expect(t.consumer(t.topic()).heartbeat(member_epoch=5), error_code=E.GROUP_ID_NOT_FOUND)
    t.expect(t.consumer(t.topic()).leave(), error_code=E.GROUP_ID_NOT_FOUND)


@consumer_case(
    "consumer/unknown/2", "A heartbeat of a member that is not in the group is unknown (25)", source="semantics 4.4"
)
def unknown_member(t: Trial) -> None:
    t.consumer(t.topic()).join()
    t.expect(t.consumer(t.topic()).heartbeat(member_epoch=1), error_code=E.UNKNOWN_MEMBER_ID)
    t.expect(t.consumer(t.topic()).leave(), error_code=E.UNKNOWN_MEMBER_ID)


@consumer_case("consumer/epoch/1", "An epoch above the member's is fenced (110)", source="semantics 4.4")
def epoch_above(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.expect(member.heartbeat(member_epoch=member.epoch + 1), error_code=E.FENCED_MEMBER_EPOCH)


@consumer_case(
    "consumer/epoch/2", "An epoch below the member's, not the one before, is fenced (110)", source="semantics 4.4"
)
def epoch_below(t: Trial) -> None:
    topic = t.topic()
    member = t.consumer(topic)
    member.join()
    for others in range(2):
        other = t.consumer(topic)
        other.join()
        t.converge(member, other)
        t.check(member.epoch >= 2 + others, f"its epoch is {member.epoch}")
        other.leave()
        t.converge(member)
    t.expect(member.heartbeat(member_epoch=1), error_code=E.FENCED_MEMBER_EPOCH)


@consumer_case(
    "consumer/epoch/3",
    "The epoch before is accepted of one that owns no more than it was assigned: its answer was lost",
    source="semantics 4.4; peers 2.23",
)
def lost_answer(t: Trial) -> None:
    topic = t.topic(3)
    member = t.consumer(topic)
    member.join()
    t.converge(member)
    before = member.epoch
    member.topics = [topic, t.topic(1)]
    member.full()
    t.equal(member.epoch, before + 1, "its epoch after subscribing to more")
    answer = member.full(member_epoch=before)
    t.expect(answer, error_code=0, member_epoch=before + 1)


@consumer_case(
    "consumer/epoch/4", "The group epoch grows when a member subscribes to something else", source="semantics 4.5"
)
def subscription_bumps(t: Trial) -> None:
    one, other = t.topic(3), t.topic(1)
    member = t.consumer(one)
    member.join()
    t.converge(member)
    member.topics = [other]
    member.full()
    t.converge(member)
    t.equal((member.epoch, member.owned), (2, partitions(other, 1)), "its epoch and what it owns")


@consumer_case("consumer/epoch/5", "A heartbeat that says the same again changes no epoch", source="semantics 4.5")
def same_again(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.converge(member)
    for _ in range(3):
        t.expect(member.full(), error_code=0, member_epoch=1)


# -- answers


@consumer_case(
    "consumer/answer/1",
    "A heartbeat that says nothing new is told no assignment: nothing has changed",
    source="semantics 4.5",
)
def quiet(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.converge(member)
    t.expect(member.heartbeat(), error_code=0, member_epoch=member.epoch, assignment=None)


@consumer_case("consumer/answer/2", "A heartbeat that says everything is told its assignment", source="semantics 4.5")
def full(t: Trial) -> None:
    topic = t.topic(3)
    member = t.consumer(topic)
    member.join()
    t.converge(member)
    t.check(member.full().assignment is not None, "no assignment was told")
    t.equal(member.assigned, partitions(topic, 3), "what it is assigned")


# -- sharing


@consumer_case(
    "consumer/share/1",
    "Two members come to share all partitions, none owned twice",
    source="KIP-848; semantics 4.6; I1",
)
def two(t: Trial) -> None:
    topic = t.topic(8)
    one, other = t.consumer(topic), t.consumer(topic)
    one.join()
    t.converge(one)
    other.join()
    t.converge(one, other)
    t.equal(disjoint(t, one, other), partitions(topic, 8), "what they own")
    t.equal({len(one.owned), len(other.owned)}, {4}, "how many each owns")


@consumer_case(
    "consumer/share/2",
    "A partition is given to another only after its owner gave it up",
    source="semantics 4.6; I1; peers 2.20",
)
def given_up_first(t: Trial) -> None:
    topic = t.topic(8)
    one, other = t.consumer(topic), t.consumer(topic)
    one.join()
    t.converge(one)
    other.join()
    t.equal(other.assigned, set(), "what the second is assigned at once")
    one.full()
    t.equal(len(one.assigned), 4, "how many the first may keep")
    epoch = one.epoch
    other.heartbeat()
    t.equal(other.assigned, set(), "what the second is assigned while the first holds on")
    one.obey()
    t.check(one.epoch > epoch, "the first did not come to the new epoch when it gave up")
    t.until(
        lambda: (other.heartbeat(), other.assigned)[1], lambda given: len(given) == 4, "the second never got its part"
    )


@consumer_case(
    "consumer/share/3",
    "A member that owns what it should lose stays at its epoch until it gives it up",
    source="semantics 4.6",
)
def stays_at_epoch(t: Trial) -> None:
    topic = t.topic(8)
    one, other = t.consumer(topic), t.consumer(topic)
    one.join()
    t.converge(one)
    before = one.epoch
    other.join()
    for _ in range(3):
        one.full()
        t.equal(one.epoch, before, "its epoch")


@consumer_case("consumer/share/4", "When one leaves, the others take over all it had", source="semantics 4.7")
def takes_over(t: Trial) -> None:
    topic = t.topic(8)
    members = [t.consumer(topic) for _ in range(3)]
    for each in members:
        each.join()
    t.converge(*members)
    t.expect(members[0].leave(), error_code=0, member_epoch=-1, member_id=members[0].id)
    t.converge(*members[1:])
    t.equal(disjoint(t, *members[1:]), partitions(topic, 8), "what the others own")


@consumer_case(
    "consumer/share/5",
    "Members with different subscriptions own only what each subscribed to",
    source="semantics 4.9; peers 2.21",
)
def different(t: Trial) -> None:
    one, other = t.topic(8), t.topic(3)
    both, single = t.consumer(one, other), t.consumer(other)
    both.join()
    single.join()
    t.converge(both, single)
    t.equal(disjoint(t, both, single), partitions(one, 8) | partitions(other, 3), "what they own")
    t.check(all(topic == other for topic, _ in single.owned), f"the second owns {single.owned}")


@consumer_case(
    "consumer/share/6",
    "Range gives each a run of every topic, the first ones one more",
    source="semantics 4.9; peers 2.21",
)
def ranges(t: Trial) -> None:
    topic = t.topic(8)
    members = [t.consumer(topic, assignor="range", instance_id=f"instance-{n}") for n in range(3)]
    for each in members:
        each.join()
    t.converge(*members)
    t.equal([sorted(n for _, n in each.owned) for each in members], [[0, 1, 2], [3, 4, 5], [6, 7]], "what each owns")


@consumer_case(
    "consumer/share/7",
    "More members than partitions: some own nothing, and nothing is owned twice",
    source="semantics 4.9",
)
def too_many(t: Trial) -> None:
    topic = t.topic(3)
    members = [t.consumer(topic) for _ in range(5)]
    for each in members:
        each.join()
    t.converge(*members)
    t.equal(disjoint(t, *members), partitions(topic, 3), "what they own")
    t.equal(sorted(len(each.owned) for each in members), [0, 0, 1, 1, 1], "how many each owns")


@consumer_case(
    "consumer/share/8",
    "One member that asks for another assignor does not decide alone",
    source="semantics 4.5; peers 3.11",
    level=Level.SHOULD,
)
def assignor_by_majority(t: Trial) -> None:
    topics = [t.topic(8), t.topic(100)]
    members = [t.consumer(*topics, assignor="range", instance_id=f"i{n}") for n in range(2)]
    members.append(t.consumer(*topics, assignor="uniform", instance_id="i2"))
    for each in members:
        each.join()
    t.converge(*members)
    runs = [sorted(n for topic, n in each.owned if topic == topics[1]) for each in members]
    t.equal(runs, [list(range(34)), list(range(34, 67)), list(range(67, 100))], "what each owns of the larger topic")


# -- leaving, static members


@consumer_case(
    "consumer/leave/1",
    "Who left is unknown (25), and the group Empty",
    source="semantics 4.7",
    uses=("ConsumerGroupDescribe",),
)
def left(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.expect(member.leave(), error_code=0, member_epoch=-1)
    t.expect(member.heartbeat(member_epoch=1), error_code=E.UNKNOWN_MEMBER_ID)


@consumer_case(
    "consumer/static/1",
    "A static member that leaves for a while (-2) comes back under another id to its partitions and epoch",
    source="semantics 7.1 CH4",
)
def comes_back(t: Trial) -> None:
    topic = t.topic(3)
    one = t.consumer(topic, instance_id="instance-1")
    other = t.consumer(topic)
    one.join()
    other.join()
    t.converge(one, other)
    had, epoch = set(one.owned), one.epoch
    t.expect(one.leave(-2), error_code=0, member_epoch=-2)
    back = t.consumer(topic, instance_id="instance-1")
    t.expect(back.join(), member_epoch=epoch)
    t.equal(back.assigned, had, "what it is assigned")
    other.heartbeat()
    t.equal(other.epoch, epoch, "the other's epoch")


@consumer_case(
    "consumer/static/2", "An instance id in use cannot be taken (111)", source="semantics 7.1 CH5; peers 2.23"
)
def in_use(t: Trial) -> None:
    t.consumer(t.topic(), instance_id="instance-1").join()
    other = t.consumer(t.topic(), instance_id="instance-1")
    t.expect(other.full(), error_code=E.UNRELEASED_INSTANCE_ID)


@consumer_case("consumer/static/3", "The member id that was replaced is fenced (82)", source="semantics 4.4; I8")
def replaced(t: Trial) -> None:
    old = t.consumer(t.topic(), instance_id="instance-1")
    old.join()
    epoch = old.epoch
    old.leave(-2)
    t.consumer(t.topic(), instance_id="instance-1").join()
    t.expect(old.heartbeat(member_epoch=epoch), error_code=E.FENCED_INSTANCE_ID)


@consumer_case(
    "consumer/static/4", "An instance id nobody has is unknown (25) once past joining", source="semantics 4.4"
)
def unknown_instance(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.expect(member.heartbeat(instance_id="nobody's"), error_code=E.UNKNOWN_MEMBER_ID)


@consumer_case(
    "consumer/static/5",
    "A static member that leaves for good (-1) frees its instance id and its partitions",
    source="semantics 4.7",
)
def leaves_for_good(t: Trial) -> None:
    topic = t.topic(3)
    one, other = t.consumer(topic, instance_id="instance-1"), t.consumer(topic)
    one.join()
    other.join()
    t.converge(one, other)
    t.expect(one.leave(), error_code=0, member_epoch=-1)
    t.converge(other)
    t.equal(other.owned, partitions(topic, 3), "what the other owns")
    t.consumer(topic, instance_id="instance-1").join()


@consumer_case("consumer/static/6", "While a static member is away its partitions stay its own", source="semantics 4.7")
def reserved(t: Trial) -> None:
    topic = t.topic(3)
    one, other = t.consumer(topic, instance_id="instance-1"), t.consumer(topic)
    one.join()
    other.join()
    t.converge(one, other)
    kept = set(other.owned)
    one.leave(-2)
    for _ in range(3):
        other.obey()
    t.equal(other.owned, kept, "what the other owns")


# -- time


def short_sessions(t: Trial, *members: ConsumerMember) -> None:
    """Give the group a session timeout of 500 ms and wait until the members' sessions are that."""
    t.configure(consumer_session_timeout_ms=500, consumer_heartbeat_interval_ms=100)
    for each in members:
        t.until(lambda each=each: each.heartbeat().heartbeat_interval_ms, lambda told: told == 100, "never configured")  # type: ignore[misc]


@consumer_case(
    "consumer/session/1",
    "A member that is silent for the session timeout is out, its partitions go to others",
    source="semantics 4.6",
    needs=("short-sessions",),
)
def expires(t: Trial) -> None:
    topic = t.topic(3)
    one, silent = t.consumer(topic), t.consumer(topic)
    one.join()
    silent.join()
    t.converge(one, silent)
    short_sessions(t, one, silent)
    t.until(
        lambda: (one.obey(), one.owned)[1], lambda owned: owned == partitions(topic, 3), "the silent one never expired"
    )
    t.expect(silent.heartbeat(), error_code=E.UNKNOWN_MEMBER_ID)


@consumer_case(
    "consumer/session/2",
    "A member that does not give up what it should within the rebalance timeout is out",
    source="semantics 4.6; peers 2.23",
    needs=("short-sessions",),
)
def holds_on(t: Trial) -> None:
    topic = t.topic(8)
    stubborn, other = t.consumer(topic, rebalance_timeout=400), t.consumer(topic)
    stubborn.join()
    t.converge(stubborn)
    other.join()
    t.until(
        lambda: stubborn.heartbeat(topic_partitions=stubborn.said_owned()).error_code,
        lambda code: code == E.UNKNOWN_MEMBER_ID,
        "the one that held on was never put out",
    )
    t.converge(other)
    t.equal(other.owned, partitions(topic, 8), "what the other owns")


@consumer_case(
    "consumer/session/3",
    "A static member that is away too long loses its place",
    source="semantics 4.7; peers 3.11",
    needs=("short-sessions",),
)
def away_too_long(t: Trial) -> None:
    topic = t.topic(3)
    one, other = t.consumer(topic, instance_id="instance-1"), t.consumer(topic)
    one.join()
    other.join()
    t.converge(one, other)
    short_sessions(t, other, one)
    one.leave(-2)
    t.until(
        lambda: (other.obey(), other.owned)[1],
        lambda owned: owned == partitions(topic, 3),
        "its partitions never came free",
    )


@consumer_case(
    "consumer/session/4",
    "An instance id in use is free once its holder's session timed out",
    source="semantics 7.1 CH5",
    needs=("short-sessions",),
)
def taken_after_expiry(t: Trial) -> None:
    holder = t.consumer(t.topic(), instance_id="instance-1")
    holder.join()
    short_sessions(t, holder)
    other = t.consumer(t.topic(), instance_id="instance-1")
    t.until(lambda: other.full(member_epoch=0).error_code, lambda code: code == 0, "the instance id never came free")


@consumer_case(
    "consumer/config/1", "A group's own heartbeat interval is told with the next heartbeat", source="semantics 7.1 CH6"
)
def interval(t: Trial) -> None:
    member = t.consumer(t.topic())
    usual = member.join().heartbeat_interval_ms
    t.configure(consumer_heartbeat_interval_ms=usual + 1000)
    told = t.until(
        lambda: member.heartbeat().heartbeat_interval_ms, lambda told: told != usual, "the interval never changed"
    )
    t.equal(told, usual + 1000, "the heartbeat interval")


# -- metadata


@consumer_case(
    "consumer/topic/1",
    "Partitions that are added are given out",
    source="semantics 4.5; peers 2.23",
    uses=("CreatePartitions",),
)
def grows(t: Trial) -> None:
    topic = t.new_topic(2)
    member = t.consumer(topic)
    member.join()
    t.converge(member)
    t.call(CreatePartitionsRequest([CreatePartitionsTopic(topic, 4, None)], 10_000))
    t.until(lambda: (member.obey(), member.owned)[1], lambda owned: owned == partitions(topic, 4), "they never came")


@consumer_case(
    "consumer/topic/2",
    "Partitions of a topic that is deleted are taken away",
    source="semantics 4.5",
    uses=("DeleteTopics",),
)
def shrinks(t: Trial) -> None:
    keep, gone = t.topic(3), t.new_topic(2)
    member = t.consumer(keep, gone)
    member.join()
    t.converge(member)
    t.equal(len(member.owned), 5, "how many it owns")
    if t.version_of("DeleteTopics") >= 6:
        t.call(DeleteTopicsRequest([DeleteTopicState(gone)], timeout_ms=10_000))
    else:
        t.call(DeleteTopicsRequest(topic_names=[gone], timeout_ms=10_000))
    t.until(
        lambda: (member.obey(), member.owned)[1],
        lambda owned: owned == partitions(keep, 3),
        "they were never taken away",
    )


regex_case = partial(case, api="ConsumerGroupHeartbeat", versions=(1, 1))
REFRESH = 15.0
"""Seconds in which a pattern is looked up again: a coordinator does so every 10 at most (semantics 4.7)."""


@regex_case(
    "consumer/regex/1",
    "A member that subscribes to a pattern comes to own what matches it",
    source="KIP-848; semantics 4.7",
)
def regex(t: Trial) -> None:
    stem = t.group.replace("/", "-")
    name = t.new_topic(2, f"{stem}-x")
    member = t.consumer(regex=f"{stem}-.*")
    member.join(subscribed_topic_names=[])
    t.until(
        lambda: (member.obey(), member.owned)[1], lambda owned: owned == partitions(name, 2), "they never came", REFRESH
    )


@regex_case("consumer/regex/2", "A pattern that is none is refused (128)", source="semantics 4.7; peers 3.10")
def bad_regex(t: Trial) -> None:
    t.expect(t.consumer(regex="[").full(), error_code=E.INVALID_REGULAR_EXPRESSION)


@regex_case("consumer/regex/3", "A pattern must match the whole name", source="semantics 4.7")
def whole_name(t: Trial) -> None:
    stem = t.group
    name, longer = t.new_topic(1, f"{stem}-x"), t.new_topic(1, f"{stem}-xy")
    member = t.consumer(regex=f"{stem}-x")
    member.join(subscribed_topic_names=[])
    t.until(lambda: (member.obey(), member.owned)[1], bool, "nothing ever came", REFRESH)
    t.equal(member.owned, partitions(name, 1), f"what it owns, {longer} being there too")


@regex_case("consumer/regex/4", "Names and a pattern are joined", source="semantics 4.7")
def names_and_regex(t: Trial) -> None:
    named, matched = t.topic(3), t.new_topic(1, f"{t.group}-x")
    member = t.consumer(named, regex=f"{t.group}-.*")
    member.join()
    expected = partitions(named, 3) | partitions(matched, 1)
    t.until(lambda: (member.obey(), member.owned)[1], lambda owned: owned == expected, "they never came", REFRESH)


@case(
    "consumer/size/1",
    "A full group refuses a newcomer (81)",
    source="semantics 4.3",
    api="ConsumerGroupHeartbeat",
    profile="limits",
)
def size(t: Trial) -> None:
    topic = t.topic()
    for _ in range(t.limits.max_group_size):
        t.consumer(topic).join()
    t.expect(t.consumer(topic).full(), error_code=E.GROUP_MAX_SIZE_REACHED)


@consumer_case("consumer/connection/1", "What a member owns does not hang on its connection", source="peers 2.20")
def connection(t: Trial) -> None:
    topic = t.topic(3)
    one = t.consumer(topic)
    one.join()
    t.converge(one)
    anew = t.consumer(topic)
    other = t.consumer(topic)
    other.join()
    t.equal(other.assigned, set(), "what a newcomer is assigned at once")
    request = ConsumerGroupHeartbeatRequest(t.group, one.id, one.epoch)
    t.expect(anew.wire.call(request, t.version), error_code=0, member_id=one.id)
