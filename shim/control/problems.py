"""How what cannot be done is told over HTTP: a status, Kafka's name of the error where there is one, one sentence.

Decides which status each error of the coordinator has. What is no error of this list is a fault of ours.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
import orjson
from starlette.responses import Response

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import TopicError
from kafka_shim.control.bench import Refused
from kafka_shim.lab.group_waits import NotReached
from kafka_shim.lab.interception import Unmatchable
from kafka_shim.lab.rewind import CannotRewind


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
    """How an error of the coordinator is told; None for one that must not happen."""
    match error:
        case Problem():
            return error
        case Refused() | CannotRewind():
            return Problem(_STATUS.get(error.error, 409), error.error.name, str(error))
        case NotReached():
            return Problem(409, "NOT_REACHED", str(error))
        case TopicError():
            return Problem(409, error.error.name, _sentence(error.message))
        case Unmatchable():
            return Problem(400, "INVALID_REQUEST", _sentence(str(error)))
        case _:
            return None


def invalid(error: msgspec.DecodeError | UnicodeDecodeError | RecursionError) -> Problem:
    """A body that is not what the operation takes."""
    match error:
        case msgspec.ValidationError():
            said = _REGEX.sub("a name of 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'", str(error))
            said = said.replace(" - at `$.", " in `").replace(" - at `$", " in `").replace("`", "'")
            return Problem(400, "INVALID_REQUEST", _sentence(said))
        case UnicodeDecodeError():
            return Problem(400, "INVALID_REQUEST", "The body is no UTF-8.")
        case RecursionError():
            return Problem(400, "INVALID_REQUEST", "The body is nested too deeply.")
        case _:
            return Problem(400, "INVALID_REQUEST", _sentence(f"The body is no JSON: {error}"))


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
