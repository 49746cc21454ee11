"""The PostgreSQL server of the test run, and a function that empties its database."""

from __future__ import annotations

import psycopg

from kafka_shim.conformance.targets.postgres import binaries, postgres_server

__all__ = ["binaries", "empty", "postgres_server"]


def empty(url: str) -> None:
    """Drop all tables of a store."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("meta", "records", "nodes", "leases", "documents"):
            connection.execute(f"DROP TABLE IF EXISTS kafka_shim_{table}")
