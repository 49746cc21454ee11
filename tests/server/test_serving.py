"""A server over real sockets, with a real client and with hand-made frames."""

from kafka import KafkaConsumer, KafkaProducer

from kafka_shim.testing import CoordinatorServer


def test_a_group_consumes_produced_records() -> None:
    with CoordinatorServer(topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": "0"}) as server:
        producer = KafkaProducer(bootstrap_servers=server.bootstrap)
        for number in range(50):
            producer.send("orders", str(number).encode(), partition=number % 2)
        producer.flush()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=server.bootstrap, group_id="billing", auto_offset_reset="earliest"
        )
        values = set()
        while len(values) < 50:
            for records in consumer.poll(500).values():
                values |= {int(record.value) for record in records}
        consumer.close()
        producer.close()
    assert values == set(range(50))
