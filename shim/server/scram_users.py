"""The requests of administrators about users of SCRAM, for a server with listeners that have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_shim.apis.scram import alter_user_scram_credentials, describe_user_scram_credentials
from kafka_shim.apis.wire import Message
from kafka_shim.groups.interface import Parked
from kafka_shim.security.operations import Operation, Resource
from kafka_shim.security.scram_requests import alter_users, describe_users
from kafka_shim.security.users import Users
from kafka_shim.server.extensions import Extension
from kafka_shim.server.jointly import change_durably
from kafka_shim.server.rows import Concern, Row


def requests_about(users: Users) -> Extension:
    """Return the two APIs, with their rules on these users."""
    return Extension(
        {
            describe_user_scram_credentials.API: Row(
                lambda r, c: describe_users(r, users), (_cluster(Operation.DESCRIBE),)
            ),
            alter_user_scram_credentials.API: Row(_durable(alter_users, users), (_cluster(Operation.ALTER),)),
        },
    )


def _cluster(operation: Operation) -> Concern:
    return Concern(Resource.CLUSTER, operation, lambda r: [])


def _durable(rule: Callable[[Any, Users], Message], users: Users) -> Callable[[Any, Any], Message | Parked]:
    """Return the rule with an answer that waits until the store has the change."""

    return lambda request, exchange: change_durably(exchange, users, lambda of_users: rule(request, of_users))
