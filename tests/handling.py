"""A shortcut for tests: a request goes to its rule without bytes and sockets."""

from dataclasses import dataclass, field
from typing import Any

from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.interface import Client
from kafka_shim.server.requests import REQUESTS
from kafka_shim.server.table import name_topics


@dataclass(unsafe_hash=True)
class Connection:
    """The connection of a client: its only one."""

    client: Client
    software: str = field(default="", compare=False)


class Call:
    """The context of a request for its handler; rules that park it reply to this object."""

    def __init__(self, version: int, client: Client, arrived: float, groups: Any, broker: Any) -> None:
        self.version = version
        self.client = client
        self.arrived = arrived
        self.groups = groups
        self.broker = broker
        self.session = Connection(client)
        self.mutations = None
        self.common = None


def handle(request: Any, call: Call) -> Any:
    """Normalise the request and ask its rule."""
    row = REQUESTS[request.api_key]
    APIS[request.api_key].normalise(request, call.version)
    if call.version >= row.names_topics_since:
        name_topics(request, call.broker)
    if row.feature is not None and not call.broker.has_feature(row.feature):
        return APIS[request.api_key].error(request, ErrorCode.UNSUPPORTED_VERSION)
    return row.rule(request, call)
