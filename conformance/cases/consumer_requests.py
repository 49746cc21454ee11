"""Cases about KIP-848 heartbeats: required fields, accepted members and epochs, assignments in answers."""

from __future__ import annotations

from typing import Any

from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.cases.consumer import consumer_case, partitions
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

# -- required fields


def invalid(t: Trial, **changes: Any) -> None:
    member = t.consumer(t.topic())
    t.expect(member.full(**changes), error_code=E.INVALID_REQUEST)


@consumer_case(
    "consumer/validate/1", "A blank group id is an invalid request (42)", source="semantics 4.2; survey kfake 10"
)
def blank_group(t: Trial) -> None:
    for text in ("", "  "):
        invalid(t, group_id=text)


@consumer_case(
    "consumer/validate/2",
    "An epoch below -2 is an invalid request (42)",
    source="semantics 4.2; survey rdkafka-mock 19, kfake 10",
)
def low_epoch(t: Trial) -> None:
    for epoch in (-3, -7, -(2**31)):
        invalid(t, member_epoch=epoch)


@consumer_case(
    "consumer/validate/3",
    "Joining without a rebalance timeout is an invalid request (42)",
    source="semantics 4.2; survey kfake 10",
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
    source="semantics 4.2; survey kfake 10",
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
    "consumer/validate/7",
    "A blank instance id or rack is an invalid request (42)",
    source="semantics 4.2; survey kfake 10",
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
    source="semantics 4.2; survey rdkafka-mock 21",
)
def unknown_assignor(t: Trial) -> None:
    t.expect(t.consumer(t.topic(), assignor="dice").full(), error_code=E.UNSUPPORTED_ASSIGNOR)


@consumer_case(
    "consumer/validate/10", "The answer to an invalid request has a message", source="KIP-848", level=Level.SHOULD
)
def says_why(t: Trial) -> None:
    t.check(bool(t.consumer(t.topic()).full(group_id="").error_message), "there is no message")


# -- unknown groups and members


@consumer_case("consumer/unknown/1", "A heartbeat to an unknown group is answered 69", source="semantics 4.3")
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
    source="semantics 4.4; survey rdkafka-mock 23",
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
    t.equal((member.epoch, member.owned), (t.first_epoch + 1, partitions(other, 1)), "its epoch and partitions")


@consumer_case("consumer/epoch/5", "A heartbeat that repeats its fields changes no epoch", source="semantics 4.5")
def same_again(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.converge(member)
    for _ in range(3):
        t.expect(member.full(), error_code=0, member_epoch=t.first_epoch)


# -- answers


@consumer_case(
    "consumer/answer/1",
    "A heartbeat without changes gets no assignment: nothing has changed",
    source="semantics 4.5",
)
def quiet(t: Trial) -> None:
    member = t.consumer(t.topic())
    member.join()
    t.converge(member)
    t.expect(member.heartbeat(), error_code=0, member_epoch=member.epoch, assignment=None)


@consumer_case("consumer/answer/2", "A heartbeat with all fields gets the assignment", source="semantics 4.5")
def full(t: Trial) -> None:
    topic = t.topic(3)
    member = t.consumer(topic)
    member.join()
    t.converge(member)
    t.check(member.full().assignment is not None, "the answer has no assignment")
    t.equal(member.assigned, partitions(topic, 3), "its assignment")
