"""A member with an instance id: a restart causes no rebalance, a second one fences the first."""

import re

import pytest

from .harness import SHORT_SESSION_MS, Client, ClientProcesses, all_of

pytestmark = [
    pytest.mark.second_stage("real clients"),
    pytest.mark.needs("static"),
]

# Longer than a join takes. When a poll of kafka-python ends in the middle of a join it sends a second JoinGroup, and a
# leader's is a rebalance.
STEADY = {"poll_s": 1.5}


def test_a_restart_within_the_session_is_not_a_rebalance(
    client: Client, processes: ClientProcesses, make_topic
) -> None:
    topic = make_topic(4)
    partitions = all_of({topic: 4})
    stays = processes.start(client, topics=[topic], instance="stays", **STEADY)
    restarted = processes.start(client, topics=[topic], instance="restarted", **STEADY)
    processes.shared([stays, restarted], partitions, [2, 2])
    owned, generation, member_id, rebalances = (
        restarted.owns,
        restarted.generation,
        restarted.member_id,
        stays.rebalances,
    )

    restarted.kill()
    again = processes.start(client, topics=[topic], instance="restarted", **STEADY)
    processes.shared([stays, again], partitions, [2, 2])
    assert (again.owns, again.generation) == (owned, generation)
    assert again.member_id != member_id
    assert stays.rebalances == rebalances
    assert stays.do("describe")["generation"] == generation
    again.do("commit", offsets=[[*tp, 1] for tp in sorted(again.owns)])


def test_a_restart_after_the_session_is_two_rebalances(client: Client, processes: ClientProcesses, make_topic) -> None:
    topic = make_topic(4)
    partitions = all_of({topic: 4})
    stays = processes.start(client, topics=[topic], instance="stays", **STEADY)
    late = processes.start(client, topics=[topic], instance="late", **STEADY, session_ms=SHORT_SESSION_MS)
    processes.shared([stays, late], partitions, [2, 2])
    generation = stays.generation
    late.kill()
    processes.shared([stays], partitions, [4])
    assert stays.generation > generation
    again = processes.start(client, topics=[topic], instance="late", **STEADY)
    processes.shared([stays, again], partitions, [2, 2])


def test_a_second_member_with_one_instance_id_fences_the_first(
    client: Client, processes: ClientProcesses, make_topic
) -> None:
    topic = make_topic(4)
    partitions = all_of({topic: 4})
    # No heartbeat of it is due when it wakes: one that came before its commit would have aiokafka join again, by its
    # instance id, and put the newer one out.
    older = processes.start(client, topics=[topic], instance="twin", **STEADY, session_ms=45_000, heartbeat_ms=30_000)
    processes.shared([older], partitions, [4])
    older.do("hold")
    older.stop()
    newer = processes.start(client, topics=[topic], instance="twin", **STEADY)
    processes.shared([newer], partitions, [4])
    assert newer.generation == older.generation
    newer.do("commit", offsets=[[topic, 0, 3]])

    late = older.ask("commit", offsets=[[topic, 0, 7]])
    older.wake()
    reply = older.answer(late)
    if reply.get("error") == "_FATAL":
        # librdkafka's own thread gets the error first, and only a poll reports it.
        older.do("go")
        processes.wait(lambda: older.events_of("error"), "the older one is told that it is fenced")
        assert "fenced" in older.events_of("error")[0]["text"]
    else:
        # aiokafka's heartbeats and commits carry no instance id, so that it is told it is unknown rather than fenced.
        assert re.search("fenced|UnknownMember|CommitFailed", f"{reply.get('error')}: {reply.get('text')}", re.I)
    assert processes.start(client).do("group_offsets", group=processes.group) == [[topic, 0, 3]]
