"""The requests that a fault or a barrier matches, as fields of a body."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.operation import MAX_TEXT
from kafka_shim.control.problems import nearest
from kafka_shim.lab.interception import api_names, error_code

if TYPE_CHECKING:
    ErrorName = str
    FailureName = str
else:
    ErrorName = Enum("ErrorName", {each.name: each.name for each in ErrorCode})
    FailureName = Enum("FailureName", {each.name: each.name for each in ErrorCode if each})

API_NAMES: Final = sorted(api.name for api in APIS.values())
"""Names of Kafka's APIs, for the schema; a server with experiments accepts the names of their APIs too."""

Api = Annotated[str, Meta(description="Name of an API.", extra_json_schema={"enum": API_NAMES})]

AnyError = Annotated[int, Meta(ge=int(min(ErrorCode)), le=int(max(ErrorCode)))] | ErrorName
"""An error of Kafka's protocol by number or name, NONE included."""
Failure = Annotated[int, Meta(ge=1, le=int(max(ErrorCode)))] | FailureName
"""The same without NONE."""

_Wild = Annotated[str, Meta(max_length=MAX_TEXT, description="`*` and `?` as in file names.")]


class Match(Struct, forbid_unknown_fields=True, kw_only=True):
    """The requests that match; a field that is left out matches all."""

    api: Api | UnsetType = UNSET
    group: _Wild | UnsetType = UNSET
    member: _Wild | UnsetType = UNSET
    instance: _Wild | UnsetType = UNSET
    client_id: _Wild | UnsetType = UNSET
    generation: (
        Annotated[int, Meta(ge=-1, le=2**31 - 1, description="The generation that the request says.")] | UnsetType
    ) = UNSET
    state: Annotated[_Wild, Meta(description="State of the group at that moment.")] | UnsetType = UNSET
    role: Literal["leader", "follower"] | UnsetType = UNSET
    broker: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Id of the receiving broker.")] | UnsetType = UNSET
    error: Annotated[AnyError, Meta(description="Error of the answer; only answers have one.")] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.api is not UNSET:
            check_name("api", self.api, api_names())


class Matched(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The requests that match, as an answer shows them."""

    api: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    member: str | UnsetType = UNSET
    instance: str | UnsetType = UNSET
    client_id: str | UnsetType = UNSET
    generation: int | UnsetType = UNSET
    state: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    broker: int | UnsetType = UNSET
    error: int | UnsetType = UNSET


def check_name(field: str, name: str, names: Collection[str]) -> None:
    """Check the value of a field with names. Raises ValueError, in one sentence."""
    if name not in names:
        raise ValueError(f"'{name}' is not a valid {field}{nearest(name, names)}")


def set_fields(body: Struct) -> dict[str, Any]:
    """Return the fields that are set, by name; the error by number."""
    fields: dict[str, Any] = msgspec.to_builtins(body)
    if isinstance(fields.get("error"), str):
        fields["error"] = int(error_code(fields["error"]))
    return fields
