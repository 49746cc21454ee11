"""Clients over HTTP, for tests: close their connections, and end sessions of members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.operation import MAX_TEXT, Answer, Body, Operation
from kafka_shim.server.refusals import Refused

if TYPE_CHECKING:
    from kafka_shim.control.lab_workbench import LabWorkbench


class Clients(Body, kw_only=True):
    """The clients of an operation."""

    client_id: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_TEXT, description="It may have * and ?; revive takes the text of kill."),
    ]


class Killed(Answer, kw_only=True):
    """The clients that are dead until they are revived."""

    client_id: str


class Disconnected(Answer, kw_only=True):
    """The number of connections that were closed."""

    connections: int


class Expire(Body, kw_only=True):
    """The member with the session to end."""

    member: Annotated[
        str, Meta(min_length=1, max_length=MAX_TEXT, description="Member id, client id or group instance id.")
    ]


class Expired(Answer, kw_only=True):
    """The group of the member."""

    group: str


class SetDataEvents(Body, kw_only=True):
    """Whether Produce, Fetch and ListOffsets have events."""

    data: bool


class DataEventsSet(Answer, kw_only=True):
    """Whether Produce, Fetch and ListOffsets have events from now on."""

    data: bool


def _disconnect(workbench: LabWorkbench, body: Clients) -> Disconnected:
    return Disconnected(connections=workbench.disconnect(body.client_id))


def _kill(workbench: LabWorkbench, body: Clients) -> Killed:
    try:
        workbench.kill(body.client_id)
    except ValueError as error:
        raise Refused(ErrorCode.RESOURCE_NOT_FOUND, str(error)) from None
    return Killed(client_id=body.client_id)


def _revive(workbench: LabWorkbench, body: Clients) -> Disconnected:
    try:
        return Disconnected(connections=workbench.revive(body.client_id))
    except ValueError as error:
        raise Refused(ErrorCode.RESOURCE_NOT_FOUND, str(error)) from None


def _expire(workbench: LabWorkbench, group: str, body: Expire) -> Expired:
    try:
        workbench.expire(group, body.member)
    except ValueError as error:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, str(error)) from None
    return Expired(group=group)


def _set_data_events(workbench: LabWorkbench, body: SetDataEvents) -> DataEventsSet:
    workbench.data_events(body.data)
    return DataEventsSet(data=body.data)


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/disconnect",
        summary="Close all connections of clients.",
        do=_disconnect,
        body=Clients,
        answers=(Disconnected,),
        lab=True,
        example={"client_id": "billing-*"},
        tag="clients",
    ),
    Operation(
        method="POST",
        path="/v1/kill",
        summary="Kill clients: drop all that they send, and all that is sent to them.",
        do=_kill,
        body=Clients,
        answers=(Killed,),
        problems=(409,),
        lab=True,
        example={"client_id": "billing-1"},
        tag="clients",
    ),
    Operation(
        method="POST",
        path="/v1/revive",
        summary="Revive clients that were killed; connections on which something was dropped are closed.",
        do=_revive,
        body=Clients,
        answers=(Disconnected,),
        problems=(409,),
        lab=True,
        example={"client_id": "billing-1"},
        tag="clients",
    ),
    Operation(
        method="POST",
        path="/v1/groups/{group}/expire",
        summary="End the session of a member now.",
        do=_expire,
        body=Expire,
        answers=(Expired,),
        problems=(409,),
        lab=True,
        example={"member": "billing-1"},
    ),
    Operation(
        method="POST",
        path="/v1/events",
        summary="Let Produce, Fetch and ListOffsets have events, or not.",
        do=_set_data_events,
        body=SetDataEvents,
        answers=(DataEventsSet,),
        lab=True,
        example={"data": True},
        tag="server",
    ),
)
