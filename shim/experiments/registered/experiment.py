"""The experiment `designs`: consumers register with a controller, as the Client Rewrite proposed before Kafka 0.9.

Here are the requests about several groups, and the search for the controller of a group. The other modules
have the rules.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.registered.group import RegisteredGroup
from kafka_shim.experiments.registered.kind import KIND
from kafka_shim.experiments.registered.messages import (
    CREATE_GROUP,
    DELETE_GROUP,
    HEARTBEAT,
    LIST_GROUPS,
    REGISTER,
    REWIND,
    ControllerDeleteGroupRequest,
    ControllerDeleteGroupResponse,
    ControllerListGroupsRequest,
    ControllerListGroupsResponse,
    GroupInfo,
)
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.extensions import Extension
from kafka_shim.server.requests import CREATE, DELETE, DESCRIBE, READ, group, topics
from kafka_shim.server.rows import Row, Sender


def _list_groups(request: ControllerListGroupsRequest, call: Exchange) -> ControllerListGroupsResponse:
    """List the groups; of a group elsewhere only its controller is known here. The error is the first one."""
    own = [each.group_id for each in call.groups.groups.values() if isinstance(each, RegisteredGroup)]
    names = request.groups or own
    here = call.groups.ask_each(ControllerListGroupsRequest, names, lambda name, error: error, empty_id_allowed=True)
    groups: list[GroupInfo] = []
    errors: list[int] = []
    for name, info in zip(names, here, strict=True):
        error, broker_id, host, port = call.groups.coordinator_of(name, 0)
        if isinstance(info, GroupInfo):
            groups.append(info)
        elif info is ErrorCode.NOT_COORDINATOR and not error:
            groups.append(GroupInfo(name))
        else:
            errors.append(error or info)
            continue
        groups[-1].broker_id, groups[-1].host, groups[-1].port = broker_id, host, port
    return ControllerListGroupsResponse(groups, next(iter(errors), 0))


def _delete_group(request: ControllerDeleteGroupRequest, call: Exchange) -> ControllerDeleteGroupResponse:
    names = list(dict.fromkeys(request.groups))
    errors = call.groups.ask_each(ControllerDeleteGroupRequest, names, lambda name, error: error, empty_id_allowed=True)
    deleted = [name for name, error in zip(names, errors, strict=True) if not error]
    return ControllerDeleteGroupResponse(deleted, next((error for error in errors if error), 0))


def _member(request: Any) -> Sender:
    return Sender(request.consumer_id, None, getattr(request, "generation_id", None))


EXTENSION: Final = Extension(
    requests={
        LIST_GROUPS: Row(_list_groups, (group(DESCRIBE, lambda r: r.groups),)),
        CREATE_GROUP: Row(
            lambda r, c: c.groups.ask(r, CREATE_GROUP.error), (group(CREATE), topics(DESCRIBE, lambda r: r.topics))
        ),
        DELETE_GROUP: Row(_delete_group, (group(DELETE, lambda r: r.groups),)),
        HEARTBEAT: Row(lambda r, c: c.groups.ask(r, HEARTBEAT.error, c.arrived), (group(READ),), _member),
        REGISTER: Row(lambda r, c: c.groups.ask(r, REGISTER.error, c.client, c, c.arrived), (group(READ),), _member),
        REWIND: Row(
            lambda r, c: c.groups.ask(r, REWIND.error, c.arrived),
            (group(READ), topics(READ, lambda r: [each.topic for each in r.offsets])),
        ),
    },
    kinds=(KIND,),
    puppets={"registered": "kafka_shim.experiments.registered.puppets:RegisteredPuppet"},
)
