"""A member with an instance id: a restart is nobody's business, a double is fenced."""

import re

import pytest

from .harness import SHORT_SESSION_MS, Client, Crew, all_of

pytestmark = pytest.mark.needs("static")

# Longer than a join takes. When a poll of kafka-python ends in the middle of a join it sends a second JoinGroup, and a
# leader's is a rebalance.
STEADY = {"poll_s": 1.5}


def test_a_restart_within_the_session_is_not_a_rebalance(client: Client, crew: Crew, make_topic) -> None:
    topic = make_topic(4)
    partitions = all_of({topic: 4})
    stays = crew.start(client, topics=[topic], instance="stays", **STEADY)
    restarted = crew.start(client, topics=[topic], instance="restarted", **STEADY)
    crew.shared([stays, restarted], partitions, [2, 2])
    owned, generation, member_id, rebalances = (
        restarted.owns,
        restarted.generation,
        restarted.member_id,
        stays.rebalances,
    )

    restarted.kill()
    again = crew.start(client, topics=[topic], instance="restarted", **STEADY)
    crew.shared([stays, again], partitions, [2, 2])
    assert (again.owns, again.generation) == (owned, generation)
    assert again.member_id != member_id
    assert stays.rebalances == rebalances
    assert stays.do("describe")["generation"] == generation
    again.do("commit", offsets=[[*tp, 1] for tp in sorted(again.owns)])


def test_a_restart_after_the_session_is_two_rebalances(client: Client, crew: Crew, make_topic) -> None:
    topic = make_topic(4)
    partitions = all_of({topic: 4})
    stays = crew.start(client, topics=[topic], instance="stays", **STEADY)
    late = crew.start(client, topics=[topic], instance="late", **STEADY, session_ms=SHORT_SESSION_MS)
    crew.shared([stays, late], partitions, [2, 2])
    generation = stays.generation
    late.kill()
    crew.shared([stays], partitions, [4])
    assert stays.generation > generation
    again = crew.start(client, topics=[topic], instance="late", **STEADY)
    crew.shared([stays, again], partitions, [2, 2])


def test_of_two_members_with_one_instance_id_the_older_is_fenced(client: Client, crew: Crew, make_topic) -> None:
    topic = make_topic(4)
    partitions = all_of({topic: 4})
    # No heartbeat of it is due when it wakes: one that came before its commit would have aiokafka join again, by its
    # instance id, and put the newer one out.
    older = crew.start(client, topics=[topic], instance="twin", **STEADY, session_ms=45_000, heartbeat_ms=30_000)
    crew.shared([older], partitions, [4])
    older.do("hold")
    older.stop()
    newer = crew.start(client, topics=[topic], instance="twin", **STEADY)
    crew.shared([newer], partitions, [4])
    assert newer.generation == older.generation
    newer.do("commit", offsets=[[topic, 0, 3]])

    late = older.ask("commit", offsets=[[topic, 0, 7]])
    older.wake()
    reply = older.answer(late)
    if reply.get("error") == "_FATAL":
        # librdkafka's own thread was told first, and only a poll says what it was told.
        older.do("go")
        crew.wait(lambda: older.named("error"), "the older one is told that it is fenced")
        assert "fenced" in older.named("error")[0]["text"]
    else:
        # aiokafka's heartbeats and commits carry no instance id, so that it is told it is unknown rather than fenced.
        assert re.search("fenced|UnknownMember|CommitFailed", f"{reply.get('error')}: {reply.get('text')}", re.I)
    assert crew.start(client).do("group_offsets", group=crew.group) == [[topic, 0, 3]]
