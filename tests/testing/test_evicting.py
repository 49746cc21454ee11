"""Errors about a member that is gone: the group has it no longer, and waits for none."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer
from kafka.errors import KafkaError

from kafka_shim.testing import CoordinatorServer, polling

ALL = {"orders": range(4)}
both = pytest.mark.parametrize("kind", ["kafka-python", "confluent-kafka"])
Consumers = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 4}) as server:
        server.clock.freeze()  # no session ends by itself
        yield server


@pytest.fixture
def consumer_of(server: CoordinatorServer) -> Iterator[Consumers]:
    made: list[Any] = []

    def make(kind: str, client_id: str, instance: str | None = None, **settings: Any) -> Any:
        if kind == "kafka-python":
            consumer = KafkaConsumer(
                "orders",
                bootstrap_servers=server.bootstrap,
                group_id="billing",
                client_id=client_id,
                group_instance_id=instance,
                heartbeat_interval_ms=50,
                enable_auto_commit=False,
            )
        else:
            static = {} if instance is None else {"group.instance.id": instance}
            classic = {} if settings else {"heartbeat.interval.ms": 50}
            base = {"bootstrap.servers": server.bootstrap, "group.id": "billing", "client.id": client_id}
            consumer = Consumer(base | {"log_level": 0, "enable.auto.commit": False} | static | classic | settings)
            consumer.subscribe(["orders"])
        made.append(consumer)
        return consumer

    yield make
    server.kill("*")
    for consumer in made:
        consumer.close(**({"timeout_ms": 100} if isinstance(consumer, KafkaConsumer) else {}))


def member_id(server: CoordinatorServer, name: str) -> str:
    (member,) = server.group("billing").now.called(name)
    return member.member_id


@both
@pytest.mark.parametrize("api", ["Heartbeat", "JoinGroup"])
def test_an_unknown_member_leaves_no_ghost(
    server: CoordinatorServer, consumer_of: Consumers, kind: str, api: str
) -> None:
    group = server.group("billing")
    with polling(consumer_of(kind, "real"), consumer_of(kind, "other")):
        group.stable(members=["real", "other"])
        before = member_id(server, "real")
        fault = server.fault("error", api, error="UNKNOWN_MEMBER_ID", member=before)
        if api == "JoinGroup":
            server.fault("error", "Heartbeat", error="REBALANCE_IN_PROGRESS", member=before, optional=True)
        fault.wait_fired()
        group.wait_for(lambda now: before not in [each.member_id for each in now.members], f"{before} to be gone")
        group.stable(members=["real", "other"])
        assert member_id(server, "real") != before


@both
def test_a_fenced_instance_leaves_no_ghost(server: CoordinatorServer, consumer_of: Consumers, kind: str) -> None:
    group = server.group("billing")
    heir, doomed = consumer_of(kind, "heir", "two"), consumer_of(kind, "doomed", "one")
    # confluent-kafka raises it; kafka-python only ends its heartbeats.
    with polling(heir), polling(doomed, raises=(KafkaError, KafkaException)):
        group.stable(members=["doomed", "heir"])
        # A leader without metadata yet assigns nothing, and joins again as soon as it has some.
        group.wait_for(lambda now: all(each.owned.get("orders") for each in now.members), "partitions for both")
        server.fault("error", "Heartbeat", error="FENCED_INSTANCE_ID", instance="one").wait_fired()
        group.stable(owners={"heir": ALL})


def test_an_unknown_member_of_a_consumer_group_leaves_no_ghost(
    server: CoordinatorServer, consumer_of: Consumers
) -> None:
    group = server.group("billing")
    new = {"group.protocol": "consumer"}
    with polling(consumer_of("", "real", **new), consumer_of("", "other", **new)):
        group.stable(members=["real", "other"])
        fault = server.fault("error", "ConsumerGroupHeartbeat", error="UNKNOWN_MEMBER_ID", client_id="real")
        fault.wait_fired()
        group.next("member", change="expired", client_id="real")
        group.stable(members=["real", "other"])


def test_a_member_stays_where_the_test_wants_a_ghost(server: CoordinatorServer, consumer_of: Consumers) -> None:
    group = server.group("billing")
    with polling(consumer_of("kafka-python", "real")):
        group.stable(members=["real"])
        ghost = member_id(server, "real")
        server.fault("error", "Heartbeat", error="UNKNOWN_MEMBER_ID", evict=False).wait_fired()
        group.next("state", to="PreparingRebalance", cause="NEW_MEMBER")
        assert ghost in [each.member_id for each in group.now.members]
        server.clock.advance(300)
        group.stable(members=["real"])
