"""The profiles: the versions that brokers of each release advertise, limited to the served ones."""

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from kafka_shim.apis import profiles
from kafka_shim.apis.profiles import FEATURES, PROFILES, is_served
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.releases import DEFAULT_RELEASE, RELEASES

OF_KAFKA_PYTHON = {"2.8": (2, 8), "3.9": (3, 9), "4.2": (4, 2), "4.3": (4, 3)}
"""The releases that kafka-python knows."""


def test_profiles_cover_all_releases() -> None:
    assert PROFILES.keys() == FEATURES.keys() == set(RELEASES)
    assert DEFAULT_RELEASE in PROFILES


@pytest.mark.parametrize("release", OF_KAFKA_PYTHON)
def test_profile_equals_kafka_answers(release: str) -> None:
    theirs = BROKER_API_VERSIONS[OF_KAFKA_PYTHON[release]]
    assert profiles._BROKER_VERSIONS[release] == {key: theirs[key] for key in APIS if key in theirs}
    assert PROFILES[release] == {key: theirs[key] for key in APIS if key in theirs}


@pytest.mark.parametrize("release", RELEASES)
def test_all_that_is_advertised_can_be_read_and_written(release: str) -> None:
    for key, (lowest, highest) in profiles._BROKER_VERSIONS[release].items():
        versions = APIS[key].request.versions
        assert lowest in versions
        assert highest in versions


def test_the_newest_release_has_our_newest_versions() -> None:
    for key, (_, highest) in profiles._BROKER_VERSIONS[RELEASES[-1]].items():
        assert highest == APIS[key].request.versions[-1]


def test_produce_is_advertised_from_0_and_answered_from_3() -> None:
    assert PROFILES["4.2"][0] == (0, 13)
    assert [is_served("4.2", 0, version) for version in (-1, 0, 2, 3, 13, 14)] == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]
    assert is_served("3.9", 0, 0)


@pytest.mark.parametrize("release", RELEASES)
def test_served_is_advertised(release: str) -> None:
    for key in APIS:
        served = [version for version in range(-1, 20) if is_served(release, key, version)]
        lowest, highest = PROFILES[release].get(key, (0, -1))
        if release.startswith("4.") and key == 0 and served:
            lowest = 3
        assert served == list(range(lowest, highest + 1))


@pytest.mark.parametrize("release", RELEASES)
def test_features_are_sorted_and_within_levels(release: str) -> None:
    features = profiles._BROKER_FEATURES[release]
    assert [each.name for each in features] == sorted(each.name for each in features)
    for feature in features:
        assert 0 <= feature.lowest <= feature.highest
        assert 0 <= feature.finalized <= feature.highest
    assert set(FEATURES[release]) == {each for each in features if each.keys <= APIS.keys()}
