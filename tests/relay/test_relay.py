"""The relay on sockets: real clients through it, what it does when one side is slow, and what it tells an operator."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header
from kafka_shim.cli import cli
from kafka_shim.conformance.clients.crew import CLIENTS, SESSION_MS, SHORT_SESSION_MS, Crew, all_of
from kafka_shim.groups.trace import problems
from kafka_shim.relay.proxied_connection import IN_FLIGHT
from kafka_shim.relay.record import Record
from kafka_shim.relay.relay import Relay
from tests.relay.recording import recording, running


def events_of(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_text().splitlines()]


def test_real_clients_come_through_and_what_they_do_is_in_the_trace(tmp_path: Path) -> None:
    trace, own = tmp_path / "trace.jsonl", tmp_path / "own.jsonl"
    serve = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--brokers", "2", "--topic", "orders:6"]
    settings = ["group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100"]
    serve += ["--trace", str(own), *(part for setting in settings for part in ("--config", setting))]
    with running(*serve) as upstream, recording(upstream.split(",")[0], trace) as bootstrap:
        brokers = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).brokers.values()
        theirs = {int(address.rpartition(":")[2]) for address in upstream.split(",")}
        assert len(brokers) == 2
        assert not theirs & {broker.port for broker in brokers}
        crew = Crew(bootstrap, "billing")
        try:
            members = []
            for client, session_ms in (("kafka-python-3.0", SHORT_SESSION_MS), ("confluent-kafka-2.16", SESSION_MS)):
                config = {"topics": ["orders"], "assignors": ["range"], "session_ms": session_ms}
                members.append(crew.start(CLIENTS[client], **config))
                crew.shared(members, all_of({"orders": 6}), [6 // len(members)] * len(members))
            ids = [member.member_id for member in members]
            members[1].do("commit", offsets=[[*each, 5] for each in sorted(members[1].owns)])
            members[0].kill()
            crew.shared(members[1:], all_of({"orders": 6}), [6])
            members[1].close()
        finally:
            crew.end()
    events = events_of(trace)
    assert [problem for event in events for problem in problems(event)] == []
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["mono"] for event in events] == sorted(event["mono"] for event in events)
    # Of the rounds it concludes what the server told, and each exchange is the one that the server answered.
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
    left = [event["member_id"] for event in events if event["event"] == "member" and event["change"] == "left"]
    assert left == [ids[1]]


# In this process, in front of a broker of the test's


@asynccontextmanager
async def relayed(
    broker: Callable[[trio.SocketStream], Awaitable[None]],
) -> AsyncIterator[Callable[[], Awaitable[trio.SocketStream]]]:
    """What connects a client to `broker` through a relay."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, broker, listeners)
        upstream = listeners[0].socket.getsockname()[:2]
        record = Record(lambda events, now: None, trio.current_time)
        relay = Relay(upstream, "127.0.0.1", 0, "127.0.0.1", record, trio.current_time)
        await nursery.start(relay.run)

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
            # Full when nothing more went in for a while.
            before = sent
            await trio.testing.wait_all_tasks_blocked(0.05)
        assert sent < size / 2
        got = bytearray()
        while len(got) < size + 8:
            got += await client.receive_some(1 << 20)
        assert got[8:] == block * (size // len(block))


async def test_a_client_that_asks_without_end_is_heard_no_further() -> None:
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
        assert got / one < IN_FLIGHT + (64 << 10) / one + 1


async def test_each_side_is_told_that_the_other_has_closed() -> None:
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


async def test_clients_of_a_broker_that_is_gone_are_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = listener.getsockname()[:2]
    record = Record(lambda events, now: None, trio.current_time)
    relay = Relay(gone, "127.0.0.1", 0, "127.0.0.1", record, trio.current_time)
    async with trio.open_nursery() as nursery:
        await nursery.start(relay.run)
        client = await trio.open_tcp_stream("127.0.0.1", relay.port)
        with trio.fail_after(5):
            assert await client.receive_some(1) == b""
        nursery.cancel_scope.cancel()


def test_what_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    run = CliRunner()
    with socket.create_server(("127.0.0.1", 0)) as free:
        gone = f"127.0.0.1:{free.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        there = f"127.0.0.1:{taken.getsockname()[1]}"
        trace = str(tmp_path / "trace.jsonl")
        for options, expected in (
            (["--upstream", gone, "--trace", trace], f"{gone} cannot be reached"),
            (["--upstream", there, "--listen", there, "--trace", trace], f"{there} cannot be listened on"),
            (["--upstream", there, "--trace", str(tmp_path)], "is a directory"),
            (["--upstream", there, "--trace", str(tmp_path / "no" / "t.jsonl")], "cannot be written"),
            (["--upstream", there, "--listen", "0.0.0.0:0", "--trace", trace], "--advertise"),
            (["--upstream", "nonsense"], "HOST:PORT"),
        ):
            done = run.invoke(cli, ["trace", "record", *options])
            assert done.exit_code != 0
            assert expected in done.output
