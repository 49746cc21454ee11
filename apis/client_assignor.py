"""`ClientAssignor`: an assignor that a member runs itself, as in early drafts of KIP-848, for requests and records.

No release of Kafka sends it; see `apis/experimental/`.
"""

from __future__ import annotations

from kafka_shim.apis.wire import Struct, bytes_, field, int8, int16, string


class ClientAssignor(Struct):
    """One assignor of a member. It reads metadata of versions `minimum_version` to `maximum_version`, and wrote the
    member's metadata in `metadata_version`. `reason` is the assignor's own number for the cause of the last change.
    """

    name: str = field(string)
    minimum_version: int = field(int16)
    maximum_version: int = field(int16)
    reason: int = field(int8)
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)
