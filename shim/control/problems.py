"""Errors as HTTP answers: a status, Kafka's name of the error if there is one, and one sentence.

Each error of the coordinator has its status in this list. Any other exception is a fault of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, get_args

import orjson

from kafka_shim.apis.readable import readable
from kafka_shim.apis.similar import similar_name
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import TopicError
from kafka_shim.server.refusals import Refused

if TYPE_CHECKING:
    import msgspec
    from starlette.responses import Response


class Problem(Exception):
    """A request that fails, with the reason in one sentence."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error

    def answer(self) -> Response:
        """Return the response."""
        # Imported here: a coordinator for tests has problems, and seldom an HTTP server.
        from starlette.responses import Response

        headers = {"www-authenticate": "Bearer"} if self.status == 401 else None
        body = orjson.dumps({"error": self.error, "message": str(self)})
        return Response(body, self.status, headers, media_type="application/json")


def problem_of(error: Exception) -> Problem | None:
    """Return the problem for an error of the coordinator; None for an unexpected one."""
    match error:
        case Problem():
            return error
        case Refused():
            return Problem(_STATUS.get(error.error, 409), error.error.name, str(error))
        case TopicError():
            return Problem(409, error.error.name, _sentence(error.message or ""))
        case _:
            for kind in type(error).__mro__:
                if kind in _OF_OTHERS:
                    status, name = _OF_OTHERS[kind]
                    return Problem(status, name, str(error) if status == 409 else _sentence(str(error)))
            return None


def also(kind: type[BaseException], status: int, error: str) -> None:
    """Register a type of errors, which this module must not import, with its status and name."""
    _OF_OTHERS[kind] = (status, error)


_OF_OTHERS: Final[dict[type, tuple[int, str]]] = {}


def invalid(
    error: msgspec.DecodeError | UnicodeDecodeError | RecursionError, body_type: Any = None, body: Any = None
) -> Problem:
    """Return the problem of a `body`, decoded from JSON, that does not fit the type `body_type`."""
    import msgspec

    match error:
        case msgspec.ValidationError() if len(str(error)) > _LONGEST:
            # It quotes the body, and is compared with names below.
            return Problem(400, "INVALID_REQUEST", readable(str(error), _LONGEST))
        case msgspec.ValidationError():
            if (choices := _choices(body_type)) and _OF_CHOICE.fullmatch(str(error)):
                value = str(error).split("'")[1]
                near = similar_name(value, choices)
                hint = f" Did you mean '{near}'?" if near else ""
                return Problem(400, "INVALID_REQUEST", f"'{value}' is none of {', '.join(choices)}.{hint}")
            if sentence := _wrong_name(str(error), body_type, body):
                return Problem(400, "INVALID_REQUEST", sentence)
            text = _REGEX.sub("a name of 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'", str(error))
            text = text.replace(" - at `$.", " in `").replace(" - at `$", " in `").replace("`", "'")
            return Problem(400, "INVALID_REQUEST", _sentence(text))
        case UnicodeDecodeError():
            return Problem(400, "INVALID_REQUEST", "The body is no UTF-8.")
        case RecursionError():
            return Problem(400, "INVALID_REQUEST", "The body is nested too deeply.")
        case _:
            return Problem(400, "INVALID_REQUEST", _sentence(f"The body is no JSON: {error}"))


def _wrong_name(text: str, body_type: Any, body: Any) -> str:
    """Return the sentence for a field that is unknown or missing, or for a value that is none of an enumeration."""
    from msgspec import structs

    kinds = _structs_in(body_type)
    fields = {each.encode_name: each.type for kind in kinds for each in structs.fields(kind)}
    if unknown := _UNKNOWN_FIELD.fullmatch(text):
        if unknown[2]:
            return _unknown_field(unknown[1], _inside(kinds, unknown[2]))
        return _unknown_field(unknown[1], [each for each in kinds if _is_chosen(each, body)] or kinds)
    if missing := _MISSING_FIELD.fullmatch(text):
        return f"The field '{missing[1]}' is missing."
    if (wrong := _WRONG_VALUE.fullmatch(text)) and wrong[2] in fields:
        return f"'{wrong[1]}' is not a valid {wrong[2]}{nearest(wrong[1], _members(fields[wrong[2]]))}"
    return ""


def _unknown_field(name: str, kinds: list[Any]) -> str:
    """Return the sentence on an unknown field, with the fields that there are."""
    from msgspec import structs

    names = sorted(
        {field.encode_name for kind in kinds for field in structs.fields(kind)}
        | {kind.__struct_config__.tag_field for kind in kinds if kind.__struct_config__.tag_field}
    )
    near = similar_name(name.lower(), names, _SIMILAR)
    hint = f"; did you mean '{near}'? There are" if near else "; there are"
    return f"'{name}' is not a field{hint} {', '.join(names)}." if names else f"'{name}' is not a field; there is none."


def _structs_in(kind: Any) -> list[Any]:
    """Return the structs of a type: itself, those of a union, or of the values in an array or an object."""
    if hasattr(kind, "__struct_fields__"):
        return [kind]
    return [struct for each in get_args(kind) for struct in _structs_in(each)]


def _inside(kinds: Iterable[Any], path: str) -> list[Any]:
    """Return the structs at a path in the message of msgspec, such as `.members[...].puppet`."""
    from msgspec import structs

    for step in _STEP.findall(path):
        fields = [field for kind in kinds for field in structs.fields(kind) if field.encode_name == step]
        kinds = [struct for field in fields for struct in _structs_in(field.type)]
    return list(kinds)


def _is_chosen(kind: Any, body: Any) -> bool:
    """Return True for the type that a field of the body chooses."""
    config = kind.__struct_config__
    return isinstance(body, dict) and config.tag_field is not None and body.get(config.tag_field) == config.tag


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the most similar one, or all of few."""
    all_names = sorted(names)
    lower = {each.lower(): each for each in all_names}
    if near := similar_name(name.lower(), lower, _SIMILAR):
        return f"; did you mean '{lower[near]}'?"
    return f"; there are {', '.join(all_names)}." if 0 < len(all_names) <= _FEW else "."


def _members(field_type: Any) -> list[str]:
    """Return the values of the enumerations in a type, by name."""
    if isinstance(field_type, type) and issubclass(field_type, Enum):
        return [str(each.value) for each in field_type]
    own = [each for each in get_args(field_type) if isinstance(each, str)]
    return own + [name for each in get_args(field_type) if not isinstance(each, str) for name in _members(each)]


_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(\w+)`(?: - at `\$(.*)`)?")
_STEP: Final = re.compile(r"\.(\w+)")
_MISSING_FIELD: Final = re.compile(r"Object missing required field `(\w+)`")
_WRONG_VALUE: Final = re.compile(r"Invalid enum value '(.*)' - at `\$\.(\w+)`")
_LONGEST: Final = 2000
"""Limit of an error with a text of the body, in characters."""
_FEW: Final = 30
_SIMILAR: Final = 0.7
"""Similarity of a name that is suggested, from 0 to 1."""


def _choices(body_type: Any) -> list[str]:
    """Return the fields that select one of several body types."""
    return [str(kind.__struct_config__.tag) for kind in get_args(body_type) if hasattr(kind, "__struct_config__")]


_OF_CHOICE: Final = re.compile(r"Invalid value '.*' - at `\$\.\w+`")
_REGEX: Final = re.compile("`str` matching regex '.*'")
"""The form of a topic name in an error; the pattern of an event's fields never fails in this place."""


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text.rstrip('.')}."


_STATUS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.BROKER_NOT_AVAILABLE: 404,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
}
