"""The choice of exchanges for listeners that do not hear of every request: those that change a group, and errors.

Decides by the API and the answer. Clients repeat a refused request without end, so of equal errors it takes the first,
the second, the fourth, and so on. It keeps no request.

A consumer that is refused because another holds its group instance id does not show whether the holder still runs: the
holder's next heartbeat does, so it is taken too.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire.errors import ErrorCode

CHANGES: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP})
"""The APIs with a few requests of each member in a rebalance."""
SENT_BY_MEMBERS: Final = CHANGES | {
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
}
_STATIC: Final = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT})
"""The APIs of groups with epochs that may have static members."""
_LEAVES: Final = (-1, -2)
"""The member epochs of a consumer that leaves for good, and for a while."""
MOST: Final = 10_000
"""Largest number of different errors that are counted; then the count starts again."""


class RareExchange(dict[str, Any]):
    """An `exchange` event that all listeners get."""


class RareExchanges:
    """Chooses among the exchanges of a node."""

    def __init__(self) -> None:
        self._errors: dict[int, int] = {}
        """The number of equal errors, by a hash: a client chooses its ids and how long they are."""
        self._static: dict[int, int] = {}
        """The newest members with a group instance id, by a hash of it, as a hash: later heartbeats may lack it."""
        self._held: set[int] = set()
        """The hashes of members that held a group instance id when it was refused, and have sent no heartbeat since."""

    def number(self, key: int, client_id: str, request: Any, error: int) -> int:
        """Return the number of this exchange among equal errors, 1 without an error, and 0 if only listeners of all
        events hear of it; `error` is the code of its answer.
        """
        if not error:
            # A heartbeat with a rebalance timeout is the first of a membership, or repeats all its fields.
            is_first = key == ApiKey.CONSUMER_GROUP_HEARTBEAT and request.rebalance_timeout_ms >= 0
            if is_first and self._errors:
                # A member that has missed its poll leaves too late each time.
                for leaving in _LEAVES:
                    late = (key, client_id, request.group_id, request.member_id, leaving, ErrorCode.UNKNOWN_MEMBER_ID)
                    self._errors.pop(hash(late), None)
            if key in _STATIC and self._shows_holder(request):
                return 1
            return int(key in CHANGES or is_first)
        if key in SENT_BY_MEMBERS:
            generation = getattr(request, "generation_id", None)
            epoch = getattr(request, "member_epoch", generation)
            same = hash((key, client_id, request.group_id, getattr(request, "member_id", ""), epoch, error))
        elif key == ApiKey.FIND_COORDINATOR and error == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            # A client without rights gets no further than this.
            same = hash((key, client_id, *request.coordinator_keys))
        else:
            return 0
        if len(self._errors) >= MOST:
            self._errors.clear()
        count = self._errors[same] = self._errors.get(same, 0) + 1
        if count & (count - 1):
            return 0
        if error == ErrorCode.UNRELEASED_INSTANCE_ID and key in _STATIC:
            if len(self._held) >= MOST:
                self._held.clear()
            holder = self._static.get(hash((request.group_id, request.instance_id)))
            if holder is not None:
                self._held.add(holder)
        return count

    def _shows_holder(self, request: Any) -> bool:
        """Handle an accepted heartbeat; return True if it shows that the holder of a refused group instance id runs."""
        member = hash((request.group_id, request.member_id))
        instance_id = getattr(request, "instance_id", None)
        if instance_id is not None and request.member_epoch >= 0:
            if len(self._static) >= MOST:
                self._static.clear()
            self._static[hash((request.group_id, instance_id))] = member
        if member not in self._held or request.member_epoch <= 0:
            return False
        self._held.discard(member)
        return True
