"""Instructions that the server executes for a request: `python -m bench.instructions ../before . [--requests 500]`.

Other work of the machine changes no count, so it compares two checkouts on a busy machine; `bench.compare` needs a
quiet one. Valgrind counts, and must be installed; all counts of a checkout take about two minutes. One member sends
requests, from their bytes to those of the answer, without sockets. The count of a run that only encodes the requests is
subtracted. With `--plain` the server of a second run recognises no request by its bytes, and decodes each one: the
difference is the gain of `shim/server/remembered/`.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count as count_from
from pathlib import Path
from typing import Any, Final

KINDS: Final = (
    "heartbeat",
    "allowed heartbeat",
    "consumer heartbeat",
    "commit",
    "allowed commit",
    "consumer commit",
    "moved commit",
    "traced heartbeat",
    "traced commit",
    "traced moved commit",
    "offsets of groups",
    "description of groups",
    "idle fetch",
    "fetch",
    "idle full fetch",
    "full fetch",
)
"""Requests; those that ACLs allow come by a listener with an authorizer, and an older checkout may have none. The
consumer is a member of a group of the new protocol (KIP-848). A moved commit has other partitions each time.
A traced request comes to a server that writes a trace. Offsets and descriptions are those of 8 groups in one request.

A fetch belongs to a session, as those of the Java client; a full one has all its partitions each time, as those of
librdkafka. An idle one waits until its end without a record. Before each of the others some partitions get a record;
in a session, now and then, one goes and comes back."""
FEW: Final = 200
"""Requests before those that are counted: the server gets to know the client."""
GROUPS: Final = 8
"""Groups of a request for several."""
FETCHED: Final = 100
"""Partitions of a fetch."""
NEW: Final = 3
"""Partitions with a record before a fetch."""
MARK: Final = "clock_getres"
"""A function of the C library that ends a section of the count, because nothing else calls it."""


def serve(kinds: list[str], requests: int, *, is_plain: bool) -> None:
    """For each kind, only encode so many requests, then send as many to a server in this process; a mark before and
    after both."""
    if is_plain:
        from kafka_shim.server.remembered import MAKERS

        MAKERS.clear()
    for kind in kinds:
        for is_served in (False, True):
            sent = send(kind, is_served=is_served)
            for _ in range(FEW):
                next(sent)
            time.clock_getres(time.CLOCK_MONOTONIC)
            for _ in range(requests):
                next(sent)
            time.clock_getres(time.CLOCK_MONOTONIC)


def send(kind: str, *, is_served: bool) -> Iterator[bytes]:
    """Encode a request at each step, let the server answer it if it `is_served`, and yield the frame of the answer."""
    # Imported here, as in all functions below: the checkout that is counted has its own modules.
    from tests.server.wire import Wire, cluster

    wire = Wire(cluster(topics={"t": 10, "fetched": FETCHED}))
    if kind.startswith("allowed"):
        allow_all(wire)
    now = 200.0
    with traced(wire) if kind.startswith("traced") else nullcontext():
        for whole in (fetches if kind.endswith("fetch") else members_requests)(kind, wire):
            if is_served:
                wire.receive(whole, now)
                if not wire.sent:
                    now += 0.5
                    wire.cluster.ticks.fire(now)
                assert wire.sent, "the server has not answered"
            answer, wire.sent = wire.sent, b""
            yield answer


@contextmanager
def traced(wire: Any) -> Iterator[None]:
    """Write a trace of the server within the block."""
    from kafka_shim.server.trace_file import TraceFile

    with tempfile.TemporaryDirectory() as folder, TraceFile(Path(folder, "trace.jsonl"), wire.cluster):
        yield


def members_requests(kind: str, wire: Any) -> Iterator[bytes]:
    """Let a member join a group of its own, and yield the heartbeats or commits that it sends."""
    from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
    from kafka_shim.apis.describe_groups import DescribeGroupsRequest
    from kafka_shim.apis.heartbeat import HeartbeatRequest
    from kafka_shim.apis.join_group import JoinGroupResponse
    from kafka_shim.apis.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )
    from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
    from kafka_shim.apis.sync_group import SyncGroupResponse
    from tests.server.conversation import join, sync
    from tests.server.wire import request

    if kind.startswith("consumer"):
        subscription = ConsumerGroupHeartbeatRequest(
            "g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        wire.receive(request(subscription, 1), 200.0)
        member_id, epoch = "m", wire.answer(ConsumerGroupHeartbeatResponse, 1)[1].member_epoch
        beat, version = ConsumerGroupHeartbeatRequest("g", "m", epoch), 1
    else:
        wire.receive(request(join(), 3))
        wire.cluster.ticks.fire(200.0)
        wire.cluster.settle(200.0)
        joined = wire.answer(JoinGroupResponse, 3)[1]
        member_id, epoch = joined.member_id, joined.generation_id
        wire.receive(request(sync(epoch, member_id, member_id), 3), 200.0)
        assert wire.answer(SyncGroupResponse, 3)[1].error_code == 0
        beat, version = HeartbeatRequest("g", epoch, member_id), 4
    chance = random.Random(1)
    names = ["g", *(f"g{number}" for number in range(1, GROUPS))]
    topic = OffsetFetchRequestTopics("t", partition_indexes=list(range(10)))
    offsets_of = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=[topic]) for name in names])
    for number in count_from(1):
        if kind == "offsets of groups":
            yield request(offsets_of, 9, number)
        elif kind == "description of groups":
            yield request(DescribeGroupsRequest(names), 5, number)
        elif kind.endswith("heartbeat"):
            yield request(beat, version, number)
        else:
            indexes = sorted(chance.sample(range(10), chance.randint(1, 10))) if "moved" in kind else range(10)
            offsets = [OffsetCommitRequestPartition(each, number, 0, committed_metadata="") for each in indexes]
            topics = [OffsetCommitRequestTopic("t", partitions=offsets)]
            yield request(OffsetCommitRequest("g", epoch, member_id, topics=topics), 9, number)


def fetches(kind: str, wire: Any) -> Iterator[bytes]:
    """Yield the fetches of one consumer; another client produces before each one, unless the kind is idle."""
    from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
    from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
    from kafka_shim.persistence.batch import Record, write_batch
    from tests.server.wire import Wire, request

    topic_id = wire.cluster.topics.named("fetched").id
    producer = Wire(wire.cluster)
    records = write_batch([Record(0, 1_000, b"key", b"v" * 100)])
    positions = dict.fromkeys(range(FETCHED), 0)

    def fetch(indexes: list[int], forgotten: list[int], session_id: int, epoch: int, number: int) -> bytes:
        partitions = [
            FetchPartition(partition=each, fetch_offset=positions[each], partition_max_bytes=2**20, log_start_offset=-1)
            for each in indexes
        ]
        topics = [FetchTopic("fetched", topic_id, partitions)] if partitions else []
        gone = [ForgottenTopic("fetched", topic_id, forgotten)] if forgotten else []
        asked = FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=2**26, session_id=session_id, session_epoch=epoch,
            topics=topics, forgotten_topics_data=gone,
        )  # fmt: skip
        return request(asked, 17, number)

    is_idle, is_full = kind.startswith("idle"), "full" in kind
    session_id, moved, forgotten = 0, list[int](), list[int]()
    if not is_full:
        wire.receive(fetch(list(positions), [], 0, 0, 0), 200.0)
        wire.cluster.ticks.fire(200.5)
        session_id = wire.answer(FetchResponse, 17)[1].session_id
    for number in count_from(1):
        back, forgotten = forgotten, []
        if not is_idle:
            data = [PartitionProduceData((number * NEW + each) % FETCHED, records) for each in range(NEW)]
            produced = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData("fetched", b"", data)])
            producer.receive(request(produced, 9, number), 200.0)
            producer.sent = b""
            forgotten = [(number * NEW + FETCHED // 2) % FETCHED] if number % 5 == 1 else []
        if is_full:
            yield fetch(list(positions), [], 0, -1, number)
        else:
            yield fetch(moved + back, forgotten, session_id, number, number)
        moved = [] if is_idle else [each.index for each in data]
        for each in moved:
            positions[each] += 1


def allow_all(wire: Any) -> None:
    """Let the session of a wire ask an authorizer, which has ACLs of others too."""
    from kafka_shim.security.authorizer import ALLOW, Authorizer, acl_of
    from kafka_shim.security.config import security_of
    from kafka_shim.server.secured import Door, SecuredSession

    authorizer = Authorizer(wire.cluster.topics.settings)
    names = [{"topic": "t"}, {"group": "g"}, *({"group": f"group-{number}"} for number in range(20))]
    authorizer.add(acl_of(ALLOW, "ANONYMOUS", "READ", name) for name in names)
    security = security_of({"listeners": "PLAINTEXT://127.0.0.1:9092"})
    assert security is not None
    node = next(iter(wire.cluster.nodes.values()))
    door = Door(security, security.listeners[0], [node.address], wire.cluster.delays, 0.0, authorizer)
    wire.session = SecuredSession(node, wire, "/127.0.0.1", 2, door, None)


def count(checkout: Path, kinds: list[str], requests: int, *, is_plain: bool) -> dict[str, float]:
    """Return the instructions of a request of each kind in a process of this checkout that does `serve`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "count")
        valgrind = ["valgrind", "--tool=callgrind", f"--dump-before={MARK}*", f"--callgrind-out-file={out}"]
        arguments = [",".join(kinds), str(requests), *(["--plain"] if is_plain else [])]
        # Equal seeds: the order of sets decides the number of steps too.
        environment = os.environ | {"PYTHONPATH": str(checkout.resolve()), "PYTHONHASHSEED": "0"}
        run = subprocess.run(
            [*valgrind, sys.executable, "-P", str(Path(__file__).resolve()), "--inside", *arguments],
            cwd=checkout, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if run.returncode:
            raise SystemExit(f"{checkout}: {run.stderr.strip()[-1000:]}")
        sections = [total(Path(f"{out}.{number}")) for number in range(1, 4 * len(kinds) + 1)]
    # Four sections a kind: its start, encoding alone, the start of its server, and the served requests.
    return {kind: (sections[4 * at + 3] - sections[4 * at + 1]) / requests for at, kind in enumerate(kinds)}


def total(dump: Path) -> int:
    """Return the instructions of a section."""
    counted = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
    assert counted is not None, f"{dump} has no total"
    return int(counted[1])


def main() -> None:
    """Print a line for each kind of request and checkout, with the ratio to the first checkout."""
    parser = argparse.ArgumentParser(description="Count the instructions of a request.")
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}, with commas")
    parser.add_argument("--plain", action="store_true", help="also count without the recognition of requests")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("Valgrind is missing: install the package `valgrind`.")
    kinds = arguments.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        raise SystemExit(f"No kind is called {', '.join(sorted(unknown))}. Name some of {', '.join(KINDS)}.")
    first: dict[str, float] = {}
    for checkout in arguments.checkouts:
        for is_plain in (False, True)[: 1 + arguments.plain]:
            counts = count(checkout, kinds, arguments.requests, is_plain=is_plain)
            first = first or counts
            for kind, instructions in counts.items():
                of = f"{checkout}{', each request decoded' if is_plain else ''}"
                print(f"{kind:18} {instructions:>10,.0f} {instructions / first[kind] - 1:>+8.1%}  {of}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        serve(sys.argv[2].split(","), int(sys.argv[3]), is_plain="--plain" in sys.argv)
    else:
        main()
