"""Exceptions for a refused command and for a long answer. The control server makes an HTTP problem of a refused
command, the command line a sentence."""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode


class Refused(Exception):
    """A command was refused; `error` is Kafka's name of the reason, the message one sentence."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class AnswerTooLongError(Exception):
    """The answer to a request would be longer than `parts.MAX_ANSWER_BYTES`. It is not encoded."""
