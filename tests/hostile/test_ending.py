"""Requests that once ended the process for every client: each costs its sender an error or its connection."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.apis.init_producer_id import InitProducerIdRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_shim.apis.share_group_describe import ShareGroupDescribeRequest
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from tests.hostile.serving import Serving, request_bytes, serving

MARK = "y" * 11_000
GROWING = b"\xff" * 11_000
"""So many bytes that are no UTF-8 are 33,000 bytes once each is U+FFFD."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("ending")
    with serving(folder, "--store", f"sqlite:{folder / 'store.db'}", "--topic", "orders:4") as running:
        yield running


def still_served(server: Serving) -> bool:
    with server.connect() as witness:
        return server.alive and witness.ask(HeartbeatRequest("nobody", 1, "m"), 4).error_code == 25


def commit(group: str, **fields: int) -> OffsetCommitRequest:
    topic = OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition(0, 7)])
    return OffsetCommitRequest(group, topics=[topic], **fields)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_retention_of_the_longest_time_is_written_as_kafka_writes_it(server: Serving, version: int) -> None:
    with server.connect() as peer:
        group = f"for-ever-{version}"
        answer = peer.ask(commit(group, retention_time_ms=2**63 - 1), version)
        assert answer.topics[0].partitions[0].error_code == 0
        committed = peer.ask(OffsetFetchRequest(group, [OffsetFetchRequestTopic("orders", [0])]), 7)
        assert committed.topics[0].partitions[0].committed_offset == 7
    assert still_served(server)


def config(name: str) -> IncrementalAlterConfigsRequest:
    value = AlterableConfig("consumer.session.timeout.ms", 0, "50000")
    return IncrementalAlterConfigsRequest([AlterConfigsResource(32, name, [value])])


PROTOCOLS = [JoinGroupRequestProtocol("range", b"")]
TEXTS: dict[str, tuple[Message, int]] = {
    "group of a commit": (commit(MARK), 7),
    "group of JoinGroup": (JoinGroupRequest(MARK, 10_000, 10_000, "", None, "consumer", PROTOCOLS), 2),
    "protocol type": (JoinGroupRequest("g", 10_000, 10_000, "", None, MARK, PROTOCOLS), 2),
    "group of ConsumerGroupHeartbeat": (
        ConsumerGroupHeartbeatRequest(
            MARK, "m", 0, rebalance_timeout_ms=1, subscribed_topic_names=["orders"], topic_partitions=[]
        ),
        1,
    ),
    "member id": (
        ConsumerGroupHeartbeatRequest(
            "g", MARK, 0, rebalance_timeout_ms=1, subscribed_topic_names=["orders"], topic_partitions=[]
        ),
        1,
    ),
    "regular expression": (
        ConsumerGroupHeartbeatRequest(
            "g", "m", 0, rebalance_timeout_ms=1, subscribed_topic_regex=MARK, topic_partitions=[]
        ),
        1,
    ),
    "group of ShareGroupHeartbeat": (
        ShareGroupHeartbeatRequest(MARK, str(uuid.UUID(int=1)), 0, subscribed_topic_names=["orders"]),
        1,
    ),
    "transactional id": (InitProducerIdRequest(MARK, 60_000), 4),
    "group of a setting": (config(MARK), 1),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_grows_beyond_its_form_is_refused(server: Serving, name: str) -> None:
    data = request_bytes(*TEXTS[name])
    assert MARK.encode() in data
    with server.connect() as peer:
        peer.sock.sendall(frame(data.replace(MARK.encode(), GROWING)))
        assert peer.outcome() == "closed"
    assert still_served(server)
    assert "once that is replaced" in server.log_lines()[-1]


def test_rack_id_behind_a_parked_fetch_costs_one_connection(server: Serving) -> None:
    def fetch(max_wait_ms: int, rack_id: str, session_epoch: int = 0) -> bytes:
        topics = [FetchTopic(topic="orders", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1)])]
        request = FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=1, session_epoch=session_epoch, topics=topics, rack_id=rack_id
        )
        return request_bytes(request, 11)

    with server.connect() as peer:
        peer.sock.sendall(frame(fetch(50, "")) + frame(fetch(0, MARK).replace(MARK.encode(), GROWING)))
        assert peer.read_frame() is not None
        assert peer.read_frame() is None
    assert still_served(server)


@pytest.mark.parametrize("digits", [310, 5000])
def test_duration_beyond_64_bits_is_refused(server: Serving, digits: int) -> None:
    value = AlterableConfig("share.auto.offset.reset", 0, "by_duration:P" + "9" * digits + "D")
    alter = IncrementalAlterConfigsRequest([AlterConfigsResource(32, "s", [value])])
    with server.connect() as peer:
        assert peer.ask(alter, 1).responses[0].error_code == 40


def test_answer_with_a_text_too_long_for_its_form_is_an_error(server: Serving) -> None:
    """Kafka cannot write it either: its message has the group's name and some more words."""
    with server.connect() as peer:
        group = "g" * 32_767
        answer = peer.ask(ShareGroupDescribeRequest([group]), 1)
        assert [each.error_code for each in answer.groups] == [-1]
        assert answer.groups[0].group_id == group
    assert still_served(server)


@pytest.mark.parametrize(
    "ports",
    [
        ["--listen", "127.0.0.1:65535"],
        ["--config", "listeners=PLAINTEXT://127.0.0.1:65535"],
        ["--config", "listeners=PLAINTEXT://127.0.0.1:0", "--config", "advertised.listeners=PLAINTEXT://h:65535"],
    ],
    ids=["option", "listener by name", "advertised"],
)
def test_ports_beyond_the_last_are_one_sentence(ports: list[str]) -> None:
    command = [sys.executable, "-m", "kafka_shim", "serve", *ports, "--brokers", "3"]
    run = subprocess.run([*command, "--store", "memory:"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "3 brokers from port 65535 on would need ports above 65535." in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.second_stage("its time")
@pytest.mark.parametrize(("store", "topics_each"), [("memory:", 1000), ("sqlite:", 300)])
def test_end_while_patterns_are_resolved_is_orderly(tmp_path: Path, store: str, topics_each: int) -> None:
    options = ["--store", store if store == "memory:" else f"sqlite:{tmp_path / 'store.db'}"]
    with serving(tmp_path, *options) as server, server.connect() as peer:
        for number in range(10):
            topics = [CreatableTopic(f"topic-{number}-{each:04}", 1, 1) for each in range(topics_each)]
            peer.ask(CreateTopicsRequest(topics, 30_000), 7)
        for number in range(50):
            heartbeat = ConsumerGroupHeartbeatRequest(
                f"g-{number}",
                str(uuid.UUID(int=number)),
                0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_regex=f"topic-.*{number}(0|1)?.*",
                topic_partitions=[],
            )
            peer.sock.sendall(frame(request_bytes(heartbeat, 1)))
        for _ in range(25):
            assert peer.read_frame() is not None
        server.process.terminate()
        assert server.process.wait(30) == 0, server.log_lines()[-5:]


@pytest.mark.second_stage("its time")
def test_end_while_one_pattern_takes_long_is_orderly(tmp_path: Path) -> None:
    with serving(tmp_path, "--store", "memory:") as server, server.connect() as peer:
        for number in range(2):
            topics = [CreatableTopic("ab" * 121 + f"{number}{each:04}", 1, 1) for each in range(2500)]
            peer.ask(CreateTopicsRequest(topics, 30_000), 7)
        heartbeat = ConsumerGroupHeartbeatRequest(
            "g",
            str(uuid.UUID(int=1)),
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex="((a|b)?){900}",
            topic_partitions=[],
        )
        assert peer.ask(heartbeat, 1).error_code == 0
        assert peer.ask(heartbeat, 1).error_code == 0, "the loop goes on"
        server.process.terminate()
        assert server.process.wait(30) == 0, server.log_lines()[-5:]


def test_log_of_a_repeated_failure_has_one_traceback(server: Serving) -> None:
    """A client cannot fill the log with tracebacks."""
    with server.connect() as peer:
        for _ in range(3):
            peer.ask(ShareGroupDescribeRequest(["h" * 32_767]), 1)
    lines = [line for line in server.log_lines() if "encoding the answer to" in line]
    assert len(lines) >= 3
    assert all(re.search(r"as before at .*:\d+$", line) for line in lines[-2:])
