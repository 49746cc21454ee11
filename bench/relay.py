"""The cost of the relay: `python -m bench.relay`. Heartbeats to a server of ours, directly and through `trace record`.

One process holds all members' connections and sends each member's next heartbeat when the last one is answered. Prints
the time per heartbeat, and the relay's processor time per heartbeat, from the kernel.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import trio

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header
from tests.relay.recording import running

CONNECTIONS = 50
SECONDS = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Member:
    """A group of one member, on its own connection."""

    def __init__(self, stream: trio.SocketStream, number: int) -> None:
        self.stream = stream
        self.group = f"group-{number}"
        self.times: list[float] = []

    async def ask(self, request: Message, version: int) -> bytes:
        assert request.api_key is not None
        await self.stream.send_all(
            frame(encode_request_header(request.api_key, version, 1, "bench") + request.encode(version))
        )
        answer = bytearray()
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
            answer += await self.stream.receive_some(65536)
        return bytes(answer[4:])

    async def join(self) -> None:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        joined = await self.ask(JoinGroupRequest(self.group, 60_000, 60_000, "", None, "consumer", protocols), 2)
        answer, _ = JoinGroupResponse.decoder(2)(joined, 4)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        answer_with_id = [SyncGroupRequestAssignment(self.member_id, b"")]
        await self.ask(SyncGroupRequest(self.group, self.generation, self.member_id, assignments=answer_with_id), 2)

    async def beat(self, until: float) -> None:
        request = HeartbeatRequest(self.group, self.generation, self.member_id)
        while (began := time.perf_counter()) < until:
            await self.ask(request, 2)
            self.times.append(time.perf_counter() - began)


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def load(bootstrap: str, connections: int) -> list[float]:
    host, _, port = bootstrap.rpartition(":")
    members = [Member(await trio.open_tcp_stream(host, int(port)), number) for number in range(connections)]
    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(member.join)
    until = time.perf_counter() + SECONDS
    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(member.beat, until)
    for member in members:
        await member.stream.aclose()
    return [each for member in members for each in member.times]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        settings = ["--config", "group.initial.rebalance.delay.ms=0"]
        serve = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", *settings]
        record = ["trace", "record", "--listen", "127.0.0.1:0", "--trace", f"{scratch}/trace.jsonl"]
        with running(*serve) as server, running(*record, "--upstream", server) as relay:
            pid = next(
                int(each.name)
                for each in Path("/proc").iterdir()
                if each.name.isdecimal() and f"{scratch}/trace.jsonl".encode() in (each / "cmdline").read_bytes()
            )
            for connections in (1, CONNECTIONS):
                for name, bootstrap in (("straight", server), ("through the relay", relay)):
                    before = processor_seconds(pid)
                    times = trio.run(load, bootstrap, connections)
                    spent = processor_seconds(pid) - before
                    print(
                        f"{connections:3} connections, {name:17}: {len(times) / SECONDS:8.0f} heartbeats/s,"
                        f" median {statistics.median(times) * 1e6:6.0f} us,"
                        f" relay {spent / len(times) * 1e6:5.0f} us of processor time each"
                    )


if __name__ == "__main__":
    sys.exit(main())
