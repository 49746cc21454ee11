"""Events of reads, of writes, and of brokers that go down."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from kafka_shim.testing import CoordinatorServer, Unmatchable, polling
from kafka_shim.trace.schema import problems

ROOT: Final = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 1}, brokers=2) as server:
        yield server


def consumer_of(server: CoordinatorServer, kind: str) -> KafkaConsumer | Consumer:
    if kind == "kafka-python":
        return KafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing", client_id="real")
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "billing", "client.id": "real"})
    consumer.subscribe(["orders"])
    return consumer


@pytest.mark.parametrize("kind", ["kafka-python", "confluent-kafka"])
def test_the_requests_for_records_have_events(server: CoordinatorServer, kind: str) -> None:
    server.data_events()
    server.produce("orders", "before")
    with closing(consumer_of(server, kind)) as consumer, polling(consumer) as polled:
        group = server.group("billing")
        position = group.next("exchange", api="ListOffsets", client_id="real")
        group.consuming(members=["real"])
        assert position["answer"]["topics"][0]["partitions"][0]["offset"] == 1
        producer = Producer({"bootstrap.servers": server.bootstrap, "client.id": "writer"})
        producer.produce("orders", b"after")
        assert producer.flush(20) == 0
        polled.wait_records(1)
        assert group.next("exchange", api="Produce")["request"]["topic_data"][0]["name"] == "orders"
        read = group.next("exchange", api="Fetch", answer=lambda each: "'records': 0" not in str(each["responses"]))
        assert read["answer"]["responses"][0]["topic"] == "orders"
    events = server.events()
    assert [sentence for event in events for sentence in problems(event)] == []
    fetches = [event for event in events if event["event"] == "exchange" and event["api"] == "Fetch"]
    assert all(each["request"]["topics"] or each["answer"]["responses"] for each in fetches)
    story = "\n".join(group.story())
    assert "real looks for the end of orders-0: offset 1" in story
    assert "real fetches orders-0 from offset 1" in story
    assert "writer" not in story
    assert "writer produces to orders-0: offset 1" in "\n".join(server.story())


def names(value: Any) -> set[str]:
    """Return the names of all fields, at any depth."""
    if isinstance(value, list):
        return {name for each in value for name in names(each)}
    return set(value).union(*(names(each) for each in value.values())) if isinstance(value, dict) else set()


def test_the_fields_of_such_events_are_in_the_docs(server: CoordinatorServer) -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    server.data_events()
    with closing(consumer_of(server, "kafka-python")) as consumer, polling(consumer) as polled:
        server.group("billing").consuming(members=["real"])
        producer = Producer({"bootstrap.servers": server.bootstrap})
        producer.produce("orders", b"a")
        assert producer.flush(20) == 0
        polled.wait_records(1)
    for api in ("Fetch", "ListOffsets", "Produce"):
        (row,) = (line.split("|") for line in page.splitlines() if line.startswith(f"| {api} |"))
        events = [each for each in server.events() if each["event"] == "exchange" and each["api"] == api]
        for cell, side in ((row[2], "request"), (row[3], "answer")):
            assert set(re.findall(r"`(\w+)`", cell)) == names([each[side] for each in events])


def test_no_such_event_without_the_call(server: CoordinatorServer) -> None:
    with closing(consumer_of(server, "confluent-kafka")) as consumer, polling(consumer):
        group = server.group("billing")
        group.consuming(members=1)
        with pytest.raises(Unmatchable, match=r"Events of Fetch are off: `server.data_events\(\)` turns them on"):
            group.next("exchange", api="Fetch")
        server.data_events()
        server.data_events(False)
        server.produce("orders", "after")
    exchanges = [event for event in server.events() if event["event"] == "exchange"]
    assert not {event["api"] for event in exchanges} & {"Fetch", "ListOffsets", "Produce"}
    asked = [event for event in exchanges if event["api"] == "OffsetFetch"]
    # From version 8 on a request has a list of groups.
    assert {event["version"] >= 8 for event in asked} == {True}
    assert {event["group"] for event in asked} == {"billing"}


def test_a_broker_that_is_down_is_told(server: CoordinatorServer) -> None:
    server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    server.kill_broker(2)
    server.restart_broker(2)
    server.stop_broker(2)
    changes = [(each["node"], each["change"]) for each in server.events() if each["event"] == "broker"]
    assert changes == [(2, "killed"), (2, "started"), (2, "stopped")]
    assert [problems(each) for each in server.events() if each["event"] == "broker"] == [[], [], []]
    for story in (server.story(), server.group("billing").story()):
        assert sum("broker 2 is killed" in line for line in story) == 1


def test_such_events_are_switched_over_http() -> None:
    with CoordinatorServer(topics={"orders": 1}, control=True) as server:
        url = f"{server.control_url}/v1/events"
        assert httpx.post(url, json={"data": True}).json() == {"data": True}
        producer = Producer({"bootstrap.servers": server.bootstrap})
        producer.produce("orders", b"a")
        assert producer.flush(20) == 0
        assert "Produce" in {each["api"] for each in server.events() if each["event"] == "exchange"}
