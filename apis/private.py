"""APIs with private keys, far above all of Kafka's: protocols that no release of Kafka has.

The module of their messages declares each of them once, on both sides of a connection:

    API = private(Api(32_100, "EnterLottery", EnterLotteryRequest, EnterLotteryResponse, error))

Only then are the headers of its flexible versions right. `docs/protocols.md` tells how to serve them.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.api import Api
from kafka_shim.apis.wire.headers import FIRST_FLEXIBLE

FIRST_KEY: Final = 32_000
"""The lowest private key; the highest is 32,767."""

PRIVATE_APIS: Final[dict[int, Api]] = {}
"""All APIs that this process has declared so far, by key."""


def private(api: Api) -> Api:
    """Declare an API, and return it. Raises ValueError for a key of Kafka, and for the key or name of another API."""
    if not FIRST_KEY <= api.key < 1 << 15:
        raise ValueError(f"The API key of {api.name} must be {FIRST_KEY} to {(1 << 15) - 1}, not {api.key}.")
    for other in PRIVATE_APIS.values():
        if (other.key == api.key) != (other.name == api.name):
            raise ValueError(f"{other.name} has API key {other.key}: {api.name} cannot have {int(api.key)}.")
    PRIVATE_APIS[api.key] = api
    if api.request.flexible:
        FIRST_FLEXIBLE[api.key] = api.request.flexible.start
    return api
