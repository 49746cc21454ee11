"""Topics appear, grow and vanish; the groups that subscribe to them are rebalanced."""

import pytest

from .harness import Client, ClientProcesses, all_of

pytestmark = pytest.mark.second_stage("real clients")

# A member looks often for changes of its topics. Its polls are long, as the worker of kafka-python explains.
ALERT = {"metadata_ms": 400, "poll_s": 20}


def test_a_topic_that_matches_the_pattern_is_assigned_when_it_appears(
    client: Client, processes: ClientProcesses, make_topic, name: str
) -> None:
    early = make_topic(2, "-early")
    members = [processes.start(client, pattern=f"^{name}-.*", **ALERT) for _ in range(2)]
    processes.shared(members, all_of({early: 2}), [1, 1])
    late = make_topic(2, "-late")
    processes.shared(members, all_of({early: 2, late: 2}), [2, 2])
    make_topic(1, "unlike")
    assert {topic for member in members for topic, _ in member.owns} == {early, late}


def test_partitions_added_to_a_topic_are_assigned(client: Client, processes: ClientProcesses, make_topic) -> None:
    topic = make_topic(2)
    members = [processes.start(client, topics=[topic], **ALERT) for _ in range(2)]
    processes.shared(members, all_of({topic: 2}), [1, 1])
    admin = processes.start(client)
    admin.do("grow_topic", topic=topic, partitions=4)
    processes.shared(members, all_of({topic: 4}), [2, 2])
    admin.do("produce", topic=topic, records=[[3, None, "new", []]])
    processes.consumed(members, topic, 1)
    assert [record[0] for member in members for record in member.records(topic)] == [3]


def test_the_partitions_of_a_deleted_topic_are_taken_away(
    client: Client, processes: ClientProcesses, make_topic
) -> None:
    stays, goes = make_topic(2, "-stays"), make_topic(2, "-goes")
    members = [processes.start(client, topics=[stays, goes], **ALERT) for _ in range(2)]
    processes.shared(members, all_of({stays: 2, goes: 2}), [2, 2])
    admin = processes.start(client)
    admin.do("delete_topic", topic=goes)
    processes.shared(members, all_of({stays: 2}), [1, 1])
    admin.do("produce", topic=stays, records=[[0, None, "on", []], [1, None, "and on", []]])
    processes.consumed(members, stays, 2)
