"""Which message answers which, and which error codes the suite speaks of by name.

Reads the declarations of `apis/` alone: for every request class its response class, by API key and by name.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

from kafka_shim import apis
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode

NOT_MESSAGES: Final = frozenset({"call", "registry", "profiles", "consumer_protocol"})


class Exchange:
    """One API: its key, its name as Kafka spells it, and its two messages."""

    __slots__ = ("key", "name", "request", "response")

    def __init__(self, key: int, name: str, request: type[Message], response: type[Message]) -> None:
        self.key = key
        self.name = name
        self.request = request
        self.response = response


def _exchanges() -> dict[int, Exchange]:
    found: dict[int, Exchange] = {}
    for module_info in pkgutil.iter_modules(apis.__path__):
        if module_info.ispkg or module_info.name in NOT_MESSAGES:
            continue
        module = importlib.import_module(f"kafka_shim.apis.{module_info.name}")
        name = module_info.name.title().replace("_", "")
        request = getattr(module, f"{name}Request", None)
        response = getattr(module, f"{name}Response", None)
        if request is not None and response is not None:
            found[request.api_key] = Exchange(request.api_key, name, request, response)
    return found


EXCHANGES: Final[dict[int, Exchange]] = _exchanges()
BY_NAME: Final[dict[str, Exchange]] = {exchange.name: exchange for exchange in EXCHANGES.values()}


def exchange_of(request: Message) -> Exchange:
    """The exchange a request opens."""
    key = type(request).api_key
    assert key is not None
    return EXCHANGES[key]


def error_name(code: int) -> str:
    """`MEMBER_ID_REQUIRED (79)`."""
    try:
        return f"{ErrorCode(code).name} ({code})"
    except ValueError:
        return f"unknown error ({code})"
