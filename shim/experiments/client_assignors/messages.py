"""Requests of members with their own assignors, and their answers.

Each API has version 0 alone, which is flexible. The fields and their order are those of the draft of KIP-848; the
`error_message` of the second and third answer is ours. Kafka removed the clients' assignors before it released
ConsumerGroupHeartbeat (68), which is a separate API here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kafka_shim.apis.api import Api
from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.private import private
from kafka_shim.apis.wire import Message, Struct, array, boolean, bytes_, field, int8, int16, int32, string, uuid


class Key(IntEnum):
    """Private API keys."""

    HEARTBEAT = 32_000
    PREPARE = 32_001
    INSTALL = 32_002


class ClientAssignor(Struct):
    """One assignor of a member. It reads metadata of versions `minimum_version` to `maximum_version`, and wrote the
    member's metadata in `metadata_version`. `reason` is the assignor's own number for the cause of the last change.
    """

    name: str = field(string)
    minimum_version: int = field(int16)
    maximum_version: int = field(int16)
    reason: int = field(int8)
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)


class ClientAssignorHeartbeatRequest(Message, key=Key.HEARTBEAT, versions="0", flexible="0+"):
    """A field that did not change since the last heartbeat is null, or -1. `client_assignors` begins with the preferred
    one.

    `member_epoch`: 0 joins, -1 leaves, -2 leaves for a while, as a static member.
    """

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(string, nullable="0+", default=None)
    server_assignor: str | None = field(string, nullable="0+", default=None)
    client_assignors: list[ClientAssignor] | None = field(array(ClientAssignor), nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+", default=None)


class Assignment(Struct):
    """`assigned` partitions can be used at once, `pending` ones after their former owners have revoked them. `error`
    and `metadata` are the assignor's.
    """

    error: int = field(int8)
    assigned: list[TopicPartitions] = field(array(TopicPartitions))
    pending: list[TopicPartitions] = field(array(TopicPartitions))
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)


class ClientAssignorHeartbeatResponse(Message, key=Key.HEARTBEAT, versions="0", flexible="0+"):
    """A null `assignment` did not change. `should_compute_assignment` asks the member to compute the group's
    assignment.
    """

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    should_compute_assignment: bool = field(boolean)
    heartbeat_interval_ms: int = field(int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)


class ConsumerGroupPrepareAssignmentRequest(Message, key=Key.PREPARE, versions="0", flexible="0+"):
    """A member fetches the input for the assignment of its group."""

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)


class PreparedMember(Struct):
    """`assignor` is the member's entry for the assignor in use, `target` its present target assignment."""

    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    subscribed_topic_ids: list[bytes] = field(array(uuid))
    assignor: ClientAssignor = field(ClientAssignor)
    target: list[TopicPartitions] = field(array(TopicPartitions))


class PreparedTopic(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: int = field(int32)


class ConsumerGroupPrepareAssignmentResponse(Message, key=Key.PREPARE, versions="0", flexible="0+"):
    """`group_epoch` is the epoch of the assignment to compute."""

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    group_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[PreparedMember] = field(array(PreparedMember))
    topics: list[PreparedTopic] = field(array(PreparedTopic))


class InstalledMember(Struct):
    member_id: str = field(string)
    partitions: list[TopicPartitions] = field(array(TopicPartitions))
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)


class ConsumerGroupInstallAssignmentRequest(Message, key=Key.INSTALL, versions="0", flexible="0+"):
    """A member sends the assignment that it computed. `group_epoch` is the epoch the assignment was computed for. An
    `error`, the assignor's own, leaves every member's assignment unchanged.
    """

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    group_epoch: int = field(int32)
    error: int = field(int8)
    members: list[InstalledMember] = field(array(InstalledMember))


class ConsumerGroupInstallAssignmentResponse(Message, key=Key.INSTALL, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


def refused(
    request: ClientAssignorHeartbeatRequest, code: int, message: str | None = None
) -> ClientAssignorHeartbeatResponse:
    """Build the answer to a heartbeat that is refused."""
    return ClientAssignorHeartbeatResponse(error_code=code, error_message=message)


HEARTBEAT: Final = private(
    Api(
        Key.HEARTBEAT,
        "ClientAssignorHeartbeat",
        ClientAssignorHeartbeatRequest,
        ClientAssignorHeartbeatResponse,
        refused,
    )
)
PREPARE: Final = private(
    Api(
        Key.PREPARE,
        "ConsumerGroupPrepareAssignment",
        ConsumerGroupPrepareAssignmentRequest,
        ConsumerGroupPrepareAssignmentResponse,
        lambda request, code: ConsumerGroupPrepareAssignmentResponse(error_code=code),
    )
)
INSTALL: Final = private(
    Api(
        Key.INSTALL,
        "ConsumerGroupInstallAssignment",
        ConsumerGroupInstallAssignmentRequest,
        ConsumerGroupInstallAssignmentResponse,
        lambda request, code: ConsumerGroupInstallAssignmentResponse(error_code=code),
    )
)
