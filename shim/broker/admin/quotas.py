"""DescribeClientQuotas and AlterClientQuotas: the limits that administrators set for users, client ids and addresses.

Quotas are part of the settings of the cluster. `shim/server/throttling.py` lets clients wait by them. Source: Kafka's
`ClientQuotasImage` and `ClientQuotaControlManager`; the answers of a running Kafka 4.4.0, also for the messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ipaddress import ip_address
from math import isfinite
from typing import Final, TypeAlias

from kafka_shim.apis import alter_client_quotas, describe_client_quotas
from kafka_shim.apis.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kafka_shim.apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
    ValueData,
)
from kafka_shim.apis.wire.errors import ErrorCode, fitting
from kafka_shim.broker.settings import Entity, Quotas, Settings

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_LARGEST: Final = {"INT": float((1 << 31) - 1), "LONG": float(1 << 63)}
_DOUBLE: Final = "DOUBLE"
_OF_CLIENTS: Final = {
    PRODUCER_BYTE_RATE: "LONG",
    CONSUMER_BYTE_RATE: "LONG",
    REQUEST_PERCENTAGE: _DOUBLE,
    CONTROLLER_MUTATION_RATE: _DOUBLE,
}
_OF_ADDRESSES: Final = {CONNECTION_CREATION_RATE: "INT"}
"""The type of each quota, by its name."""
_FRACTION: Final = 1e-6
"""The largest fraction of a whole number, in which Kafka sees an error of rounding."""

MAX_BYTES: Final = 1 << 20
"""The limit for the names and numbers of all quotas together, at `BYTES_OF_ENTRY` each and the length of its names."""
BYTES_OF_ENTRY: Final = 100

_EXACT, _DEFAULT, _SPECIFIED = range(3)
Filter: TypeAlias = dict[str, tuple[str | None, ...]]
"""The names that match, by type; none for every name."""


class _RefusedError(Exception):
    """A quota or a filter that is refused."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(fitting(message))
        self.code = code


def describe(request: DescribeClientQuotasRequest, settings: Settings) -> DescribeClientQuotasResponse:
    """Return the quotas that match a filter. Errors: INVALID_REQUEST (42) for an impossible filter, UNSUPPORTED_VERSION
    (35) for an unknown type of entity."""
    try:
        conditions = _filter_of(request.components)
    except _RefusedError as refusal:
        return DescribeClientQuotasResponse(error_code=refusal.code, error_message=str(refusal), entries=None)
    entries = [
        EntryData(
            [describe_client_quotas.EntityData(*each) for each in entity],
            [ValueData(*each) for each in values.items()],
        )
        for entity, values in settings.quotas.items()
        if _matches(dict(entity), conditions, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def _filter_of(components: list[ComponentData]) -> Filter:
    conditions: Filter = {}
    for each in components:
        if not each.entity_type:
            raise _RefusedError("Invalid empty entity type.")
        if each.entity_type in conditions:
            raise _RefusedError(f"Entity type {each.entity_type} cannot appear more than once in the filter.")
        if each.entity_type not in _TYPES:
            raise _RefusedError(f"Unsupported entity type {each.entity_type}", ErrorCode.UNSUPPORTED_VERSION)
        if each.match_type == _EXACT:
            if each.match is None:
                raise _RefusedError("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            conditions[each.entity_type] = (each.match,)
        elif each.match_type in (_DEFAULT, _SPECIFIED):
            if each.match is not None:
                name = "DEFAULT" if each.match_type == _DEFAULT else "SPECIFIED"
                raise _RefusedError(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
            conditions[each.entity_type] = (None,) if each.match_type == _DEFAULT else ()
        else:
            raise _RefusedError(f"Unknown match type {each.match_type}")
    if IP in conditions and len(conditions) > 1:
        raise _RefusedError(
            "Invalid entity filter component combination. "
            "IP filter component should not be used with user or clientId filter component."
        )
    return conditions


def _matches(entity: dict[str, str | None], conditions: Filter, *, strict: bool) -> bool:
    if strict and len(entity) != len(conditions):
        return False
    return all(
        entity_type in entity and (not names or entity[entity_type] in names)
        for entity_type, names in conditions.items()
    )


def alter(request: AlterClientQuotasRequest, settings: Settings) -> AlterClientQuotasResponse:
    """Set and remove quotas: those of the valid entries, with a result for each entity.

    Errors of an entity: INVALID_REQUEST (42); POLICY_VIOLATION (44) if there would be too many quotas.
    """
    results: dict[Entity, tuple[int, str | None]] = {}
    quotas: Quotas = settings.quotas
    size = sum(map(_size, quotas))
    for entry in request.entries:
        entity = tuple(sorted({each.entity_type: each.entity_name for each in entry.entity}.items()))
        try:
            if entity in results or max(Counter(op.key for op in entry.ops).values(), default=0) > 1:
                raise _RefusedError(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{_text(entity)}}})")
            values = _changed(entity, entry.ops, quotas.get(entity, {}))
            size += _size(entity) * (bool(values) - (entity in quotas))
            if size > MAX_BYTES and entity not in quotas:
                size -= _size(entity)
                raise _RefusedError(
                    f"All quotas together would need more than {MAX_BYTES} bytes.", ErrorCode.POLICY_VIOLATION
                )
        except _RefusedError as refusal:
            results[entity] = refusal.code, str(refusal)
            continue
        results[entity] = 0, None
        # A copy for each request, since others compare the object.
        quotas = dict(quotas) if quotas is settings.quotas else quotas
        assert isinstance(quotas, dict)
        quotas.pop(entity, None)
        if values:
            quotas[entity] = values
    if not request.validate_only and quotas != settings.quotas:
        settings.set_quotas(quotas)
        settings.tell()
    return AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.AlterClientQuotasResult(
                code, message, [alter_client_quotas.EntityData(*each) for each in entity]
            )
            for entity, (code, message) in results.items()
        ]
    )


def _changed(entity: Entity, ops: list[alter_client_quotas.OpData], values: Mapping[str, float]) -> dict[str, float]:
    """Return the quotas of an entity after these changes."""
    types = _types_of(dict(entity))
    changed = dict(values)
    for op in ops:
        if op.remove:
            changed.pop(op.key, None)
        else:
            _check_value(op.key, op.value, types)
            changed[op.key] = op.value
    return changed


def _types_of(entity: dict[str, str | None]) -> dict[str, str]:
    """Return the types of the quotas that an entity may have."""
    if not entity:
        raise _RefusedError("Invalid empty client quota entity")
    for entity_type, name in entity.items():
        if entity_type not in _TYPES:
            raise _RefusedError(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise _RefusedError(f"Empty {entity_type} not supported")
    if IP not in entity:
        return _OF_CLIENTS
    if len(entity) > 1:
        raise _RefusedError("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = entity[IP]
    if address is not None and not is_address(address):
        raise _RefusedError(f"{address} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def is_address(text: str) -> bool:
    """Return True for an address in numbers, and for `localhost`. Other names would need a question to the network, for
    which all clients would wait."""
    try:
        ip_address(text)
    except ValueError:
        return text == "localhost"
    return True


def _check_value(key: str, value: float, types: Mapping[str, str]) -> None:
    if key not in types:
        raise _RefusedError(f"Invalid configuration key {key}")
    if not isfinite(value):
        raise _RefusedError(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _RefusedError(f"Quota {key} must be greater than 0")
    if types[key] == _DOUBLE:
        return
    if value > _LARGEST[types[key]]:
        article = "an" if types[key] == "INT" else "a"
        raise _RefusedError(f"Proposed value for {key} is too large for {article} {types[key]}.")
    if value % 1 > _FRACTION:
        raise _RefusedError(f"{key} cannot be a fractional value.")


def _size(entity: Entity) -> int:
    return BYTES_OF_ENTRY + sum(len(name.encode()) for _, name in entity if name is not None)


def _text(entity: Entity) -> str:
    """Return an entity as Java writes its map."""
    return ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
