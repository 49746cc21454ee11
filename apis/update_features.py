"""UpdateFeatures (57): raises or lowers the level of a feature for the whole cluster (KIP-584).

v0  the first; flexible
v1  the kind of change, and a check without a change (KIP-778)
v2  the answer has no results of single features (KIP-1022)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int8, int16, int32, string


class FeatureUpdateKey(Struct):
    """`upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade. Kafka 4 ignores `allow_downgrade`."""

    feature: str = field(string)
    max_version_level: int = field(int16)
    allow_downgrade: bool = field(boolean, versions="0")
    upgrade_type: int = field(int8, versions="1+", default=1)


class UpdateFeaturesRequest(Message, key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    timeout_ms: int = field(int32, default=60_000)
    feature_updates: list[FeatureUpdateKey] = field(array(FeatureUpdateKey))
    validate_only: bool = field(boolean, versions="1+")


class UpdatableFeatureResult(Struct):
    feature: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")


class UpdateFeaturesResponse(Message, key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    results: list[UpdatableFeatureResult] = field(array(UpdatableFeatureResult), versions="0-1", ignorable=True)


def error(request: UpdateFeaturesRequest, code: int) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code, error_message=None)


API = Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", UpdateFeaturesRequest, UpdateFeaturesResponse, error)
