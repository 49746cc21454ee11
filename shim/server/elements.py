"""The number of elements that a request may have, by API.

Decides how long all others wait at most for a rule that takes a request as a whole. It knows no rule; `requests.py`
has the requests that are answered part by part, and `docs/limits-of-requests.md` the cost of each.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire.primitives import MAX_ELEMENTS

FEW: Final = 10_000
"""As many records are the most that Kafka's controller writes for one request."""

_OF_FEW: Final = frozenset(
    (
        ApiKey.JOIN_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.OFFSET_DELETE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    )
)
"""Changes and questions of administrators. Their rules take a request or one of its elements as a whole: 100,000
elements take up to a second. A client's requests that name all its partitions are not among them; JoinGroup names only
its protocols."""


def elements_accepted(key: int) -> int:
    """Return how many elements a request of this API may have."""
    return FEW if key in _OF_FEW else MAX_ELEMENTS
