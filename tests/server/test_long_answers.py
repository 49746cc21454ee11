"""Memory of long answers: one copy of repeated elements, no join, and a bound for all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.server import parts
from kafka_shim.server.division import Divided, by
from kafka_shim.server.long_answers import SHORT
from tests.broker.context import batch
from tests.hostile.serving import request_bytes, serving
from tests.server.turns import Turns
from tests.server.wire import Wire, cluster, read, request

MIB = 1 << 20
BROKER, GROUP = 4, 32


def described(*names: str, kind: int = GROUP) -> DescribeConfigsRequest:
    """Return a request for everything about these resources: 50 KB for the broker, 3 KB for any name of a group."""
    return DescribeConfigsRequest([DescribeConfigsResource(kind, name, None) for name in names], True, True)


def groups(count: int) -> list[str]:
    return [f"g{number}" for number in range(count)]


# Repeated elements


def divided(elements: list[Any], divided: Divided, message: Message) -> list[Any]:
    """Return the parts, those that repeat as their number."""
    found = divided.parts(message, None)
    assert found is not None
    return list(found)


def test_element_that_is_there_again_is_a_part_once() -> None:
    names = ["a", "b", "a", "c", "b", "a", "d", "a", "b"]
    division = by("groups", "groups", size=2, repeats=True)
    found = divided(names, division, DescribeGroupsRequest(names))
    shown = [each if isinstance(each, int) else each.groups for each in found]
    assert shown == [["a", "b"], ["a"], ["c"], ["b"], 1, ["d"], 1, 3]
    at = [found[each].groups if isinstance(each, int) else each.groups for each in found]
    assert list(chain.from_iterable(at)) == names


def test_elements_with_arrays_are_equal_if_these_are() -> None:
    def resource(*keys: str) -> DescribeConfigsResource:
        return DescribeConfigsResource(GROUP, "g", list(keys))

    made = DescribeConfigsRequest([resource("a"), resource("b"), resource("a"), DescribeConfigsResource(2, "g", ["a"])])
    found = divided(made.resources, by("resources", "results", size=1, repeats=True), made)
    assert [each if isinstance(each, int) else each.resources for each in found] == [
        [made.resources[0]],
        [made.resources[1]],
        0,
        [made.resources[3]],
    ]


def test_elements_with_elements_of_their_own_are_parts_each_time() -> None:
    group = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", [0])])
    made = OffsetFetchRequest(groups=[group] * 40)
    found = divided(made.groups, by("groups", "groups", repeats=True), made)
    assert [len(each.groups) for each in found] == [16, 16, 8]


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (described(*["1"] * 30, *["2"] * 3, *["1"] * 3, kind=BROKER), 4),
        (described(*groups(40), *groups(40)), 4),
        (DescribeGroupsRequest(["a", "b", "", "a"] * 30), 6),
        (DescribeGroupsRequest(["a"] * 17), 0),
    ],
)
def test_answer_with_repetitions_is_the_answer_at_once(message: Message, version: int) -> None:
    data = request(message, version)
    in_parts, at_once = Wire(cluster()), Wire(cluster())
    endpoint = at_once.session.node.table.find(data[4:])
    assert endpoint is not None
    at_once.receive(data)
    turns = Turns(in_parts)
    in_parts.receive(data)
    turns.all()
    endpoint.divided = None
    undivided = Wire(at_once.cluster)
    undivided.receive(data)
    assert in_parts.sent == at_once.sent == undivided.sent


def test_rule_is_called_once_for_elements_that_repeat() -> None:
    wire = Wire(cluster())
    assert len(wire.calls(request(described(*["1"] * 20, kind=BROKER), 4))) == 1
    answer = cast(DescribeConfigsResponse, read(wire.answers()[0], DescribeConfigsResponse, 4)[1])
    assert len(answer.results) == 20
    assert all(each == answer.results[0] for each in answer.results)


@pytest.mark.parametrize(("topics", "partitions", "calls"), [(25, 100, 3), (17, 1, 1), (16, 1, 1)])
def test_logs_of_all_topics_are_described_in_parts(topics: int, partitions: int, calls: int) -> None:
    wire = Wire(cluster(topics={f"t{number}": partitions for number in range(topics)}))
    request_for_all = DescribeLogDirsRequest(None)
    assert len(wire.calls(request(request_for_all, 4))) == calls
    answer = wire.answer(DescribeLogDirsResponse, 4)[1]
    assert answer == wire.session.node.broker.log_dirs.describe(request_for_all)
    assert sum(len(topic.partitions) for topic in answer.results[0].topics) == topics * partitions


# Sending


def test_long_answer_leaves_as_its_client_reads_and_the_next_request_waits() -> None:
    wire, at_once = Wire(cluster()), Wire(cluster())
    turns = Turns(wire)
    data = request(described(*groups(300)), 4) + request(HeartbeatRequest("g", 1, "m"), 3, 2)
    at_once.receive(data)
    wire.takes_all = False
    wire.receive(data)
    lengths = [0]
    while len(wire.sent) < len(at_once.sent):
        turns.all()
        assert len(wire.sent) > lengths[-1]
        lengths.append(len(wire.sent))
        is_last = len(wire.sent) == len(at_once.sent)
        wire.takes_all = is_last
        wire.session.drained(100.0)
    assert len(lengths) > 3
    assert wire.sent == at_once.sent
    assert turns.answer_bytes == 0


def test_long_answer_that_is_sent_is_not_sent_twice_by_another_drained() -> None:
    wire, at_once = Wire(cluster()), Wire(cluster())
    turns = Turns(wire)
    data = request(described(*groups(300)), 4)
    at_once.receive(data)
    wire.receive(data)
    while turns._exchanges:
        turns.turn()
        wire.session.drained(100.0)
    assert wire.sent == at_once.sent


def test_client_that_goes_amid_its_long_answer_is_forgotten() -> None:
    wire = Wire(cluster())
    turns = Turns(wire)
    wire.takes_all = False
    wire.receive(request(described(*groups(300)), 4))
    turns.all()
    assert turns.answer_bytes > SHORT
    wire.close()
    assert turns.answer_bytes == 0


@pytest.mark.parametrize("size", [10, 300], ids=["short", "long"])
def test_interceptor_sees_a_whole_answer(size: int) -> None:
    seen = []

    class Interceptor:
        def requested(self, exchange: Any, now: float) -> bool:
            return False

        def answering(self, exchange: Any, data: bytes, now: float) -> bool:
            seen.append(data)
            return False

    wire = Wire(cluster())
    turns = Turns(wire)
    wire.session.node.interceptor = Interceptor()
    wire.receive(request(described(*groups(size)), 4))
    turns.all()
    assert seen == [wire.sent]
    assert turns.answer_bytes == 0


# Memory


@pytest.fixture
def small_bound(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(parts, "MAX_HELD_BYTES", MIB)
    return MIB


def test_client_with_the_longest_answer_loses_its_connection_beyond_the_bound(
    small_bound: int, caplog: pytest.LogCaptureFixture
) -> None:
    made = cluster()
    wires = [Wire(made) for _ in range(4)]
    turns = Turns(*wires)
    for wire, count in zip(wires, (100, 100, 250, 50), strict=True):
        wire.takes_all = False
        wire.receive(request(described(*groups(count)), 4))
        turns.all()
    assert [wire.is_closed for wire in wires] == [False, False, True, False]
    assert turns.answer_bytes <= small_bound
    assert "the longest while all that clients have to read takes more than 1048576" in caplog.text


def grown(folder: Path, message: Message, version: int) -> Iterator[int]:
    """Yield the bytes of an answer, and those by which the server grew for it at most."""
    with serving(folder) as server, server.connect() as peer:
        peer.ask(described("1", kind=BROKER), 4)
        server.begin_peak()
        before = server.resident
        peer.sock.sendall(frame(request_bytes(message, version)))
        answer = peer.read_frame()
        assert answer is not None
        yield len(answer)
        yield server.peak - before


def test_answer_that_repeats_takes_little_memory(tmp_path: Path) -> None:
    answer, growth = grown(tmp_path, described(*["1"] * 500, kind=BROKER), 4)
    assert answer > 20 * MIB
    assert growth < 4 * MIB


def test_answer_is_in_memory_once(tmp_path: Path) -> None:
    answer, growth = grown(tmp_path, described(*groups(5000)), 4)
    assert answer > 12 * MIB
    # It was there three times.
    assert growth < 1.5 * answer


def test_clients_that_ask_for_much_and_do_not_read_stay_under_the_bound(tmp_path: Path) -> None:
    first = "from kafka_shim.server import parts; parts.MAX_HELD_BYTES = 8 << 20"
    with serving(tmp_path, first=first) as server, ExitStack() as stack:
        bystander = stack.enter_context(server.connect())
        bystander.ask(described("1", kind=BROKER), 4)
        server.begin_peak()
        before = server.resident
        peers = [stack.enter_context(server.connect()) for _ in range(20)]
        data = frame(request_bytes(described(*groups(2500)), 4))
        for peer in peers:
            peer.sock.sendall(data)
        # Two answers are longer than the bound, but a socket takes some of them.
        while sum("takes more than 8388608" in line for line in server.log_lines()) < 15:
            assert bystander.ask(HeartbeatRequest("g", 1, "m"), 3).error_code == 25
        assert any(peer.read_frame() is not None for peer in peers)
        assert server.peak - before < 32 * MIB


# Answers that are not made in parts


def commit(metadata: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, 5, committed_metadata=metadata)
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])


def fetch_often(count: int) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[0] * count)]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])


@pytest.mark.parametrize("count", [60, 200], ids=["short", "long"])
def test_long_answer_that_is_encoded_at_once_is_counted_until_it_is_read(count: int) -> None:
    made = cluster(topics={"t": 1})
    wire, other = Wire(made), Wire(cluster(topics={"t": 1}))
    for each in (wire, other):
        each.receive(request(commit("m" * 4096), 9))
        each.sent = b""
    turns = Turns(wire)
    other.receive(request(fetch_often(count), 9))
    wire.takes_all = False
    wire.receive(request(fetch_often(count), 9) + request(HeartbeatRequest("g", 1, "m"), 3, 2))
    turns.all()
    assert (turns.answer_bytes > count * 4096) == (count * 4096 > SHORT)
    while len(wire.sent) < len(other.sent):
        wire.session.drained(100.0)
        turns.all()
    assert wire.sent == other.sent
    wire.takes_all = True
    wire.session.drained(100.0)
    turns.all()
    assert turns.answer_bytes == 0
    assert len(wire.answers()) == 2


def test_offset_fetch_that_names_a_partition_often_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "t:1") as server, server.connect() as peer, server.connect() as bystander:
        assert peer.ask(commit("m" * 4096), 9).topics[0].partitions[0].error_code == 0
        server.begin_peak()
        before = server.resident
        peer.sock.sendall(frame(request_bytes(fetch_often(60_000), 9)))
        assert peer.read_frame() is None
        assert bystander.ask(HeartbeatRequest("g", 1, "m"), 3).error_code == 25
        assert any("the answer to OffsetFetch, version 9, is longer than" in line for line in server.log_lines())
        # It was 537 MiB.
        assert server.peak - before < 40 * MIB


def read_all(wire: Wire, turns: Turns) -> int:
    """Return the bytes of the records that a fetch from the beginning brings."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic("t", partitions=[partition])])
    wire.receive(request(fetch, 12))
    turns.all()
    (answer,) = cast(FetchResponse, wire.answer(FetchResponse, 12)[1]).responses
    return len(answer.partitions[0].records or b"")


def test_fetches_get_less_records_while_clients_have_much_to_read(small_bound: int) -> None:
    made = cluster(topics={"t": 1})
    wires = [Wire(made) for _ in range(3)]
    turns = Turns(*wires)
    data = batch(b"v" * 200_000)
    produced = TopicProduceData("t", partition_data=[PartitionProduceData(0, data)])
    for _ in range(4):
        wires[0].receive(request(ProduceRequest(acks=1, topic_data=[produced]), 9))
        wires[0].sent = b""
    assert read_all(wires[0], turns) == 4 * len(data)
    wires[0].session.node.broker.fetches.room = turns.room
    assert read_all(wires[0], turns) == 2 * len(data)
    turns.hold(wires[1].session, small_bound // 2)
    # At least one batch, as always.
    assert read_all(wires[2], turns) == len(data)
    assert not any(wire.is_closed for wire in wires)
