"""Member of a classic group: data of its JoinGroup, its assignment, its parked requests.

Source: semantics 2.1.
"""

from __future__ import annotations

from typing import TypeAlias

from kafka_shim.groups.timers import Timer

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Protocols that a member offers, the preferred one first: (name, metadata)."""


class Member:
    """Member of a classic group.

    Timeouts are those of the JoinGroup in milliseconds; `session_timeout` is in seconds, for the timers.
    `join_exchange` and `sync_exchange` are the parked requests, or None. `is_new` is True until the end of its first
    round.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_exchange",
        "joined_at",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout",
        "session_timeout_ms",
        "session_timer",
        "sync_exchange",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        session_timer: Timer,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.session_timeout = session_timeout_ms / 1000
        self.protocols = protocols
        self.assignment = b""
        self.session_timer = session_timer
        self.join_exchange: object | None = None
        self.sync_exchange: object | None = None
        self.is_new = False
        self.joined_at = 0.0

    def __repr__(self) -> str:
        return f"<Member {self.member_id!r}>"

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """Return the metadata offered with a protocol; b"" if the member does not offer it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""
