"""Errors of the codec: `DecodeError` blames the sender of the bytes, `EncodeError` our own caller."""

from __future__ import annotations


class WireError(ValueError):
    """Base of the codec's errors."""


class DecodeError(WireError):
    """The bytes do not form a message of the expected type and version.

    `reason` is the cause, `message` the type that was being read, `position` the byte offset of the error: the start of
    the wrong value, or of the run of fixed-width values that is read together with it.
    """

    def __init__(self, reason: str, position: int, message: str = "") -> None:
        super().__init__(reason, position, message)
        self.reason = reason
        self.position = position
        self.message = message

    def __str__(self) -> str:
        prefix = f"{self.message}: " if self.message else ""
        return f"{prefix}{self.reason} at byte {self.position}"


class EncodeError(WireError):
    """The version cannot hold the message: a value is out of range, or the version lacks a field."""


def explain(error: Exception, data: bytes, position: int, message: str) -> DecodeError:
    """Build the DecodeError for a failure of generated code at `position`."""
    match error:
        case DecodeError():
            return DecodeError(error.reason, error.position, message)
        case _:
            return DecodeError(f"the data ends, at {len(data)}, within a value", min(position, len(data)), message)
