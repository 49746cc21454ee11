"""Fetch sessions: the broker remembers the partitions of a client's fetches, so the client sends only changes.

A session may be evicted for a new one by the rules of Kafka's FetchSessionCache. Its partitions are in the `FetchState`
of `fetch_state.py`. Source: KIP-227.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Final, Generic, Protocol, TypeVar

INITIAL_EPOCH: Final = 0
"""The epoch of a full fetch that requests a session."""
FINAL_EPOCH: Final = -1
"""The epoch of a full fetch that requests none."""
NO_SESSION: Final = 0
EVICTION_SECONDS: Final = 120.0
"""min.incremental.fetch.session.eviction.ms"""


def next_epoch(epoch: int) -> int:
    """Return the epoch after `epoch`; after the last comes 1, since 0 would request a new session."""
    return 1 if epoch == 2**31 - 1 else epoch + 1


class State(Protocol):
    """The state that a session remembers."""

    @property
    def parts(self) -> Sized:
        """The partitions of the session."""

    def end_session(self) -> None:
        """End the session."""


S = TypeVar("S", bound=State)


class FetchSession(Generic[S]):
    """One session. `size` is the number of partitions it is filed under; times are monotonic seconds."""

    __slots__ = ("created", "id", "size", "used", "state")

    def __init__(self, id: int, state: S, now: float) -> None:
        self.id = id
        self.state = state
        self.size = len(state.parts)
        self.created = self.used = now


class FetchSessions(Generic[S]):
    """The sessions of one broker, at most `slots` of them. `new_id` gives 16 random bytes."""

    def __init__(self, slots: int, new_id: Callable[[], bytes]) -> None:
        self.slots = slots
        self._new_id = new_id
        self._by_id: dict[int, FetchSession[S]] = {}  # the least recently used first
        self._by_size: dict[int, dict[int, FetchSession[S]]] = {}  # of each size, the oldest first

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: int) -> FetchSession[S] | None:
        return self._by_id.get(session_id)

    def touch(self, session: FetchSession[S], now: float) -> None:
        """Mark a session as used now."""
        self._by_id[session.id] = self._by_id.pop(session.id)
        session.used = now
        size = len(session.state.parts)
        if size != session.size:
            self._unfile(session)
            session.size = size
            self._by_size.setdefault(size, {})[session.id] = session

    def create(self, state: S, now: float) -> FetchSession[S] | None:
        """Return a session for `state`, or None if there is no room and no session may be evicted.

        A session may be evicted if it was unused for two minutes, or if it is two minutes old and smaller than the new
        one.
        """
        if len(self._by_id) >= self.slots:
            evicted = self._evictable(len(state.parts), now)
            if evicted is None:
                return None
            self.remove(evicted)
        session = FetchSession(self._fresh_id(), state, now)
        self._by_id[session.id] = session
        self._by_size.setdefault(session.size, {})[session.id] = session
        return session

    def remove(self, session: FetchSession[S]) -> None:
        """Forget a session."""
        del self._by_id[session.id]
        self._unfile(session)
        session.state.end_session()

    def _unfile(self, session: FetchSession[S]) -> None:
        same_size = self._by_size[session.size]
        del same_size[session.id]
        if not same_size:
            del self._by_size[session.size]

    def _evictable(self, size: int, now: float) -> FetchSession[S] | None:
        oldest = next(iter(self._by_id.values()), None)
        if oldest is not None and oldest.used < now - EVICTION_SECONDS:
            return oldest
        for smaller in sorted(each for each in self._by_size if each < size):
            oldest = next(iter(self._by_size[smaller].values()))
            if oldest.created < now - EVICTION_SECONDS:
                return oldest
        return None

    def _fresh_id(self) -> int:
        while True:
            candidate = int.from_bytes(self._new_id()[-4:], "big") & 0x7FFFFFFF
            if candidate != NO_SESSION and candidate not in self._by_id:
                return candidate
