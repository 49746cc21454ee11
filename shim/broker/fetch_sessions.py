"""Fetch sessions: the broker remembers the partitions of a client's fetches, so the client sends only changes.

A session may be evicted for a new one by the rules of Kafka's FetchSessionCache. Its partitions are in the `FetchState`
of `fetch_state.py`. All sessions together have a limited size, since they outlive connections. Source: KIP-227.
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
MAX_SIZE: Final = 200_000
"""The size of all sessions together: this number of partitions, or fewer if names are longer than Kafka's may be."""


def next_epoch(epoch: int) -> int:
    """Return the epoch after `epoch`; after the last comes 1, since 0 would request a new session."""
    return 1 if epoch == 2**31 - 1 else epoch + 1


class State(Protocol):
    """The state that a session remembers."""

    @property
    def parts(self) -> Sized:
        """The partitions of the session."""

    @property
    def surplus(self) -> int:
        """The number to add to that of the partitions, for names that are longer than Kafka's may be."""

    def end_session(self) -> None:
        """End the session."""


S = TypeVar("S", bound=State)


class FetchSession(Generic[S]):
    """One session. `size` is the one it is filed under; times are monotonic seconds."""

    __slots__ = ("created", "id", "size", "used", "state")

    def __init__(self, id: int, state: S, now: float) -> None:
        self.id = id
        self.state = state
        self.size = len(state.parts) + state.surplus
        self.created = self.used = now


class FetchSessions(Generic[S]):
    """The sessions of one broker, at most `slots` of them, with a size of at most MAX_SIZE. `new_id` gives 16 random
    bytes."""

    def __init__(self, slots: int, new_id: Callable[[], bytes]) -> None:
        self.slots = slots
        self.size = 0
        self._new_id = new_id
        self._by_id: dict[int, FetchSession[S]] = {}  # the least recently used first
        self._by_size: dict[int, dict[int, FetchSession[S]]] = {}  # of each size, the oldest first

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: int) -> FetchSession[S] | None:
        return self._by_id.get(session_id)

    def touch(self, session: FetchSession[S], now: float) -> bool:
        """Mark a session as used now. Return False if it has grown and there is no room for it: it has ended."""
        self._by_id[session.id] = self._by_id.pop(session.id)
        session.used = now
        state = session.state
        size = len(state.parts) + state.surplus
        if size != session.size:
            self._unfile(session)
            session.size = size
            self._file(session)
            if not self._make_room(0, 0, size, now):
                self.remove(session)
                return False
        return True

    def create(self, state: S, now: float) -> FetchSession[S] | None:
        """Return a session for `state`, or None if there is no room and no session may be evicted.

        A session may be evicted if it was unused for two minutes, or if it is two minutes old and smaller than the new
        one.
        """
        size = len(state.parts) + state.surplus
        if not self._make_room(1, size, size, now):
            return None
        session = FetchSession(self._fresh_id(), state, now)
        self._by_id[session.id] = session
        self._file(session)
        return session

    def remove(self, session: FetchSession[S]) -> None:
        """Forget a session."""
        del self._by_id[session.id]
        self._unfile(session)
        session.state.end_session()

    def _make_room(self, sessions: int, added: int, size: int, now: float) -> bool:
        """Evict sessions for a session of this size, until there is room for so many sessions more and for the added
        size; return False if there is none."""
        if size > MAX_SIZE:
            return False
        while len(self._by_id) + sessions > self.slots or self.size + added > MAX_SIZE:
            evicted = self._evictable(size, now)
            if evicted is None:
                return False
            self.remove(evicted)
        return True

    def _file(self, session: FetchSession[S]) -> None:
        self._by_size.setdefault(session.size, {})[session.id] = session
        self.size += session.size

    def _unfile(self, session: FetchSession[S]) -> None:
        self.size -= session.size
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
