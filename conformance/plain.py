"""Text forms of values: error codes by name, versions as ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from kafka_shim.apis.wire.errors import ErrorCode


def error_name(code: int) -> str:
    """Return the name and number of an error code: `MEMBER_ID_REQUIRED (79)`."""
    try:
        return f"{ErrorCode(code).name} ({int(code)})"
    except ValueError:
        return f"unknown error ({code})"


def as_text(value: object) -> str:
    """Return a readable text: error codes by name and number, the rest as Python writes it."""
    if isinstance(value, ErrorCode):
        return error_name(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{as_text(key)}: {as_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_text, value)) + "]"
    if isinstance(value, tuple) and type(value) is tuple:
        return "(" + ", ".join(map(as_text, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, set | frozenset):
        return " or ".join(sorted(map(as_text, value))) if value else "nothing"
    return repr(value)


def as_text_like(actual: object, expected: object) -> str:
    """Return `as_text` of a value compared with `expected`; an int compared with an error code is read as one."""
    if isinstance(expected, set | frozenset) and expected:
        return as_text_like(actual, next(iter(expected)))
    if isinstance(expected, ErrorCode) and isinstance(actual, int):
        return error_name(actual)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping) and expected:
        sample = next(iter(expected.values()))
        return "{" + ", ".join(f"{as_text(key)}: {as_text_like(each, sample)}" for key, each in actual.items()) + "}"
    return as_text(actual)


def ranges(versions: Iterable[int]) -> str:
    """Return `0-4, 7` for 0, 1, 2, 3, 4, 7."""
    runs: list[list[int]] = []
    for version in sorted(set(versions)):
        if runs and runs[-1][-1] == version - 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    return ", ".join(str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in runs)
