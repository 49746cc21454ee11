"""The exception for an operation that the server refuses. The control server answers an HTTP problem, the command line
a sentence."""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode


class Refused(Exception):
    """A command was refused; `error` is Kafka's name of the reason, the message one sentence."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
