"""The clients' own administration of groups and offsets."""

import pytest

from .harness import Client, ClientProcesses, all_of

pytestmark = pytest.mark.second_stage("real clients")


def settled_group(client: Client, processes: ClientProcesses, topic: str, count: int):
    """Two members in the group, a share of the topic each, 5 committed everywhere."""
    members = [processes.start(client, topics=[topic]) for _ in range(2)]
    processes.shared(members, all_of({topic: count}), [count // 2] * 2)
    for member in members:
        member.do("commit", offsets=[[*tp, 5] for tp in sorted(member.owns)])
    return members


def leave_one_by_one(processes: ClientProcesses, members, partitions) -> None:
    """Close both members, the second after it took the partitions of the first.

    A close within a rebalance is no matter of administration.
    """
    first, second = members
    first.close()
    processes.shared([second], partitions, [len(partitions)])
    second.close()


def test_lists_and_descriptions_equal_the_group(client: Client, processes: ClientProcesses, make_topic) -> None:
    topic = make_topic(4)
    members = settled_group(client, processes, topic, 4)
    admin = processes.start(client)
    assert processes.group in admin.do("list_groups")
    described = admin.do("describe_group", group=processes.group)
    assert described["state"] == "Stable"
    assert described["protocol"] in ("range", "roundrobin")
    assert sorted(described["members"]) == sorted(
        [member.member_id, member.name, [list(tp) for tp in sorted(member.owns)]] for member in members
    )
    assert admin.do("group_offsets", group=processes.group) == [[topic, partition, 5] for partition in range(4)]

    leave_one_by_one(processes, members, all_of({topic: 4}))
    described = admin.do("describe_group", group=processes.group)
    assert (described["state"], described["members"]) == ("Empty", [])


@pytest.mark.needs("deletes_groups")
def test_a_group_is_deleted_once_it_is_empty(client: Client, processes: ClientProcesses, make_topic) -> None:
    topic = make_topic(2)
    members = settled_group(client, processes, topic, 2)
    admin = processes.start(client)
    assert admin.do("delete_group", group=processes.group) in ("NonEmptyGroupError", "NON_EMPTY_GROUP")
    leave_one_by_one(processes, members, all_of({topic: 2}))
    assert admin.do("delete_group", group=processes.group) == "OK"
    assert processes.group not in admin.do("list_groups")
    assert admin.do("group_offsets", group=processes.group) == []
    assert admin.do("delete_group", group=processes.group) in ("GroupIdNotFoundError", "GROUP_ID_NOT_FOUND")


@pytest.mark.needs("alters_offsets")
def test_offsets_are_altered_while_the_group_is_empty(client: Client, processes: ClientProcesses, make_topic) -> None:
    topic = make_topic(2)
    members = settled_group(client, processes, topic, 2)
    admin = processes.start(client)
    admin.do("produce", topic=topic, records=[[0, None, f"{n}", []] for n in range(8)])
    refused = admin.do("alter_offsets", group=processes.group, offsets=[[topic, 0, 2]])
    assert refused in (["UnknownMemberIdError"], ["UNKNOWN_MEMBER_ID"])
    leave_one_by_one(processes, members, all_of({topic: 2}))
    assert admin.do("alter_offsets", group=processes.group, offsets=[[topic, 0, 6]]) == ["NoError"]
    assert admin.do("group_offsets", group=processes.group) == [[topic, 0, 6], [topic, 1, 5]]
    again = processes.start(client, topics=[topic])
    processes.consumed([again], topic, 2)
    assert [record[:2] for record in again.records(topic)] == [(0, 6), (0, 7)]


@pytest.mark.needs("deletes_offsets")
def test_offsets_are_deleted_unless_a_member_subscribes_to_the_topic(
    client: Client, processes: ClientProcesses, make_topic
) -> None:
    topic, other = make_topic(2), make_topic(1, "-other")
    members = settled_group(client, processes, topic, 2)
    members[0].do("commit", offsets=[[other, 0, 1]])
    admin = processes.start(client)
    assert admin.do("delete_offsets", group=processes.group, partitions=[[topic, 0]]) == ["GroupSubscribedToTopicError"]
    assert admin.do("delete_offsets", group=processes.group, partitions=[[other, 0]]) == ["NoError"]
    assert admin.do("group_offsets", group=processes.group) == [[topic, 0, 5], [topic, 1, 5]]
    leave_one_by_one(processes, members, all_of({topic: 2}))
    assert admin.do("delete_offsets", group=processes.group, partitions=[[topic, 0]]) == ["NoError"]
    assert admin.do("group_offsets", group=processes.group) == [[topic, 1, 5]]
