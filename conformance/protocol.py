"""The APIs by name, and which API a request is of. Reads the declarations of `apis/` alone."""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.api import Api
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message

BY_KEY: Final[dict[int, Api]] = dict(APIS)
BY_NAME: Final[dict[str, Api]] = {api.name: api for api in BY_KEY.values()}


def api_of(request: Message) -> Api:
    """The API that a request is of."""
    key = type(request).api_key
    assert key is not None
    return BY_KEY[key]
