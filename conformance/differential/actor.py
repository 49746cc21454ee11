"""The state of one member of a script on one target, from its last answers."""

from __future__ import annotations

from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.streams_group_heartbeat import TaskIds
from kafka_shim.conformance.differential.script import ACTORS
from kafka_shim.conformance.wire import Connection


class Actor:
    """One member: ids and generation from its last answers, its assignment, and the partitions it owns."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.instance = ACTORS[number]
        self.id = ""
        self.former = ""
        self.generation = -1
        self.members: list[str] = []
        self.protocol: str | None = None
        self.type: str | None = None
        self.assigned: list[TopicPartitions] = []
        self.owned: list[TopicPartitions] = []
        self.topics: list[str] = []
        self.active: list[TaskIds] = []
        self.runs: list[TaskIds] = []
        self.endpoint_epoch = 0
        self.idle: list[Connection] = []

    def forget_member(self) -> None:
        """Clear the state of a member that left; `former` remembers its id."""
        self.former, self.id, self.generation, self.members = self.id, "", -1, []
