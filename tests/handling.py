"""A request on its way to its rule, as a server hands it over, without the bytes."""

from typing import Any

from kafka_shim.apis.registry import APIS
from kafka_shim.groups.interface import Client
from kafka_shim.server.handlers import name_topics
from kafka_shim.server.requests import REQUESTS


class Call:
    """What a handler sees of a request besides its message; rules that park it reply to this object."""

    def __init__(self, version: int, client: Client, arrived: float, groups: Any, broker: Any) -> None:
        self.version = version
        self.client = client
        self.arrived = arrived
        self.groups = groups
        self.broker = broker
        self.session: object = client


def handle(request: Any, call: Call) -> Any:
    """Normalise the request and ask its rule."""
    row = REQUESTS[request.api_key]
    APIS[request.api_key].normalise(request, call.version)
    if call.version >= row.names_topics_since:
        name_topics(request, call.broker)
    return row.rule(request, call)
