"""DescribeClientQuotas (48): the quotas of users, client ids and addresses that match a filter (KIP-546).

v0  the first
v1  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, float64, int8, int16, int32, string

_KEY = ApiKey.DESCRIBE_CLIENT_QUOTAS


class ComponentData(Struct):
    """One condition. `match_type` is 0 for the name `match`, 1 for the default entity, 2 for each name and default."""

    entity_type: str = field(string)
    match_type: int = field(int8)
    match: str | None = field(string, nullable="0+", default=None)


class DescribeClientQuotasRequest(Message, key=_KEY, versions="0-1", flexible="1+"):
    components: list[ComponentData] = field(array(ComponentData))
    strict: bool = field(boolean)


class EntityData(Struct):
    """The name of a user, client id or address; null is the default of the type."""

    entity_type: str = field(string)
    entity_name: str | None = field(string, nullable="0+", default=None)


class ValueData(Struct):
    key: str = field(string)
    value: float = field(float64)


class EntryData(Struct):
    entity: list[EntityData] = field(array(EntityData))
    values: list[ValueData] = field(array(ValueData))


class DescribeClientQuotasResponse(Message, key=_KEY, versions="0-1", flexible="1+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    entries: list[EntryData] | None = field(array(EntryData), nullable="0+")


def error(request: DescribeClientQuotasRequest, code: int) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, entries=None)


API = Api(_KEY, "DescribeClientQuotas", DescribeClientQuotasRequest, DescribeClientQuotasResponse, error)
