"""The answer to what cannot be done: a status, Kafka's name of the error where there is one, one sentence.

Decides which status each error of the coordinator has. What is no error of this list is a fault of ours.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, Final, get_args

import msgspec
import orjson
from starlette.responses import Response

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import TopicError
from kafka_shim.server.refusals import Refused


class Problem(Exception):
    """A request that cannot be served, in one sentence."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error

    def answer(self) -> Response:
        """What is answered."""
        headers = {"www-authenticate": "Bearer"} if self.status == 401 else None
        body = orjson.dumps({"error": self.error, "message": str(self)})
        return Response(body, self.status, headers, media_type="application/json")


def problem_of(error: Exception) -> Problem | None:
    """The problem for an error of the coordinator; None for one that must not happen."""
    match error:
        case Problem():
            return error
        case Refused():
            return Problem(_STATUS.get(error.error, 409), error.error.name, str(error))
        case TopicError():
            return Problem(409, error.error.name, _sentence(error.message))
        case _:
            found = next((_OF_OTHERS[kind] for kind in type(error).__mro__ if kind in _OF_OTHERS), None)
            return None if found is None else Problem(*found, str(error) if found[0] == 409 else _sentence(str(error)))


def also(kind: type[BaseException], status: int, error: str) -> None:
    """From now on errors of this kind, which this module must not import, are problems of this status and name."""
    _OF_OTHERS[kind] = (status, error)


_OF_OTHERS: Final[dict[type, tuple[int, str]]] = {}


def invalid(error: msgspec.DecodeError | UnicodeDecodeError | RecursionError, taken: Any = None) -> Problem:
    """A body that is not what the operation takes, which is of the type `taken`."""
    match error:
        case msgspec.ValidationError():
            if (choices := _choices(taken)) and _OF_CHOICE.fullmatch(str(error)):
                value = str(error).split("'")[1]
                near = get_close_matches(value, choices, 1)
                hint = f" Did you mean '{near[0]}'?" if near else ""
                return Problem(400, "INVALID_REQUEST", f"'{value}' is none of {', '.join(choices)}.{hint}")
            text = _REGEX.sub("a name of 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'", str(error))
            text = text.replace(" - at `$.", " in `").replace(" - at `$", " in `").replace("`", "'")
            return Problem(400, "INVALID_REQUEST", _sentence(text))
        case UnicodeDecodeError():
            return Problem(400, "INVALID_REQUEST", "The body is no UTF-8.")
        case RecursionError():
            return Problem(400, "INVALID_REQUEST", "The body is nested too deeply.")
        case _:
            return Problem(400, "INVALID_REQUEST", _sentence(f"The body is no JSON: {error}"))


def _choices(taken: Any) -> list[str]:
    """What says which of several bodies it is."""
    return [str(kind.__struct_config__.tag) for kind in get_args(taken) if hasattr(kind, "__struct_config__")]


_OF_CHOICE: Final = re.compile(r"Invalid value '.*' - at `\$\.\w+`")
_REGEX: Final = re.compile("`str` matching regex '.*'")
"""What a topic's name is; that of an event's fields is refused nowhere else."""


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}."


_STATUS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.BROKER_NOT_AVAILABLE: 404,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
}
