"""The relay on sockets: real clients, slow sides, and messages for an operator."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header, encode_response_header
from kafka_shim.cli import cli
from kafka_shim.conformance.clients.client_processes import (
    CLIENTS,
    SESSION_MS,
    SHORT_SESSION_MS,
    ClientProcesses,
    all_of,
)
from kafka_shim.relay.groups import Event
from kafka_shim.relay.proxied_connection import MAX_IN_FLIGHT, ProxiedConnection
from kafka_shim.relay.record import Record
from kafka_shim.relay.relay import Relay
from kafka_shim.trace.schema import problems
from tests.relay.recording import recording, running
from tests.server.places import confirm_places


def events_of(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_text().splitlines()]


def test_real_clients_are_relayed_and_traced(tmp_path: Path) -> None:
    trace, own = tmp_path / "trace.jsonl", tmp_path / "own.jsonl"
    serve = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--brokers", "2", "--topic", "orders:6"]
    settings = ["group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100"]
    serve += ["--trace", str(own), *(part for setting in settings for part in ("--config", setting))]
    with running(*serve) as upstream, recording(upstream.split(",")[0], trace) as bootstrap:
        brokers = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).brokers.values()
        theirs = {int(address.rpartition(":")[2]) for address in upstream.split(",")}
        assert len(brokers) == 2
        assert not theirs & {broker.port for broker in brokers}
        assert confirm_places(bootstrap, 2) == confirm_places(upstream.split(",")[0], 2)
        processes = ClientProcesses(bootstrap, "billing")
        try:
            members = []
            for client, session_ms in (("kafka-python-3.0", SHORT_SESSION_MS), ("confluent-kafka-2.16", SESSION_MS)):
                config = {"topics": ["orders"], "assignors": ["range"], "session_ms": session_ms}
                members.append(processes.start(CLIENTS[client], **config))
                processes.shared(members, all_of({"orders": 6}), [6 // len(members)] * len(members))
            ids = [member.member_id for member in members]
            members[1].do("commit", offsets=[[*each, 5] for each in sorted(members[1].owns)])
            members[0].kill()
            processes.shared(members[1:], all_of({"orders": 6}), [6])
            members[1].close()
        finally:
            processes.end()
    events = events_of(trace)
    assert [problem for event in events for problem in problems(event)] == []
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["mono"] for event in events] == sorted(event["mono"] for event in events)
    # It infers the rounds of the server's trace, and each exchange has the server's answer.
    same = ("generation", "cause", "trigger", "leader", "protocol")
    rounds, server_rounds = (
        [[event[name] for name in same] for event in each if event["event"] == "round" and event["members"]]
        for each in (events, events_of(own))
    )
    assert rounds == server_rounds
    assert ["NEW_MEMBER", ids[1]] in [each[1:3] for each in rounds]
    assert rounds[-1][1:3] == ["SESSION_EXPIRED", ids[0]]
    same = ("api", "version", "correlation_id", "client_id", "group", "member", "node", "request", "error")
    exchanges, server_exchanges = (
        [{name: event[name] for name in same} for event in each if event["event"] == "exchange" and event["group"]]
        for each in (events, events_of(own))
    )
    assert sorted(map(repr, exchanges)) == sorted(map(repr, server_exchanges))
    (commit,) = [event for event in events if event["event"] == "commit"]
    assert [each["offset"] for each in commit["offsets"]] == [5, 5, 5]
    leavers = [event["member_id"] for event in events if event["event"] == "member" and event["change"] == "left"]
    assert leavers == [ids[1]]


def test_clients_reach_a_relay_at_an_ipv6_address(tmp_path: Path) -> None:
    serve = ["serve", "--listen", "[::1]:0", "--store", "memory:", "--topic", "orders:1"]
    relay = ["trace", "record", "--listen", "[::1]:0", "--trace", str(tmp_path / "trace.jsonl")]
    with running(*serve) as upstream, running(*relay, "--upstream", upstream) as bootstrap:
        assert re.fullmatch(r"\[::1\]:\d+", bootstrap)
        client = AdminClient({"bootstrap.servers": bootstrap, "broker.address.family": "v6"})
        metadata = client.list_topics(timeout=20)
        assert set(metadata.topics) == {"orders"}
        assert [each.host for each in metadata.brokers.values()] == ["::1"]


# In this process, in front of a broker of the test's


@asynccontextmanager
async def relayed(
    broker: Callable[[trio.SocketStream], Awaitable[None]],
    write: Callable[[list[Event], float], None] = lambda events, now: None,
    relays: list[Relay] | None = None,
) -> AsyncIterator[Callable[[], Awaitable[trio.SocketStream]]]:
    """Yield a function that connects a client to `broker` through a relay, which is added to `relays`."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, broker, listeners)
        upstream = listeners[0].socket.getsockname()[:2]
        record = Record(write, trio.current_time)
        relay = Relay(upstream, "127.0.0.1", 0, "127.0.0.1", record, trio.current_time)
        await nursery.start(relay.run)
        if relays is not None:
            relays.append(relay)

        async def connect() -> trio.SocketStream:
            return await trio.open_tcp_stream("127.0.0.1", relay.port)

        yield connect
        nursery.cancel_scope.cancel()


def heartbeat(correlation_id: int) -> bytes:
    return frame(encode_request_header(12, 4, correlation_id, "me") + HeartbeatRequest("g", 1, "m").encode(4))


async def test_a_client_that_does_not_read_stops_the_broker_not_the_relay() -> None:
    sent = 0
    size = 64 << 20
    block = bytes(range(256)) * 256

    async def broker(stream: trio.SocketStream) -> None:
        nonlocal sent
        await stream.receive_some(100)
        await stream.send_all((size + 4).to_bytes(4, "big") + (7).to_bytes(4, "big"))
        while sent < size:
            await stream.send_all(block)
            sent += len(block)

    async with relayed(broker) as connect:
        client = await connect()
        await client.send_all(frame(encode_request_header(1, 17, 7, "me") + b"fetch"))
        before = -1
        while before != sent:
            # Full when no byte went in for a while.
            before = sent
            await trio.testing.wait_all_tasks_blocked(0.05)
        assert sent < size / 2
        got = bytearray()
        while len(got) < size + 8:
            got += await client.receive_some(1 << 20)
        assert got[8:] == block * (size // len(block))


async def test_a_client_with_too_many_requests_in_flight_is_not_read() -> None:
    got = 0

    async def broker(stream: trio.SocketStream) -> None:
        nonlocal got
        async for data in stream:
            got += len(data)

    one = len(heartbeat(0))
    async with relayed(broker) as connect:
        client = await connect()
        with trio.move_on_after(2) as patience:
            for number in range(400_000):
                await client.send_all(heartbeat(number))
                if number % 1000 == 0:
                    await trio.testing.wait_all_tasks_blocked()
        assert patience.cancelled_caught
        assert got / one < MAX_IN_FLIGHT + (64 << 10) / one + 1


async def test_connections_of_the_same_moment_have_numbers_of_their_own() -> None:
    events: list[Event] = []

    async def broker(stream: trio.SocketStream) -> None:
        async for _ in stream:
            await stream.send_all(frame(encode_response_header(12, 4, 1) + HeartbeatResponse(0, 0).encode(4)))

    async def beat(connect: Callable[[], Awaitable[trio.SocketStream]]) -> None:
        client = await connect()
        await client.send_all(heartbeat(1))
        await client.receive_some(100)

    async with relayed(broker, lambda new, now: events.extend(new)) as connect, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(beat, connect)
    numbers = [event["conn"] for event in events if event["event"] == "exchange"]
    assert sorted(numbers) == sorted(set(numbers))
    assert len(numbers) == 20


async def test_a_closed_side_closes_the_other() -> None:
    closed = trio.Event()

    async def broker(stream: trio.SocketStream) -> None:
        if await stream.receive_some(100) == b"":
            closed.set()
            return
        await stream.aclose()

    async with relayed(broker) as connect:
        client = await connect()
        await client.aclose()
        with trio.fail_after(5):
            await closed.wait()
        client = await connect()
        await client.send_all(heartbeat(1))
        with trio.fail_after(5):
            assert await client.receive_some(1) == b""


async def test_exception_of_a_connection_ends_it_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broker(stream: trio.SocketStream) -> None:
        async for _ in stream:
            await stream.send_all(b"answer")

    read = ProxiedConnection.from_client

    def mistaken(connection: ProxiedConnection, data: bytes) -> bytes:
        if data == b"wrong":
            raise ValueError("a mistake")
        return read(connection, data)

    monkeypatch.setattr(ProxiedConnection, "from_client", mistaken)
    monkeypatch.setattr(ProxiedConnection, "from_broker", lambda self, data: [data])
    relays: list[Relay] = []
    async with relayed(broker, relays=relays) as connect:
        before = await connect()
        await before.send_all(heartbeat(1))
        assert await before.receive_some(100) == b"answer"
        for _ in range(2):
            unlucky = await connect()
            await unlucky.send_all(b"wrong")
            assert await unlucky.receive_some(1) == b""
        for client in (before, await connect()):
            await client.send_all(heartbeat(2))
            assert await client.receive_some(100) == b"answer"
        assert relays[0].failures.by_border == {"connection": 2}
        assert relays[0].connections == 2
    assert [record.exc_info is not None for record in caplog.records] == [True, False]


async def test_clients_of_a_dead_broker_are_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()[:2]
    record = Record(lambda events, now: None, trio.current_time)
    relay = Relay(address, "127.0.0.1", 0, "127.0.0.1", record, trio.current_time)
    async with trio.open_nursery() as nursery:
        await nursery.start(relay.run)
        client = await trio.open_tcp_stream("127.0.0.1", relay.port)
        with trio.fail_after(5):
            assert await client.receive_some(1) == b""
        nursery.cancel_scope.cancel()


def test_unusable_options_are_one_sentence(tmp_path: Path) -> None:
    run = CliRunner()
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"127.0.0.1:{free.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = f"127.0.0.1:{listener.getsockname()[1]}"
        trace = str(tmp_path / "trace.jsonl")
        for options, expected in (
            (["--upstream", nowhere, "--trace", trace], f"{nowhere} cannot be reached"),
            (["--upstream", there, "--listen", there, "--trace", trace], f"{there} cannot be listened on"),
            (["--upstream", there, "--trace", str(tmp_path)], "is a directory"),
            (["--upstream", there, "--trace", str(tmp_path / "no" / "t.jsonl")], "cannot be written"),
            (["--upstream", there, "--listen", "0.0.0.0:0", "--trace", trace], "--advertise"),
            (["--upstream", there, "--advertise", "::1:29402", "--trace", trace], "needs brackets"),
            (["--upstream", there, "--advertise", "[::1]:29402", "--trace", trace], "a host alone"),
            (["--upstream", "nonsense"], "HOST:PORT"),
        ):
            done = run.invoke(cli, ["trace", "record", *options])
            assert done.exit_code != 0
            assert expected in done.output
