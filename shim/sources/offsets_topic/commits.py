"""Members that own partitions and commit nothing, though others of their group do.

A record of a commit has no member id, but its partition has one owner since the newest assignment. A member that
commits elsewhere, or has read nothing, shows the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.moves import Partition

_PATIENCE_S: Final = 60.0
"""A consumer commits every 5 s by default."""


def silent_owners(history: GroupHistory, committed: Mapping[Partition, float]) -> dict[str, tuple[int, float]]:
    """Return the members without a commit since the newest assignment: by member id, the number of partitions, and the
    seconds up to the newest commit of the group.

    `committed` has the time of the newest commit of each partition, in seconds.
    """
    assigned = history.current.assigned if history.current is not None else None
    if history.state != "Stable" or assigned is None:
        return {}
    seconds = max(committed.values(), default=0.0) - assigned
    if seconds < _PATIENCE_S:
        return {}
    owned: dict[str, list[Partition]] = {}
    for partition, member_id in history.owners.items():
        owned.setdefault(member_id, []).append(partition)
    return {
        member_id: (len(partitions), seconds)
        for member_id, partitions in owned.items()
        if all(committed.get(each, 0.0) < assigned for each in partitions)
    }
