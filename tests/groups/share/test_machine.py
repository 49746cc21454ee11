"""Any history of a share group: members that come, go, fall silent and lose answers, topics that change, crashes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.groups.share.persister import Place
from tests.examples import examples
from tests.groups.context import GROUP

from .context import Cluster, Sharer

NAMES = ["a", "b", "c"]
TOPICS = ["t", "u"]
names = st.sampled_from(NAMES)
topics = st.sampled_from(TOPICS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), names, st.sets(topics, min_size=1)),
        st.tuples(st.just("beat"), names),
        st.tuples(st.just("lose"), names),
        st.tuples(st.just("leave"), names),
        st.tuples(st.just("wait"), st.sampled_from([1_000, 20_000, 45_000])),
        st.tuples(st.just("grow"), topics, st.integers(1, 4)),
        st.tuples(st.just("delete"), topics),
        st.tuples(st.just("crash")),
    ),
    max_size=25,
)


def partitions_of(cluster: Cluster, members: list[Sharer]) -> set[tuple[str, int]]:
    """The partitions of the topics that these members subscribe to."""
    subscribed = {topic for member in members for topic in member.topics}
    return {(topic, n) for topic in subscribed for n in range(cluster.topics.partitions_of(topic))}


@given(steps)
@settings(max_examples=examples(300, fuzz=10_000), deadline=None)
def test_a_group_settles_with_every_partition_assigned(script: list[tuple[object, ...]]) -> None:
    cluster = Cluster()
    members = {name: Sharer(cluster, name, ["t"]) for name in NAMES}
    for step in script:
        match step:
            case ("join", str(name), set(subscribed)):
                members[name].topics = sorted(map(str, subscribed))
                members[name].join()
            case ("beat", str(name)):
                members[name].heartbeat()
            case ("lose", str(name)):
                before = members[name].epoch, members[name].assigned
                members[name].heartbeat()
                members[name].epoch, members[name].assigned = before
            case ("leave", str(name)):
                members[name].leave()
            case ("wait", int(ms)):
                cluster.advance(ms)
            case ("grow", str(topic), int(count)):
                if count > cluster.topics.partitions_of(topic):
                    cluster.create(topic, count)
            case ("delete", str(topic)):
                if topic in cluster.topics.by_name:
                    cluster.delete_topic(topic)
            case _:
                before_crash = described(cluster)
                cluster.crash()
                assert described(cluster) == before_crash
    present = [
        members[name] for name in NAMES if GROUP in cluster.service.groups and name in cluster.share_group.members
    ]
    for member in present:
        member.join()
    for _ in range(6):
        for member in present:
            assert member.heartbeat().error_code == 0
    if not present:
        return
    assert len({member.epoch for member in present}) == 1
    assert set().union(*(member.assigned for member in present)) == partitions_of(cluster, present)
    group = cluster.share_group
    for topic_id, topic in group.initialized.items():
        assert cluster.topics.topic_id(topic.name) == topic_id or topic.name not in group.topic_names
        for number in topic.partitions:
            assert group.share_states.get(Place(GROUP, topic_id, number)) is not None
    epoch = group.group_epoch
    for member in present:
        member.heartbeat()
    assert group.group_epoch == epoch, "a group that has settled stays as it is"


def described(cluster: Cluster) -> object:
    """The group as clients see it, with its members in order."""
    group = cluster.shown()
    group.members.sort(key=lambda member: member.member_id)
    for member in group.members:
        member.assignment.topic_partitions.sort(key=lambda each: each.topic_id)
    return group
