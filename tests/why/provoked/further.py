"""Provoked cases of lives that the other sets do not have, recorded after the rules were mended with all of these.

Processes that share a client id, heartbeats that are rarer than the session is long, short-lived jobs, two troubles at
a time, topics that are deleted, and share groups. Their answers were committed before the first recording;
docs/why.md has their first judgement.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka.admin import AclOperation, AclPermissionType, AdminClient, NewTopic

from tests.why.provoked.cases import AIO, CONFLUENT, FRANZ, KAFKAJS, KIP848, KP3, SARAMA, Case, collector
from tests.why.provoked.languages import FRANZ_KIP848
from tests.why.provoked.lives import GUARDED, QUICK, RIGHTS, give
from tests.why.provoked.stage import SHARE, Stage
from tests.why.provoked.unseen import COOPERATIVE, JAVA44, JAVA44_KIP848, KAFKA_GO, LONG, POLLS

FURTHER: Final[list[Case]] = []
case = collector(FURTHER)

SHARING: Final = "sharing"
WEB: Final[dict[str, Any]] = {"client_id": "web"}
"""The client id of several processes, as with the default of a library."""
SECOND: Final = ("web#2",)


def one_by_one(stage: Stage, *names: str, **config: Any) -> None:
    """Start members in this order, so that each has its number."""
    for name in names:
        stage.start(name, **config)
        stage.whole()


# Faults: processes that share a client id


@case(*(KP3, FRANZ, SARAMA), causes=("SESSION_EXPIRED",), culprits=SECOND, remedies=("process",))
def one_of_three_namesakes_is_killed(stage: Stage) -> None:
    one_by_one(stage, "a", "b", "c", **WEB)
    stage.kill("b")
    stage.whole()
    stage.rest(8.0)


@case(*(CONFLUENT, JAVA44), causes=("POLL_TIMEOUT_REASON",), culprits=SECOND, remedies=POLLS)
def one_of_two_namesakes_misses_polls(stage: Stage) -> None:
    one_by_one(stage, "a", "b", **WEB, max_poll_ms=8_500)
    for _ in range(2):
        stage.short["b"].do("hold")
        stage.whole("a")
        stage.rest(2.0)
        stage.short["b"].do("go")
        stage.whole()


@case(*(AIO, KAFKAJS), causes=("GHOST",), culprits=("web#3",), remedies=("group.instance.id", "process"))
def a_namesake_is_killed_and_started(stage: Stage) -> None:
    one_by_one(stage, "a", "b", "c", **WEB, **LONG)
    stage.kill("c")
    stage.rest(1.0)
    stage.start("c", **WEB, **LONG)
    stage.whole()


@case(CONFLUENT, causes=("CRASH_LOOP",), culprits=("web#2", "web#3", "web#4", "web#5"), remedies=("process",))
def a_namesake_crashes_in_a_loop(stage: Stage) -> None:
    one_by_one(stage, "a", "b", **WEB, session_ms=10_000)
    for _ in range(4):
        stage.kill("b")
        stage.rest(0.5)
        stage.start("b", **WEB, session_ms=10_000)
        stage.whole()


@case(*(KIP848, JAVA44_KIP848), causes=("SESSION_EXPIRED",), culprits=SECOND, remedies=("process",), server=QUICK)
def one_of_three_consumers_of_one_name_is_killed(stage: Stage) -> None:
    one_by_one(stage, "a", "b", "c", **WEB)
    stage.kill("b")
    stage.whole()
    stage.rest(6.0)


# Faults: settings, and lives


@case(
    *(AIO, CONFLUENT, KAFKA_GO),
    causes=("SELDOM_HEARTBEATS",),
    culprits=("late-beat",),
    remedies=("heartbeat.interval.ms",),
)
def heartbeats_are_rarer_than_the_session_is_long(stage: Stage) -> None:
    stage.start("usual")
    stage.whole()
    stage.start("late-beat", session_ms=7_000, heartbeat_ms=10_000)
    stage.rest(52.0)


@case(*(KP3, KIP848), causes=("FLAPPING",), culprits=("nightly-3", "nightly-4"), remedies=("process",), server=QUICK)
def jobs_of_other_names_come_and_go(stage: Stage) -> None:
    stage.started("base-1", "base-2")
    stage.rest(12.0)
    for name in ("nightly-1", "nightly-2", "nightly-3", "nightly-4"):
        stage.start(name)
        stage.whole()
        stage.close(name)
        stage.whole()


@case(*(KP3, CONFLUENT), causes=("SESSION_EXPIRED",), culprits=("gone",), remedies=("process",))
def one_dies_in_a_group_with_a_slow_callback(stage: Stage) -> None:
    # The death costs 20 s of three partitions, the callback 2 s of all members.
    both: dict[str, Any] = {"session_ms": 20_000, "heartbeat_ms": 1_000, "assignors": ["range"]}
    stage.start("slow", **both, revoke_s=2.0)
    stage.start("gone", **both)
    stage.whole()
    stage.kill("gone")
    stage.whole()
    stage.rest(6.0)


@case(
    *(KIP848, JAVA44_KIP848),
    causes=("SESSION_EXPIRED",),
    culprits=("set-1",),
    remedies=("process", "consumer.session.timeout.ms"),
    server=QUICK,
)
def a_static_consumer_is_killed_and_back_after_its_session(stage: Stage) -> None:
    for name in ("set-0", "set-1"):
        stage.start(name, instance=name)
    stage.whole()
    stage.kill("set-1")
    stage.whole("set-0")
    stage.rest(5.0)
    stage.start("set-1", instance="set-1")
    stage.whole()


@case(FRANZ_KIP848, causes=("SLOW_REVOCATION",), culprits=("keep-1", "keep-2"), remedies=("processing",), server=QUICK)
def two_keep_their_partitions_for_long(stage: Stage) -> None:
    stage.started("keep-1", "keep-2", revoke_s=6)
    stage.start("new")
    stage.whole()


@case(
    *(KIP848, JAVA44_KIP848),
    causes=("POLL_TIMEOUT_REASON", "REBALANCE_TIMEOUT"),
    culprits=("batch",),
    remedies=("max.poll.interval.ms", "max.poll.records", "processing"),
    server=QUICK,
)
def a_batch_outlives_the_poll_interval_in_a_scale_out(stage: Stage) -> None:
    stage.start("batch", max_poll_ms=9_000)
    stage.whole()
    stage.short["batch"].do("hold")
    stage.start("new", max_poll_ms=60_000)
    stage.whole("new")
    stage.rest(4.0)
    stage.short["batch"].do("go")
    stage.whole()


@case(
    *(KP3, SARAMA, JAVA44), causes=("PAUSED_MEMBER",), culprits=("node-1", "node-2"), remedies=("session.timeout.ms",)
)
def two_of_three_stand_still_together(stage: Stage) -> None:
    stage.started("node-1", "node-2", "other", session_ms=8_000, max_poll_ms=60_000)
    stage.rest(3.0)
    for name in ("node-1", "node-2"):
        stage.short[name].stop()
    stage.rest(12.0)
    for name in ("node-1", "node-2"):
        stage.short[name].wake()
    stage.whole()


@case(*(KP3, JAVA44), causes=("JOIN_REFUSED",), culprits=("modern",), remedies=("partition.assignment.strategy",))
def a_cooperative_pod_meets_an_eager_group(stage: Stage) -> None:
    stage.started("old-1", "old-2", assignors=["range"])
    stage.start("modern", **COOPERATIVE)
    stage.rest(10.0)


@case(*(KP3, AIO), causes=("DUPLICATE_INSTANCE_ID",), culprits=("sole",), remedies=("group.instance.id",))
def three_processes_have_one_instance_id(stage: Stage) -> None:
    stage.start("pod-a", instance="sole")
    stage.whole()
    stage.start("pod-b", instance="sole")
    stage.rest(4.0)
    stage.start("pod-c", instance="sole")
    stage.rest(8.0)


@case(KAFKA_GO, causes=("SLOW_MEMBER",), culprits=("slow",), remedies=("processing",))
def a_member_works_on_for_seven_seconds(stage: Stage) -> None:
    stage.start("slow", **LONG, revoke_s=7)
    stage.start("quick", **LONG)
    stage.whole()
    stage.start("new", **LONG)
    stage.whole()


@case(
    *(KP3, JAVA44),
    causes=("SESSION_EXPIRED", "GHOST", "PENDING_SYNC_EXPIRED"),
    culprits=("stillborn",),
    remedies=("process",),
    server="medium",
)
def one_dies_before_its_first_assignment(stage: Stage) -> None:
    stage.start("elder", **LONG)
    stage.whole()
    stage.short["elder"].stop()
    stage.start("stillborn", **LONG)
    stage.rest(1.5)
    stage.kill("stillborn")
    stage.short["elder"].wake()
    stage.whole()
    stage.rest(6.0)


# Faults: share groups


@case(SHARE, causes=("SESSION_EXPIRED",), culprits=("share-2", "share-3"), remedies=("process",), server=SHARING)
def two_share_consumers_die(stage: Stage) -> None:
    stage.started("share-1", "share-2", "share-3")
    stage.kill("share-2")
    stage.kill("share-3")
    stage.rest(12.0)


@case(
    SHARE,
    causes=("PAUSED_MEMBER",),
    culprits=("nap-1", "nap-2"),
    remedies=("share.session.timeout.ms",),
    server=SHARING,
)
def all_share_consumers_stand_still(stage: Stage) -> None:
    stage.started("nap-1", "nap-2")
    for name in ("nap-1", "nap-2"):
        stage.short[name].stop()
    stage.rest(11.0)
    for name in ("nap-1", "nap-2"):
        stage.short[name].wake()
    stage.rest(6.0)


@case(
    SHARE,
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("worker-2",),
    remedies=("max.poll.interval.ms",),
    server=SHARING,
)
def a_share_consumer_misses_its_poll_twice(stage: Stage) -> None:
    stage.started("worker-1", "worker-2", max_poll_ms=7_000)
    for _ in range(2):
        stage.short["worker-2"].do("hold")
        stage.rest(12.0)
        stage.short["worker-2"].do("go")
        stage.rest(4.0)


@case(SHARE, causes=("GHOST", "SESSION_EXPIRED"), culprits=("cart",), remedies=("process",), server=SHARING)
def a_share_consumer_is_killed_and_started(stage: Stage) -> None:
    stage.started("cart", "desk")
    stage.kill("cart")
    stage.rest(0.5)
    stage.start("cart")
    stage.whole()
    stage.rest(6.0)


@case(SHARE, causes=("JOIN_REFUSED",), culprits=("stranger",), remedies=RIGHTS, server=GUARDED)
def a_share_consumer_has_no_rights(stage: Stage) -> None:
    give(stage, AclOperation.READ, AclPermissionType.DENY)
    stage.start("stranger")
    stage.rest(8.0)


# Healthy, or nearly


@case(*(KP3, FRANZ, CONFLUENT), causes=("START", "STATIC_REPLACED"), calm=True)
def static_pods_are_killed_and_started_in_turn(stage: Stage) -> None:
    settings: dict[str, Any] = {"session_ms": 30_000, "heartbeat_ms": 2_000}
    for name in ("st-0", "st-1"):
        stage.start(name, instance=name, **settings)
    stage.whole()
    stage.rest(3.0)
    for name in ("st-0", "st-1"):
        stage.kill(name)
        stage.rest(0.5)
        stage.start(name, instance=name, **settings)
        stage.whole()
        stage.rest(2.0)


@case(*(AIO, JAVA44), causes=("SCALE_OUT",), calm=True)
def a_static_group_grows(stage: Stage) -> None:
    for name in ("p-0", "p-1"):
        stage.start(name, instance=name)
    stage.whole()
    stage.rest(13.0)
    stage.start("p-2", instance="p-2")
    stage.whole()


@case(
    *(KP3, CONFLUENT, KIP848),
    causes=("TOPICS_CHANGED", "SUBSCRIPTION_CHANGED", "LEADER_REJOINED"),
    calm=True,
    server=QUICK,
)
def a_topic_is_deleted(stage: Stage) -> None:
    other = f"{stage.group}-old"
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    admin.create_topics([NewTopic(other, 2, 1)])[other].result(20)
    for name in ("a", "b"):
        stage.start(name, topics=[stage.group, other], metadata_ms=2_000)
    stage.whole(topics={stage.group: 6, other: 2})
    stage.rest(11.0)
    admin.delete_topics([other])[other].result(20)
    stage.rest(9.0)


@case(*(FRANZ, SARAMA, KAFKA_GO), causes=("START",), calm=True)
def long_work_in_a_quiet_group(stage: Stage) -> None:
    stage.started("a", "b")
    for name in ("a", "b"):
        stage.short[name].do("hold")
        stage.rest(9.0)
        stage.short[name].do("go")
        stage.rest(1.0)


@case(*(SARAMA, JAVA44), causes=("ROLLING_RESTART", "STORM"), remedies=("group.instance.id",), calm=None)
def namesakes_restart_in_turn(stage: Stage) -> None:
    one_by_one(stage, "a", "b", "c", **WEB, **LONG)
    stage.rest(4.0)
    for name in ("a", "b", "c"):
        stage.close(name)
        stage.rest(1.0)
        stage.start(name, **WEB, **LONG)
        stage.whole()


@case(*(FRANZ, KAFKAJS), causes=("ROLLING_RESTART", "DEPLOY"), remedies=("group.instance.id",), calm=None)
def new_pods_take_the_place_of_old_ones(stage: Stage) -> None:
    stage.started("v1-a", "v1-b")
    stage.rest(13.0)
    for letter in ("a", "b"):
        stage.start(f"v2-{letter}")
        stage.whole()
        stage.close(f"v1-{letter}")
        stage.whole()
    stage.rest(3.0)


@case(SHARE, causes=("SCALE_IN",), calm=True, server=SHARING)
def a_share_consumer_retires(stage: Stage) -> None:
    stage.started("s-1", "s-2", "s-3")
    stage.rest(12.0)
    stage.close("s-3")
    stage.rest(12.0)


@case(SHARE, causes=("START",), calm=True, server=SHARING)
def share_consumers_work_quietly(stage: Stage) -> None:
    stage.started("s-1", "s-2")
    stage.produce()
    stage.rest(9.0)
