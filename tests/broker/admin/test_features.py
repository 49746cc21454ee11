"""UpdateFeatures: its changes, its refusals in Kafka's words, and the effect on ApiVersions and other requests."""

from __future__ import annotations

import pytest

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.broker import Broker
from kafka_shim.broker.documents import apply, describe
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import Topics
from tests.broker.context import Cluster

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def update(broker: Broker, *updates: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesResponse:
    keys = [FeatureUpdateKey(name, level, upgrade_type=kind) for name, level, kind in updates]
    answer = broker.change(UpdateFeaturesRequest(0, keys, validate_only), None, 0.0)
    assert isinstance(answer, UpdateFeaturesResponse)
    return answer


def finalized(broker: Broker) -> tuple[dict[str, int], int]:
    answer = broker.api_versions(ApiVersionsRequest("a", "1"), has_software=True)
    return {each.name: each.max_version_level for each in answer.finalized_features}, answer.finalized_features_epoch


def test_a_feature_is_turned_off_for_all_clients_and_on_again() -> None:
    cluster = Cluster()
    broker = cluster.brokers[1]
    before, epoch = finalized(broker)
    assert before["group.version"] == 1
    assert update(broker, ("group.version", 0, SAFE)).error_code == 0
    for each in cluster.brokers.values():
        assert not each.has_feature("group.version")
    after, later = finalized(broker)
    assert (before.keys() - after.keys(), later) == ({"group.version"}, epoch + 1)
    assert update(broker, ("group.version", 1, UPGRADE)).error_code == 0
    assert broker.has_feature("group.version")


@pytest.mark.parametrize(
    ("protocols", "served"),
    [("classic, consumer", {"group.version"}), ("classic,streams", {"streams.version"}), ("classic", set())],
)
def test_a_kind_that_is_no_rebalance_protocol_is_not_served(protocols: str, served: set[str]) -> None:
    broker = Cluster(group_coordinator_rebalance_protocols=protocols).broker
    kinds = {"group.version", "streams.version", "share.version"}
    assert {name for name in kinds if broker.has_feature(name)} == served | {"share.version"}
    broker.release = "3.9"
    assert not broker.has_feature("group.version")


def test_an_unknown_rebalance_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of"):
        Settings({"group.coordinator.rebalance.protocols": "classic,consumers"})


def test_a_check_alone_changes_nothing() -> None:
    broker = Cluster().brokers[1]
    before = finalized(broker)
    assert update(broker, ("streams.version", 0, SAFE), validate_only=True).error_code == 0
    assert finalized(broker) == before


def test_one_refused_feature_keeps_all_others_unchanged() -> None:
    broker = Cluster().brokers[1]
    before = finalized(broker)
    answer = update(broker, ("group.version", 0, SAFE), ("nonsense", 1, UPGRADE))
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert finalized(broker) == before


def test_an_unchanged_level_is_no_error_and_older_versions_have_results() -> None:
    answer = update(Cluster().brokers[1], ("group.version", 1, UPGRADE))
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [(each.feature, each.error_code, each.error_message) for each in answer.results] == [
        ("group.version", 0, "NONE")
    ]


@pytest.mark.parametrize(
    ("name", "level", "kind", "sentence"),
    [
        ("group.version", 0, UPGRADE, "without setting the upgrade type to either safe or unsafe downgrade."),
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("group.version", -1, SAFE, "A feature version cannot be less than 0."),
        ("group.version", 0, 0, "The controller does not support the given upgrade type."),
        ("nonsense", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("kraft.version", 1, SAFE, "Can't downgrade to a newer version."),
        ("metadata.version", 7, SAFE, "because it might delete metadata information."),
        ("metadata.version", 7, UNSAFE, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_an_impossible_level_is_refused_in_words_of_kafka(name: str, level: int, kind: int, sentence: str) -> None:
    answer = update(Cluster().brokers[1], (name, level, kind))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message is not None
    assert answer.error_message.startswith(
        "The update failed for all features since the following feature had an error"
    )
    assert answer.error_message.endswith(sentence)


def test_all_processes_of_a_cluster_learn_of_a_level() -> None:
    cluster = Cluster()
    update(cluster.brokers[1], ("streams.version", 0, SAFE))
    other = Topics([*cluster.topics.nodes.values()], Settings(), cluster.topics.new_id)
    apply(describe(cluster.topics), other)
    assert other.settings.features == {"streams.version": 0}
    assert other.settings.features_epoch == 1
