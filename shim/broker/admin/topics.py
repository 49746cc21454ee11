"""CreateTopics, DeleteTopics and CreatePartitions: changes of topics by administrators.

Each topic of a request succeeds or fails by itself. The change is made before the answer, so no timeout ever runs out.
Sources: KRaft's ControllerApis and ReplicationControlManager; KIP-464, KIP-525, KIP-516.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

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
from kafka_shim.apis.releases import DEFAULT_RELEASE, rules_of
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.admin.config_values import Inherited, topic_values
from kafka_shim.broker.settings import topic_refusal, topic_settings
from kafka_shim.broker.topics import MAX_PARTITIONS, NO_ID, TOO_MANY_PARTITIONS, Topic, TopicError, Topics

_Shown = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]
"""All settings of a topic, by those that it has itself."""


class Mutations(Protocol):
    """The quota of changes of topics (KIP-599)."""

    def take(self, partitions: int) -> bool:
        """Return True if so many partitions may be created or deleted."""


class Room:
    """The new partitions that are left to one request."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_PARTITIONS


def _check_quota(mutations: Mutations | None, partitions: int) -> None:
    if mutations is not None and not mutations.take(partitions):
        raise TopicError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)


class Admin:
    """The rules of the three APIs. Every broker gives the same answer."""

    def __init__(self, topics: Topics, release: str = DEFAULT_RELEASE) -> None:
        self.topics = topics
        self._release = release
        self._rules = rules_of(release)

    def create_topics(
        self, request: CreateTopicsRequest, now: float, mutations: Mutations | None = None
    ) -> CreateTopicsResponse:
        counts = Counter(each.name for each in request.topics)
        results = {}
        # Topics of one request mostly have the same settings, and each answer has all of them.
        shown: _Shown = {}
        are_too_many = self.creates_too_many(request)
        for spec in request.topics:
            try:
                if are_too_many:
                    raise TopicError(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
                if counts[spec.name] > 1:
                    raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                results[spec.name] = self._create(spec, shown, mutations, validate_only=request.validate_only)
            except TopicError as refusal:
                results[spec.name] = CreatableTopicResult(
                    name=spec.name, error_code=refusal.error, error_message=refusal.message
                )
        self.topics.settle(now)
        return CreateTopicsResponse(topics=list(results.values()))

    def delete_topics(
        self, request: DeleteTopicsRequest, now: float, mutations: Mutations | None = None, *, disabled_is_73: bool
    ) -> DeleteTopicsResponse:
        """Delete the topics. `disabled_is_73`: v3+ answers TOPIC_DELETION_DISABLED (73), an older version
        INVALID_REQUEST (42)."""
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
                _check_quota(mutations, len(topic.partitions))
                self.topics.delete(topic)
                responses.append(DeletableTopicResult(topic.name, topic.id, error_message=None))
            except TopicError as refusal:
                responses.append(DeletableTopicResult(state.name, state.topic_id, refusal.error, refusal.message))
        self.topics.settle(now)
        return DeleteTopicsResponse(responses=responses)

    def create_partitions(
        self,
        request: CreatePartitionsRequest,
        now: float,
        mutations: Mutations | None = None,
        room: Room | None = None,
    ) -> CreatePartitionsResponse:
        """Add partitions to topics. `room`: the parts of a long request have it together."""
        counts = Counter(each.name for each in request.topics)
        results = {}
        room = room or Room()
        for spec in request.topics:
            results[spec.name] = CreatePartitionsTopicResult(spec.name)
            try:
                if counts[spec.name] > 1:
                    raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                room.left -= self._grow(spec, room.left, mutations, validate_only=request.validate_only)
            except TopicError as refusal:
                results[spec.name] = CreatePartitionsTopicResult(spec.name, refusal.error, refusal.message)
        self.topics.settle(now)
        return CreatePartitionsResponse(results=list(results.values()))

    def creates_too_many(self, request: CreateTopicsRequest) -> bool:
        """Return True if a request asks for too many partitions, as Kafka's controller counts them before all else."""
        counts = Counter(each.name for each in request.topics)
        default = self.topics.settings.number("num.partitions")
        partitions = sum(
            len(each.assignments) or (default if each.num_partitions == -1 else max(each.num_partitions, 0))
            for each in request.topics
            if counts[each.name] == 1
        )
        return partitions > MAX_PARTITIONS

    def _create(
        self, spec: CreatableTopic, shown: _Shown, mutations: Mutations | None, *, validate_only: bool
    ) -> CreatableTopicResult:
        self.topics.check_new(spec.name)
        replicas = self._replicas(spec)
        configs, settings = {}, topic_settings(self._rules) if spec.configs else {}
        for config in spec.configs:
            setting = settings.get(config.name)
            if setting is None:
                raise TopicError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {config.name}")
            if config.value is None:
                raise TopicError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
            if (refusal := setting.refusal(config.value)) is not None:
                raise TopicError(ErrorCode.INVALID_CONFIG, refusal)
            configs[config.name] = config.value
        if (refusal := topic_refusal(configs, self.topics.settings)) is not None:
            raise TopicError(ErrorCode.INVALID_CONFIG, refusal)
        _check_quota(mutations, len(replicas))
        topic_id = self.topics.new_id() if validate_only else self.topics.create(spec.name, replicas, configs).id
        values = tuple(configs.items())
        if values not in shown:
            shown[values] = self._settings(configs)
        return CreatableTopicResult(
            name=spec.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(replicas),
            replication_factor=len(replicas[0]),
            configs=shown[values],
        )

    def _settings(self, configs: dict[str, str]) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(name=each.name, value=each.value, config_source=each.source)
            for each in topic_values(configs, Inherited.of_release(self.topics, self._release), self._rules)
        ]

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

    def _grow(self, spec: CreatePartitionsTopic, most: int, mutations: Mutations | None, *, validate_only: bool) -> int:
        """Add partitions to a topic, at most so many, and return how many."""
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
        if added > most:
            raise TopicError(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
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
        _check_quota(mutations, added)
        if not validate_only:
            self.topics.grow(topic, replicas)
        return added
