"""IncrementalAlterConfigs (44): sets, deletes, appends to or subtracts from single configuration values (KIP-339).

v0  the first
v1  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int8, int16, int32, string


class AlterableConfig(Struct):
    """`config_operation`: 0 set, 1 delete, 2 append, 3 subtract."""

    name: str = field(string)
    config_operation: int = field(int8)
    value: str | None = field(string, nullable="0+")


class AlterConfigsResource(Struct):
    """`resource_type`: 2 topic, 4 broker, 8 broker logger, 32 group."""

    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[AlterableConfig] = field(array(AlterableConfig))


class IncrementalAlterConfigsRequest(Message, key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(boolean)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resource_type: int = field(int8)
    resource_name: str = field(string)


class IncrementalAlterConfigsResponse(Message, key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"):
    throttle_time_ms: int = field(int32)
    responses: list[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))


def error(request: IncrementalAlterConfigsRequest, code: int) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code, error_message=None, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        ]
    )


API = Api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    "IncrementalAlterConfigs",
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    error,
)
