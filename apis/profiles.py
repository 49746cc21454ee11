"""Profiles: the API versions and features that brokers of each Kafka release advertise.

A coordinator can pose as one of these releases; a profile is cut to the APIs that are served. Sources: from 4.2 on the
answers of running Kafkas 4.2.2, 4.3.1 and 4.4.0; for all, the releases' own ApiVersions answers in kafka-python
(`broker_version_data.py`) and franz-go (`pkg/kversion`), which agree.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.releases import Rules, rules_of

# fmt: off
_BROKER_VERSIONS: Final[dict[str, dict[int, tuple[int, int]]]] = {
    "2.8": {
        0: (0, 9), 1: (0, 12), 2: (0, 6), 3: (0, 11), 8: (0, 8), 9: (0, 7), 10: (0, 3), 11: (0, 7), 12: (0, 4),
        13: (0, 4), 14: (0, 5), 15: (0, 5), 16: (0, 4), 17: (0, 1), 18: (0, 3), 19: (0, 7), 20: (0, 6), 21: (0, 2),
        22: (0, 4), 23: (0, 4), 24: (0, 3), 25: (0, 3), 26: (0, 3), 27: (0, 1), 28: (0, 3), 29: (0, 2), 30: (0, 2),
        31: (0, 2), 32: (0, 4), 33: (0, 2), 35: (0, 2), 36: (0, 2), 37: (0, 3),
        38: (0, 2), 39: (0, 2), 40: (0, 2), 41: (0, 2),
        42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 0), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1),
        57: (0, 0), 60: (0, 0), 61: (0, 0),
    },
    "3.9": {
        0: (0, 11), 1: (0, 17), 2: (0, 9), 3: (0, 12), 8: (0, 9), 9: (0, 9), 10: (0, 6), 11: (0, 9), 12: (0, 4),
        13: (0, 5), 14: (0, 5), 15: (0, 5), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (0, 7), 20: (0, 6), 21: (0, 2),
        22: (0, 5), 23: (0, 4), 24: (0, 5), 25: (0, 4), 26: (0, 4), 27: (0, 1), 28: (0, 4), 29: (0, 3), 30: (0, 3),
        31: (0, 3), 32: (0, 4), 33: (0, 2), 35: (0, 4), 36: (0, 2), 37: (0, 3),
        38: (0, 3), 39: (0, 2), 40: (0, 2), 41: (0, 3),
        42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 0), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1),
        57: (0, 1), 60: (0, 1), 61: (0, 0),
        65: (0, 0), 66: (0, 1), 68: (0, 0), 69: (0, 0),
    },
    "4.2": {
        0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
        13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2),
        22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5), 29: (1, 3), 30: (1, 3),
        31: (1, 3), 32: (1, 4), 33: (0, 2), 35: (1, 4), 36: (0, 2), 37: (0, 3),
        38: (1, 3), 39: (1, 2), 40: (1, 2), 41: (1, 3),
        42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 55: (0, 2),
        57: (0, 2), 60: (0, 2), 61: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0),
        76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2), 83: (0, 0), 86: (0, 0), 87: (0, 1), 88: (0, 0), 89: (0, 0),
        90: (0, 1), 91: (0, 0), 92: (0, 0),
    },
}
_BROKER_VERSIONS["4.3"] = _BROKER_VERSIONS["4.2"] | {35: (1, 5)}
_BROKER_VERSIONS["4.4"] = _BROKER_VERSIONS["4.3"] | {
    18: (0, 5), 28: (0, 6), 42: (0, 3), 88: (0, 1), 89: (0, 1), 93: (0, 0), 94: (0, 0),
}
# fmt: on

PROFILES: Final[dict[str, dict[int, tuple[int, int]]]] = {
    release: {key: versions for key, versions in advertised.items() if key in APIS}
    for release, advertised in _BROKER_VERSIONS.items()
}
"""Lowest and highest advertised version, by release and API key."""

_PRODUCE_SERVED_FROM: Final = 3


def group_operations(rules: Rules) -> int:
    """Return all operations on a group as a bit field of AclOperation codes, which is the answer without ACLs: READ,
    DELETE and DESCRIBE, and those on its settings, DESCRIBE_CONFIGS and ALTER_CONFIGS."""
    return 3400 if rules.group_configurations else 328


def is_served(release: str, key: int, version: int) -> bool:
    """Return True if a broker of `release` answers this request; otherwise it closes the connection, except for
    ApiVersions.

    These are the advertised versions with one exception: Kafka 4.x advertises Produce from version 0, because
    librdkafka takes a broker without it for a very old one, but refuses versions 0 to 2 (KIP-896, KAFKA-18659).
    """
    lowest, highest = PROFILES[release].get(key, (0, -1))
    rules = rules_of(release)
    if key == ApiKey.PRODUCE and rules.early_produce_refused:
        lowest = max(lowest, _PRODUCE_SERVED_FROM)
    return lowest <= version <= highest


class Feature(NamedTuple):
    """A feature of KIP-584: the levels that the broker supports, and the level of a new cluster.

    Level 0 means off and is not listed, for example kraft.version in a cluster formatted without `--standalone`.
    """

    name: str
    lowest: int
    highest: int
    finalized: int
    keys: frozenset[int] = frozenset()
    """The APIs that the feature promises: without them it is not advertised."""


_BROKER_FEATURES: Final[dict[str, tuple[Feature, ...]]] = {
    "2.8": (),
    "3.9": (Feature("kraft.version", 0, 1, 0), Feature("metadata.version", 1, 21, 21)),
    "4.2": (
        Feature("eligible.leader.replicas.version", 0, 1, 1),
        Feature("group.version", 0, 1, 1, frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE})),
        Feature("kraft.version", 0, 1, 0),
        Feature("metadata.version", 7, 29, 29),
        Feature(
            "share.version",
            0,
            1,
            1,
            frozenset(
                {
                    ApiKey.SHARE_GROUP_HEARTBEAT,
                    ApiKey.SHARE_GROUP_DESCRIBE,
                    ApiKey.SHARE_FETCH,
                    ApiKey.SHARE_ACKNOWLEDGE,
                }
            ),
        ),
        Feature("streams.version", 0, 1, 1, frozenset({ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE})),
        Feature(
            "transaction.version",
            0,
            2,
            2,
            frozenset(
                {
                    ApiKey.INIT_PRODUCER_ID,
                    ApiKey.ADD_PARTITIONS_TO_TXN,
                    ApiKey.ADD_OFFSETS_TO_TXN,
                    ApiKey.END_TXN,
                    ApiKey.TXN_OFFSET_COMMIT,
                }
            ),
        ),
    ),
}

_GROWN: Final = {
    "4.3": {"metadata.version": 30},
    "4.4": {"metadata.version": 33, "share.version": 2},
}
"""Features with a highest level, also that of a new cluster, above that of 4.2. No feature is new."""
for _release, _levels in _GROWN.items():
    _BROKER_FEATURES[_release] = tuple(
        each._replace(highest=_levels[each.name], finalized=_levels[each.name]) if each.name in _levels else each
        for each in _BROKER_FEATURES["4.2"]
    )

FEATURES: Final[dict[str, tuple[Feature, ...]]] = {
    release: tuple(feature for feature in features if feature.keys <= APIS.keys())
    for release, features in _BROKER_FEATURES.items()
}
"""By release, the features with their APIs served, in order of their names."""
