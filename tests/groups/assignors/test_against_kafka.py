"""Our assignors beside the classes of Kafka 4.4, on random groups."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from bench.kafka_assignors import KafkaAssignors
from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.groups.assignors.range import RangeAssignor
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, GroupSpec, Partitions
from kafka_shim.groups.assignors.uniform import UniformAssignor
from kafka_shim.groups.share.assignor import assign as share
from kafka_shim.groups.streams.assignor import assign as sticky
from kafka_shim.groups.streams.records import Tasks, each_task
from tests.examples import examples

from .groups import ShareSpec, StreamsSpec, group_specs, kept, pairs, share_specs, sizes, streams_specs

pytestmark = pytest.mark.second_stage("Kafka's assignors")

SETTINGS = settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
RENAMED = 30
"""How often a streams group gets other names, to see if they decide."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAssignors]:
    for needed in ("java", "mvn"):
        if shutil.which(needed) is None:
            pytest.skip(f"Kafka's assignors need {needed}")
    try:
        process = KafkaAssignors()
    except TargetError as error:
        pytest.skip(str(error))
    yield process
    process.close()


# -- consumer groups


@SETTINGS
@given(spec=group_specs(most_members=14))
def test_range_is_the_same(kafka: KafkaAssignors, spec: GroupSpec) -> None:
    assert RangeAssignor().assign(spec) == kafka.assign("range", spec)


@SETTINGS
@given(spec=group_specs(homogeneous=False, most_members=14))
def test_uniform_is_the_same_where_subscriptions_differ(kafka: KafkaAssignors, spec: GroupSpec) -> None:
    if not spec.homogeneous:
        assert UniformAssignor().assign(spec) == kafka.assign("uniform", spec)


@SETTINGS
@given(spec=group_specs(homogeneous=True, most_members=14))
def test_uniform_gives_as_many_and_keeps_as_many_where_they_are_the_same(
    kafka: KafkaAssignors, spec: GroupSpec
) -> None:
    """In Kafka the owner of a partition depends on the order of hash tables, the size of a share does not."""
    ours, theirs = UniformAssignor().assign(spec), kafka.assign("uniform", spec)
    assert sizes(ours) == sizes(theirs)
    assert kept(spec, ours) == kept(spec, theirs)


# -- share groups


def sharing(spec: ShareSpec, assigned: dict[str, Partitions], topic: bytes) -> list[int]:
    """How many members each partition of a topic has."""
    counts = Counter(number for each in assigned.values() for number in each.get(topic, ()))
    return [counts[number] for number in spec.partitions[topic]]


def stay(spec: ShareSpec, assigned: dict[str, Partitions]) -> int:
    """Partitions that stay with a member."""
    return sum(len(pairs(spec.previous.get(id, NO_PARTITIONS)) & pairs(each)) for id, each in assigned.items())


def check_emptied(spec: ShareSpec, assigned: dict[str, Partitions]) -> None:
    """A topic of the assignment before is there, without partitions if the member has none; no other is empty."""
    for id, each in assigned.items():
        before = spec.previous.get(id, NO_PARTITIONS).keys() & spec.partitions.keys()
        assert {topic for topic, numbers in each.items() if not numbers} == before - {topic for topic, _ in pairs(each)}


@SETTINGS
@given(spec=share_specs(homogeneous=True))
def test_simple_shares_as_kafka_does_where_subscriptions_are_the_same(kafka: KafkaAssignors, spec: ShareSpec) -> None:
    """In Kafka a hash table decides which members get one more; here those with most before do, so more stay.

    In Kafka a partition has fewer members if the members with room have it already; here it never has.
    """
    ours = share(spec.subscriptions, spec.partitions, spec.previous, homogeneous=True)
    theirs = kafka.share(spec.subscriptions, spec.partitions, spec.previous)
    of_ours, of_theirs = ([sharing(spec, each, topic) for topic in spec.partitions] for each in (ours, theirs))
    members = list(chain(*of_ours))
    assert len(set(members)) == 1
    assert all(fewer <= most for fewer, most in zip(chain(*of_theirs), members, strict=True))
    if of_theirs == of_ours:
        assert sorted(sizes(ours).values()) == sorted(sizes(theirs).values())
        assert stay(spec, ours) >= stay(spec, theirs)
    check_emptied(spec, ours)
    check_emptied(spec, theirs)


@SETTINGS
@given(spec=share_specs(homogeneous=False))
def test_simple_shares_each_topic_as_kafka_does_where_subscriptions_differ(
    kafka: KafkaAssignors, spec: ShareSpec
) -> None:
    """In Kafka a partition has fewer members if the members with room have it already; here it never has."""
    ours = share(spec.subscriptions, spec.partitions, spec.previous, homogeneous=spec.homogeneous)
    theirs = kafka.share(spec.subscriptions, spec.partitions, spec.previous)
    check_emptied(spec, ours)
    check_emptied(spec, theirs)
    for topic in spec.partitions:
        members, theirs_of = sharing(spec, ours, topic), sharing(spec, theirs, topic)
        assert len(set(members)) == 1
        assert all(fewer <= most for fewer, most in zip(theirs_of, members, strict=True))
        if theirs_of == members and not spec.homogeneous:
            each, each_of_theirs = (
                sorted(len(assigned[id].get(topic, ())) for id in spec.subscriptions) for assigned in (ours, theirs)
            )
            assert each == each_of_theirs


# -- streams groups


def renamed(spec: StreamsSpec, order: Random) -> StreamsSpec:
    """The same group, after its members exchange their names, and so do its processes."""
    ids, processes = list(spec.members), sorted({member.process_id for member in spec.members.values()})
    other_id = dict(zip(ids, order.sample(ids, len(ids)), strict=True))
    other_process = dict(zip(processes, order.sample(processes, len(processes)), strict=True))
    members = {
        other_id[id]: member._replace(process_id=other_process[member.process_id])
        for id, member in spec.members.items()
    }
    return spec._replace(members=members)


def roles(assigned: dict[str, Tasks]) -> dict[str, tuple[set[tuple[str, int]], set[tuple[str, int]]]]:
    return {id: (set(each_task(each.active)), set(each_task(each.standby))) for id, each in assigned.items()}


def no_name_decides(spec: StreamsSpec) -> bool:
    """True if each member gets the same under other names."""
    ours = list(roles(sticky(*spec)).values())
    for seed in range(RENAMED):
        other = renamed(spec, Random(seed))
        assigned = roles(sticky(*other))
        if [assigned[id] for id in other.members] != ours:
            return False
    return True


@SETTINGS
@given(spec=streams_specs())
def test_sticky_is_the_same_where_no_name_decides(kafka: KafkaAssignors, spec: StreamsSpec) -> None:
    """Of equals Kafka takes one by a hash table and a heap, and we by name: then only the numbers are the same."""
    ours, theirs = roles(sticky(*spec)), roles(kafka.tasks(*spec))
    for role in (0, 1):
        assert Counter(task for each in ours.values() for task in each[role]) == Counter(
            task for each in theirs.values() for task in each[role]
        )
    if no_name_decides(spec):
        assert ours == theirs
