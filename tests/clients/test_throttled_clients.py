"""A real client above its quota is served again when the clock of the coordinator has moved."""

from confluent_kafka import Producer, ThrottleEvent

from kafka_shim.testing import CoordinatorServer
from tests.waiting import PATIENCE_S


def test_a_throttled_producer_waits_for_the_clock() -> None:
    throttles: list[ThrottleEvent] = []
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.clock.freeze()
        server.set_quota("producer_byte_rate", 1000, client_id="billing")
        config = {"bootstrap.servers": server.bootstrap, "client.id": "billing", "throttle_cb": throttles.append}
        producer = Producer(config)
        producer.produce("orders", b"x" * 20_000)
        assert producer.flush(PATIENCE_S) == 0
        producer.poll(0)
        # librdkafka reports the end of a throttle too: an answer without one, on any of its connections, is a 0.
        assert [round(each.throttle_time) for each in throttles if each.throttle_time] == [10]
        assert throttles[0].throttle_time
        # librdkafka does not wait by itself: the server reads nothing.
        producer.produce("orders", b"y")
        assert producer.flush(0.3) == 1
        server.clock.advance(11)
        assert producer.flush(PATIENCE_S) == 0
        server.set_quota("producer_byte_rate", None, client_id="billing")
