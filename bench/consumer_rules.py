"""The cost of consumer groups (KIP-848) in the event loop and in memory, without sockets.

    python -m bench.consumer_rules [--members 10000] [--topics 100]

- A steady heartbeat in groups of 50 to 2,000 members, beside that of a classic group of the same size; and with the
  same number of members in groups of 50, which separates the cost of the group from that of memory.
- One member joins a stable group, and the heartbeats by which the others learn of it: the longest of each kind.
- A large change, piece by piece, in the event loop and in a worker thread: all other clients wait for the longest piece
  in the event loop.
- Memory of a stable group, by member and by partition, as `tracemalloc` counts it.

Times are CPU times, medians of `RUNS` groups or of rounds of all members. The garbage collector is off, because
`kafka-shim serve` runs it rarely.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from kafka_shim.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
    error,
)
from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    assignment_to_bytes,
    subscription_to_bytes,
)
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.sync_group import error as sync_refused
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header
from kafka_shim.broker.topics import Node
from kafka_shim.groups.assignors.registry import BUILT_IN
from kafka_shim.groups.assignors.spec import MemberSpec, group_spec
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.consumer import records
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.epochs.metadata_hash import metadata_hash
from kafka_shim.groups.interface import Client, whole
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.shard import NodeParts
from kafka_shim.groups.timers import Timers
from kafka_shim.server.cluster import Cluster, ClusterConfig
from kafka_shim.server.compose import make_cluster

GROUP = "bench"
SIZES = (50, 200, 500, 1000, 2000)
PARTITIONS_PER_MEMBER = 10
RUNS = 3
NOW = 1000.0
# Time stands still, so no interval between two assignments would end.
SETTINGS = {"offsets.topic.num.partitions": "1", "group.consumer.assignment.interval.ms": "0"}
CLIENT = Client("bench", "/127.0.0.1")


class Topics:
    """The topics of the benchmark, as a `TopicCatalogue`."""

    max_batch_bytes = 1 << 30

    def __init__(self, count: int, partitions: int, new_id: Callable[[str], bytes]) -> None:
        self._partitions = partitions
        self._ids = {name: new_id(name) for name in (f"topic-{number}" for number in range(count))}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}

    def names(self) -> list[str]:
        return list(self._ids)

    def partitions_of(self, topic: str) -> int:
        return self._partitions if topic in self._ids else 0

    def topic_id(self, topic: str) -> bytes | None:
        return self._ids.get(topic)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)


class Bench:
    """A coordinator without a server, with one group of this many members, stable at epoch 1."""

    def __init__(
        self, members: int, topics: int, new_id: Callable[[str], bytes] = lambda name: uuid.uuid4().bytes
    ) -> None:
        self.now = NOW
        self.topics = Topics(topics, max(1, members * PARTITIONS_PER_MEMBER // topics), new_id)
        self.outbox = Outbox()
        ids = itertools.count()
        parts = NodeParts(
            config=GroupConfig().with_settings([f"{name}={value}" for name, value in SETTINGS.items()]),
            outbox=self.outbox,
            timers=Timers(self.outbox),
            new_id=lambda: f"{next(ids):036}",
            topics=self.topics,
        )
        self.service = GroupService(1, parts, KINDS, lambda key, kind: (0, 1, "localhost", 9092))
        self.members = [f"{number:022}" for number in range(members)]

    def load(self, written: list[tuple[Any, Any]]) -> None:
        """Let the coordinator load these records."""
        self.service.begin_loading(0)
        self.service.load(0, written, self.now)
        self.clear()

    def clear(self) -> None:
        """Clear the outbox: replies and records."""
        self.outbox.records, self.outbox.replies, self.outbox.events = [], [], []

    def written(self) -> list[tuple[Any, Any]]:
        """Return the records of a stable consumer group."""
        names = frozenset(self.topics.names())
        ids = frozenset(filter(None, map(self.topics.topic_id, names)))
        counts = {topic_id: self.topics.partitions_of(self.topics.topic_name(topic_id) or "") for topic_id in ids}
        targets = BUILT_IN["uniform"].assign(group_spec(dict.fromkeys(self.members, MemberSpec(ids)), counts))
        members = [
            Member(each, 1, 1, rebalance_timeout_ms=300_000, client_id=CLIENT.client_id,
                   client_host=CLIENT.client_host, topic_names=names, assigned=targets[each])
            for each in self.members
        ]  # fmt: skip
        return [
            *(records.member_metadata(GROUP, member) for member in members),
            records.epoch(GROUP, 1, metadata_hash(names, self.topics)),
            *(records.target_assignment(GROUP, member.member_id, member.assigned) for member in members),
            records.CLASSES.target_epoch_record(GROUP, 1),
            *(records.current_assignment(GROUP, member) for member in members),
        ]

    def beat(self, member_id: str, epoch: int, **fields: Any) -> tuple[ConsumerGroupHeartbeatResponse, float]:
        """Send a heartbeat of the consumer protocol; return the answer and the milliseconds it took."""
        request = ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch)
        for name, value in fields.items():
            setattr(request, name, value)
        began = time.process_time()
        answer = self.service.ask(request, error, CLIENT, None, self.now)
        took = time.process_time() - began
        assert answer.error_code == 0, answer
        self.clear()
        return answer, took * 1000


class Line:
    """A member's connection to a cluster without sockets; a `Transport` that discards its output."""

    def __init__(self, to: Cluster) -> None:
        self._cluster = to
        self.peer = "bench"
        self.paused = False
        self.session = to.open(to.nodes[1], self, CLIENT.client_host)

    def send(self, data: bytes) -> bool:
        return True

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...

    def ask(self, message: Message, version: int) -> bytes:
        """Send a request; return its bytes, to send it again."""
        assert message.api_key is not None
        head = encode_request_header(message.api_key, version, 1, CLIENT.client_id)
        data = frame(head + message.encode(version))
        self.session.receive(data, NOW)
        self._cluster.settle(NOW)
        return data


def heartbeats(groups: int, size: int, senders: int, shuffled: bool = False) -> tuple[float, float]:
    """Measure a steady heartbeat from request bytes to answer bytes, in classic and in consumer groups, in
    microseconds.

    `senders` of all members send, in the order in which they joined or `shuffled`.
    """
    config = ClusterConfig(settings=SETTINGS, topics={"orders": 4 * size}, clock=lambda: NOW)
    times = []
    for form in (classic_group, consumer_group):
        to = make_cluster([Node(1, "localhost", 9092)], config, None)
        to.load_at_once()
        calls = []
        for number in range(groups):
            lines = [Line(to) for _ in range(size)]
            beats = form(to, f"{GROUP}-{number}", lines)
            to.settle(NOW)
            # Twice, so that the server remembers it as a repeated request.
            for line, data in zip(lines * 2, beats * 2, strict=True):
                line.session.receive(data, NOW)
            to.settle(NOW)
            calls += [(line.session.receive, data) for line, data in zip(lines, beats, strict=True)]
        if shuffled:
            Random(848).shuffle(calls)
        times.append(timed(calls[:senders], 40_000 // senders))
        states = {group.state for group in to.nodes[1].groups.groups.values()}
        assert states == {"Stable"}, states
    return times[0], times[1]


def classic_group(to: Cluster, group_id: str, lines: list[Line]) -> list[bytes]:
    """Form a stable classic group; return the heartbeats of its members."""
    groups = to.nodes[1].groups
    protocols = [JoinGroupRequestProtocol("range", b"")]
    for line in lines:
        line.ask(JoinGroupRequest(group_id, 1_800_000, 1_800_000, "", None, "consumer", protocols), 3)
    group: Any = groups.groups[group_id]
    # The group extends the initial delay once, because more members joined within it.
    for seconds in (4, 8):
        groups.fire(NOW + seconds)
        to.settle(NOW + seconds)
    groups.ask(SyncGroupRequest(group_id, group.generation, group.leader, assignments=[]), sync_refused, None, NOW)
    members = list(group.members)
    return [
        line.ask(HeartbeatRequest(group_id, group.generation, each), 4)
        for line, each in zip(lines, members, strict=True)
    ]


def consumer_group(to: Cluster, group_id: str, lines: list[Line]) -> list[bytes]:
    """Form a stable consumer group; return the heartbeats of its members."""
    members = [f"{number:022}" for number in range(len(lines))]
    joins = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": ["orders"], "topic_partitions": []}
    for line, each in zip(lines, members, strict=True):
        line.ask(ConsumerGroupHeartbeatRequest(group_id, each, 0, **joins), 1)
    group: Any = to.nodes[1].groups.groups[group_id]
    while group.state != "Stable":
        for line, each in zip(lines, members, strict=True):
            has = group.members[each]
            owned = [TopicPartitions(topic, sorted(numbers)) for topic, numbers in has.assigned.items()]
            line.ask(ConsumerGroupHeartbeatRequest(group_id, each, has.epoch, topic_partitions=owned), 1)
    epoch = group.group_epoch
    return [
        line.ask(ConsumerGroupHeartbeatRequest(group_id, each, epoch), 1)
        for line, each in zip(lines, members, strict=True)
    ]


def timed(calls: list[tuple[Callable[[bytes, float], None], bytes]], rounds: int) -> float:
    """Return the median microseconds of a call, over rounds of all calls."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        for call, data in calls:
            call(data, NOW)
        times.append((time.process_time() - began) / len(calls))
    return statistics.median(times) * 1e6


def one_joins(members: int, topics: int) -> tuple[float, float, float]:
    """Measure the heartbeat that joins a stable group, and the longest and the sum of those that follow, in ms."""
    bench = Bench(members, topics)
    bench.load(bench.written())
    for each in bench.members:
        bench.beat(each, 1)
    gc.collect()
    fields = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": bench.topics.names(), "topic_partitions": []}
    _, joined = bench.beat("n" * 22, 0, **fields)
    followed = []
    for each in bench.members:
        answer, took = bench.beat(each, 1)
        followed.append(took)
        if answer.assignment is not None:
            _, took = bench.beat(each, answer.member_epoch, topic_partitions=answer.assignment.topic_partitions)
            followed.append(took)
    return joined, max(followed), sum(followed)


class Pieces(NamedTuple):
    """Milliseconds: the longest piece of a change in the event loop, all such pieces, and the work in a worker
    thread."""

    longest: float
    loop: float
    elsewhere: float


def pieces(bench: Bench, group_id: str, fields: dict[str, Any]) -> Pieces:
    """Let a member join, and carry out the work for the worker thread, until the join is answered."""
    bench.outbox.offloads = True
    request = ConsumerGroupHeartbeatRequest(group_id, f"{0:021}n", 0, rebalance_timeout_ms=300_000)
    request.subscribed_topic_names, request.topic_partitions = bench.topics.names(), []
    for name, value in fields.items():
        setattr(request, name, value)
    gc.collect()
    took, elsewhere, exchange = [], 0.0, object()
    began = time.process_time()
    answer = bench.service.ask(request, error, CLIENT, exchange, bench.now)
    took.append(time.process_time() - began)
    while bench.outbox.computations:
        (computation,), bench.outbox.computations = bench.outbox.computations, []
        began = time.process_time()
        result = whole(computation)
        elsewhere += time.process_time() - began
        began = time.process_time()
        computation.finish(result, bench.now)
        took.append(time.process_time() - began)
    if bench.outbox.replies:
        answer = bench.outbox.replies[-1].response
    assert answer.error_code == 0, answer
    bench.clear()
    return Pieces(max(took) * 1000, sum(took) * 1000, elsewhere * 1000)


def large_changes(members: int, topics: int) -> Iterator[tuple[str, Pieces]]:
    """Yield changes that concern a whole group."""
    stable = Bench(members, topics)
    stable.load(stable.written())
    half = {"subscribed_topic_names": stable.topics.names()[::2]}
    yield "joins a stable group, as the others", pieces(stable, GROUP, {})
    for who, fields in {"joins for half of the topics": half, "asks for range": {"server_assignor": "range"}}.items():
        stable = Bench(members, topics)
        stable.load(stable.written())
        yield who, pieces(stable, GROUP, fields)
    new = Bench(members, topics)
    new.load([])
    yield "is the first of its group", pieces(new, "new", {})
    for size in (2_000, 10_000):
        bench = Bench(size, topics)
        bench.load(classic_records(bench, "classic"))
        yield f"upgrades a classic group of {size:,}", pieces(bench, "classic", {})


def classic_records(bench: Bench, group_id: str) -> list[tuple[Any, Any]]:
    """Return the records of a stable classic group; each member has ten partitions."""
    names = bench.topics.names()
    protocol = JoinGroupRequestProtocol("range", subscription_to_bytes(ConsumerProtocolSubscription(names), 1))
    join = JoinGroupRequest(group_id, 1_800_000, 1_800_000, "", None, "consumer", [protocol])
    rules = Bench(0, 1)
    rules.load([])
    for _ in bench.members:
        rules.service.ask(
            join, join_refused, CLIENT, object(), rules.now, member_id_required=False, skip_assignment_supported=True
        )
    for _ in range(3):
        rules.now += 4
        rules.service.fire(rules.now)
    group: Any = rules.service.groups[group_id]
    everything = [(name, number) for name in names for number in range(bench.topics.partitions_of(name))]
    shares = []
    for place, member_id in enumerate(group.members):
        own: dict[str, list[int]] = {}
        for name, number in everything[place * PARTITIONS_PER_MEMBER : (place + 1) * PARTITIONS_PER_MEMBER]:
            own.setdefault(name, []).append(number)
        share = ConsumerProtocolAssignment([TopicPartition(name, numbers) for name, numbers in own.items()])
        shares.append(SyncGroupRequestAssignment(member_id, assignment_to_bytes(share, 1)))
    sync = SyncGroupRequest(group_id, group.generation, group.leader, None, "consumer", "range", shares)
    rules.service.ask(sync, sync_refused, object(), rules.now)
    assert group.state == "Stable", group
    return [(key, value) for _, key, value in rules.outbox.records]


def memory(members: int, topics: int) -> tuple[float, float]:
    """Measure the bytes of a group per member, without partitions, and the additional bytes per assigned partition."""
    sizes = []
    for count in (0, topics):
        bench = Bench(members, max(1, count))
        written = (
            bench.written() if count else [each for each in bench.written() if "Assignment" not in str(type(each[0]))]
        )
        gc.collect()
        tracemalloc.start()
        bench.load(written)
        del written
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    return sizes[0] / members, (sizes[1] - sizes[0]) / (members * PARTITIONS_PER_MEMBER)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=100)
    arguments = parser.parse_args()
    gc.disable()
    console = Console(width=100)
    columns = ("groups", "members of each", "of which send", "classic, us", "consumer, us", "ratio")
    table = Table(*columns, title="A steady heartbeat, without sockets")
    most = SIZES[-1]
    cases = [*((1, size, size, "") for size in SIZES), (1, most, 500, ""), (1, most, 50, "")]
    cases += [(most // 50, 50, most, ""), (1, most, most, ", shuffled"), (most // 50, 50, most, ", shuffled")]
    for groups, size, senders, order in cases:
        classic, consumer = heartbeats(groups, size, senders, bool(order))
        figures = (f"{classic:.2f}", f"{consumer:.2f}", f"{consumer / classic:.2f}")
        table.add_row(str(groups), f"{size:,}", f"{senders:,}{order}", *figures)
    console.print(table)
    table = Table("members", "topics", "join, ms", "longest after, ms", "all after, ms", title="One member joins")
    for size in (100, 1000, arguments.members):
        runs = [one_joins(size, arguments.topics) for _ in range(RUNS)]
        joined, longest, total = (statistics.median(column) for column in zip(*runs, strict=True))
        table.add_row(f"{size:,}", str(arguments.topics), f"{joined:.1f}", f"{longest:.1f}", f"{total:.0f}")
    console.print(table)
    table = Table("who", "longest piece, ms", "loop, ms", "elsewhere, ms", title="Large changes")
    for who, took in large_changes(arguments.members, arguments.topics):
        table.add_row(who, *(f"{each:.1f}" for each in took))
    console.print(table)
    by_member, by_partition = memory(arguments.members, arguments.topics)
    console.print(f"Memory: {by_member:.0f} bytes a member, and {by_partition:.0f} for each assigned partition")


if __name__ == "__main__":
    main()
