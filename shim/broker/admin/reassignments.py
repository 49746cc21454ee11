"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders: changes of replicas and leaders.

All brokers of a process share their logs, so a moved partition is in its place before the answer, and no reassignment
is ever in progress. If several processes share their topics, each process has the logs that it leads, and every process
computes the same leaders (`shim/server/placement.py`): there partitions stay. `__consumer_offsets` is led by the
coordinators of its groups (`shim/server/ownership.py`), and stays. Sources: KIP-183, KIP-455, KIP-460, KIP-860; KRaft's
ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_shim.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafka_shim.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kafka_shim.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topic, TopicError, Topics

PREFERRED: Final = 0
UNCLEAN: Final = 1


class Reassignments:
    """The rules of the three APIs. Every broker gives the same answer. `movable`: the brokers share their logs."""

    def __init__(self, topics: Topics, *, movable: bool) -> None:
        self.topics = topics
        self.movable = movable

    def reassign(self, request: AlterPartitionReassignmentsRequest, now: float) -> AlterPartitionReassignmentsResponse:
        """Move partitions. Errors per partition: UNKNOWN_TOPIC_OR_PARTITION (3), INVALID_REPLICATION_FACTOR (38),
        INVALID_REPLICA_ASSIGNMENT (39), POLICY_VIOLATION (44) where partitions stay, NO_REASSIGNMENT_IN_PROGRESS (85)
        for a cancellation."""
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            responses=[
                ReassignableTopicResponse(
                    topic.name,
                    [
                        self._altered(topic.name, each, request.allow_replication_factor_change)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )
        self.topics.settle(now)
        return response

    def under_way(self, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
        """Return an empty list: no reassignment is ever in progress."""
        return ListPartitionReassignmentsResponse()

    def elect(self, request: ElectLeadersRequest, now: float) -> ElectLeadersResponse:
        """Elect leaders. Without partitions in the request all are tried, and only those with a new leader are in the
        answer.

        Errors per partition: UNKNOWN_TOPIC_OR_PARTITION (3), ELECTION_NOT_NEEDED (84), PREFERRED_LEADER_NOT_AVAILABLE
        (80), ELIGIBLE_LEADERS_NOT_AVAILABLE (83). INVALID_REQUEST (42) everywhere for an unknown kind of election.
        """
        if request.topic_partitions is None:
            places: Iterable[tuple[str, Iterable[int]]] = [
                (topic.name, range(len(topic.partitions))) for topic in self.topics.all()
            ]
        else:
            places = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
        is_known = request.election_type in (PREFERRED, UNCLEAN)
        response = ElectLeadersResponse(error_code=ErrorCode.NONE if is_known else ErrorCode.INVALID_REQUEST)
        for name, indexes in places:
            results = [self._elected(name, index, request.election_type) for index in indexes]
            if request.topic_partitions is None:
                results = [each for each in results if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            response.replica_election_results.append(ReplicaElectionResult(name, results))
        self.topics.settle(now)
        return response

    def _altered(
        self, name: str, partition: ReassignablePartition, factor_may_change: bool
    ) -> ReassignablePartitionResponse:
        index = partition.partition_index
        topic = self.topics.named(name)
        try:
            if topic is None:
                raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
            if topic.partition(index) is None:
                raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
            if partition.replicas is None:
                return ReassignablePartitionResponse(index, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            self._move(topic, index, partition.replicas, factor_may_change)
        except TopicError as refused:
            return ReassignablePartitionResponse(index, refused.error, refused.message)
        return ReassignablePartitionResponse(index)

    def _move(self, topic: Topic, index: int, replicas: list[int], factor_may_change: bool) -> None:
        """Replace the replicas of a partition. Its leader stays if it is a new replica; else the first that is up
        leads."""
        partition = topic.partitions[index]
        self.topics.check_replicas([replicas])
        if len(replicas) != len(partition.replicas) and not factor_may_change:
            raise TopicError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {len(partition.replicas)} to {len(replicas)}",
            )
        if replicas == partition.replicas:
            return
        if not self.movable:
            raise TopicError(
                ErrorCode.POLICY_VIOLATION, "Brokers of several processes have logs of their own; no partition moves."
            )
        leader = partition.leader if partition.leader in replicas else replicas[0]
        if topic.name == OFFSETS_TOPIC and leader != partition.leader:
            raise TopicError(
                ErrorCode.POLICY_VIOLATION, f"Broker {partition.leader} coordinates the groups of this partition."
            )
        self.topics.lead(topic, index, leader, replicas)

    def _elected(self, name: str, index: int, election_type: int) -> PartitionResult:
        try:
            self._elect(name, index, election_type)
        except TopicError as refused:
            return PartitionResult(index, refused.error, refused.message)
        return PartitionResult(index)

    def _elect(self, name: str, index: int, election_type: int) -> None:
        if election_type not in (PREFERRED, UNCLEAN):
            raise TopicError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
        topic = self.topics.named(name)
        if topic is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        partition = topic.partition(index)
        if partition is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
        nodes = self.topics.nodes
        has_leader = partition.leader in nodes
        preferred = partition.replicas[0]
        if has_leader and (election_type == UNCLEAN or partition.leader == preferred or name == OFFSETS_TOPIC):
            raise TopicError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        if election_type == PREFERRED:
            if preferred not in nodes or not self.movable:
                raise TopicError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
            self.topics.lead(topic, index, preferred, partition.replicas)
            return
        live = [each for each in partition.replicas if each in nodes]
        if not live or not self.movable:
            raise TopicError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Eligible topic partition leaders are not available.",
            )
        self.topics.lead(topic, index, live[0], partition.replicas)
