"""Consumers read the records of a producer unchanged, and the next consumer starts at the commit."""

import pytest

from .harness import CLIENTS, Client, ClientProcesses

pytestmark = pytest.mark.second_stage("real clients")


def records(count: int, partitions: int) -> list[list[object]]:
    """(partition, key, value, headers) of records that differ in every part."""
    return [
        [number % partitions, f"k{number}", f"value {number}", [["h", f"{number}"], ["h", "again"]]]
        for number in range(count)
    ]


def test_the_next_consumer_starts_at_the_commit(client: Client, processes: ClientProcesses, make_topic) -> None:
    topic = make_topic(2)
    producer = processes.start(client)
    sent = records(20, 2)
    assert producer.do("produce", topic=topic, records=sent, compression="gzip") == [[n % 2, n // 2] for n in range(20)]

    first = processes.start(client, topics=[topic])
    processes.consumed([first], topic, 20)
    consumed = [[partition, *record] for partition, _, *record in sorted(first.records(topic))]
    assert consumed == sorted(sent, key=lambda record: (record[0], int(record[1][1:])))

    first.do("commit", offsets=[[topic, 0, 4], [topic, 1, 7]])
    assert first.do("committed", topic=topic, partition=0) == 4
    number = first.ask("commit_async", offsets=[[topic, 0, 6]])
    assert first.answer(number).get("error") is None
    first.close()

    second = processes.start(client, topics=[topic])
    processes.consumed([second], topic, 7)
    assert sorted(record[:2] for record in second.records(topic)) == (
        [(0, offset) for offset in (6, 7, 8, 9)] + [(1, offset) for offset in (7, 8, 9)]
    )

    # A commit without offsets covers all consumed records: a third consumer gets none.
    second.do("commit")
    assert second.do("committed", topic=topic, partition=1) == 10
    second.close()
    third = processes.start(client, topics=[topic])
    processes.shared([third], [(topic, 0), (topic, 1)], [2])
    producer.do("produce", topic=topic, records=[[0, None, "last", []]])
    processes.consumed([third], topic, 1)
    assert third.records(topic) == [(0, 10, None, "last", [])]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        ("kafka-python-3.0", "confluent-kafka-2.16"),
        ("confluent-kafka-2.16", "aiokafka-0.14"),
        ("aiokafka-0.14", "kafka-python-3.0"),
    ],
)
def test_a_compressed_batch_passes_from_one_client_to_another(
    producer: str, consumer: str, codec: str, processes: ClientProcesses, make_topic
) -> None:
    topic = make_topic(1)
    sent = records(50, 1)
    processes.start(CLIENTS[producer]).do("produce", topic=topic, records=sent, compression=codec)
    reader = processes.start(CLIENTS[consumer], topics=[topic])
    processes.consumed([reader], topic, 50)
    assert [[partition, *record] for partition, _, *record in reader.records(topic)] == sent
