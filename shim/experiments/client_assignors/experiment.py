"""The experiment `client-assignors`: members of a consumer group compute its assignment, as KIP-848 first had it.

Here are its APIs and their rows, served where consumer groups are; the other modules have the rules.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.experiments.client_assignors.kind import KIND
from kafka_shim.experiments.client_assignors.messages import HEARTBEAT, INSTALL, PREPARE
from kafka_shim.server.extensions import Extension
from kafka_shim.server.requests import DESCRIBE, GROUP_VERSION, READ, group, member_with_epoch, topics
from kafka_shim.server.rows import Row, Sender


def _member(request: Any) -> Sender:
    return Sender(request.member_id, None, request.member_epoch)


EXTENSION: Final = Extension(
    requests={
        HEARTBEAT: Row(
            lambda r, c: c.groups.ask(r, HEARTBEAT.error, c.client, c, c.arrived),
            (group(READ), topics(DESCRIBE, lambda r: r.subscribed_topic_names or [])),
            member_with_epoch,
            feature=GROUP_VERSION,
        ),
        PREPARE: Row(lambda r, c: c.groups.ask(r, PREPARE.error), (group(READ),), _member, feature=GROUP_VERSION),
        INSTALL: Row(lambda r, c: c.groups.ask(r, INSTALL.error), (group(READ),), _member, feature=GROUP_VERSION),
    },
    kinds=(KIND,),
    puppets={"client-assignors": "kafka_shim.experiments.client_assignors.puppets:ClientAssignorPuppet"},
)
