"""A request that is refused: an error code and Kafka's sentence for people."""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode


class Refusal(Exception):
    """Raised by rules before they have written anything."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
