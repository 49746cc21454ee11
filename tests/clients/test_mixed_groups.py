"""Members that differ: in client, in the assignors they offer, and in both during a rolling change."""

import pytest

from .harness import CLIENTS, Client, ClientProcesses, Member, all_of

pytestmark = pytest.mark.second_stage("real clients")

KP3, KP23 = CLIENTS["kafka-python-3.0"], CLIENTS["kafka-python-2.3"]
AIO, CK = CLIENTS["aiokafka-0.14"], CLIENTS["confluent-kafka-2.16"]

# aiokafka, given several assignors, sends a JoinGroup for each with the list as far as it has got. Two such members
# drive one another in circles on any coordinator, so here it keeps to its default, roundrobin alone.


def test_kafka_python_and_aiokafka_share_one_group(processes: ClientProcesses, make_topic) -> None:
    topic = make_topic(6)
    partitions = all_of({topic: 6})
    # With the defaults of both: roundrobin is all that aiokafka offers.
    members = [processes.start(KP3, topics=[topic]), processes.start(AIO, topics=[topic])]
    processes.shared(members, partitions, [3, 3])
    processes.start(CK).do("produce", topic=topic, records=[[n % 6, None, f"{n}", []] for n in range(60)])
    processes.consumed(members, topic, 60)
    assert sorted(int(record[3]) for member in members for record in member.records(topic)) == list(range(60))
    for member in members:
        member.do("commit")
    members[0].close()
    processes.shared(members[1:], partitions, [6])
    assert [members[1].do("committed", topic=topic, partition=p) for p in range(6)] == [10] * 6


def test_every_client_shares_one_group(processes: ClientProcesses, make_topic) -> None:
    topic = make_topic(12)
    members = [processes.start(client, topics=[topic]) for client in CLIENTS.values()]
    processes.shared(members, all_of({topic: 12}), [2] * 6)
    before = {member.name: member.generation for member in members}
    members.pop(2).close()
    processes.shared(members, all_of({topic: 12}), [2, 2, 2, 3, 3])
    assert all(member.generation > before[member.name] for member in members)


@pytest.mark.parametrize("library", [KP3, KP23, CK], ids=lambda library: library.name)
def test_every_member_supports_the_assignor_of_the_group(
    library: Client, processes: ClientProcesses, make_topic
) -> None:
    topic = make_topic(4)
    both = processes.start(library, topics=[topic], assignors=["range", "roundrobin"])
    processes.shared([both], all_of({topic: 4}), [4])
    admin = processes.start(KP3)
    assert admin.do("describe_group", group=processes.group)["protocol"] == "range"
    other = processes.start(library, topics=[topic], assignors=["roundrobin"])
    processes.shared([both, other], all_of({topic: 4}), [2, 2])
    assert admin.do("describe_group", group=processes.group)["protocol"] == "roundrobin"
    first = min((both, other), key=lambda member: member.member_id)
    assert sorted(first.owns) == [(topic, 0), (topic, 2)]


def test_a_member_with_nothing_in_common_is_turned_away(processes: ClientProcesses, make_topic) -> None:
    topic = make_topic(4)
    settled = processes.start(KP3, topics=[topic], assignors=["range"])
    processes.shared([settled], all_of({topic: 4}), [4])
    generation = settled.generation
    stranger = processes.start(KP3, topics=[topic], assignors=["roundrobin"])
    refusal = processes.wait(lambda: stranger.events_of("error"), "the stranger is told why")
    assert refusal[0]["name"] == "InconsistentGroupProtocolError"
    assert settled.do("describe")["generation"] == generation
    assert settled.owns == set(all_of({topic: 4}))


def test_two_rolling_restarts_change_eager_to_cooperative(processes: ClientProcesses, make_topic) -> None:
    """Follow the upgrade guides: add the new assignor beside the old one, then remove the old one.

    kafka-python alone can be told to do this (librdkafka refuses lists that mix, aiokafka has no cooperative assignor).
    """
    topic = make_topic(6)
    partitions = all_of({topic: 6})
    admin = processes.start(KP3)

    def start(assignors: list[str]) -> Member:
        return processes.start(KP3, topics=[topic], assignors=assignors)

    def restart_each(members: list[Member], assignors: list[str]) -> list[Member]:
        for number in range(len(members)):
            members[number].close()
            members[number] = start(assignors)
            processes.shared(members, partitions, [2, 2, 2])
        return members

    members = [start(["range"]) for _ in range(3)]
    processes.shared(members, partitions, [2, 2, 2])
    members = restart_each(members, ["cooperative-sticky", "range"])
    # Every member has both now, and prefers the new one; each still gives up all partitions in a rebalance.
    assert admin.do("describe_group", group=processes.group)["protocol"] == "cooperative-sticky"
    members = restart_each(members, ["cooperative-sticky"])

    before = {member.name: (member.owns, len(member.events)) for member in members}
    members.pop().close()
    processes.shared(members, partitions, [3, 3])
    for member in members:
        owned, rebalances = before[member.name]
        assert owned < member.owns
        assert member.revoked(since=rebalances) == set()
