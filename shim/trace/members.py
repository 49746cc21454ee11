"""`Member`: the facts of one member of a group, from the events of a trace; and the client id in a member id.

Times are seconds of Unix time, timeouts milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from kafka_shim.trace.clients import Library, library_of, library_of_id, library_of_software, shows_poll_interval
from kafka_shim.trace.reconciliation import AWAY

COMMITS: Final = 1_000
"""Largest number of commits of a member."""
_BEATS: Final = 8
_AT_ONCE: Final = 0.1
_EARLY: Final = 0.9
"""A member that missed its poll interval leaves at the end of it; its last sign of polling may come a little later."""
_LEAVES: Final = frozenset({-1, AWAY})
"""The member epochs of a consumer that leaves."""
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
    joins_as: Library = Library.UNKNOWN
    """The library that its JoinGroup alone shows; some join in the same way."""
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

    def take_names(self, event: Mapping[str, Any]) -> None:
        """Take the names and timeouts of a `member` event."""
        self.client_id = event["client_id"] or self.client_id
        self.client_host = event["client_host"] or self.client_host
        self.instance_id = event["instance_id"]
        if self.library is Library.UNKNOWN:
            self.library, self.version = library_of_id(self.client_id)
        self.session_timeout_ms = event.get("session_timeout_ms", self.session_timeout_ms)
        self.rebalance_timeout_ms = event.get("rebalance_timeout_ms", self.rebalance_timeout_ms)

    def take_join(self, event: Mapping[str, Any]) -> None:
        """Take its JoinGroup and the answer."""
        request = event["request"]
        self.client_id = self.client_id or event["client_id"]
        self.process = event["client_id"] or ""
        if not event["error"]:
            self.beaten = None
        self.joins_as = library_of(request, event["version"])
        # Later requests have told more than a JoinGroup does.
        if self.library is Library.UNKNOWN:
            self.library = self.joins_as
        self.protocols = tuple(each["name"] for each in request.get("protocols") or ())
        self.session_timeout_ms = request["session_timeout_ms"]
        timeout = request["rebalance_timeout_ms"]
        self.rebalance_timeout_ms = timeout if timeout >= 0 else request["session_timeout_ms"]

    def take_software(self, software: str) -> None:
        """Take the name and version of its library, as an ApiVersions has them."""
        library, version = library_of_software(software)
        self.library, self.version = library or self.library, version or self.version

    def take_refusal(self, event: Mapping[str, Any], at: float) -> None:
        """Take an error in the answer to one of its requests: its process still runs."""
        if self.ended is not None and self.how in ("expired", "removed", "fenced") and self.lingered is None:
            self.lingered, self.lingered_by = at, event["api"]
        if event["request"].get("member_epoch") in _LEAVES:
            # librdkafka sends no heartbeat once its application has missed the poll, and leaves at the next poll. A
            # process that was only paused sends a heartbeat first.
            self.leaves_late = self.leaves_late or self.how == "expired"
            self.departure_refused = self.departure_refused or self.ended is None

    def begin_again(self) -> None:
        """Begin another membership under the same id."""
        self.earlier = self.memberships
        self.ended, self.how, self.reason, self.leaves_late, self.away = None, "", "", False, None

    def has_missed_poll(self, protocol_type: str) -> bool:
        """Return True if its application had not polled for its poll interval when its membership ended."""
        interval = self.rebalance_timeout_ms
        if protocol_type not in ("", "consumer"):
            # Only a consumer polls.
            return False
        if not shows_poll_interval(self.library) or interval is None or self.polled is None:
            return self.library is Library.AIOKAFKA and self.how == "left"
        assert self.ended is not None
        return self.ended - self.polled >= _EARLY * interval / 1000

    @property
    def outstayed_poll(self) -> bool:
        """True if it stayed for longer than its poll interval, and left. A consumer that unsubscribes and subscribes
        after so long shows the same as one that missed its poll.
        """
        # A static consumer says that it leaves for a while, and is expelled when its session ends.
        departure = self.away if self.how == "expired" else self.ended if self.how == "left" else None
        if departure is None or not self.rebalance_timeout_ms:
            return False
        return departure - (self.joined or departure) >= _EARLY * self.rebalance_timeout_ms / 1000

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
