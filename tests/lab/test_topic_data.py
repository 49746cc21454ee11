"""Topics, records and offsets that a test creates, as consumers see them."""

import re

import pytest
from confluent_kafka import Consumer, Producer
from kafka.partitioner.default import murmur2 as of_kafka_python

from kafka_shim.lab import topic_data
from kafka_shim.lab.topic_data import murmur2
from kafka_shim.testing import CoordinatorServer, NotReached, Unmatchable, open_coordinator


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produced_records_are_consumed_and_listed(compression: str) -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        places = server.produce("orders", "a", b"b", None, key="k", headers={"h": "x"}, compression=compression)
        assert len({partition for partition, _ in places}) == 1
        assert [offset for _, offset in places] == [0, 1, 2]
        server.seed_offsets("billing", {("orders", places[0][0]): 1})
        assert server.lag("billing") == {("orders", places[0][0]): 2}
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "billing"})
        consumer.subscribe(["orders"])
        read = []
        while len(read) < 2:
            message = consumer.poll(10)
            assert message is not None
            read.append((message.value(), message.key(), message.headers()))
        consumer.close()
        assert read == [(b"b", b"k", [("h", b"x")]), (None, b"k", [("h", b"x")])]
        assert [record.value for record in server.records("orders")] == [b"a", b"b", None]
        assert server.lag("billing") == {("orders", places[0][0]): 0}


def test_only_committed_records_of_transactions_are_returned() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": "t"})
        producer.init_transactions(10)
        for value, end in (("a", producer.commit_transaction), ("b", producer.abort_transaction), ("c", None)):
            producer.begin_transaction()
            producer.produce("orders", value)
            producer.flush(10)
            if end is not None:
                end(10)
        assert [record.value for record in server.records("orders")] == [b"a"]
        assert [record.value for record in server.records("orders", committed=False)] == [b"a", b"b", b"c"]
        producer.abort_transaction(10)
        server.produce("orders", "d")
        assert [record.value for record in server.records("orders", 0)] == [b"a", b"d"]


def test_topics_are_created_and_grown() -> None:
    with CoordinatorServer() as server:
        server.create_topic("bills", 2, config={"cleanup.policy": "compact"})
        puppet = server.puppet("billing", ["bills"])
        server.group("billing").owns(puppet.member_id, {"bills": [0, 1]})
        server.grow_topic("bills", 3)
        server.produce("bills", "x", partition=2)
        assert [record.partition for record in server.records("bills")] == [2]


@pytest.mark.parametrize(
    ("do", "sentence"),
    [
        (lambda server: server.produce("ordres", "x"), "There is no topic 'ordres'; topics are: orders."),
        (lambda server: server.produce("orders", "x", partition=9), "Topic 'orders' has no partition 9; it has 1."),
        (lambda server: server.records("orders", 3), "Topic 'orders' has no partition 3"),
        (lambda server: server.grow_topic("orders", 1), "Topic 'orders' has 1 partitions already"),
        (lambda server: server.create_topic("orders"), "Topic 'orders' already exists."),
        (lambda server: server.seed_offsets("g", {("orders", 4): 1}), "Topic 'orders' has no partition 4."),
        (lambda server: server.seed_offsets("busy", {("orders", 0): 1}), "UNKNOWN_MEMBER_ID (25)"),
    ],
)  # fmt: skip
def test_impossible_data_is_one_sentence(do, sentence: str) -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.puppet("busy", ["orders"])
        server.group("busy").stable(members=1)
        with pytest.raises(ValueError, match=re.escape(sentence)):
            do(server)


@pytest.mark.parametrize("key", [b"", b"a", b"ab", b"abc", b"abcd", "Zürich".encode(), bytes(range(100))])
def test_keys_have_the_partitions_of_kafkas_producer(key: bytes) -> None:
    assert murmur2(key) == of_kafka_python(key) & 0xFFFFFFFF


def test_the_lag_of_a_group_that_does_not_exist_is_refused() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        with pytest.raises(ValueError, match=r"There is no group 'billing'; groups are: none\."):
            server.lag("billing")
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        assert server.lag("billing") == {("orders", 0): 0}
        with pytest.raises(ValueError, match=r"There is no group 'biling'; did you mean 'billing'\?"):
            server.lag("biling")


@pytest.mark.parametrize("kind", ["puppet", "consumer_puppet"])
def test_what_a_member_owns_and_has_never_committed_is_lag(kind: str) -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        server.produce("orders", "a", "b", partition=0)
        member = getattr(server, kind)("billing", ["orders"])
        server.group("billing").stable(members=1)
        assert server.lag("billing") == {("orders", 0): 2, ("orders", 1): 0}
        member.commit({("orders", 0): 2})
        assert server.lag("billing") == {("orders", 0): 0, ("orders", 1): 0}
        member.commit({("orders", 1): 87})
        assert server.lag("billing") == {("orders", 0): 0, ("orders", 1): -87}


def test_the_lag_of_a_group_with_neither_an_offset_nor_a_member_is_refused() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        member = server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        member.leave()
        assert server.group("billing").now.state == "Empty"
        with pytest.raises(ValueError, match="The group 'billing' has committed no offset, and it has no member"):
            server.lag("billing")


def test_a_group_has_caught_up_when_each_record_is_committed() -> None:
    with CoordinatorServer(topics={"orders": 2, "others": 1}) as server:
        group = server.group("billing")
        with pytest.raises(NotReached, match="committed offsets at the ends of the logs"):
            group.caught_up(timeout=0.05)  # there is no group yet
        member = server.puppet("billing", ["orders"])
        group.stable(members=1)
        with pytest.raises(NotReached):
            group.caught_up("orders", timeout=0.05)  # nothing to read yet
        server.produce("orders", "a", "b", partition=0)
        server.produce("orders", "c", partition=1)
        member.commit({("orders", 0): 2})
        with pytest.raises(NotReached):
            group.caught_up(timeout=0.05)
        member.commit({("orders", 1): 1})
        group.caught_up()
        group.caught_up("orders")
        with pytest.raises(NotReached):
            group.caught_up("others", timeout=0.05)
        with pytest.raises(Unmatchable, match="There is no topic 'oders'; did you mean 'orders'"):
            group.caught_up("oders")


async def test_the_hash_of_a_key_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []
    monkeypatch.setattr(topic_data, "murmur2", lambda key: hashed.append(key) or murmur2(key))
    async with open_coordinator(topics={"orders": 4}) as kit:
        places = kit.produce("orders", *["value"] * 50, key="a key")
    assert len({partition for partition, _ in places}) == 1
    assert hashed == [b"a key"]
