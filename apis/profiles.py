"""What the brokers of Kafka releases advertise: versions of APIs, and features.

Decides which release a coordinator can pose as, cut to the APIs that are served. Knows nothing of how a version is
served. Sources: for 4.2 the answers of a running Kafka 4.2.2; for all, the releases' own ApiVersions answers as
kafka-python (`broker_version_data.py`) and franz-go (`pkg/kversion`) have them, which agree.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.registry import APIS

NEWEST: Final = "4.2"

# fmt: off
_BROKER_VERSIONS: Final[dict[str, dict[int, tuple[int, int]]]] = {
    "2.8": {
        0: (0, 9), 1: (0, 12), 2: (0, 6), 3: (0, 11), 8: (0, 8), 9: (0, 7), 10: (0, 3), 11: (0, 7), 12: (0, 4),
        13: (0, 4), 14: (0, 5), 15: (0, 5), 16: (0, 4), 18: (0, 3), 19: (0, 7), 20: (0, 6), 21: (0, 2), 22: (0, 4),
        23: (0, 4), 24: (0, 3), 25: (0, 3), 26: (0, 3), 27: (0, 1), 28: (0, 3), 32: (0, 4), 33: (0, 2), 35: (0, 2),
        37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 0), 46: (0, 0), 47: (0, 0), 57: (0, 0), 60: (0, 0),
        61: (0, 0),
    },
    "3.9": {
        0: (0, 11), 1: (0, 17), 2: (0, 9), 3: (0, 12), 8: (0, 9), 9: (0, 9), 10: (0, 6), 11: (0, 9), 12: (0, 4),
        13: (0, 5), 14: (0, 5), 15: (0, 5), 16: (0, 5), 18: (0, 4), 19: (0, 7), 20: (0, 6), 21: (0, 2), 22: (0, 5),
        23: (0, 4), 24: (0, 5), 25: (0, 4), 26: (0, 4), 27: (0, 1), 28: (0, 4), 32: (0, 4), 33: (0, 2), 35: (0, 4),
        37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 0), 46: (0, 0), 47: (0, 0), 57: (0, 1), 60: (0, 1),
        61: (0, 0),
        65: (0, 0), 66: (0, 1), 68: (0, 0), 69: (0, 0),
    },
    "4.2": {
        0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
        13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5),
        23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5), 32: (1, 4), 33: (0, 2), 35: (1, 4),
        37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 55: (0, 2), 57: (0, 2),
        60: (0, 2), 61: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0), 76: (1, 1),
        77: (1, 1), 78: (1, 2), 79: (1, 2), 88: (0, 0), 89: (0, 0), 90: (0, 1), 91: (0, 0), 92: (0, 0),
    },
}
# fmt: on

PROFILES: Final[dict[str, dict[int, tuple[int, int]]]] = {
    release: {key: versions for key, versions in advertised.items() if key in APIS}
    for release, advertised in _BROKER_VERSIONS.items()
}
"""By release and API key, the lowest and the highest version that is advertised."""

GROUP_OPERATIONS: Final[dict[str, int]] = {"2.8": 328, "3.9": 328, "4.2": 3400}
"""By release, every operation on a group as a bit field of AclOperation codes, which is what is authorized without
ACLs: READ, DELETE and DESCRIBE; since 4.0 DESCRIBE_CONFIGS and ALTER_CONFIGS too."""

_REFUSED_BELOW: Final[dict[str, dict[int, int]]] = {"4.2": {0: 3}}


def is_served(release: str, key: int, version: int) -> bool:
    """Whether a broker of `release` answers such a request; where not, it closes the connection, but for ApiVersions.

    This is what it advertises with one exception: Kafka 4.x advertises Produce from version 0, because librdkafka takes
    a broker without it for a very old one, and refuses versions 0 to 2 all the same (KIP-896, KAFKA-18659).
    """
    lowest, highest = PROFILES[release].get(key, (0, -1))
    return max(lowest, _REFUSED_BELOW.get(release, {}).get(key, 0)) <= version <= highest


class Feature(NamedTuple):
    """A feature of KIP-584: the levels that the broker can run, and the one that a new cluster runs.

    A level of 0 is off, and not listed: so is kraft.version in a cluster that is formatted without `--standalone`.
    """

    name: str
    lowest: int
    highest: int
    finalized: int
    keys: frozenset[int] = frozenset()
    """The APIs without which the feature would be a lie."""


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

FEATURES: Final[dict[str, tuple[Feature, ...]]] = {
    release: tuple(feature for feature in features if feature.keys <= APIS.keys())
    for release, features in _BROKER_FEATURES.items()
}
"""By release, its features in the order of their names, less those whose APIs are not served."""
