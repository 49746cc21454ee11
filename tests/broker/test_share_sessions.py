"""The share sessions of a connection: their end."""

from __future__ import annotations

from kafka_shim.broker.share_sessions import ShareSessions


def test_the_end_of_a_connection_names_its_groups_in_their_order() -> None:
    """The order decides which fetches are answered first, and a replay of a journal has other hashes."""
    sessions, connection = ShareSessions(100), object()
    groups = [f"g{number}" for number in range(40)]
    for group in groups:
        sessions.begin(group, "m", connection)
    assert sessions.disconnected(connection)[1] == groups
