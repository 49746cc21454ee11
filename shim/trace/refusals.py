"""Refused requests to join, refused commits, and members that were fenced while their process still ran.

No rebalance shows these. `unreleased.py` has the group instance ids that another member still holds. All times are
seconds of Unix time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.trace.clients import Library

JOINS: Final = frozenset({"JoinGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"})
REFUSALS: Final = frozenset(
    {
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    }
)
"""Errors with which a member stays outside: neither a retry nor a rebalance helps."""
FENCED: Final = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID})
"""Errors of a process with the group instance id of another."""
_FIGHT_S: Final = 300.0
"""Two processes with one group instance id fence each other within this time; a restart fences once."""
MOST: Final = 1_000
"""Largest number of refused clients of a group that are kept."""


@dataclass(slots=True)
class Refused:
    """`count` requests of one client to join that were refused for the same reason, from `first` to `last`.

    `accepted` is the time at which it joined after all, None if it did not.
    """

    client_id: str
    error: int
    first: float
    last: float
    first_seq: int
    last_seq: int
    library: Library
    session_timeout_ms: int | None
    protocols: tuple[str, ...]
    protocol_type: str = ""
    count: int = 1
    accepted: float | None = None


@dataclass(slots=True)
class Twice:
    """A group instance id of two running processes: the older one was fenced, and sent `count` requests afterwards.

    A single fence is no fight: a static member may be restarted before its old process has ended. `is_fight` is true
    from the second member on that was fenced soon after the one before, or if the processes have two client ids.
    """

    instance_id: str
    first: float
    last: float
    first_seq: int
    last_seq: int
    clients: dict[str, None]
    count: int = 0
    is_fight: bool = False
    newest: str = ""
    newest_at: float = 0.0


@dataclass(slots=True)
class RefusedCommits:
    """`count` commits of one member, or of a client that is no member, which were refused for good: other members read
    their records again. `error` is the last one.
    """

    client_id: str
    member_id: str
    """Empty for a client that is no member."""
    library: Library
    error: int
    last: float
    first_seq: int
    last_seq: int
    count: int = 0


class Refusals:
    """Refused clients, refused commits and fenced processes of one group."""

    def __init__(self) -> None:
        self.refused: dict[tuple[str, int], Refused] = {}
        self.twice: dict[str, Twice] = {}
        """By group instance id, its fenced processes; `why/instance_ids.py` has those that are a trouble."""
        self.commits: dict[tuple[str, str], RefusedCommits] = {}
        """By client id and member id."""

    def join(self, event: Mapping[str, Any], at: float, library: Library) -> None:
        """Handle an answer to a request to join."""
        client, error = str(event["client_id"] or ""), int(event["error"])
        if not error:
            for each in self.refused.values():
                if each.client_id == client and each.accepted is None:
                    each.accepted = at
            return
        request, seq = event["request"], event.get("seq", 0)
        # The group is of the classic protocol, and the broker lets no consumer of the new one in.
        is_apart = error == ErrorCode.GROUP_ID_NOT_FOUND and request.get("member_epoch") == 0
        if error not in REFUSALS and not is_apart:
            return
        refused = self.refused.get((client, error))
        if refused is not None:
            # Not all listeners hear of every repetition.
            refused.count = max(refused.count + 1, event.get("nth", 0))
            refused.last, refused.last_seq, refused.accepted = at, seq, None
        elif len(self.refused) < MOST:
            self.refused[client, error] = Refused(
                client_id=client,
                error=error,
                first=at,
                last=at,
                first_seq=seq,
                last_seq=seq,
                library=library,
                session_timeout_ms=request.get("session_timeout_ms"),
                protocols=tuple(each["name"] for each in request.get("protocols") or ())
                or tuple(filter(None, [request.get("server_assignor")])),
                protocol_type=request.get("protocol_type") or "",
            )

    def commit(self, event: Mapping[str, Any], at: float, member_id: str, library: Library) -> None:
        """Handle a commit that was refused for good; `member_id` is empty for a client that is no member."""
        client, seq = str(event["client_id"] or ""), event.get("seq", 0)
        refused = self.commits.get((client, member_id))
        if refused is None:
            if len(self.commits) >= MOST:
                return
            refused = RefusedCommits(client, member_id, library, 0, at, seq, seq)
            self.commits[client, member_id] = refused
        # Not all listeners hear of every repetition.
        refused.count = max(refused.count + 1, event.get("nth", 0))
        refused.error, refused.last, refused.last_seq = event["error"], at, seq

    def fence(
        self,
        event: Mapping[str, Any],
        at: float,
        instance_id: str,
        member_id: str,
        *,
        has_other_client: bool,
    ) -> None:
        """Handle an error for the older of two members with one group instance id; they may have two client ids."""
        seq = event.get("seq", 0)
        twice = self.twice.get(instance_id)
        if twice is None:
            if len(self.twice) >= MOST:
                return
            twice = self.twice[instance_id] = Twice(instance_id, at, at, seq, seq, {})
        if twice.newest != member_id:
            again = bool(twice.newest) and at - twice.newest_at < _FIGHT_S
            twice.is_fight = twice.is_fight or again or has_other_client
            twice.newest, twice.newest_at = member_id, at
        twice.count = max(twice.count + 1, event.get("nth", 0))
        twice.last, twice.last_seq = at, seq
        twice.clients[str(event["client_id"] or "")] = None
