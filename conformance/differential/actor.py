"""One member of a script as a target sees it: what its last answers said. Decides nothing."""

from __future__ import annotations

from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.streams_group_heartbeat import TaskIds
from kafka_shim.conformance.differential.script import ACTORS
from kafka_shim.conformance.wire import Connection


class Actor:
    """What one member has: the ids and the generation of its last answers, what it was assigned and what it owns."""

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

    def begin_anew(self) -> None:
        """It has left; `former` is the id that it had."""
        self.former, self.id, self.generation, self.members = self.id, "", -1, []
