"""The APIs by key and by name, and the API of a request; all from the declarations in `apis/`."""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.api import Api
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.scram import alter_user_scram_credentials, describe_user_scram_credentials
from kafka_shim.apis.wire import Message

_OF_SCRAM: Final = (describe_user_scram_credentials.API, alter_user_scram_credentials.API)
BY_KEY: Final[dict[int, Api]] = dict(APIS) | {api.key: api for api in _OF_SCRAM}
BY_NAME: Final[dict[str, Api]] = {api.name: api for api in BY_KEY.values()}


def api_of(request: Message) -> Api:
    """Return the API of a request."""
    key = type(request).api_key
    assert key is not None
    return BY_KEY[key]
