"""Share sessions: which partitions a member of a share group fetches from, so that it need not say so every time.

Decides which session a request goes on with, and what it changes in it. A session belongs to a connection and ends with
it. It does not know what is in a partition. Source: KIP-932; Kafka's `ShareSessionCache` and
`SharePartitionManager.newContext` (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, next_epoch

Spot = tuple[bytes, int]
"""A partition by topic id and index."""


class SessionError(Exception):
    """A request that does not fit a session: SHARE_SESSION_NOT_FOUND (122), INVALID_SHARE_SESSION_EPOCH (123),
    SHARE_SESSION_LIMIT_REACHED (133)."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class ShareSession:
    """One session. `epoch` is that of the next request. `topics` has the name of each partition's topic, None while
    there is no topic of the id."""

    __slots__ = ("connection", "epoch", "group_id", "member_id", "topics")

    def __init__(self, group_id: str, member_id: str, connection: object) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.topics: dict[Spot, str | None] = {}


class ShareSessions:
    """The sessions of one broker, at most `slots` of them."""

    def __init__(self, slots: int) -> None:
        self.slots: Final = slots
        self._by_member: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[object, dict[tuple[str, str], ShareSession]] = {}

    def __len__(self) -> int:
        return len(self._by_member)

    def begin(self, group_id: str, member_id: str, connection: object) -> ShareSession:
        """A new session, in place of the one that the member has. Raises `SessionError`."""
        old = self._by_member.get((group_id, member_id))
        if old is not None:
            self._remove(old)
        if len(self._by_member) >= self.slots:
            raise SessionError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, connection)
        self._by_member[group_id, member_id] = session
        self._by_connection.setdefault(connection, {})[group_id, member_id] = session
        return session

    def go_on(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session of a request with this epoch, which is not the first. Raises `SessionError`."""
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

    def disconnected(self, connection: object) -> list[ShareSession]:
        """The sessions that end with a connection."""
        ended = list(self._by_connection.get(connection, {}).values())
        for session in ended:
            self._remove(session)
        return ended

    def _remove(self, session: ShareSession) -> None:
        key = session.group_id, session.member_id
        del self._by_member[key]
        of_connection = self._by_connection[session.connection]
        del of_connection[key]
        if not of_connection:
            del self._by_connection[session.connection]


def forget(session: ShareSession, spots: Iterable[Spot]) -> None:
    """The member does not fetch from these partitions any more; what it has acquired there stays its own."""
    for spot in spots:
        session.topics.pop(spot, None)
