"""The newest versions pass through the relay, and its trace has them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kafka_shim.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_shim.apis.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from tests.relay.recording import running
from tests.server.wire import Client


def test_newest_versions_pass_and_are_in_the_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    serve = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--topic", "orders:1"]
    with running(*serve) as upstream:
        command = ["trace", "record", "--upstream", upstream, "--listen", "127.0.0.1:0", "--trace", str(trace)]
        relay = subprocess.Popen(
            [sys.executable, "-m", "kafka_shim", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert relay.stdout is not None
            bootstrap = relay.stdout.readline().split()[1].removeprefix("kafka=")
            address = converse(bootstrap)
        finally:
            relay.terminate()
            log = relay.communicate()[1]
    assert "cannot be read" not in log
    assert address != upstream
    exchanges: list[dict[str, Any]] = [
        event for line in trace.read_text().splitlines() if (event := json.loads(line))["event"] == "exchange"
    ]
    found = [(each["api"], each["version"], each["group"], each["error"]) for each in exchanges]
    assert ("TxnOffsetCommit", 6, "billing", 0) in found
    assert ("StreamsGroupTopologyDescriptionUpdate", 0, "streams", ErrorCode.UNSUPPORTED_VERSION) in found
    (deletion,) = [each for each in exchanges if each["api"] == "DeleteGroups"]
    assert (deletion["version"], deletion["error"]) == (3, ErrorCode.GROUP_ID_NOT_FOUND)
    assert deletion["answer"]["results"][0]["error_message"] is None


def converse(bootstrap: str) -> str:
    """Send each request to the broker that the relay names; return this broker's address."""
    with Client(bootstrap) as client:
        found = client.ask(FindCoordinatorRequest(coordinator_keys=["billing"]), 6, FindCoordinatorResponse)
        (coordinator,) = found.coordinators
        metadata = client.ask(MetadataRequest([MetadataRequestTopic(name="orders")]), 13, MetadataResponse)
    address = f"{coordinator.host}:{coordinator.port}"
    with Client(address) as client:
        producer = client.ask(InitProducerIdRequest("id", 60_000), 5, InitProducerIdResponse)
        topic = TxnOffsetCommitRequestTopic("", metadata.topics[0].topic_id, [TxnOffsetCommitRequestPartition(0, 7)])
        topic.partitions[0].committed_metadata = ""
        commit = TxnOffsetCommitRequest("id", "billing", producer.producer_id, producer.producer_epoch, topics=[topic])
        committed = client.ask(commit, 6, TxnOffsetCommitResponse)
        assert [each.error_code for each in committed.topics[0].partitions] == [ErrorCode.NONE]
        description = StreamsGroupTopologyDescriptionUpdateRequest("streams", "m")
        refused = client.ask(description, 0, StreamsGroupTopologyDescriptionUpdateResponse)
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        deleted = client.ask(DeleteGroupsRequest(["nobody"]), 3, DeleteGroupsResponse)
        assert [(each.error_code, each.error_message) for each in deleted.results] == [(69, None)]
    return address
