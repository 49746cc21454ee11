"""The requests of administrators about users of SCRAM, for a server whose listeners have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.scram import alter_user_scram_credentials, describe_user_scram_credentials
from kafka_shim.apis.wire import Message
from kafka_shim.groups.interface import Parked
from kafka_shim.security.operations import Operation, Resource
from kafka_shim.security.scram_requests import alter_users, describe_users
from kafka_shim.security.users import Users
from kafka_shim.server.experiments import Experiment
from kafka_shim.server.jointly import change_durably
from kafka_shim.server.rows import Concern, Row


def requests_about(users: Users) -> Experiment:
    """Return the two APIs, with their rules on these users."""
    apis = {module.API.key: module.API for module in (describe_user_scram_credentials, alter_user_scram_credentials)}
    return Experiment(
        dict(apis),
        {
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Row(
                lambda r, c: describe_users(r, users), (_cluster(Operation.DESCRIBE),)
            ),
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Row(_durable(alter_users, users), (_cluster(Operation.ALTER),)),
        },
    )


def _cluster(operation: Operation) -> Concern:
    return Concern(Resource.CLUSTER, operation, lambda r: [])


def _durable(rule: Callable[[Any, Users], Message], users: Users) -> Callable[[Any, Any], Message | Parked]:
    """Return the rule with an answer that waits until the store has the change."""

    return lambda request, exchange: change_durably(exchange, users, lambda of_users: rule(request, of_users))
