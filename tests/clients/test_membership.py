"""Members come, leave, die and freeze; after each change every partition has exactly one owner."""

import pytest

from .harness import SHORT_SESSION_MS, Client, ClientProcesses, all_of

pytestmark = pytest.mark.second_stage("real clients")


def test_members_share_the_partitions_after_every_join_and_leave(
    client: Client, processes: ClientProcesses, make_topic
) -> None:
    partitions = all_of({make_topic(6): 6})
    topic = partitions[0][0]
    first = processes.start(client, topics=[topic])
    processes.shared([first], partitions, [6])
    second = processes.start(client, topics=[topic])
    processes.shared([first, second], partitions, [3, 3])
    third = processes.start(client, topics=[topic])
    processes.shared([first, second, third], partitions, [2, 2, 2])
    assert len({member.member_id for member in (first, second, third)}) == 3

    # The session is longer than this test may take: only the request to leave can have done it.
    before = first.generation
    second.close()
    processes.shared([first, third], partitions, [3, 3])
    assert first.generation > before


def test_a_killed_members_partitions_pass_on_when_its_session_ends(
    client: Client, processes: ClientProcesses, make_topic
) -> None:
    topic = make_topic(4)
    partitions = all_of({topic: 4})
    victim = processes.start(client, topics=[topic], session_ms=SHORT_SESSION_MS)
    survivor = processes.start(client, topics=[topic])
    members = [victim, survivor]
    processes.shared(members, partitions, [2, 2])
    owned = victim.owns
    processes.start(client).do(
        "produce", topic=topic, records=[[p, None, f"{p}-{n}", []] for p in range(4) for n in range(5)]
    )
    processes.consumed(members, topic, 20)
    victim.do("commit", offsets=[[topic, partition, 3] for _, partition in owned])

    victim.kill()
    processes.shared([survivor], partitions, [4])
    processes.wait(lambda: len(survivor.records_of(owned)) >= 4, "the survivor goes on where the victim had committed")
    resumed = [record[:2] for record in survivor.records_of(owned)]
    assert sorted(resumed) == sorted((partition, offset) for _, partition in owned for offset in (3, 4))


def test_a_member_that_slept_through_its_session_cannot_commit(
    client: Client, processes: ClientProcesses, make_topic
) -> None:
    topic = make_topic(4)
    partitions = all_of({topic: 4})
    sleeper = processes.start(client, topics=[topic], session_ms=SHORT_SESSION_MS)
    survivor = processes.start(client, topics=[topic])
    members = [sleeper, survivor]
    processes.shared(members, partitions, [2, 2])
    slept_on = sorted(sleeper.owns)
    sleeper.do("commit", offsets=[[*tp, 5] for tp in slept_on])
    sleeper.do("hold")

    sleeper.stop()
    processes.shared([survivor], partitions, [4])
    late = sleeper.ask("commit", offsets=[[*tp, 9] for tp in slept_on])
    sleeper.wake()
    assert "error" in sleeper.answer(late)
    for topic_name, partition in slept_on:
        assert survivor.do("committed", topic=topic_name, partition=partition) == 5

    # Awake and polled again, it is a member like any other.
    sleeper.do("go")
    processes.shared(members, partitions, [2, 2])
    sleeper.do("commit", offsets=[[*tp, 9] for tp in sorted(sleeper.owns)])
