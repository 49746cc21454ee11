"""AlterClientQuotas (49): sets and removes quotas of users, client ids and addresses (KIP-546).

v0  the first
v1  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, float64, int16, int32, string

_KEY = ApiKey.ALTER_CLIENT_QUOTAS


class EntityData(Struct):
    """The name of a user, client id or address; null is the default of the type."""

    entity_type: str = field(string)
    entity_name: str | None = field(string, nullable="0+", default=None)


class OpData(Struct):
    key: str = field(string)
    value: float = field(float64)
    remove: bool = field(boolean)


class EntryData(Struct):
    entity: list[EntityData] = field(array(EntityData))
    ops: list[OpData] = field(array(OpData))


class AlterClientQuotasRequest(Message, key=_KEY, versions="0-1", flexible="1+"):
    entries: list[EntryData] = field(array(EntryData))
    validate_only: bool = field(boolean)


class AlterClientQuotasResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    entity: list[EntityData] = field(array(EntityData))


class AlterClientQuotasResponse(Message, key=_KEY, versions="0-1", flexible="1+"):
    throttle_time_ms: int = field(int32)
    entries: list[AlterClientQuotasResult] = field(array(AlterClientQuotasResult))


def error(request: AlterClientQuotasRequest, code: int) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[AlterClientQuotasResult(code, entity=e.entity) for e in request.entries])


API = Api(_KEY, "AlterClientQuotas", AlterClientQuotasRequest, AlterClientQuotasResponse, error)
