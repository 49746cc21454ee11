"""`polling` beside calls of the test on the same consumer."""

import asyncio
import threading

import pytest
from confluent_kafka import Consumer, KafkaException, ShareConsumer
from kafka import KafkaConsumer

from kafka_shim.testing import AsyncCoordinator, CoordinatorServer, NotReached, polling
from kafka_shim.testing.handles import Group


def confluent(bootstrap: str, **settings: object) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "client.id": "real",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        | settings
    )
    consumer.subscribe(["orders"])
    return consumer


def test_a_commit_of_the_test_ends_while_its_consumer_is_polled() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.produce("orders", "a", "b")
        consumer = confluent(server.bootstrap)
        with polling(consumer) as polled:
            polled.wait_records(2)
            consumer.commit(asynchronous=False)
            assert server.group("billing").committed("orders", 0) == 2
        consumer.close()


def test_a_share_consumer_is_polled() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.set_config({"share.auto.offset.reset": "earliest"}, group="billing")
        server.produce("orders", "a", "b")
        consumer = ShareConsumer({"bootstrap.servers": server.bootstrap, "group.id": "billing", "log_level": 0})
        consumer.subscribe(["orders"])
        with polling(consumer) as polled:
            assert [record.value() for record in polled.wait_records(2)] == [b"a", b"b"]
        consumer.close()


def test_a_call_runs_in_the_thread_that_polls_its_consumer() -> None:
    threads: list[threading.Thread] = []

    class Noting(Consumer):
        def commit(self, **options: object) -> object:
            threads.append(threading.current_thread())
            return super().commit(**options)

    with CoordinatorServer(topics={"orders": 1, "others": 1}) as server:
        server.produce("orders", "a", "b")
        first = confluent(server.bootstrap, **{"group.id": "others"})
        settings = {"bootstrap.servers": server.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
        second = Noting(settings | {"enable.auto.commit": False, "log_level": 0})
        second.subscribe(["orders"])
        with polling(first, second) as polled:
            polled.wait_records(4)
            (committed,) = polled.call(second.commit, asynchronous=False)
            assert committed.offset == 2
            assert polled.call(lambda: threading.current_thread()) not in [*threads, threading.main_thread()]
            with pytest.raises(ZeroDivisionError):
                polled.call(lambda: 1 // 0)
        assert threads[0] is not threading.main_thread()
        first.close()
        second.close()


def test_a_test_waits_for_the_error_of_a_fenced_consumer() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        first = confluent(server.bootstrap, **{"group.instance.id": "pod-1", "heartbeat.interval.ms": 100})
        with polling(first, raises=KafkaException) as polled:
            server.group("billing").stable(members=["pod-1"])
            with pytest.raises(TimeoutError, match=r"No poll has raised an error after 0\.01 s\."):
                polled.wait_error(timeout=0.01)
            second = confluent(server.bootstrap, **{"group.instance.id": "pod-1"})
            with polling(second):
                assert polled.wait_error().args[0].name() == "_FATAL"
        first.close()
        second.close()


def test_a_test_on_an_event_loop_waits_for_an_error() -> None:
    class Broken:
        async def poll(self, seconds: float) -> None:
            raise ZeroDivisionError

    async def test() -> None:
        async with polling(Broken(), raises=ZeroDivisionError) as polled:
            assert isinstance(await polled.wait_error(), ZeroDivisionError)

    asyncio.run(test())


def test_an_error_to_wait_for_must_be_expected() -> None:
    class Broken:
        def poll(self, timeout_ms: int) -> None:
            raise ZeroDivisionError

    with (
        pytest.raises(ZeroDivisionError),
        polling(Broken()) as polled,
        pytest.raises(RuntimeError, match=r"write polling\(\.\.\., raises=KafkaError\)"),
    ):
        polled.wait_error()
    with pytest.raises(ZeroDivisionError), polling(Broken(), raises=KeyError) as polled:
        polled.wait_error()


def test_a_commit_of_kafka_python_runs_between_polls() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.produce("orders", "a", "b")
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=server.bootstrap,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        with polling(consumer) as polled:
            polled.wait_records(2)
            polled.call(consumer.commit)
            assert server.group("billing").committed("orders", 0) == 2
        consumer.close()


def test_a_call_ends_at_once_when_polling_has_ended() -> None:
    with pytest.raises(RuntimeError, match="polled no longer") as refused:  # noqa: SIM117
        with polling(Broken()) as polled:
            polled.call(print)
    assert isinstance(refused.value.__cause__, LookupError)


def fence(server: CoordinatorServer, group: Group) -> None:
    group.stable(members=1)
    server.puppet("billing", ["orders"], client_id="newer", instance_id="billing-a")
    group.stable(members=2, timeout=300)


class Broken:
    """A consumer with polls that fail."""

    def poll(self, timeout_ms: int) -> None:
        raise LookupError("the consumer is broken")


class BrokenAsync:
    """The same on an event loop."""

    async def getmany(self, timeout_ms: int) -> None:
        raise LookupError("the consumer is broken")


@pytest.mark.parametrize("consumers", [(42,), (), ("orders", Broken())])
def test_something_else_than_consumers_is_refused(consumers: tuple[object, ...]) -> None:
    with pytest.raises(
        TypeError, match=r"^polling\(\) takes consumers of kafka-python, confluent-kafka or aiokafka, not "
    ):
        polling(*consumers)


def test_an_error_of_polling_fails_the_test() -> None:
    with pytest.raises(LookupError, match="the consumer is broken") as failure, polling(Broken()):
        pass
    assert "raises=" in failure.value.__notes__[0]

    async def test() -> None:
        async with polling(BrokenAsync()) as polled:
            await polled.wait_records(1, timeout=0.5)

    with pytest.raises(LookupError, match="the consumer is broken"):
        asyncio.run(test())


def test_an_expected_error_of_polling_is_a_result() -> None:
    with polling(Broken(), raises=LookupError) as polled:
        with pytest.raises(TimeoutError):
            polled.wait_records(1, timeout=0.05)
        assert [str(error) for error in polled.errors] == ["the consumer is broken"]


def test_waits_end_when_polling_ends() -> None:
    """Each wait here lasts longer than the test may."""
    with CoordinatorServer() as server:
        group = server.group("billing")
        with pytest.raises(LookupError), polling(Broken()):
            group.stable(members=1, timeout=300)
        with pytest.raises(LookupError), polling(Broken()) as polled:
            polled.wait_records(1, timeout=300)
        with pytest.raises(NotReached):
            group.stable(members=1, timeout=0.05)

    async def test() -> None:
        async with AsyncCoordinator() as server, polling(BrokenAsync()):
            await server.group("billing").stable(members=1, timeout=300)

    with pytest.raises(LookupError):
        asyncio.run(test())


def test_a_topic_that_does_not_exist_is_reported() -> None:
    with CoordinatorServer(topics={"ordres": 1}) as server:
        consumer = confluent(server.bootstrap)
        with pytest.raises(NotReached) as failed, polling(consumer) as polled:
            server.group("billing").stable(owners={"real": {"orders": [0]}}, timeout=1)
        assert polled.reports == [failed.value.__notes__[-1].removeprefix("A consumer reported: ")]
        assert "Subscribed topic not available: orders" in polled.reports[0]
        consumer.close()


def test_an_expected_error_of_a_record_of_confluent_is_waited_for() -> None:
    with CoordinatorServer() as server:
        consumer = confluent(server.bootstrap)
        with polling(consumer, raises=KafkaException) as polled:
            assert polled.wait_error().args[0].name() == "UNKNOWN_TOPIC_OR_PART"
        consumer.close()


def test_an_error_that_ends_a_consumer_of_confluent_is_an_error_of_polling() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        older = confluent(server.bootstrap, **{"group.instance.id": "billing-a", "heartbeat.interval.ms": 100})
        group = server.group("billing")
        with pytest.raises(KafkaException, match="Static consumer fenced"), polling(older):
            fence(server, group)
        older.close()
