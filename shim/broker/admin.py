"""CreateTopics, DeleteTopics and CreatePartitions: topics as administrators make them.

Decides which of several topics in one request can be done, each by itself, and what is answered for the others. Does
not know how a topic is kept (`topics.py`). What is asked for is done before the answer, so no timeout ever runs out.
Sources: KRaft's ControllerApis and ReplicationControlManager; KIP-464, KIP-525, KIP-516.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafka_shim.apis.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafka_shim.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_shim.apis.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.configs import topic_values
from kafka_shim.broker.settings import TOPIC_SETTINGS
from kafka_shim.broker.topics import NO_ID, Topic, TopicError, Topics


class Admin:
    """The three rules; they answer alike on every broker."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def create_topics(self, request: CreateTopicsRequest, now: float) -> CreateTopicsResponse:
        named = Counter(each.name for each in request.topics)
        results = {}
        for asked in request.topics:
            try:
                if named[asked.name] > 1:
                    raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                results[asked.name] = self._create(asked, validate_only=request.validate_only)
            except TopicError as refused:
                results[asked.name] = CreatableTopicResult(
                    name=asked.name, error_code=refused.error, error_message=refused.message
                )
        self.topics.settle(now)
        return CreateTopicsResponse(topics=list(results.values()))

    def delete_topics(self, request: DeleteTopicsRequest, now: float, *, disabled_is_73: bool) -> DeleteTopicsResponse:
        """`disabled_is_73`: v3+ know TOPIC_DELETION_DISABLED (73), older ones get INVALID_REQUEST (42)."""
        disabled = ErrorCode.TOPIC_DELETION_DISABLED if disabled_is_73 else ErrorCode.INVALID_REQUEST
        asked_for = Counter((each.name, each.topic_id) for each in request.topics)
        responses = []
        for asked, times in asked_for.items():
            state = DeleteTopicState(*asked)
            try:
                if not self.topics.settings.flag("delete.topic.enable"):
                    raise TopicError(disabled, "Topic deletion is disabled.")
                if times > 1:
                    raise TopicError(
                        ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if state.name is None else 'name'}."
                    )
                topic = self._to_delete(state)
                self.topics.delete(topic)
                responses.append(DeletableTopicResult(topic.name, topic.id, error_message=None))
            except TopicError as refused:
                responses.append(DeletableTopicResult(state.name, state.topic_id, refused.error, refused.message))
        self.topics.settle(now)
        return DeleteTopicsResponse(responses=responses)

    def create_partitions(self, request: CreatePartitionsRequest, now: float) -> CreatePartitionsResponse:
        named = Counter(each.name for each in request.topics)
        results = {}
        for asked in request.topics:
            results[asked.name] = CreatePartitionsTopicResult(asked.name)
            try:
                if named[asked.name] > 1:
                    raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                self._grow(asked, validate_only=request.validate_only)
            except TopicError as refused:
                results[asked.name] = CreatePartitionsTopicResult(asked.name, refused.error, refused.message)
        self.topics.settle(now)
        return CreatePartitionsResponse(results=list(results.values()))

    def _create(self, asked: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
        self.topics.check_new(asked.name)
        replicas = self._replicas(asked)
        configs = {}
        for config in asked.configs:
            setting = TOPIC_SETTINGS.get(config.name)
            if setting is None:
                raise TopicError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {config.name}")
            if config.value is None:
                raise TopicError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
            if (refusal := setting.refusal(config.value)) is not None:
                raise TopicError(ErrorCode.INVALID_CONFIG, refusal)
            configs[config.name] = config.value
        topic_id = self.topics.new_id() if validate_only else self.topics.create(asked.name, replicas, configs).id
        return CreatableTopicResult(
            name=asked.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(replicas),
            replication_factor=len(replicas[0]),
            configs=[
                CreatableTopicConfigs(name=each.name, value=each.value, config_source=each.source)
                for each in topic_values(configs, self.topics.settings)
            ],
        )

    def _replicas(self, asked: CreatableTopic) -> Sequence[Sequence[int]]:
        if not asked.assignments:
            return self.topics.placed(asked.num_partitions, asked.replication_factor)
        if asked.replication_factor != -1:
            raise TopicError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if asked.num_partitions != -1:
            raise TopicError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        return self._assigned(asked.assignments)

    def _assigned(self, assignments: Sequence[CreatableReplicaAssignment]) -> Sequence[Sequence[int]]:
        by_index = {each.partition_index: each.broker_ids for each in assignments}
        if by_index.keys() != set(range(len(assignments))):
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        replicas = [by_index[index] for index in range(len(assignments))]
        self.topics.check_replicas(replicas)
        return replicas

    def _to_delete(self, asked: DeleteTopicState) -> Topic:
        if asked.name is None and asked.topic_id == NO_ID:
            raise TopicError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if asked.name is not None and asked.topic_id != NO_ID:
            raise TopicError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if asked.name is None:
            topic = self.topics.with_id(asked.topic_id)
            missing, message = ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
        else:
            topic = self.topics.named(asked.name)
            missing, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        if topic is None:
            raise TopicError(missing, message)
        if topic.is_internal:
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} belongs to the coordinator.")
        return topic

    def _grow(self, asked: CreatePartitionsTopic, *, validate_only: bool) -> None:
        topic = self.topics.named(asked.name)
        if topic is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        current = len(topic.partitions)
        if topic.is_internal:
            raise TopicError(ErrorCode.INVALID_PARTITIONS, f"{topic.name} belongs to the coordinator.")
        if asked.count == current:
            raise TopicError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
        if asked.count < current:
            raise TopicError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {current} partition(s); {asked.count} would not be an increase.",
            )
        added = asked.count - current
        if asked.assignments is None:
            replicas: Sequence[Sequence[int]] = self.topics.placed(added, len(topic.partitions[0].replicas))
        else:
            replicas = [each.broker_ids for each in asked.assignments]
            if len(replicas) != added:
                raise TopicError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {added} additional partition(s), but only {len(replicas)} assignment(s) were "
                    "specified.",
                )
            self.topics.check_replicas(replicas)
        if not validate_only:
            self.topics.grow(topic, replicas)
