"""A request on its way to its rule, as a server hands it over, without the bytes."""

from typing import Any

from kafka_shim.apis.registry import APIS
from kafka_shim.server.call import Call
from kafka_shim.server.handlers import name_topics
from kafka_shim.server.requests import REQUESTS


def handle(request: Any, call: Call) -> Any:
    """Normalise the request and ask its rule."""
    row = REQUESTS[request.api_key]
    APIS[request.api_key].normalise(request, call.version)
    if call.version >= row.names_topics_since:
        name_topics(request, call.broker)
    return row.rule(request, call)
