"""A broker with one topic and a retention of its own."""

from __future__ import annotations

import pytest

from tests.broker.context import Cluster


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(log_retention_ms="777")
    cluster.topics.declare("t", 1)
    return cluster
