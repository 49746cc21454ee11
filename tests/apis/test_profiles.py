"""The profiles: what brokers of three releases advertise, cut to what is served."""

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from kafka_shim.apis import profiles
from kafka_shim.apis.profiles import FEATURES, NEWEST, PROFILES, is_served
from kafka_shim.apis.registry import APIS

RELEASES = {"2.8": (2, 8), "3.9": (3, 9), "4.2": (4, 2)}


def test_releases() -> None:
    assert PROFILES.keys() == FEATURES.keys() == RELEASES.keys()
    assert NEWEST in PROFILES


@pytest.mark.parametrize("release", RELEASES)
def test_exactly_what_kafka_advertises(release: str) -> None:
    theirs = BROKER_API_VERSIONS[RELEASES[release]]
    assert profiles._BROKER_VERSIONS[release] == {key: theirs[key] for key in APIS if key in theirs}
    assert PROFILES[release] == {key: theirs[key] for key in APIS if key in theirs}


@pytest.mark.parametrize("release", RELEASES)
def test_all_that_is_advertised_can_be_read_and_written(release: str) -> None:
    for key, (lowest, highest) in profiles._BROKER_VERSIONS[release].items():
        versions = APIS[key].request.versions
        assert lowest in versions
        assert highest in versions


def test_the_newest_release_has_our_newest_versions() -> None:
    for key, (_, highest) in profiles._BROKER_VERSIONS[NEWEST].items():
        assert highest == APIS[key].request.versions[-1]


def test_produce_is_advertised_from_0_but_answered_from_3() -> None:
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
        if (release, key) == ("4.2", 0) and served:
            lowest = 3
        assert served == list(range(lowest, highest + 1))


@pytest.mark.parametrize("release", RELEASES)
def test_features(release: str) -> None:
    features = profiles._BROKER_FEATURES[release]
    assert [each.name for each in features] == sorted(each.name for each in features)
    for feature in features:
        assert 0 <= feature.lowest <= feature.highest
        assert 0 <= feature.finalized <= feature.highest
    assert set(FEATURES[release]) == {each for each in features if each.keys <= APIS.keys()}
