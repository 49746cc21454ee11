"""Provoked cases of groups with different subscriptions.

Most clients divide such topics as each member subscribes to them. KafkaJS gives the leader's topics to all members.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from tests.why.provoked.cases import AIO, CONFLUENT, FRANZ, JAVA, KAFKAJS, KP3, SARAMA, Case, collector
from tests.why.provoked.stage import Stage

UNREAD: Final[list[Case]] = []
case = collector(UNREAD)


def _start_services(stage: Stage) -> None:
    """Start a service that reads the topic of the stage, and one that reads another, in one group."""
    other = f"{stage.group}-payments"
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    admin.create_topics([NewTopic(other, 2, 1)])[other].result(20)
    stage.start("orders", topics=[stage.group])
    stage.whole()
    stage.start("payments", topics=[other])
    stage.rest(8.0)


@case(KAFKAJS, causes=("DIFFERENT_SUBSCRIPTIONS",), culprits=("orders", "payments"), remedies=("group.id",))
def two_services_in_one_group(stage: Stage) -> None:
    _start_services(stage)


@case(
    KAFKAJS,
    causes=("DIFFERENT_SUBSCRIPTIONS",),
    culprits=("orders", "payments"),
    remedies=("group.id",),
    server="relay",
)
def two_services_behind_a_relay(stage: Stage) -> None:
    _start_services(stage)


@case(
    *(KP3, AIO, CONFLUENT, JAVA, FRANZ, SARAMA),
    causes=("START", "SCALE_OUT", "LEADER_REJOINED", "TOPICS_CHANGED"),
    calm=True,
)
def members_divide_by_their_topics(stage: Stage) -> None:
    _start_services(stage)
