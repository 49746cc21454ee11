"""The check of clients of Kafka 4.4 on each connection: cluster and broker are those of Metadata (KIP-1242)."""

from __future__ import annotations

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataResponse
from kafka_shim.apis.wire.errors import ErrorCode
from tests.server.wire import Client


def confirm_places(bootstrap: str, brokers: int) -> str:
    """Check that each address of Metadata answers to the ids it has there, and to no others; return the cluster id."""
    with Client(bootstrap) as client:
        metadata = client.ask(MetadataRequest([]), 12, MetadataResponse)
    ids = {each.node_id for each in metadata.brokers}
    assert len(ids) == brokers
    for broker in metadata.brokers:
        with Client(f"{broker.host}:{broker.port}") as client:
            errors = {
                node_id: client.ask(
                    ApiVersionsRequest("test", "1", metadata.cluster_id, node_id), 5, ApiVersionsResponse
                ).error_code
                for node_id in (*ids, max(ids) + 1)
            }
            expected = dict.fromkeys(errors, ErrorCode.REBOOTSTRAP_REQUIRED)
            assert errors == expected | {broker.node_id: ErrorCode.NONE}
            other = ApiVersionsRequest("test", "1", "another", broker.node_id)
            assert client.ask(other, 5, ApiVersionsResponse).error_code == ErrorCode.REBOOTSTRAP_REQUIRED
    cluster_id: str = metadata.cluster_id
    return cluster_id
