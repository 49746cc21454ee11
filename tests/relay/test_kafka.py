"""The relay in front of Apache Kafka itself: clients of both group protocols notice no difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_shim.conformance.clients.client_processes import CLIENTS, ClientProcesses, all_of
from kafka_shim.trace.schema import problems
from tests.persistence.real_kafka import RealKafka
from tests.relay.recording import recording

pytestmark = pytest.mark.second_stage("a real Kafka")

RECORDS = 40
PARTITIONS = all_of({"orders": 4})


def test_classic_and_consumer_groups_work_through_the_relay(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with RealKafka(tmp_path).running() as upstream, recording(upstream, trace) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("orders", 4, 1)])["orders"].result(30)
        (broker,) = admin.describe_cluster().result(30).nodes
        assert f"127.0.0.1:{broker.port}" != upstream
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(RECORDS):
            producer.produce("orders", str(number), partition=number % 4)
        assert producer.flush(30) == 0
        for name, protocol in (("billing", "classic"), ("shipping", "consumer")):
            processes = ClientProcesses(bootstrap, name)
            try:
                client = CLIENTS["confluent-kafka-2.16"]
                members = [processes.start(client, topics=["orders"], protocol=protocol) for _ in range(2)]
                processes.wait(
                    lambda members=members: (
                        sorted(each for member in members for each in member.owns) == PARTITIONS
                        and {len(member.owns) for member in members} == {2}
                    ),
                    f"the members of {name} share everything",
                    60,
                )
                processes.consumed(members, "orders", RECORDS)
                members[0].do("commit", offsets=[[*each, 10] for each in sorted(members[0].owns)])
                members[0].close()
            finally:
                processes.end()
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [problem for event in events for problem in problems(event)] == []
    rounds = [event for event in events if event["event"] == "round"]
    assert {event["group"] for event in rounds} == {"billing"}
    assert {event["cause"] for event in rounds} <= {"NEW_MEMBER", "MEMBER_LEFT"}
    # Two members, one after the other, and one that closes; the events between depend on timing.
    epochs = [event for event in events if event["event"] == "epoch"]
    assert {event["group"] for event in epochs} == {"shipping"}
    assert [event["cause"] for event in epochs][:2] == ["NEW_MEMBER", "NEW_MEMBER"]
    assert "MEMBER_LEFT" in {event["cause"] for event in epochs}
    steps = [event for event in events if event["event"] == "reconciliation" and event["state"] == "STABLE"]
    assert {len(event["assigned"].get("orders", ())) for event in steps} >= {2, 4}
    beats = {event["group"] for event in events if event["event"] == "exchange" and event["api"].startswith("Consumer")}
    assert beats == {"shipping"}
    ends = {
        (each["topic"], each["partition"]): each["offset"]
        for event in events
        if event["event"] == "end_offsets"
        for each in event["offsets"]
    }
    assert ends == dict.fromkeys(PARTITIONS, RECORDS // 4)
