"""Features and their finalized levels: what UpdateFeatures changes for the whole cluster, and ApiVersions shows.

Decides which change of a level is refused, in Kafka's words. Which features a release has is in `apis/profiles.py`;
whoever serves an API of a feature asks `level`. Where an answer names the controller, it is the first broker. After
Kafka's `FeatureControlManager.updateFeature` and `QuorumFeatures` of 4.2 (semantics 1.4).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kafka_shim.apis.profiles import FEATURES, Feature
from kafka_shim.apis.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.setting import as_list
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import Topics

METADATA: Final = "metadata.version"
KRAFT: Final = "kraft.version"
_LOWEST_METADATA: Final = 23
"""The level below which Kafka 4.2 would lose metadata: nobody may go there."""


class UpgradeType(IntEnum):
    """Which way a level may change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class _RefusedError(Exception):
    """INVALID_UPDATE_VERSION (95)."""


_PROTOCOLS: Final = {"group.version": "consumer", "streams.version": "streams"}
"""What `group.coordinator.rebalance.protocols` must name, by feature. Share groups are not among them in Kafka 4.2."""
_FINALIZED: Final = {
    release: {feature.name: feature.finalized for feature in features} for release, features in FEATURES.items()
}


def level(release: str, settings: Settings, name: str) -> int:
    """The finalized level of a feature, 0 if it is off or not there."""
    changed = settings.features.get(name)
    return _FINALIZED[release].get(name, 0) if changed is None else changed


def serves(release: str, settings: Settings, name: str) -> bool:
    """Whether the APIs of a feature are served: its level is not 0, and no setting leaves its kind of groups out."""
    if level(release, settings, name) <= 0:
        return False
    protocol = _PROTOCOLS.get(name)
    return protocol is None or protocol in as_list(settings.text("group.coordinator.rebalance.protocols"))


def update(release: str, topics: Topics, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change all levels of the request or none. Of one feature that is named twice, the last one counts."""
    updates = {each.feature: each for each in request.feature_updates}
    levels = dict(topics.settings.features)
    controller = min(topics.nodes, default=0)
    try:
        for name, each in updates.items():
            _check(release, topics.settings, name, each.max_version_level, each.upgrade_type, controller)
            levels[name] = each.max_version_level
    except _RefusedError as refused:
        reason = f"The update failed for all features since the following feature had an error: {refused}"
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=reason)
    if updates and not request.validate_only:
        topics.settings.features = levels
        topics.settings.features_epoch += 1
        topics.settings.tell()
    results = [UpdatableFeatureResult(each.feature, 0, "NONE") for each in request.feature_updates]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _check(release: str, settings: Settings, name: str, version: int, upgrade_type: int, controller: int) -> None:
    """Raises `_RefusedError`."""

    def refuse(sentence: str) -> _RefusedError:
        return _RefusedError(f"Invalid update version {version} for feature {name}. {sentence}")

    if upgrade_type not in UpgradeType.__members__.values():
        raise refuse("The controller does not support the given upgrade type.")
    current = level(release, settings, name)
    if version < 0:
        raise refuse("A feature version cannot be less than 0.")
    feature = _feature(release, name)
    if feature is None:
        raise refuse(f"Local controller {controller} does not support this feature.")
    if not feature.lowest <= version <= feature.highest:
        raise refuse(f"Local controller {controller} only supports versions {feature.lowest}-{feature.highest}")
    if version < current and upgrade_type == UpgradeType.UPGRADE:
        raise refuse(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"
            " downgrade."
        )
    if version > current and upgrade_type != UpgradeType.UPGRADE:
        raise refuse("Can't downgrade to a newer version.")
    if name == KRAFT and version < current:
        raise refuse("Can't downgrade the version of this feature.")
    if name == METADATA and version < min(current, _LOWEST_METADATA):
        unsafe = upgrade_type == UpgradeType.UNSAFE_DOWNGRADE
        raise _RefusedError(
            f"Unsupported metadata.version downgrade from {current} to {version}. "
            + (
                "Unsafe metadata downgrade is not supported in this version."
                if unsafe
                else "Refusing to perform the requested downgrade because it might delete metadata information."
            )
        )


def _feature(release: str, name: str) -> Feature | None:
    return next((each for each in FEATURES[release] if each.name == name), None)
