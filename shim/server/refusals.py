"""How a server says that it cannot do what an operator or a test asks for.

Decides nothing: the control server makes HTTP problems of it, the command line sentences.
"""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode


class Refused(Exception):
    """A command that cannot be done; `error` is Kafka's name of the reason, the message one sentence."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
