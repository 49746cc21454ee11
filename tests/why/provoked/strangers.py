"""Provoked cases of clients and settings that the rules had not met.

There are older releases, franz-go in the new protocol, static members in trouble, groups of two protocols, and Python
clients in front of Apache Kafka.

Their answers were written down before the first judgement, of which docs/why.md tells.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT, Member
from tests.why.provoked.cases import AIO, CONFLUENT, FRANZ, JAVA, KAFKAJS, KIP848, KP2, KP3, SARAMA, Case, collector
from tests.why.provoked.languages import FRANZ_KIP848, JAVA_KIP848
from tests.why.provoked.lives import QUICK
from tests.why.provoked.stage import Stage

STRANGERS: Final[list[Case]] = []
case = collector(STRANGERS)

KAFKA: Final = "kafka"
APART: Final = "apart"
"""A server on which the two protocols do not share a group."""
PROTOCOLS: Final = ("group.protocol", "group.consumer.migration.policy")
POLLS: Final = ("max.poll.records", "max.poll.interval.ms")
OLD_AIO: Final = "aiokafka-0.11"


def _admin(stage: Stage) -> Member:
    return stage.processes.start(EVERY_CLIENT[CONFLUENT], client_id="admin")


# Faults


@case(*(KP3, CONFLUENT, JAVA), causes=("POLL_TIMEOUT_REASON", "PAUSED_MEMBER"), culprits=("store-1",), remedies=POLLS)
def a_static_member_misses_its_poll(stage: Stage) -> None:
    # A static member does not leave: it only stops its heartbeats.
    stage.start("store-0", instance="store-0", max_poll_ms=300_000)
    stage.start("store-1", instance="store-1", max_poll_ms=7_000)
    stage.whole()
    for _ in range(2):
        stage.short["store-1"].do("hold")
        stage.whole("store-0")
        stage.rest(2.0)
        stage.short["store-1"].do("go")
        stage.whole()


@case(*(KP3, CONFLUENT, JAVA), causes=("POLL_TIMEOUT_REASON",), culprits=("etl-1", "etl-2"), remedies=POLLS)
def both_members_miss_their_polls(stage: Stage) -> None:
    stage.started("etl-1", "etl-2", max_poll_ms=7_000)
    for _ in range(2):
        for name in ("etl-1", "etl-2"):
            stage.short[name].do("hold")
        stage.rest(11.0)
        for name in ("etl-1", "etl-2"):
            stage.short[name].do("go")
        stage.whole()


@case(
    *(KP3, CONFLUENT, FRANZ, SARAMA),
    causes=("SESSION_EXPIRED",),
    culprits=("rack-2-a", "rack-2-b"),
    remedies=("process",),
)
def two_die_together(stage: Stage) -> None:
    stage.started("rack-1-a", "rack-1-b", "rack-2-a", "rack-2-b")
    stage.kill("rack-2-a")
    stage.kill("rack-2-b")
    stage.whole()


@case(
    *(KP2, AIO, OLD_AIO),
    causes=("GHOST",),
    culprits=("mail-3",),
    remedies=("group.instance.id", "process"),
)
def a_ghost_of_three(stage: Stage) -> None:
    stage.started("mail-1", "mail-2", "mail-3", session_ms=14_000)
    stage.kill("mail-3")
    stage.rest(3.0)
    stage.start("mail-3", session_ms=14_000)
    stage.whole()


@case(
    *(AIO, CONFLUENT),
    causes=("GHOST",),
    culprits=("mail-1",),
    remedies=("group.instance.id", "process"),
    server=KAFKA,
)
def a_ghost_of_two_in_front_of_kafka(stage: Stage) -> None:
    stage.started("mail-1", "mail-2", session_ms=12_000)
    stage.kill("mail-1")
    stage.rest(2.0)
    stage.start("mail-1", session_ms=12_000)
    stage.whole()


@case(
    *(KP3, CONFLUENT),
    causes=("DUPLICATE_INSTANCE_ID",),
    culprits=("pod-0",),
    remedies=("group.instance.id",),
    server=KAFKA,
)
def a_copied_instance_id_in_front_of_kafka(stage: Stage) -> None:
    stage.start("blue-0", instance="pod-0")
    stage.start("blue-1", instance="pod-1")
    stage.whole()
    stage.start("green-0", instance="pod-0")
    stage.rest(9.0)


@case(
    *(KP3, CONFLUENT),
    causes=("SLOW_MEMBER",),
    culprits=("heavy",),
    remedies=("max.poll.records", "processing"),
    server=KAFKA,
)
def a_batch_holds_up_a_rebalance_in_front_of_kafka(stage: Stage) -> None:
    stage.started("heavy", "light", max_poll_ms=60_000)
    stage.short["heavy"].do("hold")
    stage.start("more", max_poll_ms=60_000)
    stage.rest(9.0)
    stage.short["heavy"].do("go")
    stage.whole()


@case(*(KIP848, JAVA_KIP848), causes=("JOIN_REFUSED",), culprits=("new",), remedies=PROTOCOLS, server=APART)
def the_new_protocol_meets_a_classic_group(stage: Stage) -> None:
    stage.start("old", CONFLUENT)
    stage.whole()
    stage.start("new")
    stage.rest(7.0)


@case(
    KIP848,
    causes=("JOIN_REFUSED",),
    culprits=("old",),
    remedies=PROTOCOLS,
    server=APART,
    others={KIP848: CONFLUENT},
)
def a_classic_consumer_meets_a_group_of_the_new_protocol(stage: Stage) -> None:
    stage.started("new")
    stage.start("old", CONFLUENT)
    stage.rest(7.0)


@case(FRANZ_KIP848, causes=("SESSION_EXPIRED",), culprits=("go-b",), remedies=("process",), server=QUICK)
def a_go_consumer_is_killed(stage: Stage) -> None:
    stage.started("go-a", "go-b", "go-c")
    stage.kill("go-b")
    stage.whole()


@case(
    FRANZ_KIP848,
    causes=("PAUSED_MEMBER",),
    culprits=("go-b",),
    remedies=("consumer.session.timeout.ms",),
    server=QUICK,
)
def a_go_consumer_is_paused(stage: Stage) -> None:
    stage.started("go-a", "go-b")
    for _ in range(2):
        stage.short["go-b"].stop()
        stage.whole("go-a")
        stage.rest(1.0)
        stage.short["go-b"].wake()
        stage.whole()


@case(*(KP3, CONFLUENT), causes=("PAUSED_MEMBER",), culprits=("vm-1",), remedies=("session.timeout.ms",))
def a_static_member_is_paused(stage: Stage) -> None:
    for name in ("vm-0", "vm-1"):
        stage.start(name, instance=name, max_poll_ms=60_000)
    stage.whole()
    for _ in range(2):
        stage.short["vm-1"].stop()
        stage.whole("vm-0")
        stage.short["vm-1"].wake()
        stage.whole()


@case(
    *(JAVA, FRANZ, SARAMA, KAFKAJS),
    causes=("FLAPPING",),
    culprits=("cron",),
    # kafkajs has no static membership.
    remedies=("group.instance.id", "process"),
)
def a_job_joins_and_leaves_all_the_time(stage: Stage) -> None:
    stage.started("service")
    for _ in range(4):
        stage.start("cron")
        stage.whole()
        stage.close("cron")
        stage.whole()


@case(*(KIP848, FRANZ_KIP848), causes=("CRASH_LOOP",), culprits=("leaky",), remedies=("process",), server=QUICK)
def a_consumer_crashes_again_and_again(stage: Stage) -> None:
    stage.started("sound")
    for _ in range(4):
        stage.start("leaky")
        stage.whole()
        stage.kill("leaky")
        stage.whole()


@case(JAVA, causes=("SESSION_EXPIRED",), culprits=("script",), remedies=("process",))
def a_python_script_dies_in_a_group_of_java(stage: Stage) -> None:
    range_only = {"assignors": ["range"]}
    stage.started("jvm-1", "jvm-2", **range_only)
    stage.start("script", KP3, **range_only)
    stage.whole()
    stage.kill("script")
    stage.whole()


@case(
    FRANZ_KIP848,
    # It leaves without its instance id and is refused, so each new process waits for the session of the old one.
    causes=("JOIN_REFUSED", "GHOST", "SESSION_EXPIRED"),
    culprits=("set-0", "set-1"),
    remedies=("process", "consumer.session.timeout.ms"),
    server=QUICK,
)
def static_go_consumers_are_deployed_one_by_one(stage: Stage) -> None:
    names = ("set-0", "set-1")
    for name in names:
        stage.start(name, instance=name)
    stage.whole()
    for name in names:
        stage.close(name)
        stage.rest(0.5)
        stage.start(name, instance=name)
        stage.whole()


# Healthy


@case(*(KP3, CONFLUENT, KIP848), causes=("START",), calm=True, server=QUICK)
def more_members_than_partitions(stage: Stage) -> None:
    narrow = f"{stage.group}-narrow"
    admin = _admin(stage)
    admin.do("create_topic", topic=narrow, partitions=2)
    for name in ("one", "two", "three"):
        stage.start(name, topics=[narrow])
    stage.rest(10.0)
    admin.kill()


@case(*(KP3, AIO), causes=("DEPLOY", "START"), remedies=("group.instance.id",), calm=None)
def all_rest_for_a_while(stage: Stage) -> None:
    stage.started("day-1", "day-2")
    stage.close("day-1", "day-2")
    stage.rest(12.0)
    stage.started("day-1", "day-2")


@case(*(KP3, AIO), causes=("SCALE_OUT",), calm=True, server=KAFKA)
def a_python_member_more_in_front_of_kafka(stage: Stage) -> None:
    stage.started("a", "b")
    stage.rest(12.0)
    stage.start("c")
    stage.whole()


@case(*(KP3, CONFLUENT), causes=("ROLLING_RESTART", "STORM"), remedies=("group.instance.id",), calm=None)
def a_release_offers_a_second_assignor(stage: Stage) -> None:
    names = ("v-0", "v-1", "v-2")
    stage.started(*names, assignors=["range"])
    for name in names:
        stage.close(name)
        stage.rest(1.0)
        stage.start(name, assignors=["range", "roundrobin"])
        stage.whole()


@case(
    *(JAVA, JAVA_KIP848),
    # Not a missed poll, though it is away for longer than its poll interval.
    causes=("RESTART", "SCALE_IN", "SCALE_OUT"),
    remedies=("group.instance.id",),
    calm=None,
    server=QUICK,
)
def unsubscribes_for_longer_than_its_poll_interval(stage: Stage) -> None:
    stage.started("moody", "steady", max_poll_ms=7_000)
    stage.rest(1.0)
    stage.short["moody"].do("unsubscribe")
    stage.whole("steady")
    stage.rest(9.0)
    stage.short["moody"].do("subscribe", topics=[stage.group])
    # A poll without a subscription raises, and the adapter then polls no more.
    stage.short["moody"].do("go")
    stage.whole()


@case(*(KIP848, JAVA_KIP848, FRANZ_KIP848), causes=("SCALE_IN",), calm=True, server=QUICK)
def a_consumer_retires(stage: Stage) -> None:
    stage.started("a", "b", "c")
    stage.rest(5.0)
    stage.close("c")
    stage.whole()
    stage.rest(12.0)


@case(*(JAVA_KIP848, FRANZ_KIP848), causes=("SCALE_OUT",), calm=True, server=QUICK)
def one_consumer_more(stage: Stage) -> None:
    stage.started("a")
    stage.rest(12.0)
    stage.start("b")
    stage.whole()


@case(
    KIP848,
    causes=("ROLLING_RESTART", "DEPLOY", "PROTOCOL_CHANGED"),
    remedies=("group.instance.id",),
    calm=None,
    server=QUICK,
)
def pods_move_to_the_new_protocol_in_turn(stage: Stage) -> None:
    names = ("m-0", "m-1", "m-2")
    for name in names:
        stage.start(name, CONFLUENT)
    stage.whole()
    for name in names:
        stage.close(name)
        stage.start(name)
        stage.whole()
