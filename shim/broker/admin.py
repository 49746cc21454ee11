"""CreateTopics, DeleteTopics and CreatePartitions: topics as administrators make them.

Decides for each topic of a request by itself whether it can be done, and what is answered if not. Does not know how a
topic is kept (`topics.py`). The change is made before the answer, so no timeout ever runs out.
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
from kafka_shim.apis.profiles import NEWEST
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.config_values import Inherited, topic_values
from kafka_shim.broker.settings import TOPIC_SETTINGS
from kafka_shim.broker.topics import NO_ID, Topic, TopicError, Topics


class Admin:
    """The three rules; they answer alike on every broker."""

    def __init__(self, topics: Topics, release: str = NEWEST) -> None:
        self.topics = topics
        self._release = release

    def create_topics(self, request: CreateTopicsRequest, now: float) -> CreateTopicsResponse:
        named = Counter(each.name for each in request.topics)
        results = {}
        for spec in request.topics:
            try:
                if named[spec.name] > 1:
                    raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                results[spec.name] = self._create(spec, validate_only=request.validate_only)
            except TopicError as refusal:
                results[spec.name] = CreatableTopicResult(
                    name=spec.name, error_code=refusal.error, error_message=refusal.message
                )
        self.topics.settle(now)
        return CreateTopicsResponse(topics=list(results.values()))

    def delete_topics(self, request: DeleteTopicsRequest, now: float, *, disabled_is_73: bool) -> DeleteTopicsResponse:
        """`disabled_is_73`: v3+ know TOPIC_DELETION_DISABLED (73), older ones get INVALID_REQUEST (42)."""
        disabled = ErrorCode.TOPIC_DELETION_DISABLED if disabled_is_73 else ErrorCode.INVALID_REQUEST
        occurrences = Counter((each.name, each.topic_id) for each in request.topics)
        responses = []
        for key, times in occurrences.items():
            state = DeleteTopicState(*key)
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
            except TopicError as refusal:
                responses.append(DeletableTopicResult(state.name, state.topic_id, refusal.error, refusal.message))
        self.topics.settle(now)
        return DeleteTopicsResponse(responses=responses)

    def create_partitions(self, request: CreatePartitionsRequest, now: float) -> CreatePartitionsResponse:
        named = Counter(each.name for each in request.topics)
        results = {}
        for spec in request.topics:
            results[spec.name] = CreatePartitionsTopicResult(spec.name)
            try:
                if named[spec.name] > 1:
                    raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                self._grow(spec, validate_only=request.validate_only)
            except TopicError as refusal:
                results[spec.name] = CreatePartitionsTopicResult(spec.name, refusal.error, refusal.message)
        self.topics.settle(now)
        return CreatePartitionsResponse(results=list(results.values()))

    def _create(self, spec: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
        self.topics.check_new(spec.name)
        replicas = self._replicas(spec)
        configs = {}
        for config in spec.configs:
            setting = TOPIC_SETTINGS.get(config.name)
            if setting is None:
                raise TopicError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {config.name}")
            if config.value is None:
                raise TopicError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
            if (refusal := setting.refusal(config.value)) is not None:
                raise TopicError(ErrorCode.INVALID_CONFIG, refusal)
            configs[config.name] = config.value
        topic_id = self.topics.new_id() if validate_only else self.topics.create(spec.name, replicas, configs).id
        return CreatableTopicResult(
            name=spec.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(replicas),
            replication_factor=len(replicas[0]),
            configs=[
                CreatableTopicConfigs(name=each.name, value=each.value, config_source=each.source)
                for each in topic_values(configs, Inherited.of_release(self.topics, self._release))
            ],
        )

    def _replicas(self, spec: CreatableTopic) -> Sequence[Sequence[int]]:
        if not spec.assignments:
            return self.topics.placed(spec.num_partitions, spec.replication_factor)
        if spec.replication_factor != -1:
            raise TopicError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if spec.num_partitions != -1:
            raise TopicError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        return self._assigned(spec.assignments)

    def _assigned(self, assignments: Sequence[CreatableReplicaAssignment]) -> Sequence[Sequence[int]]:
        by_index = {each.partition_index: each.broker_ids for each in assignments}
        if by_index.keys() != set(range(len(assignments))):
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        replicas = [by_index[index] for index in range(len(assignments))]
        self.topics.check_replicas(replicas)
        return replicas

    def _to_delete(self, state: DeleteTopicState) -> Topic:
        if state.name is None and state.topic_id == NO_ID:
            raise TopicError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if state.name is not None and state.topic_id != NO_ID:
            raise TopicError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if state.name is None:
            topic = self.topics.with_id(state.topic_id)
            missing, message = ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
        else:
            topic = self.topics.named(state.name)
            missing, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        if topic is None:
            raise TopicError(missing, message)
        if topic.is_internal:
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} belongs to the coordinator.")
        return topic

    def _grow(self, spec: CreatePartitionsTopic, *, validate_only: bool) -> None:
        topic = self.topics.named(spec.name)
        if topic is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        current = len(topic.partitions)
        if topic.is_internal:
            raise TopicError(ErrorCode.INVALID_PARTITIONS, f"{topic.name} belongs to the coordinator.")
        if spec.count == current:
            raise TopicError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
        if spec.count < current:
            raise TopicError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {current} partition(s); {spec.count} would not be an increase.",
            )
        added = spec.count - current
        if spec.assignments is None:
            replicas: Sequence[Sequence[int]] = self.topics.placed(added, len(topic.partitions[0].replicas))
        else:
            replicas = [each.broker_ids for each in spec.assignments]
            if len(replicas) != added:
                raise TopicError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {added} additional partition(s), but only {len(replicas)} assignment(s) were "
                    "specified.",
                )
            self.topics.check_replicas(replicas)
        if not validate_only:
            self.topics.grow(topic, replicas)
