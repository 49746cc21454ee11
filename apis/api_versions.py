"""ApiVersions (18): which APIs the broker serves, and in which versions; the first request of most clients.

What depends on a profile or on a feature is not known here: the handler lists what it is told to.

    v0  the first
    v1  throttle time
    v2  throttle time is taken after the answer is sent
    v3  flexible; software name and version of the client (KIP-511); features as tagged fields (KIP-584)
    v4  features whose lowest level is 0 are listed too; v3 leaves them out (KAFKA-17011)
"""

from apis.wire import Message, Struct, array, boolean, field, int16, int32, int64, string


class ApiVersionsRequest(Message, key=18, versions="0-4", flexible="3+"):
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


class ApiVersionsResponse(Message, key=18, versions="0-4", flexible="3+"):
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
