"""Data of this experiment in the records of a consumer group: assignors of a member, and metadata of its assignment.

Both are the `extension` of the record, and empty for a member without assignors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kafka_shim.apis.wire import DecodeError, Message, array, bytes_, field, int8, int16
from kafka_shim.experiments.client_assignors.messages import ClientAssignor
from kafka_shim.persistence.records import RecordError


class MemberExtension(Message, versions="0", flexible="0+"):
    """Assignors of a member, the preferred one first."""

    assignors: list[ClientAssignor] = field(array(ClientAssignor))


class AssignmentExtension(Message, versions="0", flexible="0+"):
    error: int = field(int8)
    version: int = field(int16)
    metadata: bytes = field(bytes_)


class AssignedMetadata(NamedTuple):
    """Error and metadata that a client's assignor gave a member with its target assignment.

    `error` is a number of the assignor, 0 for none; `version` is the version of `metadata`.
    """

    error: int = 0
    version: int = 0
    metadata: bytes = b""


NO_METADATA: Final = AssignedMetadata()


def assignors_to_bytes(assignors: Sequence[ClientAssignor]) -> bytes:
    """Encode the assignors of a member."""
    return MemberExtension(list(assignors)).encode(0) if assignors else b""


# Each heartbeat looks at the assignors of all members.
@lru_cache(10_000)
def assignors_from_bytes(extension: bytes) -> tuple[ClientAssignor, ...]:
    """Decode the assignors of a member. Raises RecordError."""
    if not extension:
        return ()
    try:
        return tuple(MemberExtension.decode(extension, 0).assignors)
    except DecodeError as error:
        raise RecordError(f"the assignors of a member: {error}") from error


def metadata_to_bytes(metadata: AssignedMetadata) -> bytes:
    """Encode the metadata of an assignment."""
    return b"" if metadata == NO_METADATA else AssignmentExtension(*metadata).encode(0)


def metadata_from_bytes(extension: bytes) -> AssignedMetadata:
    """Decode the metadata of an assignment. Raises RecordError."""
    if not extension:
        return NO_METADATA
    try:
        value = AssignmentExtension.decode(extension, 0)
    except DecodeError as error:
        raise RecordError(f"the metadata of an assignment: {error}") from error
    return AssignedMetadata(value.error, value.version, value.metadata)
