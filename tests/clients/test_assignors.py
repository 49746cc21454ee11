"""Each assignor of each client, and the assignment each is documented to make.

The expected assignments come from the description of the algorithms, never from a client's own code.
"""

import pytest

from .harness import CLIENTS, Client, ClientProcesses, Member, Partition, all_of

pytestmark = pytest.mark.second_stage("real clients")

WITH_ASSIGNORS = [(client, assignor) for client in CLIENTS.values() for assignor in client.assignors]


def each_client_with(*names: str):
    fit = [(client, name) for client, name in WITH_ASSIGNORS if name in names]
    return pytest.mark.parametrize(("client_of", "assignor"), fit, ids=[f"{c.name}-{a}" for c, a in fit])


def three_members(
    processes: ClientProcesses, client: Client, topics: dict[str, int], assignor: str, sizes: list[int]
) -> list[Member]:
    """Three members in one group, settled."""
    members = [processes.start(client, topics=sorted(topics), assignors=[assignor]) for _ in range(3)]
    processes.shared(members, all_of(topics), sizes)
    return members


def by_member_id(members: list[Member]) -> list[Member]:
    return sorted(members, key=lambda member: member.member_id)


@each_client_with("range")
def test_range_gives_each_member_one_run_of_each_topic(
    client_of: Client, assignor: str, processes: ClientProcesses, make_topic
) -> None:
    five, four = make_topic(5, "-a"), make_topic(4, "-b")
    # 5 = 2 + 2 + 1 and 4 = 2 + 1 + 1: the first in order gets more of both topics, the skew that range is known for.
    members = three_members(processes, client_of, {five: 5, four: 4}, assignor, [4, 3, 2])
    assert [sorted(member.owns) for member in by_member_id(members)] == [
        [(five, 0), (five, 1), (four, 0), (four, 1)],
        [(five, 2), (five, 3), (four, 2)],
        [(five, 4), (four, 3)],
    ]


@each_client_with("roundrobin")
def test_round_robin_deals_all_partitions_of_all_topics_in_turn(
    client_of: Client, assignor: str, processes: ClientProcesses, make_topic
) -> None:
    first, second = make_topic(5, "-a"), make_topic(4, "-b")
    members = three_members(processes, client_of, {first: 5, second: 4}, assignor, [3, 3, 3])
    dealt = all_of({first: 5, second: 4})
    assert [sorted(member.owns) for member in by_member_id(members)] == [dealt[0::3], dealt[1::3], dealt[2::3]]


def unmoved(before: dict[str, frozenset[Partition]], members: list[Member]) -> int:
    """Count the partitions with the same owner as before."""
    return sum(len(before[member.name] & member.owns) for member in members if member.name in before)


@each_client_with("sticky", "cooperative-sticky")
def test_sticky_moves_no_more_than_balance_demands(
    client_of: Client, assignor: str, processes: ClientProcesses, make_topic
) -> None:
    topic = make_topic(6)
    partitions = all_of({topic: 6})
    members = [processes.start(client_of, topics=[topic], assignors=[assignor]) for _ in range(2)]
    processes.shared(members, partitions, [3, 3])

    # A third gets two: one from each, and each keeps two of its own.
    before = {member.name: member.owns for member in members}
    members.append(processes.start(client_of, topics=[topic], assignors=[assignor]))
    processes.shared(members, partitions, [2, 2, 2])
    assert unmoved(before, members) == 4

    # One leaves: the others share its partitions, and lose none.
    before = {member.name: member.owns for member in members}
    members.pop(0).close()
    processes.shared(members, partitions, [3, 3])
    assert unmoved(before, members) == 4


@each_client_with("cooperative-sticky")
def test_a_cooperative_member_consumes_its_unmoved_partitions(
    client_of: Client, assignor: str, processes: ClientProcesses, make_topic
) -> None:
    topic = make_topic(6)
    partitions = all_of({topic: 6})
    members = [processes.start(client_of, topics=[topic], assignors=[assignor]) for _ in range(2)]
    processes.shared(members, partitions, [3, 3])
    before = {member.name: (member.owns, len(member.events)) for member in members}
    third = processes.start(client_of, topics=[topic], assignors=[assignor])
    processes.shared([*members, third], partitions, [2, 2, 2])
    for member in members:
        owned, rebalances = before[member.name]
        assert member.revoked(since=rebalances) == owned - member.owns
        assert len(owned - member.owns) == 1
