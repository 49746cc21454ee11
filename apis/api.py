"""What a module of one API key hands to those who read and write its messages: `Api`.

Decides nothing; it names the parts that every API has, so that a server can serve any of them without knowing which.
It does not know what a request does: `shim/server/requests.py` has that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka_shim.apis.keys import ApiKey, ExperimentalKey
from kafka_shim.apis.wire import Message

M = TypeVar("M", bound=Message)


def unchanged(message: M, version: int) -> M:
    """The `normalise` or `shape` of an API whose versions differ in nothing but which fields they have."""
    return message


@dataclass(frozen=True, slots=True)
class Api:
    """One API key. `request.versions` are the versions we can read and write; a profile advertises a part of them.

    - `error(request, code)` is the response, in its newest form, that says `code` wherever this API puts errors.
    - `normalise(request, version)` brings a request that was received in `version` to its newest form. Whoever decodes
      the request calls it once, before anybody keeps the request; it may change it in place. Nothing changes the
      request after that.
    - `shape(response, version)` turns a response in its newest form into that of `version`; it may change it in place.
    """

    key: ApiKey | ExperimentalKey
    name: str
    request: type[Message]
    response: type[Message]
    error: Callable[[Any, int], Message]
    normalise: Callable[[Any, int], Message] = unchanged
    shape: Callable[[Any, int], Message] = unchanged
