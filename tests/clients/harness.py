"""Client processes for pytest: a client that is missing on this machine skips its test."""

from typing import Any

import pytest

from kafka_shim.conformance.clients import client_processes
from kafka_shim.conformance.clients.builds import ClientMissing
from kafka_shim.conformance.clients.client_processes import CLIENTS, SHORT_SESSION_MS, Client, Member, Partition, all_of

__all__ = ["CLIENTS", "SHORT_SESSION_MS", "Client", "ClientProcesses", "Member", "Partition", "all_of", "stage"]


def stage(client: Client) -> Any:
    """Return the mark of a client's tests; the compilers of Go and the packages of Node.js are slow at first."""
    return () if client.adapter.endswith((".py", ".java")) else pytest.mark.everything("Go and Node.js")


class ClientProcesses(client_processes.ClientProcesses):
    """Members of one group; a missing client skips the test."""

    def start(self, client: Client, **config: Any) -> Member:
        try:
            return super().start(client, **config)
        except ClientMissing as missing:
            pytest.skip(str(missing))
