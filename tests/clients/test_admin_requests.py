"""Administration of a cluster without its groups: logs, places, the quorum, transactions and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource as KafkaPythonResource
from kafka.admin import ConfigResourceType, TransactionState
from kafka.errors import TransactionalIdNotFoundError

pytestmark = pytest.mark.second_stage("real clients")


@pytest.fixture(scope="module")
def kafka_python(bootstrap: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def filled(bootstrap: str, make_topic: Callable[..., str]) -> str:
    """A topic of two partitions, ten records in the first."""
    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(10):
        producer.produce(topic, f"{number}".encode(), partition=0)
        producer.flush(20)
    return topic


def values_from(bootstrap: str, topic: str, offset: int) -> list[bytes]:
    """Return the values from an offset on, or from the start of the log if that is later."""
    place = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([place])
    consumer.seek(place, offset)
    end, values = consumer.end_offsets([place])[place], []
    while consumer.position(place) < end:
        values += [record.value for record in consumer.poll(1000).get(place, [])]
    consumer.close()
    return values


class TestDeletedRecords:
    def test_kafka_python(self, kafka_python: Any, bootstrap: str, filled: str) -> None:
        place = TopicPartition(filled, 0)
        assert kafka_python.delete_records({place: 4})[place]["low_watermark"] == 4
        assert values_from(bootstrap, filled, 0) == [b"4", b"5", b"6", b"7", b"8", b"9"]
        assert kafka_python.delete_records({place: -1})[place]["low_watermark"] == 10
        assert values_from(bootstrap, filled, 0) == []

    def test_confluent(self, admin: AdminClient, filled: str) -> None:
        (deleted,) = admin.delete_records([Place(filled, 0, 7)]).values()
        assert deleted.result(20).low_watermark == 7
        (earliest,) = admin.list_offsets({Place(filled, 0): OffsetSpec.earliest()}).values()
        assert earliest.result(20).offset == 7
        (refused,) = admin.delete_records([Place(filled, 0, 11)]).values()
        with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
            refused.result(20)

    def test_deleting_records_keeps_the_commit(self, admin: AdminClient, filled: str, name: str) -> None:
        """The commit keeps its offset; the group's consumer begins at the start of the log."""
        group = ConsumerGroupTopicPartitions(f"{name}-g", [Place(filled, 0, 2)])
        (altered,) = admin.alter_consumer_group_offsets([group]).values()
        altered.result(20)
        (deleted,) = admin.delete_records([Place(filled, 0, 5)]).values()
        deleted.result(20)
        (listed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(f"{name}-g")]).values()
        assert [each.offset for each in listed.result(20).topic_partitions] == [2]


class TestPlaces:
    def test_partitions_are_described_in_pages(self, kafka_python: Any, filled: str) -> None:
        first = kafka_python.describe_topic_partitions([filled], response_partition_limit=1)
        assert first["next_cursor"] == {"topic_name": filled, "partition_index": 1}
        rest = kafka_python.describe_topic_partitions([filled], cursor=first["next_cursor"])
        assert rest["next_cursor"] is None
        (topic,) = rest["topics"]
        assert [each["partition_index"] for each in topic["partitions"]] == [1]

    def test_every_leader_is_the_preferred_leader(self, kafka_python: Any, admin: AdminClient, filled: str) -> None:
        kafka_python.elect_leaders(0, {filled: [0, 1]}, raise_errors=False)
        answered = admin.elect_leaders(ElectionType.PREFERRED, [Place(filled, 0)]).result(20)
        ((_, error),) = answered.items()
        assert error.name() == "ELECTION_NOT_NEEDED"

    def test_partitions_keep_their_replicas(self, kafka_python: Any, filled: str) -> None:
        place = TopicPartition(filled, 0)
        (partition, _) = kafka_python.describe_topics([filled])[0]["partitions"]
        assert kafka_python.alter_partition_reassignments({place: partition["replica_nodes"]}) == {place: None}
        assert kafka_python.list_partition_reassignments() == {}

    def test_log_directories_list_the_topic(self, kafka_python: Any, filled: str) -> None:
        (broker,) = kafka_python.describe_log_dirs({filled: [0, 1]})
        assert filled in repr(broker)

    def test_the_leader_of_the_quorum_is_its_first_voter(self, kafka_python: Any) -> None:
        (topic,) = kafka_python.describe_metadata_quorum()["topics"]
        (quorum,) = topic["partitions"]
        assert quorum["leader_id"] == quorum["current_voters"][0]["replica_id"]


class TestTransactions:
    def test_an_open_transaction_is_listed(self, kafka_python: Any, bootstrap: str, filled: str, name: str) -> None:
        place = TopicPartition(filled, 1)
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 30_000}
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(filled, b"open", partition=1)
        producer.flush(20)

        described = kafka_python.describe_transactions([name])[name]
        assert (described.state, described.transaction_timeout_ms) == (TransactionState.ONGOING, 30_000)
        assert described.topic_partitions == {place}
        assert name in repr(kafka_python.list_transactions(state_filters=["Ongoing"], transactional_id_pattern=name))
        (state,) = kafka_python.describe_producers([place])[place].active_producers
        assert (state.producer_id, state.current_transaction_start_offset) == (described.producer_id, 0)

        producer.commit_transaction(20)
        ended = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        assert kafka_python.describe_transactions([name])[name].state in ended
        with pytest.raises(TransactionalIdNotFoundError):
            kafka_python.describe_transactions([f"{name}-none"])


class TestSettings:
    def test_omitted_values_return_to_their_defaults(self, admin: AdminClient, filled: str) -> None:
        def altered(values: dict[str, str]) -> dict[str, str]:
            resource = ConfigResource(ConfigResource.Type.TOPIC, filled, set_config=values)
            (done,) = admin.alter_configs([resource]).values()
            done.result(20)
            (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, filled)]).values()
            return {each.name: each.value for each in described.result(20).values() if each.source == 1}

        assert altered({"retention.ms": "5000", "segment.ms": "6000"}) == {"retention.ms": "5000", "segment.ms": "6000"}
        assert altered({"segment.ms": "7000"}) == {"segment.ms": "7000"}

    def test_a_topic_has_a_configuration(self, kafka_python: Any, filled: str) -> None:
        listed = kafka_python.list_config_resources(["TOPIC", "BROKER"])
        assert filled in listed["topic" if "topic" in listed else "TOPIC"]
        described = kafka_python.describe_configs([KafkaPythonResource(ConfigResourceType.TOPIC, filled)])
        assert filled in repr(described)
