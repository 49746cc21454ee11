"""A member beside the fuzzer, in a process of its own: `python -m tests.fuzz.bystander PORT [CERTIFICATE]`.

It joins a group, sends a heartbeat every few milliseconds, commits, and reads back its commits, until its standard
input ends. Then it prints one line of JSON: the number of its requests, its errors, the times until answers came, and
the offset of its last commit.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from tests.fuzz.requests import PROTECTED
from tests.hostile.serving import Peer

PAUSE: Final = 0.005
COMMITS: Final = 20
"""Every so many heartbeats it commits, and reads the commit back."""
SESSION_MS: Final = 60_000
BEFORE_MEMBERSHIP: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_MEMBER_ID,
)
"""A client joins again after these. A server is ready before it has loaded each partition; and on a machine that stands
still for longer than a lease it loads them again, without the ids that it gave out and that no member has yet."""


def connected(port: int, certificate: str | None) -> Peer:
    """A connection to the server, with TLS where there is a certificate."""
    sock: socket.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if certificate is not None:
        sock = ssl.create_default_context(cafile=certificate).wrap_socket(sock, server_hostname="127.0.0.1")
    return Peer(sock, PROTECTED)


class Bystander:
    """One member, with its errors and the times until its answers came."""

    def __init__(self, peer: Peer) -> None:
        self.latencies: list[float] = []
        self.errors: list[str] = []
        self.offset = -1
        self._peer = peer
        self._member = ""
        self._generation = -1

    def ask(self, request: Message, version: int) -> Any:
        """Return the answer, and note the time until it came."""
        began = time.perf_counter()
        answer = self._peer.ask(request, version)
        self.latencies.append(time.perf_counter() - began)
        return answer

    def join(self) -> None:
        """Become the one member of the group."""
        protocols = [JoinGroupRequestProtocol("range", b"")]
        joined: Any = None
        while joined is None or joined.error_code in BEFORE_MEMBERSHIP:
            joined = self.ask(
                JoinGroupRequest(
                    PROTECTED, SESSION_MS, 5000, self._member, protocol_type="consumer", protocols=protocols
                ),
                5,
            )
            self._member = "" if joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID else joined.member_id
        self._expect("JoinGroup", joined.error_code, 0)
        self._generation = joined.generation_id
        assignments = [SyncGroupRequestAssignment(self._member, b"mine")]
        synced = self.ask(SyncGroupRequest(PROTECTED, self._generation, self._member, assignments=assignments), 3)
        self._expect("SyncGroup", synced.error_code, 0)

    def beat(self) -> None:
        """Send a heartbeat."""
        answer = self.ask(HeartbeatRequest(PROTECTED, self._generation, self._member), 4)
        self._expect("Heartbeat", answer.error_code, 0)

    def commit(self) -> None:
        """Commit the next offset, and read it back."""
        topic = OffsetCommitRequestTopic(
            name=PROTECTED, partitions=[OffsetCommitRequestPartition(0, committed_offset=self.offset + 1)]
        )
        request = OffsetCommitRequest(PROTECTED, self._generation, self._member, topics=[topic])
        self._expect("OffsetCommit", self.ask(request, 8).topics[0].partitions[0].error_code, 0)
        self.offset += 1
        self.check_offset()

    def check_offset(self) -> None:
        """Note an error unless the server has the offset of the last commit."""
        request = OffsetFetchRequest(PROTECTED, [OffsetFetchRequestTopic(PROTECTED, [0])])
        answer = self.ask(request, 7)
        self._expect("OffsetFetch", answer.error_code, 0)
        for partition in [each for topic in answer.topics for each in topic.partitions]:
            self._expect("OffsetFetch of the partition", partition.error_code, 0)
            self._expect("the offset", partition.committed_offset, self.offset)

    def _expect(self, what: str, value: int, expected: int) -> None:
        if value != expected:
            self.errors.append(f"{what}: {value}, not {expected}")

    def report(self) -> dict[str, Any]:
        """Its requests, errors and times."""
        return {
            "requests": len(self.latencies),
            "errors": len(self.errors),
            "first_errors": self.errors[:5],
            "offset": self.offset,
            **percentiles(self.latencies),
        }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Sum up times, in milliseconds."""
    ordered = sorted(seconds)
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999, "longest_ms": 1.0}
    return {
        name: round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000, 2) if ordered else 0.0
        for name, share in shares.items()
    }


def main(port: int, certificate: str | None) -> None:
    """Be a member until standard input ends, and print the report."""
    bystander = Bystander(connected(port, certificate))
    try:
        bystander.join()
        print("joined", flush=True)
        count = 0
        while not select.select([sys.stdin], [], [], PAUSE)[0]:
            bystander.beat()
            count += 1
            if count % COMMITS == 0:
                bystander.commit()
    except (OSError, AssertionError) as error:
        bystander.errors.append(repr(error))
    print(json.dumps(bystander.report()), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
