"""How a server says that it cannot do what an operator or a test asks for.

Decides nothing: the control server makes HTTP problems of it, the command line sentences.
"""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode


class Refused(Exception):
    """What was asked for cannot be done; `error` says why by Kafka's name, the message in one sentence."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
