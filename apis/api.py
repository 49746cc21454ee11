"""What a module of one API key hands to the server: `Api`.

Decides nothing; it names the parts that every API has, so that a server can serve any of them without knowing which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_shim.apis.wire import Message

if TYPE_CHECKING:
    from kafka_shim.apis.call import Call, NoReply, Parked

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Api:
    """One API key. `request.versions` are the versions we can read and write; a profile advertises a part of them.

    - `handle(request, call)` calls one rule; None for an API that is declared but not served.
    - `shape(response, version)` turns a response in its newest form into that of `version`; it may change it in place.
    - `error(request, code)` is the response, in its newest form, that says `code` wherever this API puts errors.
    """

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    handle: Callable[[Any, Call], Message | Parked | NoReply] | None
    shape: Callable[[Any, int], Message]
    error: Callable[[Any, int], Message]


def unshaped(response: R, version: int) -> R:
    """The `shape` of an API whose versions differ in nothing but which fields they have."""
    return response
