"""ApiVersions (18): which APIs the broker serves, and in which versions; the first request of most clients.

What depends on a profile or on a feature is not known here: the handler lists what it is told to.

    v0  the first
    v1  throttle time
    v2  throttle time is taken after the answer is sent
    v3  flexible; software name and version of the client (KIP-511); features as tagged fields (KIP-584)
    v4  features whose lowest level is 0 are listed too; v3 leaves them out (KAFKA-17011)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import ErrorCode, Message, Struct, array, boolean, field, int16, int32, int64, string


class ApiVersionsRequest(Message, key=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    client_software_name: str = field(string, versions="3+", ignorable=True)
    client_software_version: str = field(string, versions="3+", ignorable=True)


class ApiVersion(Struct):
    api_key: int = field(int16)
    min_version: int = field(int16)
    max_version: int = field(int16)


class SupportedFeatureKey(Struct):
    name: str = field(string, versions="3+")
    min_version: int = field(int16, versions="3+")
    max_version: int = field(int16, versions="3+")


class FinalizedFeatureKey(Struct):
    name: str = field(string, versions="3+")
    max_version_level: int = field(int16, versions="3+")
    min_version_level: int = field(int16, versions="3+")


class ApiVersionsResponse(Message, key=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    """A `finalized_features_epoch` of -1 means that no features are known."""

    error_code: int = field(int16)
    api_keys: list[ApiVersion] = field(array(ApiVersion))
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(
        array(SupportedFeatureKey), versions="3+", tag=0, tagged="3+", ignorable=True
    )
    finalized_features_epoch: int = field(int64, versions="3+", default=-1, tag=1, tagged="3+", ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(
        array(FinalizedFeatureKey), versions="3+", tag=2, tagged="3+", ignorable=True
    )
    zk_migration_ready: bool = field(boolean, versions="3+", tag=3, tagged="3+", ignorable=True)


def shape(response: ApiVersionsResponse, version: int) -> ApiVersionsResponse:
    """Version 3 leaves out supported features whose lowest level is 0: its readers refuse them (KAFKA-17011)."""
    if version == 3:
        response.supported_features = [each for each in response.supported_features if each.min_version > 0]
    return response


def error(request: ApiVersionsRequest, code: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code)


def unsupported_version(served: tuple[int, int]) -> ApiVersionsResponse:
    """The answer to a version of this API outside `served`, always sent in the form of version 0.

    It lists this API alone, so that the client can ask again. Source: KIP-511.
    """
    lowest, highest = served
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=lowest, max_version=highest)],
    )


API = Api(ApiKey.API_VERSIONS, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse, error, shape=shape)
