"""Cases about consumer groups (KIP-848): joining, and the partitions of each member when several share."""

from __future__ import annotations

from functools import partial

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.consumer_member import ConsumerMember
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

consumer_case = partial(case, api="ConsumerGroupHeartbeat")


def disjoint(t: Trial, *members: ConsumerMember) -> set[tuple[str, int]]:
    """Return all partitions of the members; raise `Failed` if two members own one."""
    owned = [each for member in members for each in member.owned]
    t.equal(len(owned), len(set(owned)), "number of partitions with one owner")
    return set(owned)


def partitions(topic: str, count: int) -> set[tuple[str, int]]:
    return {(topic, number) for number in range(count)}


# -- joining


@consumer_case(
    "consumer/join/1", "A member of a new group gets all partitions at the first epoch", source="KIP-848; semantics 4.5"
)
def first(t: Trial) -> None:
    topic = t.topic(3)
    member = t.consumer(topic)
    answer = member.join()
    t.expect(answer, member_epoch=t.first_epoch)
    t.check(answer.heartbeat_interval_ms > 0, "the answer has no heartbeat interval")
    t.converge(member)
    t.equal(member.owned, partitions(topic, 3), "what it owns")


@consumer_case(
    "consumer/join/2",
    "Subscribed to a topic that does not exist: an epoch with nothing; when it is made, the next and its partitions",
    source="semantics 7.1 CH3",
)
def missing_topic(t: Trial) -> None:
    name = f"later-{t.group}"
    member = t.consumer(name)
    t.expect(member.join(), member_epoch=t.first_epoch)
    t.equal(member.assigned, set(), "its assignment")
    t.new_topic(3, name)
    t.until(
        lambda: (member.reconcile(), member.owned)[1],
        lambda owned: owned == partitions(name, 3),
        "the partitions never came",
    )
    t.equal(member.epoch, t.first_epoch + 1, "its epoch")


@case(
    "consumer/join/3",
    "In version 0 a member without an id gets one",
    source="KIP-848; semantics 4.2",
    api="ConsumerGroupHeartbeat",
    versions=(0, 0),
)
def id_is_made(t: Trial) -> None:
    answer = t.consumer(t.topic()).full(member_id="")
    t.expect(answer, error_code=0, member_epoch=t.first_epoch)
    t.check(bool(answer.member_id), "the answer has no member id")


@case(
    "consumer/join/4",
    "From version 1 a member makes its own id: none is an invalid request (42)",
    source="KIP-1082; semantics 4.2",
    api="ConsumerGroupHeartbeat",
    versions=(1, 1),
)
def id_is_due(t: Trial) -> None:
    t.expect(t.consumer(t.topic()).full(member_id=""), error_code=E.INVALID_REQUEST)


@consumer_case("consumer/join/5", "A member keeps the member id that it sends", source="KIP-1082")
def id_is_kept(t: Trial) -> None:
    member = t.consumer(t.topic())
    member_id = member.id
    t.expect(member.join(), member_id=member_id)


@consumer_case(
    "consumer/join/6",
    "An existing member that joins again with epoch 0 gets its state, not an error",
    source="KAFKA-19233; semantics 4.4",
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


# -- sharing


@consumer_case(
    "consumer/share/1",
    "Two members come to share all partitions, none owned twice",
    source="KIP-848; semantics 4.6; invariant I1",
)
def two(t: Trial) -> None:
    topic = t.topic(8)
    one, other = t.consumer(topic), t.consumer(topic)
    one.join()
    t.converge(one)
    other.join()
    t.converge(one, other)
    t.equal(disjoint(t, one, other), partitions(topic, 8), "the set of their partitions")
    t.equal({len(one.owned), len(other.owned)}, {4}, "how many each owns")


@consumer_case(
    "consumer/share/2",
    "A partition goes to another member only after its owner gave it up",
    source="semantics 4.6; invariant I1; survey rdkafka-mock 20",
)
def given_up_first(t: Trial) -> None:
    topic = t.topic(8)
    one, other = t.consumer(topic), t.consumer(topic)
    one.join()
    t.converge(one)
    other.join()
    t.equal(other.assigned, set(), "the first assignment of the second")
    one.full()
    t.equal(len(one.assigned), 4, "how many the first may keep")
    epoch = one.epoch
    other.heartbeat()
    t.equal(other.assigned, set(), "the assignment of the second before the first revokes")
    one.reconcile()
    t.check(one.epoch > epoch, "the first did not come to the new epoch when it gave up")
    t.until(
        lambda: (other.heartbeat(), other.assigned)[1],
        lambda assigned: len(assigned) == 4,
        "the second never got its part",
    )


@consumer_case(
    "consumer/share/3",
    "A member that owns revoked partitions stays at its epoch until it gives them up",
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
    t.equal(disjoint(t, *members[1:]), partitions(topic, 8), "the set of the others' partitions")


@consumer_case(
    "consumer/share/5",
    "Members with different subscriptions own only partitions of their own topics",
    source="semantics 4.9; survey rdkafka-mock 21",
)
def different(t: Trial) -> None:
    one, other = t.topic(8), t.topic(3)
    both, single = t.consumer(one, other), t.consumer(other)
    both.join()
    single.join()
    t.converge(both, single)
    t.equal(disjoint(t, both, single), partitions(one, 8) | partitions(other, 3), "the set of their partitions")
    t.check(all(topic == other for topic, _ in single.owned), f"the second owns {single.owned}")


@consumer_case(
    "consumer/share/6",
    "Range gives each a run of every topic, the first ones one more",
    source="semantics 4.9; survey rdkafka-mock 21",
)
def ranges(t: Trial) -> None:
    topic = t.topic(8)
    members = [t.consumer(topic, assignor="range", instance_id=f"instance-{n}") for n in range(3)]
    for each in members:
        each.join()
    t.converge(*members)
    t.equal(
        [sorted(n for _, n in each.owned) for each in members], [[0, 1, 2], [3, 4, 5], [6, 7]], "the partitions of each"
    )


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
    t.equal(disjoint(t, *members), partitions(topic, 3), "the set of their partitions")
    t.equal(sorted(len(each.owned) for each in members), [0, 0, 1, 1, 1], "how many each owns")


@consumer_case(
    "consumer/share/8",
    "One member that asks for another assignor does not decide alone",
    source="semantics 4.5; survey kfake 11",
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
    t.equal(runs, [list(range(34)), list(range(34, 67)), list(range(67, 100))], "the part of each in the larger topic")


@consumer_case(
    "consumer/share/9",
    "A heartbeat without partitions does not release those of its member",
    source="semantics 4.6; invariant I1",
)
def says_nothing(t: Trial) -> None:
    topic = t.topic(8)
    one, other = t.consumer(topic), t.consumer(topic)
    one.join()
    t.converge(one)
    before = one.epoch
    other.join()
    for _ in range(2):
        one.heartbeat()
        t.equal(one.epoch, before, "its epoch")
    t.equal(len(one.assigned), 4, "how many it may keep")
    other.heartbeat()
    t.equal(other.assigned, set(), "the assignment of the second")


@case(
    "consumer/size/1",
    "A full group refuses a newcomer (81)",
    source="semantics 4.3",
    api="ConsumerGroupHeartbeat",
    profile="limits",
    needs=("small-consumer-groups",),
)
def size(t: Trial) -> None:
    topic = t.topic()
    for _ in range(t.limits.max_consumer_group_size):
        t.consumer(topic).join()
    t.expect(t.consumer(topic).full(), error_code=E.GROUP_MAX_SIZE_REACHED)


@case(
    "consumer/size/2",
    "A full group refuses the instance id of a member: 81, from 4.4 on 111; and of one that left, but not from 4.4 on",
    source="semantics 4.3",
    api="ConsumerGroupHeartbeat",
    level=Level.SHOULD,
    profile="limits",
    needs=("small-consumer-groups",),
)
def size_of_static_members(t: Trial) -> None:
    topic = t.topic()
    members = [t.consumer(topic, instance_id=f"instance-{n}") for n in range(t.limits.max_consumer_group_size)]
    for each in members:
        each.join()
    fits = t.rules.static_members_fit_full_groups
    present, absent = (E.UNRELEASED_INSTANCE_ID, E.NONE) if fits else (E.GROUP_MAX_SIZE_REACHED,) * 2
    t.expect(t.consumer(topic, instance_id="instance-0").full(), error_code=present)
    t.expect(members[0].leave(-2), error_code=0, member_epoch=-2)
    t.expect(t.consumer(topic, instance_id="instance-0").full(), error_code=absent)
