"""The promises of each assignor, for any group."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from kafka_shim.groups.assignors.range import RangeAssignor
from kafka_shim.groups.assignors.spec import GroupSpec, MemberSpec, check, group_spec, owners_of
from kafka_shim.groups.assignors.uniform import UniformAssignor

from .groups import TOPICS, group_specs, kept, pairs, sizes

ASSIGNORS = (RangeAssignor(), UniformAssignor())


@given(group_specs())
def test_every_subscribed_partition_has_one_subscribed_owner(spec: GroupSpec) -> None:
    wanted = {
        (topic, partition)
        for member in spec.members.values()
        for topic in member.topics
        for partition in range(spec.partition_counts[topic])
    }
    for assignor in ASSIGNORS:
        assignments = assignor.assign(spec)
        check(assignor.name, spec, assignments)
        assert {pair for assignment in assignments.values() for pair in pairs(assignment)} == wanted
        assert all(partitions for assignment in assignments.values() for partitions in assignment.values())


@given(group_specs())
def test_the_same_group_gets_the_same_answer_and_is_not_changed(spec: GroupSpec) -> None:
    before = repr(spec)
    for assignor in ASSIGNORS:
        assert assignor.assign(spec) == assignor.assign(spec)
    assert repr(spec) == before


@given(group_specs(homogeneous=True))
def test_uniform_balances_to_a_difference_of_one_partition(spec: GroupSpec) -> None:
    counts = sizes(UniformAssignor().assign(spec)).values()
    assert max(counts) - min(counts) <= 1


@given(group_specs(homogeneous=True))
def test_uniform_moves_as_few_partitions_as_balance_allows(spec: GroupSpec) -> None:
    topics = next(iter(spec.members.values())).topics
    had = sorted(
        (
            sum(len(owned) for topic, owned in member.assignment.items() if topic in topics)
            for member in spec.members.values()
        ),
        reverse=True,
    )
    least, larger = divmod(sum(spec.partition_counts[topic] for topic in topics), len(had))
    most = sum(min(count, least + (place < larger)) for place, count in enumerate(had))
    assert kept(spec, UniformAssignor().assign(spec)) == most


@given(group_specs(homogeneous=False))
def test_uniform_answers_its_own_answer_with_itself(spec: GroupSpec) -> None:
    first = UniformAssignor().assign(spec)
    members = {id: replace(member, assignment=first[id]) for id, member in spec.members.items()}
    again = UniformAssignor().assign(group_spec(members, spec.partition_counts))
    assert sizes(again) == sizes(first)
    if spec.homogeneous:
        assert again == first


@given(group_specs())
def test_range_cuts_every_topic_into_contiguous_ranges_of_nearly_one_size(spec: GroupSpec) -> None:
    assignments = RangeAssignor().assign(spec)
    for topic, count in spec.partition_counts.items():
        subscribers = [id for id, member in spec.members.items() if topic in member.topics]
        if not subscribers:
            continue
        ranges = [sorted(assignments[id].get(topic, ())) for id in subscribers]
        assert all(owned == list(range(owned[0], owned[-1] + 1)) for owned in ranges if owned)
        least, larger = divmod(count, len(subscribers))
        assert sorted(map(len, ranges), reverse=True) == [least + (place < larger) for place in range(len(ranges))]


@given(group_specs(homogeneous=True))
def test_range_co_partitions_topics_of_one_size(spec: GroupSpec) -> None:
    same = spec._replace(partition_counts=dict.fromkeys(spec.partition_counts, 7))
    owners = owners_of(RangeAssignor().assign(same))
    assert all(of_topic == next(iter(owners.values())) for of_topic in owners.values())


def test_range_places_static_members_first_by_instance_id() -> None:
    topics = frozenset(TOPICS[:1])
    members = {
        "a": MemberSpec(topics),
        "b": MemberSpec(topics, instance_id="z"),
        "c": MemberSpec(topics, instance_id="y"),
        # Java orders text by UTF-16 code units: the emoji, a surrogate pair, stands before the wide letter.
        "\uff21": MemberSpec(topics),
        "\U0001f600": MemberSpec(topics),
    }
    owners = owners_of(RangeAssignor().assign(group_spec(members, {TOPICS[0]: 5})))
    assert list(dict(sorted(owners[TOPICS[0]].items())).values()) == ["c", "b", "a", "\U0001f600", "\uff21"]


def test_a_group_without_members_or_topics_gets_nothing() -> None:
    for assignor in ASSIGNORS:
        assert not assignor.assign(group_spec({}, {}))
        nothing = assignor.assign(group_spec({"a": MemberSpec(frozenset()), "b": MemberSpec(frozenset())}, {}))
        assert not any(nothing.values())
