"""Requests of consumers that register with the controller of their group, and their answers.

Each API has version 0 alone. Version, correlation id and client id of the proposal are those of Kafka's header.

Source: Client Rewrite (https://cwiki.apache.org/confluence/display/KAFKA/Client+Rewrite), before Kafka 0.9.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kafka_shim.apis.api import Api
from kafka_shim.apis.private import private
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int16, int32, int64, string, uint16


class Key(IntEnum):
    """Private API keys."""

    LIST_GROUPS = 32_010
    CREATE_GROUP = 32_011
    DELETE_GROUP = 32_012
    HEARTBEAT = 32_013
    REGISTER = 32_014
    REWIND = 32_015


class ControllerListGroupsRequest(Message, key=Key.LIST_GROUPS, versions="0"):
    """Without `groups`: all groups of this controller."""

    groups: list[str] = field(array(string))


class GroupInfo(Struct):
    """`members`, `topics` and `session_timeout` (milliseconds) are filled in only by the group's controller."""

    group: str = field(string)
    members: list[str] = field(array(string))
    topics: list[str] = field(array(string))
    broker_id: int = field(int32)
    host: str = field(string)
    port: int = field(uint16)
    session_timeout: int = field(int64)


class ControllerListGroupsResponse(Message, key=Key.LIST_GROUPS, versions="0"):
    """The address of the controller of each group, and the members of the groups."""

    groups: list[GroupInfo] = field(array(GroupInfo))
    error_code: int = field(int16)


class ControllerCreateGroupRequest(Message, key=Key.CREATE_GROUP, versions="0"):
    """Creates a group before its first member. A member silent for more than `session_timeout` milliseconds is removed.

    An `ephemeral` group is deleted with its last member; the flag is in the proposal's table but missing from its
    layout.
    """

    group_id: str = field(string)
    session_timeout: int = field(int64)
    topics: list[str] = field(array(string))
    ephemeral: bool = field(boolean)


class ControllerCreateGroupResponse(Message, key=Key.CREATE_GROUP, versions="0"):
    group_id: str = field(string)
    error_code: int = field(int16)


class ControllerDeleteGroupRequest(Message, key=Key.DELETE_GROUP, versions="0"):
    """Deletes groups without members, with their offsets."""

    groups: list[str] = field(array(string))


class ControllerDeleteGroupResponse(Message, key=Key.DELETE_GROUP, versions="0"):
    """`error_code` is the first error, if any."""

    deleted: list[str] = field(array(string))
    error_code: int = field(int16)


class ControllerHeartbeatRequest(Message, key=Key.HEARTBEAT, versions="0"):
    """The proposal's layout has only `session_timeout`, in milliseconds; its text sends the generation too."""

    group_id: str = field(string)
    consumer_id: str = field(string)
    generation_id: int = field(int64)
    session_timeout: int = field(int64)


class ControllerHeartbeatResponse(Message, key=Key.HEARTBEAT, versions="0"):
    """The error tells the consumer to register again."""

    controller_generation: int = field(int64)
    error_code: int = field(int16)


class RegisterConsumerRequest(Message, key=Key.REGISTER, versions="0"):
    """The consumer makes its own id. The answer comes when all members have registered."""

    group_id: str = field(string)
    consumer_id: str = field(string)


class PartitionToOwn(Struct):
    """`offset` is the first offset to read, -1 if the group has committed none."""

    topic: str = field(string)
    partition: int = field(int16)
    offset: int = field(int64)


class RegisterConsumerResponse(Message, key=Key.REGISTER, versions="0"):
    """The generation, which heartbeats and commits carry, is in the proposal's text but missing from its layout."""

    group_id: str = field(string)
    generation_id: int = field(int64)
    partitions: list[PartitionToOwn] = field(array(PartitionToOwn))
    error_code: int = field(int16)


class RewindConsumerRequest(Message, key=Key.REWIND, versions="0"):
    """Sets the offsets from which a group continues."""

    group_id: str = field(string)
    offsets: list[PartitionToOwn] = field(array(PartitionToOwn))


class RewindConsumerResponse(Message, key=Key.REWIND, versions="0"):
    """The new `offsets` take effect when the owners of the partitions have registered again."""

    group_id: str = field(string)
    offsets: list[PartitionToOwn] = field(array(PartitionToOwn))
    error_code: int = field(int16)


LIST_GROUPS: Final = private(
    Api(
        Key.LIST_GROUPS,
        "ControllerListGroups",
        ControllerListGroupsRequest,
        ControllerListGroupsResponse,
        lambda request, code: ControllerListGroupsResponse(error_code=code),
    )
)
CREATE_GROUP: Final = private(
    Api(
        Key.CREATE_GROUP,
        "ControllerCreateGroup",
        ControllerCreateGroupRequest,
        ControllerCreateGroupResponse,
        lambda request, code: ControllerCreateGroupResponse(request.group_id, code),
    )
)
DELETE_GROUP: Final = private(
    Api(
        Key.DELETE_GROUP,
        "ControllerDeleteGroup",
        ControllerDeleteGroupRequest,
        ControllerDeleteGroupResponse,
        lambda request, code: ControllerDeleteGroupResponse(error_code=code),
    )
)
HEARTBEAT: Final = private(
    Api(
        Key.HEARTBEAT,
        "ControllerHeartbeat",
        ControllerHeartbeatRequest,
        ControllerHeartbeatResponse,
        lambda request, code: ControllerHeartbeatResponse(-1, code),
    )
)
REGISTER: Final = private(
    Api(
        Key.REGISTER,
        "RegisterConsumer",
        RegisterConsumerRequest,
        RegisterConsumerResponse,
        lambda request, code: RegisterConsumerResponse(request.group_id, -1, error_code=code),
    )
)
REWIND: Final = private(
    Api(
        Key.REWIND,
        "RewindConsumer",
        RewindConsumerRequest,
        RewindConsumerResponse,
        lambda request, code: RewindConsumerResponse(request.group_id, error_code=code),
    )
)
