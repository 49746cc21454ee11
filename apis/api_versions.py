"""ApiVersions (18): the APIs a broker serves, with their versions; the first request of most clients.

The handler chooses the list, by the profile and the features of the cluster.

    v0  the first
    v1  throttle time
    v2  throttle time is taken after the answer is sent
    v3  flexible; software name and version of the client (KIP-511); features as tagged fields (KIP-584)
    v4  features with lowest level 0 are listed too; v3 leaves them out (KAFKA-17011)
    v5  cluster and node id of the broker that the client means (KIP-1242)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import ErrorCode, Message, Struct, array, boolean, field, int16, int32, int64, string


class ApiVersionsRequest(Message, key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """The client means any broker if `cluster_id` is null and `node_id` -1."""

    client_software_name: str = field(string, versions="3+", ignorable=True)
    client_software_version: str = field(string, versions="3+", ignorable=True)
    cluster_id: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    node_id: int = field(int32, versions="5+", default=-1, ignorable=True)


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


class ApiVersionsResponse(Message, key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """A `finalized_features_epoch` of -1 means that the features are unknown."""

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
    """In version 3, leave out supported features with lowest level 0: clients of that version refuse them
    (KAFKA-17011).
    """
    if version == 3:
        response.supported_features = [each for each in response.supported_features if each.min_version > 0]
    return response


def error(request: ApiVersionsRequest, code: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code)


def unsupported_version(served: tuple[int, int]) -> ApiVersionsResponse:
    """Build the response to an unsupported version of this API; it is always sent in the form of version 0.

    It lists this API alone, with the versions `served`, so that the client can try again. Source: KIP-511.
    """
    lowest, highest = served
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=lowest, max_version=highest)],
    )


API = Api(ApiKey.API_VERSIONS, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse, error, shape=shape)
