"""Share sessions: the broker remembers the partitions of a member's share fetches, so the member sends only changes.

A session belongs to a connection and ends with it. Source: KIP-932; Kafka's `ShareSessionCache` and
`SharePartitionManager.newContext` (semantics 4.13).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, next_epoch

MOST_PARTITIONS: Final = 10_000
"""Partitions of all share sessions of a connection at most: the first request of a session looks at all of them at
once, each request may be answered with an error for each, and the end of the connection lets them go."""
MAX_SIZE: Final = 200_000
"""Partitions of all share sessions of a broker at most."""

Spot = tuple[bytes, int]
"""A partition by topic id and index."""


class SessionError(Exception):
    """A request that does not fit a session: SHARE_SESSION_NOT_FOUND (122), INVALID_SHARE_SESSION_EPOCH (123),
    SHARE_SESSION_LIMIT_REACHED (133)."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Watch(Protocol):
    """The looks at the partitions of a session."""

    def note(self, name: Spot) -> None:
        """Look at a new partition."""

    def forget(self, spot: Spot) -> None:
        """Forget a partition."""

    def end(self) -> None:
        """Look at no partition any more."""


class ShareSession:
    """One of the `sessions`. `epoch` is that of the next request. `topics` has the topic name of each partition, None
    while the id has no topic, in the order of turns; `places` has growing numbers in the same order."""

    __slots__ = (
        "_next_place",
        "_sessions",
        "connection",
        "epoch",
        "group_id",
        "member_id",
        "places",
        "topics",
        "watch",
    )

    def __init__(self, sessions: ShareSessions, group_id: str, member_id: str, connection: object) -> None:
        self._sessions = sessions
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.topics: dict[Spot, str | None] = {}
        self.places: dict[Spot, int] = {}
        self.watch: Watch | None = None
        self._next_place = 0

    def add(self, spot: Spot, name: str | None) -> None:
        """Add a partition, if it is new."""
        if spot not in self.topics:
            self.topics[spot] = name
            self._sessions.size += 1
            self._give_place(spot)
            if self.watch is not None:
                self.watch.note(spot)

    def put_last(self, spot: Spot) -> None:
        """Move a partition that had its turn to the end."""
        self.topics[spot] = self.topics.pop(spot)
        self._give_place(spot)

    def _give_place(self, spot: Spot) -> None:
        self.places[spot] = self._next_place
        self._next_place += 1

    def forget(self, spots: Iterable[Spot]) -> None:
        """Remove partitions; the member keeps the records that it has acquired there."""
        for spot in spots:
            if spot in self.topics:
                del self.topics[spot], self.places[spot]
                self._sessions.size -= 1
                if self.watch is not None:
                    self.watch.forget(spot)


class ShareSessions:
    """The sessions of one broker, at most `slots` of them, with `size` partitions together."""

    def __init__(self, slots: int) -> None:
        self.slots: Final = slots
        self.size = 0
        self._by_member: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[object, dict[tuple[str, str], ShareSession]] = {}
        self._by_group: Counter[str] = Counter()
        self._closed: dict[object, dict[str, None]] = {}
        """By connection, groups with their last session closed there, until the connection ends."""

    def __len__(self) -> int:
        return len(self._by_member)

    def begin(self, group_id: str, member_id: str, connection: object) -> ShareSession:
        """Open a session, in place of an earlier one of the member. Raises `SessionError`."""
        old = self._by_member.get((group_id, member_id))
        if old is not None:
            self._remove(old)
        if len(self._by_member) >= self.slots:
            raise SessionError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(self, group_id, member_id, connection)
        self._by_member[group_id, member_id] = session
        self._by_connection.setdefault(connection, {})[group_id, member_id] = session
        self._by_group[group_id] += 1
        return session

    def go_on(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """Return the session of a request with this epoch, which is not the first. Raises `SessionError`."""
        session = self._by_member.get((group_id, member_id))
        if session is None:
            raise SessionError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            self._remove(session)
        elif epoch != session.epoch:
            raise SessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        else:
            session.epoch = next_epoch(epoch)
        return session

    def is_too_large(self, session: ShareSession) -> bool:
        """Return True if the sessions of its connection, or all, have too many partitions with this one."""
        of_connection = self._by_connection[session.connection].values()
        return self.size > MAX_SIZE or sum(len(each.topics) for each in of_connection) > MOST_PARTITIONS

    def has(self, group_id: str) -> bool:
        """Return True if a group has a session."""
        return group_id in self._by_group

    def closed(self, session: ShareSession) -> str | None:
        """Note that a group is still known here, though its last session was closed: until the connection ends. Return
        an earlier group that is to be forgotten, as there are more of the connection than sessions at most."""
        groups = self._closed.setdefault(session.connection, {})
        groups.pop(session.group_id, None)
        groups[session.group_id] = None
        if len(groups) <= self.slots:
            return None
        oldest = next(iter(groups))
        del groups[oldest]
        return None if self.has(oldest) else oldest

    def disconnected(self, connection: object) -> tuple[list[ShareSession], list[str]]:
        """End the sessions of a connection. Return them, and the groups without a session now; a group with all
        sessions closed before is among them when its last connection ends."""
        ended = list(self._by_connection.get(connection, {}).values())
        # In their order: a replay of a journal has other hashes.
        groups = dict.fromkeys(each.group_id for each in ended)
        groups |= self._closed.pop(connection, {})
        for session in ended:
            self._remove(session)
        return ended, [each for each in groups if each not in self._by_group]

    def _remove(self, session: ShareSession) -> None:
        key = session.group_id, session.member_id
        self.size -= len(session.topics)
        if session.watch is not None:
            session.watch.end()
        del self._by_member[key]
        self._by_group[session.group_id] -= 1
        if not self._by_group[session.group_id]:
            del self._by_group[session.group_id]
        of_connection = self._by_connection[session.connection]
        del of_connection[key]
        if not of_connection:
            del self._by_connection[session.connection]
