"""A PostgreSQL server of the test run's own, and how its database is emptied."""

from __future__ import annotations

import psycopg

from kafka_shim.conformance.targets.postgres import binaries, postgres_server

__all__ = ["binaries", "empty", "postgres_server"]


def empty(url: str) -> None:
    """Drop everything a store keeps."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("meta", "records", "nodes", "leases", "documents"):
            connection.execute(f"DROP TABLE IF EXISTS kafka_shim_{table}")
