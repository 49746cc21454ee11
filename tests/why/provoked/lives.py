"""Provoked cases of a server with the defaults of Kafka 4.4: lives that the other sets do not have.

Their answers were written down before the first judgement, of which docs/why.md tells. Most are of the new protocol
(KIP-848), and of refusals, rights and coordinators.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT, Member
from tests.why.provoked.cases import AIO, CONFLUENT, JAVA, KIP848, KP3, PYTHON, Case, collector
from tests.why.provoked.languages import JAVA_KIP848
from tests.why.provoked.stage import PARTITIONS, Stage

LIVES: Final[list[Case]] = []
case = collector(LIVES)

BOTH: Final = (KIP848, JAVA_KIP848)
QUICK: Final = "quick"
GUARDED: Final = "guarded"
RIGHTS: Final = ("the rights of the client",)


def _admin(stage: Stage) -> Member:
    return stage.processes.start(EVERY_CLIENT[CONFLUENT], client_id="admin")


def give(stage: Stage, operation: AclOperation, permission: AclPermissionType) -> None:
    """Give or deny all clients a right on the group; they have no other right on it."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    literal = ResourcePatternType.LITERAL
    rule = AclBinding(ResourceType.GROUP, stage.group, literal, "User:*", "*", operation, permission)
    for future in admin.create_acls([rule]).values():
        future.result(20)


# Faults, the new protocol


@case(*BOTH, causes=("SESSION_EXPIRED",), culprits=("app-b",), remedies=("process",), server=QUICK)
def a_consumer_is_killed(stage: Stage) -> None:
    stage.started("app-a", "app-b", "app-c")
    stage.kill("app-b")
    stage.whole()


@case(
    *BOTH,
    causes=("GHOST", "SESSION_EXPIRED"),
    culprits=("app-b",),
    # A static consumer that was killed is refused until the session of its old process ends.
    remedies=("process",),
    server=QUICK,
)
def a_killed_consumer_is_started_at_once(stage: Stage) -> None:
    stage.started("app-a", "app-b")
    stage.kill("app-b")
    stage.rest(1.0)
    stage.start("app-b")
    stage.whole()


@case(
    *BOTH,
    causes=("PAUSED_MEMBER",),
    culprits=("paused",),
    remedies=("consumer.session.timeout.ms",),
    server=QUICK,
)
def a_consumer_is_paused(stage: Stage) -> None:
    stage.started("paused", "steady")
    for _ in range(2):
        stage.short["paused"].stop()
        stage.whole("steady")
        stage.rest(1.0)
        stage.short["paused"].wake()
        stage.whole()


@case(
    *BOTH,
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("report-2",),
    remedies=("max.poll.interval.ms",),
    server=QUICK,
)
def a_consumer_misses_its_poll(stage: Stage) -> None:
    stage.start("report-1", max_poll_ms=300_000)
    stage.start("report-2", max_poll_ms=7_000)
    stage.whole()
    for _ in range(2):
        member = stage.short["report-2"]
        member.do("hold")
        stage.whole("report-1")
        stage.rest(3.0)
        member.do("go")
        stage.whole()


@case(
    *BOTH,
    causes=("DUPLICATE_INSTANCE_ID",),
    culprits=("worker-0",),
    remedies=("group.instance.id",),
    server=QUICK,
)
def an_instance_id_of_two_consumers(stage: Stage) -> None:
    stage.start("app-1", instance="worker-0")
    stage.start("app-2", instance="worker-1")
    stage.whole()
    stage.start("app-3", instance="worker-0")
    stage.rest(8.0)


@case(KIP848, causes=("JOIN_REFUSED",), culprits=("odd",), remedies=("group.remote.assignor",), server=QUICK)
def an_assignor_that_the_server_lacks(stage: Stage) -> None:
    stage.started("fine")
    stage.start("odd", assignors=["nosuch"])
    stage.rest(6.0)


@case(*BOTH, causes=("JOIN_REFUSED",), culprits=("third",), remedies=("group.consumer.max.size",), server="small")
def a_consumer_too_many(stage: Stage) -> None:
    stage.started("first", "second")
    stage.start("third")
    stage.rest(6.0)


@case(KIP848, causes=("JOIN_REFUSED",), culprits=("pod-1",), remedies=("process",), server=QUICK)
def a_killed_static_consumer_is_started_at_once(stage: Stage) -> None:
    for name in ("pod-0", "pod-1"):
        stage.start(name, instance=name)
    stage.whole()
    stage.kill("pod-1")
    stage.start("pod-1", instance="pod-1")
    stage.rest(9.0)


# Faults, all protocols


@case(
    *(*PYTHON, KIP848),
    causes=("FLAPPING",),
    culprits=("restless",),
    remedies=("group.instance.id", "process"),
    server=QUICK,
)
def a_member_joins_and_leaves_in_a_loop(stage: Stage) -> None:
    stage.started("steady")
    for _ in range(5):
        stage.start("restless")
        stage.whole()
        stage.close("restless")
        stage.whole()


@case(
    *(KP3, AIO, CONFLUENT, JAVA),
    causes=("SESSION_EXPIRED", "ROLLING_RESTART"),
    culprits=("pod-0", "pod-1"),
    remedies=("session.timeout.ms",),
)
def static_pods_are_away_for_longer_than_their_session(stage: Stage) -> None:
    names = ("pod-0", "pod-1", "pod-2")
    for name in names:
        stage.start(name, instance=name)
    stage.whole()
    for name in names[:2]:
        stage.kill(name)
        stage.whole()
        stage.rest(2.0)
        stage.start(name, instance=name)
        stage.whole()


@case(
    *(KP3, CONFLUENT),
    causes=("GHOST",),
    culprits=("node-a", "node-b"),
    remedies=("group.instance.id",),
)
def all_are_killed_and_started_at_once(stage: Stage) -> None:
    stage.started("node-a", "node-b", session_ms=10_000)
    stage.kill("node-a")
    stage.kill("node-b")
    stage.rest(1.0)
    stage.started("node-a", "node-b", session_ms=10_000)


@case(*(*PYTHON, KIP848, JAVA), causes=("JOIN_REFUSED",), culprits=("stranger",), remedies=RIGHTS, server=GUARDED)
def may_not_read_the_group(stage: Stage) -> None:
    give(stage, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    stage.start("stranger")
    stage.rest(6.0)


@case(*(*PYTHON, KIP848), causes=("JOIN_REFUSED",), culprits=("stranger",), remedies=RIGHTS, server=GUARDED)
def may_not_find_the_coordinator(stage: Stage) -> None:
    give(stage, AclOperation.ALL, AclPermissionType.DENY)
    stage.start("stranger")
    stage.rest(6.0)


@case(*(KP3, CONFLUENT, JAVA), causes=("JOIN_REFUSED",), culprits=("a", "b"), remedies=RIGHTS, server=GUARDED)
def loses_its_rights(stage: Stage) -> None:
    stage.started("a", "b")
    give(stage, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    stage.rest(10.0)


# Healthy


@case(*(KP3, KIP848), causes=("START",), calm=True)
def another_group_on_the_topic_has_trouble(stage: Stage) -> None:
    stage.started("a", "b")
    neighbours = [stage.start(name, group=f"{stage.group}-2") for name in ("n-1", "n-2")]
    stage.rest(6.0)
    for each in neighbours:
        each.kill()
    for name in ("n-1", "n-2"):
        del stage.short[name]
    stage.rest(8.0)
    stage.whole()


@case(*(KP3, CONFLUENT, KIP848), causes=("TOPICS_CHANGED", "SUBSCRIPTION_CHANGED"), calm=True, server=QUICK)
def a_pattern_gains_a_topic(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.start(name, topics=[], pattern=f"{stage.group}(-more)?$", metadata_ms=2_000)
    stage.whole()
    admin = _admin(stage)
    admin.do("create_topic", topic=f"{stage.group}-more", partitions=2)
    stage.whole(topics={stage.group: PARTITIONS, f"{stage.group}-more": 2})
    admin.kill()


@case(KIP848, causes=("TOPICS_CHANGED",), calm=True, server=QUICK)
def a_topic_of_consumers_grows(stage: Stage) -> None:
    stage.started("a", "b")
    admin = _admin(stage)
    admin.do("grow_topic", topic=stage.group, partitions=PARTITIONS + 2)
    stage.whole(topics={stage.group: PARTITIONS + 2})
    admin.kill()


# The answer was "nothing" until refused commits were a finding (2026-11-28).
@case(
    *(KP3, KIP848),
    causes=("COMMIT_REFUSED",),
    culprits=("rdkafka",),
    remedies=("group.id",),
    server=QUICK,
)
def offsets_are_altered_while_members_run(stage: Stage) -> None:
    stage.started("a", "b")
    admin = _admin(stage)
    for _ in range(3):
        admin.ask("alter_offsets", group=stage.group, offsets=[[stage.group, 0, 0]])
        stage.rest(1.0)
    stage.rest(3.0)
    admin.kill()


@case(*(KP3, CONFLUENT, KIP848), causes=("START",), calm=True, server="several")
def the_coordinator_moves(stage: Stage) -> None:
    stage.started("a", "b")
    with urllib.request.urlopen(f"{stage.control}/v1/groups/{stage.group}") as answer:
        broker = json.load(answer)["coordinator"]
    for action in ("stop", "restart"):
        request = urllib.request.Request(
            f"{stage.control}/v1/brokers/{broker}",
            json.dumps({"do": action}).encode(),
            {"Content-Type": "application/json"},
            method="POST",
        )
        urllib.request.urlopen(request).read()
        stage.rest(5.0)
    stage.whole()


@case(KIP848, causes=("PROTOCOL_CHANGED", "SCALE_OUT", "START"), calm=True, server=QUICK)
def a_consumer_joins_a_classic_group(stage: Stage) -> None:
    stage.start("old", CONFLUENT)
    stage.whole()
    stage.rest(12.0)
    stage.start("new")
    stage.whole()


@case(KIP848, causes=("START",), calm=None, remedies=("consumer.assignment.interval.ms",), server=QUICK)
def three_consumers_start_together(stage: Stage) -> None:
    stage.started("a", "b", "c")


@case(KIP848, causes=("SCALE_OUT",), calm=None, remedies=("consumer.assignment.interval.ms",), server=QUICK)
def consumers_are_added_one_by_one(stage: Stage) -> None:
    stage.started("a")
    stage.rest(12.0)
    for name in ("b", "c", "d"):
        stage.start(name)
        stage.whole()


@case(KIP848, causes=("START", "STATIC_REPLACED"), calm=True, server=QUICK)
def static_consumers_are_deployed_one_by_one(stage: Stage) -> None:
    for name in ("s-0", "s-1"):
        stage.start(name, instance=name)
    stage.whole()
    for name in ("s-0", "s-1"):
        stage.close(name)
        stage.rest(0.5)
        stage.start(name, instance=name)
        stage.whole()
