"""`Api`: the parts of one API key that a server, a client or a test needs to read and write its messages.

The rules behind the APIs are in `shim/server/requests.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka_shim.apis.wire import Message

M = TypeVar("M", bound=Message)


def unchanged(message: M, version: int) -> M:
    """Return `message` as it is: the default of `normalise` and `shape` if the versions differ only in their fields."""
    return message


@dataclass(frozen=True, slots=True)
class Api:
    """One API key. `request.versions` are the versions we can read and write; a profile advertises a part of them.

    - `error(request, code)` builds a response, in its newest form, with `code` in each place where this API has errors.
    - `normalise(request, version)` turns a request received in `version` into its newest form, and may change it in
      place. The decoder's caller calls it once, right after decoding; afterwards the request never changes.
    - `shape(response, version)` turns a response in its newest form into that of `version`, and may change it in place.
    """

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    error: Callable[[Any, int], Message]
    normalise: Callable[[Any, int], Message] = unchanged
    shape: Callable[[Any, int], Message] = unchanged
