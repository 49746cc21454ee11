"""Features and their finalized levels: UpdateFeatures changes them for the whole cluster, ApiVersions shows them.

`apis/profiles.py` has the features of each release; before an API of a feature is served, its `level` is looked up.
Where an answer names the controller, it is the first broker. Error messages are Kafka's. After Kafka's
`FeatureControlManager.updateFeature` and `QuorumFeatures` of 4.2 (semantics 1.4).
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
"""The lowest level that is allowed: below it Kafka 4.2 would lose metadata."""


class UpgradeType(IntEnum):
    """The direction in which a level may change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class _RefusedError(Exception):
    """A change that is refused with INVALID_UPDATE_VERSION (95)."""


_PROTOCOLS: Final = {"group.version": "consumer", "streams.version": "streams"}
"""The protocol that `group.coordinator.rebalance.protocols` must list, by feature. Kafka 4.2 has no share groups in
it."""
FINALIZED: Final = {
    release: {feature.name: feature.finalized for feature in features} for release, features in FEATURES.items()
}
"""Levels of the features of a new cluster, by release and name."""


def level(release: str, settings: Settings, name: str) -> int:
    """Return the finalized level of a feature, 0 if it is off or unknown."""
    changed = settings.features.get(name)
    return FINALIZED[release].get(name, 0) if changed is None else changed


def unsupported(release: str, written_as: str, settings: Settings) -> list[str]:
    """Return the features, with their levels, that a cluster of another release has above those of `release`."""
    highest = {feature.name: feature.highest for feature in FEATURES[release]}
    levels = FINALIZED.get(written_as, {}) | settings.features
    return [f"{name} {level}" for name, level in levels.items() if level > highest.get(name, 0)]


def forbidden(settings: Settings) -> frozenset[str]:
    """Return the features whose kind of groups the settings do not allow. These settings change only with a restart."""
    protocols = as_list(settings.text("group.coordinator.rebalance.protocols"))
    return frozenset(name for name, protocol in _PROTOCOLS.items() if protocol not in protocols)


def update(release: str, topics: Topics, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change all levels of the request, or none. If a feature is in the request twice, the last one counts."""
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
    """Check one change of a level. Raises `_RefusedError`."""

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
