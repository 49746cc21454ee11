"""What goes wrong between bytes and messages: `DecodeError` blames who sent the bytes, `EncodeError` our own caller.

Decides nothing else; which Kafka error code a client gets for either is not known here.
"""

from __future__ import annotations


class WireError(ValueError):
    """Bytes and messages do not fit together."""


class DecodeError(WireError):
    """The bytes are no message of the type and version asked for.

    `reason` says why, `message` is the type that was being read, `position` the byte offset at which decoding stood:
    where the value begins that is wrong, or the run of fixed-width values before it that is read with it.
    """

    def __init__(self, reason: str, position: int, message: str = "") -> None:
        super().__init__(reason, position, message)
        self.reason = reason
        self.position = position
        self.message = message

    def __str__(self) -> str:
        what = f"{self.message}: " if self.message else ""
        return f"{what}{self.reason} at byte {self.position}"


class EncodeError(WireError):
    """The message cannot be said in this version: a value out of range, or a field the version does not have."""


def explain(error: Exception, data: bytes, position: int, message: str) -> DecodeError:
    """The DecodeError that tells what a failure of generated code at `position` means."""
    match error:
        case DecodeError():
            return DecodeError(error.reason, error.position, message)
        case _:
            return DecodeError(f"the data ends, at {len(data)}, within a value", min(position, len(data)), message)
