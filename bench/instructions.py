"""Instructions that the server executes for a request: `python -m bench.instructions ../before . [--requests 2000]`.

Other work of the machine changes no count, so it compares two checkouts on a busy machine; `bench.compare` needs a
quiet one. Valgrind counts, and must be installed; a count takes about a minute. One member repeats a request, from its
bytes to those of the answer, without sockets. The count of a run that only encodes the requests is subtracted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

KINDS: Final = ("heartbeat", "allowed heartbeat", "commit", "allowed commit", "consumer heartbeat", "consumer commit")
"""Requests; those that ACLs allow come by a listener with an authorizer, and an older checkout may have none. The
consumer is a member of a group of the new protocol (KIP-848)."""
FEW: Final = 500
"""Requests of the run whose count is subtracted: it starts Python, and lets the server remember the request."""


def serve(kind: str, requests: int, *, are_served: bool) -> None:
    """Let one member send so many requests to a server in this process, or only encode them."""
    # Imported here: the checkout that is counted has its own modules.
    from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
    from kafka_shim.apis.heartbeat import HeartbeatRequest
    from kafka_shim.apis.join_group import JoinGroupResponse
    from kafka_shim.apis.keys import ApiKey
    from kafka_shim.apis.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )
    from kafka_shim.apis.sync_group import SyncGroupResponse
    from kafka_shim.apis.wire.frames import frame
    from kafka_shim.apis.wire.headers import encode_request_header
    from tests.server.conversation import join, sync
    from tests.server.wire import Wire, cluster, request

    wire = Wire(cluster(topics={"t": 10}))
    if kind.startswith("allowed"):
        allow_all(wire)
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
    for number in range(requests):
        if kind.endswith("heartbeat"):
            data = encode_request_header(beat.api_key, version, number, "test") + beat.encode(version)
        else:
            offsets = [OffsetCommitRequestPartition(each, number, 0, committed_metadata="") for each in range(10)]
            topics = [OffsetCommitRequestTopic("t", partitions=offsets)]
            commit = OffsetCommitRequest("g", epoch, member_id, topics=topics)
            data = encode_request_header(ApiKey.OFFSET_COMMIT, 9, number, "test") + commit.encode(9)
        whole = frame(data)
        if are_served:
            wire.receive(whole, 200.0)
            assert wire.sent, "the server has not answered at once"
            wire.sent = b""


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


def count(checkout: Path, kind: str, requests: int, *, are_served: bool) -> int:
    """Return the instructions of a process of this checkout that does `serve`."""
    with tempfile.NamedTemporaryFile() as out:
        valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={out.name}"]
        arguments = [kind, str(requests), *(["--served"] if are_served else [])]
        # Equal seeds: the order of sets decides the number of steps too.
        environment = os.environ | {"PYTHONPATH": str(checkout.resolve()), "PYTHONHASHSEED": "0"}
        run = subprocess.run(
            [*valgrind, sys.executable, "-P", str(Path(__file__).resolve()), "--inside", *arguments],
            cwd=checkout, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    counted = re.search(r"I +refs: +([\d,]+)", run.stderr)
    if run.returncode or counted is None:
        raise SystemExit(f"{checkout}: {run.stderr.strip()[-1000:]}")
    return int(counted[1].replace(",", ""))


def per_request(checkout: Path, kind: str, requests: int) -> float:
    """Return the instructions that the server of a checkout takes for a request of this kind."""

    def difference(*, are_served: bool) -> int:
        few, many = (count(checkout, kind, each, are_served=are_served) for each in (FEW, FEW + requests))
        return many - few

    count(checkout, kind, 1, are_served=True)  # Compiles the modules.
    return (difference(are_served=True) - difference(are_served=False)) / requests


def main() -> None:
    """Print a line for each kind of request and checkout, with the ratio to the first checkout."""
    parser = argparse.ArgumentParser(description="Count the instructions of a request.")
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}, with commas")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("Valgrind is missing: install the package `valgrind`.")
    for kind in arguments.kinds.split(","):
        first = 0.0
        for checkout in arguments.checkouts:
            instructions = per_request(checkout, kind, arguments.requests)
            first = first or instructions
            print(f"{kind:18} {instructions:>10,.0f} {instructions / first - 1:>+8.1%}  {checkout}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        serve(sys.argv[2], int(sys.argv[3]), are_served="--served" in sys.argv)
    else:
        main()
