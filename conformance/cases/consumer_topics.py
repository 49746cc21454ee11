"""Cases about KIP-848: created, growing and deleted topics, and subscriptions by pattern."""

from __future__ import annotations

from functools import partial

from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_shim.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.consumer import consumer_case, partitions
from kafka_shim.conformance.trial import Trial


@consumer_case(
    "consumer/topic/1",
    "Partitions that are added are assigned",
    source="semantics 4.5; survey rdkafka-mock 23",
    uses=("CreatePartitions",),
)
def grows(t: Trial) -> None:
    topic = t.new_topic(2)
    member = t.consumer(topic)
    member.join()
    t.converge(member)
    t.call(CreatePartitionsRequest([CreatePartitionsTopic(topic, 4, None)], 10_000))
    t.until(
        lambda: (member.reconcile(), member.owned)[1], lambda owned: owned == partitions(topic, 4), "they never came"
    )


@consumer_case(
    "consumer/topic/2",
    "Partitions of a topic that is deleted are taken away",
    source="semantics 4.5",
    uses=("DeleteTopics",),
)
def shrinks(t: Trial) -> None:
    keep, deleted = t.topic(3), t.new_topic(2)
    member = t.consumer(keep, deleted)
    member.join()
    t.converge(member)
    t.equal(len(member.owned), 5, "how many it owns")
    if t.version_of("DeleteTopics") >= 6:
        t.call(DeleteTopicsRequest([DeleteTopicState(deleted)], timeout_ms=10_000))
    else:
        t.call(DeleteTopicsRequest(topic_names=[deleted], timeout_ms=10_000))
    t.until(
        lambda: (member.reconcile(), member.owned)[1],
        lambda owned: owned == partitions(keep, 3),
        "they were never taken away",
    )


regex_case = partial(case, api="ConsumerGroupHeartbeat", versions=(1, 1), is_long=True)
REFRESH = 15.0
"""Seconds until a pattern is evaluated again; the coordinator's own limit is 10 (semantics 4.7)."""


@regex_case(
    "consumer/regex/1",
    "A member that subscribes to a pattern gets the matching topics",
    source="KIP-848; semantics 4.7",
)
def regex(t: Trial) -> None:
    stem = t.group.replace("/", "-")
    name = t.new_topic(2, f"{stem}-x")
    member = t.consumer(regex=f"{stem}-.*")
    member.join(subscribed_topic_names=[])
    t.until(
        lambda: (member.reconcile(), member.owned)[1],
        lambda owned: owned == partitions(name, 2),
        "they never came",
        REFRESH,
    )


@regex_case("consumer/regex/2", "A pattern that is none is refused (128)", source="semantics 4.7; survey kfake 10")
def bad_regex(t: Trial) -> None:
    t.expect(t.consumer(regex="[").full(), error_code=E.INVALID_REGULAR_EXPRESSION)
    t.expect(t.consumer(regex=r"a\C").full(), error_code=E.INVALID_REGULAR_EXPRESSION)
    t.expect(t.consumer(regex=r"\Q\C\E").full(), error_code=0)


@regex_case("consumer/regex/3", "A pattern must match the whole name", source="semantics 4.7")
def whole_name(t: Trial) -> None:
    stem = t.group
    name, longer = t.new_topic(1, f"{stem}-x"), t.new_topic(1, f"{stem}-xy")
    member = t.consumer(regex=f"{stem}-x")
    member.join(subscribed_topic_names=[])
    t.until(lambda: (member.reconcile(), member.owned)[1], bool, "nothing ever came", REFRESH)
    t.equal(member.owned, partitions(name, 1), f"what it owns, {longer} being there too")


@regex_case("consumer/regex/4", "Names and a pattern are joined", source="semantics 4.7")
def names_and_regex(t: Trial) -> None:
    by_name, matched = t.topic(3), t.new_topic(1, f"{t.group}-x")
    member = t.consumer(by_name, regex=f"{t.group}-.*")
    member.join()
    expected = partitions(by_name, 3) | partitions(matched, 1)
    t.until(lambda: (member.reconcile(), member.owned)[1], lambda owned: owned == expected, "they never came", REFRESH)


@regex_case(
    "consumer/regex/5",
    "The deletion of a topic that a pattern matched makes one epoch, and the next evaluation of the pattern another",
    source="KIP-848; semantics 4.5, 4.7",
    uses=("DeleteTopics", "ConsumerGroupDescribe"),
)
def one_epoch(t: Trial) -> None:
    stays, deleted = t.new_topic(1, f"{t.group}-x"), t.new_topic(1, f"{t.group}-y")
    member = t.consumer(regex=f"{t.group}-.*")
    member.join(subscribed_topic_names=[])
    both = partitions(stays, 1) | partitions(deleted, 1)
    t.until(lambda: (member.reconcile(), member.owned)[1], lambda owned: owned == both, "they never came", REFRESH)

    def group_epoch() -> int:
        described = t.call(ConsumerGroupDescribeRequest([t.group])).groups[0]
        return int(described.group_epoch)

    before = group_epoch()
    t.call(DeleteTopicsRequest([DeleteTopicState(deleted)], timeout_ms=10_000))
    t.until(
        lambda: (member.reconcile(), member.owned)[1],
        lambda owned: owned == partitions(stays, 1),
        "it was never taken away",
        REFRESH,
    )
    t.equal(group_epoch() - before, 1, "how many epochs the deletion made")
    # A new topic, of any name, brings the next evaluation; other cases make topics too.
    t.new_topic(1)
    t.until(
        lambda: (member.reconcile(), group_epoch() - before)[1],
        lambda epochs: epochs == 2,
        "the pattern kept the topic",
        REFRESH,
    )


# -- ties and second thoughts


@consumer_case(
    "consumer/tie/1",
    "As many members for range as for uniform: uniform assigns",
    source="KIP-848; semantics 4.5 step 4",
    uses=("ConsumerGroupDescribe",),
)
def tie(t: Trial) -> None:
    topic = t.topic(3)
    members = [t.consumer(topic, assignor=name) for name in ("range", "uniform")]
    for member in members:
        t.expect(member.join(), error_code=0)
    t.converge(*members)
    t.expect(t.call(ConsumerGroupDescribeRequest([t.group])).groups[0], assignor_name="uniform")


@consumer_case(
    "consumer/instance/1",
    "An instance id that its member gave up for another is free from 4.4 on; before, it is 25 once the member left",
    source="KIP-848; semantics 4.7 step 1",
)
def two_instance_ids(t: Trial) -> None:
    topic = t.topic(3)
    member = t.consumer(topic, instance_id="first")
    t.expect(member.join(), error_code=0)
    member.instance_id = "second"
    t.expect(member.join(), error_code=0)
    t.expect(member.heartbeat(member_epoch=-1), error_code=0)
    other = t.consumer(topic, instance_id="first")
    other.epoch = 1
    t.expect(other.heartbeat(), error_code=E.UNKNOWN_MEMBER_ID)
    error = E.NONE if t.rules.instance_id_moves else E.UNKNOWN_MEMBER_ID
    t.expect(t.consumer(topic, instance_id="first").full(), error_code=error)
