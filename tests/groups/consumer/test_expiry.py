"""Many sessions that end together: the coordinator serves clients in between, and looks at few topic names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.epochs.metadata_hash import metadata_hash
from kafka_shim.groups.service import FIRED_AT_ONCE
from tests.groups.context import GROUP

from .context import Cluster

NAMES = [f"t{number}" for number in range(FIRED_AT_ONCE // 10)]


def test_clients_are_served_while_sessions_end() -> None:
    cluster = Cluster()
    for number in range(30):
        cluster.consumer(f"m{number}", *NAMES).join()
    cluster.now += 45
    sizes = []
    while cluster.service.next_deadline() <= cluster.now:
        cluster.service.fire(cluster.now)
        cluster.settle()
        sizes.append(cluster.consumer_group.size)
    # A look at all names for each member; those that joined first go first.
    assert sizes == [20, 10, 0]


def test_a_departure_without_a_change_of_topics_reads_no_list_of_them() -> None:
    cluster = Cluster(t=1, u=1)
    first, second = cluster.consumer("a", "t", "u"), cluster.consumer("b", "t")
    third, last = cluster.consumer("c", regex="u"), cluster.consumer("d", regex="u")
    for member in (first, second, third, last):
        member.join()
    cluster.advance(10_000)
    for member in (first, second, third, last):
        member.heartbeat()
    group = cluster.consumer_group
    topics = group.subscriptions.topics
    assert topics == {"t", "u"}
    second.leave()
    third.leave()
    assert group.subscriptions.topics is topics
    first.leave()
    assert group.subscriptions.topics is None


_topics = st.lists(st.sampled_from("tuvw"), unique=True)
_changes = st.lists(st.tuples(st.sampled_from("abc"), _topics, st.sampled_from([None, "t|u", "v"]), st.booleans()))


@given(_changes)
def test_the_hash_is_that_of_the_topics_of_all_members(
    changes: list[tuple[str, list[str], str | None, bool]],
) -> None:
    cluster = Cluster(t=1, u=2, v=3)
    members = {name: cluster.consumer(name) for name in "abc"}
    for name, topics, regex, leaves in changes:
        member = members[name]
        if leaves or not (topics or regex):
            member.leave()
        else:
            member.topics, member.regex = topics, regex
            member.join()
        # Patterns are resolved with a heartbeat, every 10 seconds at most.
        cluster.advance(10_000)
        group = cluster.service.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            resolved = group.subscriptions.resolved
            subscribed = set[str]()
            for each in group.members.values():
                of_pattern = resolved.get(each.topic_regex or "")
                subscribed |= each.topic_names | (frozenset() if of_pattern is None else of_pattern.topics)
            assert group.specs.metadata_hash() == metadata_hash(subscribed, cluster.topics)
