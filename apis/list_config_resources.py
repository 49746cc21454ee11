"""ListConfigResources (74): the resources that have a configuration.

v0  the first, as ListClientMetricsResources; flexible
v1  resources of other types too, and a filter by type (KIP-1142)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, string


class ListConfigResourcesRequest(Message, key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"):
    """`resource_types`: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group; an empty list means all."""

    resource_types: list[int] = field(array(int8), versions="1+")


class ConfigResource(Struct):
    resource_name: str = field(string)
    resource_type: int = field(int8, versions="1+", ignorable=True, default=16)


class ListConfigResourcesResponse(Message, key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    config_resources: list[ConfigResource] = field(array(ConfigResource))


def error(request: ListConfigResourcesRequest, code: int) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=code)


API = Api(
    ApiKey.LIST_CONFIG_RESOURCES,
    "ListConfigResources",
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    error,
)
