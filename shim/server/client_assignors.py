"""The experiment `client-assignors`: members of a consumer group compute its assignment, as KIP-848 first had it.

Decides that it is served where consumer groups are. The rules are in `groups/client_assignors/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kafka_shim.apis.api import Api
from kafka_shim.apis.experimental import (
    client_assignor_heartbeat,
    consumer_group_install_assignment,
    consumer_group_prepare_assignment,
)
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.client_assignors.kind import KIND
from kafka_shim.groups.interface import Parked
from kafka_shim.server.call import Call
from kafka_shim.server.experiments import Experiment
from kafka_shim.server.requests import DESCRIBE, READ, Row, Sender, group, member_with_epoch, topics

Rule: TypeAlias = Callable[[Any, Call], "Message | Parked"]


def _asking(api: Api, ask: Rule) -> Rule:
    """A rule that is asked where the release has consumer groups; elsewhere UNSUPPORTED_VERSION (35)."""

    def rule(request: Any, call: Call) -> Message | Parked:
        if not call.broker.has_feature("group.version"):
            return api.error(request, ErrorCode.UNSUPPORTED_VERSION)
        return ask(request, call)

    return rule


def _member(request: Any) -> Sender:
    return Sender(request.member_id, None, request.member_epoch)


_HEARTBEAT: Final = client_assignor_heartbeat.API
_PREPARE: Final = consumer_group_prepare_assignment.API
_INSTALL: Final = consumer_group_install_assignment.API

EXPERIMENT: Final = Experiment(
    apis={api.key: api for api in (_HEARTBEAT, _PREPARE, _INSTALL)},
    rows={
        _HEARTBEAT.key: Row(
            _asking(_HEARTBEAT, lambda r, c: c.groups.ask(r, _HEARTBEAT.error, c.client, c, c.arrived)),
            (group(READ), topics(DESCRIBE, lambda r: r.subscribed_topic_names or [])),
            member_with_epoch,
        ),
        _PREPARE.key: Row(_asking(_PREPARE, lambda r, c: c.groups.ask(r, _PREPARE.error)), (group(READ),), _member),
        _INSTALL.key: Row(_asking(_INSTALL, lambda r, c: c.groups.ask(r, _INSTALL.error)), (group(READ),), _member),
    },
    kinds=(KIND,),
)
