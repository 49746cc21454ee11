"""The simple assignor: coverage, balance and stickiness on any subscriptions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.share.assignor import assign

TOPICS = [bytes([number]) * 16 for number in range(3)]
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6).map(range), min_size=1)
members = st.integers(1, 9).map(lambda count: [f"m{number}" for number in range(count)])


@given(counts, members, st.integers(0, 3))
def test_equal_subscribers_and_partitions_are_balanced(
    partitions: dict[bytes, range], names: list[str], gone: int
) -> None:
    subscriptions = {name: set(partitions) for name in names}
    assigned = assign(subscriptions, partitions, {}, homogeneous=True)
    for _ in range(2):
        sizes = [sum(map(len, each.values())) for each in assigned.values()]
        owners = [
            sum(number in each.get(topic, ()) for each in assigned.values())
            for topic, numbers in partitions.items()
            for number in numbers
        ]
        assert max(sizes) - min(sizes) <= 1
        assert len(set(owners)) == 1
        assert owners[0] >= 1
        assert min(sizes) >= 1 or len(owners) > len(sizes)
        again = assign(subscriptions, partitions, assigned, homogeneous=True)
        assert again == assigned, "nothing moves without a reason"
        stay = dict(list(subscriptions.items())[min(gone, len(names) - 1) :])
        subscriptions, assigned = stay, assign(stay, partitions, assigned, homogeneous=True)


@given(counts, st.dictionaries(st.text(max_size=2), st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=8))
def test_every_subscribed_partition_has_a_subscriber(
    partitions: dict[bytes, range], subscriptions: dict[str, set[bytes]]
) -> None:
    assigned = assign(subscriptions, partitions, {}, homogeneous=len(set(map(frozenset, subscriptions.values()))) == 1)
    assert assigned.keys() == subscriptions.keys()
    for member_id, topics in assigned.items():
        assert topics.keys() <= subscriptions[member_id]
    for topic in set().union(*subscriptions.values()) & partitions.keys():
        given_away = frozenset().union(*(each.get(topic, frozenset()) for each in assigned.values()))
        assert given_away == set(partitions[topic])
    for member_id, topics in subscriptions.items():
        if any(topic in partitions for topic in topics):
            assert assigned[member_id]


def test_each_topic_is_spread_by_itself_where_subscriptions_differ() -> None:
    one, other, third = TOPICS
    partitions = dict.fromkeys(TOPICS, range(1))
    alike = {"a": {one, other}, "b": {one, other}}
    assigned = assign(alike, partitions, {}, homogeneous=True)
    assert sorted(sum(map(len, each.values())) for each in assigned.values()) == [1, 1]
    assigned = assign(alike | {"c": {third}}, partitions, assigned, homogeneous=False)
    both = {one: frozenset([0]), other: frozenset([0])}
    assert assigned == {"a": both, "b": both, "c": {third: frozenset([0])}}


def test_assignment_has_its_topics_in_one_order() -> None:
    """A replay of a journal has other hashes, and must give the same bytes."""
    topics = [bytes([number]) * 16 for number in range(40)]
    assigned = assign({"m": set(topics)}, dict.fromkeys(topics, range(2)), {}, homogeneous=True)
    assert list(assigned["m"]) == topics


class Counted(dict[str, Partitions]):
    """Former assignments, with the number of places that the assignor has looked at."""

    looks = 0

    def get(self, member_id: str, default: Partitions = NO_PARTITIONS) -> Partitions:  # type: ignore[override]
        self.looks += 1
        return super().get(member_id, default)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=8), st.integers(0, 30))
def test_members_keep_their_partitions_as_far_as_the_balance_allows(owners: list[int], more: int) -> None:
    """Each number is the member of one partition; further partitions have none."""
    (topic, *_), names = TOPICS, [f"m{number}" for number in range(8)]
    before = {
        name: {topic: frozenset(partition for partition, owner in enumerate(owners) if owner == number)}
        for number, name in enumerate(names)
    }
    partitions = len(owners) + more
    assigned = assign({name: {topic} for name in names}, {topic: range(partitions)}, before, homogeneous=True)
    sharing = -(-len(names) // partitions)
    least, one_more = divmod(sharing * partitions, len(names))
    sizes = sorted((len(before[name][topic]) for name in names), reverse=True)
    kept = sum(len(before[name][topic] & assigned[name].get(topic, frozenset())) for name in names)
    assert kept == sum(min(size, least + (number < one_more)) for number, size in enumerate(sizes))


def test_the_cost_grows_with_the_partitions_not_with_partitions_times_members() -> None:
    topic, names = TOPICS[0], [f"m{number}" for number in range(50)]
    subscriptions = {name: {topic} for name in names}
    before = Counted(assign(subscriptions, {topic: range(500)}, {}, homogeneous=True))
    assert assign(subscriptions, {topic: range(500)}, before, homogeneous=True) == before
    # Once for the partitions of a member, once for its topics.
    assert before.looks == 2 * len(names)
