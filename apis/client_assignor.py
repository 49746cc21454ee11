"""`ClientAssignor`: an assignor that a member has itself, as KIP-848 first had it, in requests and in records.

Decides its layout alone. No release of Kafka sends it; see `apis/experimental/`.
"""

from __future__ import annotations

from kafka_shim.apis.wire import Struct, bytes_, field, int8, int16, string


class ClientAssignor(Struct):
    """It reads metadata from `minimum_version` to `maximum_version`; the member wrote its own in `metadata_version`.
    `reason` says why the metadata changed, in the assignor's own numbers."""

    name: str = field(string)
    minimum_version: int = field(int16)
    maximum_version: int = field(int16)
    reason: int = field(int8)
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)
