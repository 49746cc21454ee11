"""The experiment `client-assignors`: members of a consumer group compute its assignment, as KIP-848 first had it.

Here are its APIs and their rows, served where consumer groups are; the other modules have the rules.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.experimental import (
    client_assignor_heartbeat,
    consumer_group_install_assignment,
    consumer_group_prepare_assignment,
)
from kafka_shim.experiments.client_assignors.kind import KIND
from kafka_shim.server.experiments import Experiment
from kafka_shim.server.requests import DESCRIBE, GROUP_VERSION, READ, group, member_with_epoch, topics
from kafka_shim.server.rows import Row, Sender


def _member(request: Any) -> Sender:
    return Sender(request.member_id, None, request.member_epoch)


_HEARTBEAT: Final = client_assignor_heartbeat.API
_PREPARE: Final = consumer_group_prepare_assignment.API
_INSTALL: Final = consumer_group_install_assignment.API

EXPERIMENT: Final = Experiment(
    apis={api.key: api for api in (_HEARTBEAT, _PREPARE, _INSTALL)},
    rows={
        _HEARTBEAT.key: Row(
            lambda r, c: c.groups.ask(r, _HEARTBEAT.error, c.client, c, c.arrived),
            (group(READ), topics(DESCRIBE, lambda r: r.subscribed_topic_names or [])),
            member_with_epoch,
            feature=GROUP_VERSION,
        ),
        _PREPARE.key: Row(lambda r, c: c.groups.ask(r, _PREPARE.error), (group(READ),), _member, feature=GROUP_VERSION),
        _INSTALL.key: Row(lambda r, c: c.groups.ask(r, _INSTALL.error), (group(READ),), _member, feature=GROUP_VERSION),
    },
    kinds=(KIND,),
)
