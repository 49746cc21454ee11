"""`Member`: the facts of one member of a group, from the events of a trace; and the client id in a member id.

Times are seconds of Unix time, timeouts milliseconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from kafka_shim.trace.clients import Library

COMMITS: Final = 1_000
"""Largest number of commits of a member."""
_BEATS: Final = 8
_AT_ONCE: Final = 0.1
_UUID: Final = len("-00000000-0000-0000-0000-000000000000")


def client_id_of(member_id: str) -> str:
    """Return the client id, or the instance id of a static member, in a member id of a classic group: all before the
    hyphen and the UUID at its end. Empty for an id of another form, such as those of KIP-848.
    """
    return member_id[:-_UUID] if len(member_id) > _UUID and member_id[-_UUID] == "-" else ""


@dataclass(slots=True)
class Commit:
    """`records` were committed at `at`, by the difference to the offsets of the commit before."""

    at: float
    records: int


class Membership(NamedTuple):
    """From a member's join until its end, None while it is in the group; `how` and `reason` are those of `Member`."""

    member_id: str
    joined: float
    ended: float | None
    how: str
    reason: str


@dataclass(slots=True)
class Member:
    """A member. Timeouts are milliseconds, None if no JoinGroup of it was seen."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    joined: float | None = None
    ended: float | None = None
    how: str = ""
    """The change that ended it: left, expired, removed or fenced, or `history.ENDED_BY_TEST`."""
    reason: str = ""
    """The reason in its LeaveGroup."""
    commits: deque[Commit] = field(default_factory=lambda: deque(maxlen=COMMITS))
    library: Library = Library.UNKNOWN
    version: str = ""
    """The version of its library, empty if it does not show."""
    last_error: str = ""
    """The last error that the coordinator answered before it gave up its session, if its log has it."""
    lost_generation: bool = False
    """True if its log has an assignment without a generation."""
    repeats_loss: bool = False
    """True if its client's log says for longer than a session, each second, that its session is over."""
    process: str = ""
    """The client id of its own JoinGroup; a static member has the client id of the member that it replaced."""
    place: int = 1
    """The number of its process among those of one client id and host; `why.past.tell_apart` gives it."""
    protocols: tuple[str, ...] = ()
    conn: int | None = None
    """The connection of its newest JoinGroup."""
    polled: float | None = None
    """Time of the newest request that its application's poll brought about."""
    beats: tuple[float, ...] = ()
    """Seconds between heartbeats in one generation, the newest last; empty if the trace has no heartbeats."""
    beaten: float | None = None
    """Time of its newest SyncGroup or heartbeat since its JoinGroup; of a consumer of KIP-848, of its newest heartbeat
    after the one that joins.
    """
    lingered: float | None = None
    """Time of a request that it sent after it had been expelled or fenced: its process was still running."""
    has_log: bool = False
    """True if the log of its client is there."""
    lingered_by: str = ""
    """The API of that request. A process that was paused sends a heartbeat first, one that did not poll sends none."""
    away: float | None = None
    """Time at which a static consumer left for a while, if its session ended before it was back."""
    leaves_late: bool = False
    """True if it sent its departure when its session had already ended."""
    departure_refused: bool = False
    """True if the coordinator refused its departure, so that its session had to end. franz-go leaves without its group
    instance id.
    """
    earlier: list[Membership] = field(default_factory=list)
    """Its earlier memberships: a fenced consumer of KIP-848 returns under its member id."""

    def heard(self, at: float) -> None:
        """Take an accepted heartbeat."""
        # Some clients send the first heartbeat at once.
        if self.beaten is not None and at - self.beaten > _AT_ONCE:
            self.beats = (*self.beats[-_BEATS:], at - self.beaten)
        self.beaten = at

    @property
    def beat(self) -> float:
        """Its usual seconds between two heartbeats; 0 if they do not show."""
        return sorted(self.beats)[len(self.beats) // 2] if self.beats else 0.0

    @property
    def memberships(self) -> list[Membership]:
        """All its memberships with a known beginning."""
        if self.joined is None:
            return self.earlier
        return [*self.earlier, Membership(self.member_id, self.joined, self.ended, self.how, self.reason)]

    @property
    def batch(self) -> tuple[float, float] | None:
        """Records and seconds between two of its commits, medians; None with too few commits."""
        commits = list(self.commits)
        gaps = [(b.records, b.at - a.at) for a, b in pairwise(commits) if b.records]
        if len(gaps) < 3:
            return None
        middle = len(gaps) // 2
        return sorted(records for records, _ in gaps)[middle], sorted(seconds for _, seconds in gaps)[middle]
