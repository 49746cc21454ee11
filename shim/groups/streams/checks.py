"""What is refused of a StreamsGroupHeartbeat before any group is looked at.

Decides by the request alone; which names a topic can have is checked before, by the broker. After Kafka 4.2:
`GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures` and `...IsInvalid`
(semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.streams.states import JOIN, LEAVE_STATIC


def topics_of(topology: Topology | None) -> list[str]:
    """Every topic of a topology, each once."""
    if topology is None:
        return []
    return list(
        dict.fromkeys(
            name
            for each in topology.subtopologies
            for name in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(topic.name for topic in each.repartition_source_topics),
                *(topic.name for topic in each.state_changelog_topics),
            )
        )
    )


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """INVALID_REQUEST (42) or STREAMS_INVALID_TOPOLOGY (130). Raises `Refusal`."""
    _check_supported(request)
    _check_text(request.member_id, "MemberId can't be empty.")
    _check_text(request.group_id, "GroupId can't be empty.")
    _check_text(request.rack_id, "RackId can't be empty.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOIN:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for owned, name in zip(tasks, ("ActiveTasks", "StandbyTasks", "WarmupTasks"), strict=True):
            if owned is None or owned:
                raise _invalid(f"{name} must be empty when (re-)joining.")
        if request.topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        _check_changelogs(request.topology)
    elif request.member_epoch == LEAVE_STATIC:
        # An instance id was refused above.
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_STATIC:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if any(owned is not None for owned in tasks) and any(owned is None for owned in tasks):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    """What no Kafka supports yet."""
    unsupported: Sequence[tuple[object, str]] = (
        (request.instance_id is not None, "Static membership is not yet supported."),
        (request.task_offsets is not None, "TaskOffsets are not supported yet."),
        (request.task_end_offsets is not None, "TaskEndOffsets are not supported yet."),
        (request.warmup_tasks, "WarmupTasks are not supported yet."),
        (
            request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies),
            "Regular expressions for source topics are not supported yet.",
        ),
    )
    for is_used, sentence in unsupported:
        if is_used:
            raise _invalid(sentence)


def _check_changelogs(topology: Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise Refusal(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to"
                    f" {topic.partitions}.",
                )


def _check_text(text: str | None, sentence: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(sentence)


def _invalid(sentence: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, sentence)
