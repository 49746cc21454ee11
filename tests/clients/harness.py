"""The crew of `conformance/clients/`, for pytest: a client that cannot be had here skips its test."""

from typing import Any

import pytest

from kafka_shim.conformance.clients import crew
from kafka_shim.conformance.clients.builds import ClientMissing
from kafka_shim.conformance.clients.crew import CLIENTS, SHORT_SESSION_MS, Client, Member, Partition, all_of

__all__ = ["CLIENTS", "SHORT_SESSION_MS", "Client", "Crew", "Member", "Partition", "all_of"]


class Crew(crew.Crew):
    """Members of one group; see `kafka_shim.conformance.clients.crew.Crew`."""

    def start(self, client: Client, **config: Any) -> Member:
        try:
            return super().start(client, **config)
        except ClientMissing as missing:
            pytest.skip(str(missing))
