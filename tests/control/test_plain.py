"""A server without a laboratory: modules it does not import, and answers it still gives."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from kafka_shim.testing import CoordinatorServer
from tests.server.wire import Client

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, str, "subprocess.Popen[str]"]]:
    """A server: where Kafka clients reach it, and its control server."""
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
    command += ["--store", "memory:", "--topic", "orders:2", "--config", "group.initial.rebalance.delay.ms=0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
        try:
            yield ready["kafka"], ready["control"], process
        finally:
            process.terminate()


def test_a_server_without_the_laboratory_does_not_import_it() -> None:
    program = """
import sys, trio
from functools import partial
from kafka_shim.control import run
from kafka_shim.control.app import make_app
from kafka_shim.control.server import serve_control
from kafka_shim.control.workbench import Workbench
from kafka_shim.server.server import ServerConfig, serve

async def main():
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, ServerConfig()))
        await nursery.start(partial(serve_control, server, "127.0.0.1", 0))
        nursery.cancel_scope.cancel()

trio.run(main)
print([name for name in sys.modules if name.startswith("kafka_shim.lab") or name.startswith("kafka_shim.testing")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "[]\n", done.stderr


def test_a_group_has_its_story_and_a_missing_group_is_404() -> None:
    with serving() as (kafka, control, process):
        with Client(kafka) as client:
            join(client)
        story = httpx.get(f"{control}/v1/groups/billing/story").json()["story"]
        assert any("rebalance begins, cause NEW_MEMBER" in line for line in story)
        unknown = httpx.get(f"{control}/v1/groups/nobody/story")
        assert (unknown.status_code, unknown.json()["error"]) == (404, "GROUP_ID_NOT_FOUND")
        assert httpx.get(f"{control}/v1/faults").status_code == 403
        assert httpx.post(f"{control}/v1/puppets/3", json={}).status_code == 403
        process.terminate()
        _, log = process.communicate(timeout=60)
    lines = [line.partition(" INFO ")[2] for line in log.splitlines()]
    (joined,) = [line for line in lines if " joins" in line]
    assert re.fullmatch(r"group billing: member test-\S+ joins from 127.0.0.1", joined)
    assert [line for line in lines if "begins, cause NEW_MEMBER by test-" in line]
    assert [line for line in lines if line.startswith("group billing: generation 1 has 1 members after ")]


def join(client: Client) -> None:
    from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse

    message = JoinGroupRequest(
        "billing", 30_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    assert client.ask(message, 2, JoinGroupResponse).error_code == 0


def test_the_document_and_the_page_are_where_people_look() -> None:
    with CoordinatorServer(control=True) as server:
        document = httpx.get(f"{server.control_url}/openapi.json")
        assert document.json()["openapi"] == "3.1.0"
        assert document.json() == httpx.get(f"{server.control_url}/v1/openapi.json").json()
        page = httpx.get(f"{server.control_url}/docs")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        for path in document.json()["paths"]:
            assert f"{path}</code>" in page.text
        assert "<script" not in page.text


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"action": "eror", "error": 16}, "'eror' is none of error, delay, drop, swallow, close, duplicate, half-open,"
         " slow. Did you mean 'error'?"),
        ({"action": "delay", "api": "Heartbeat"}, "The field `seconds` is missing."),
        ({"action": "delay", "seconds": 0}, "Expected 'float' > 0.0 in 'seconds'"),
    ],
)  # fmt: skip
def test_a_fault_that_cannot_be_is_refused(server: CoordinatorServer, body: dict[str, object], sentence: str) -> None:
    answer = httpx.post(f"{server.control_url}/v1/faults", json=body)
    assert answer.status_code == 400
    assert sentence.replace("`", "'") in answer.json()["message"].replace("`", "'")


def test_a_puppet_needs_a_topic_that_is_there(server: CoordinatorServer) -> None:
    answer = httpx.post(f"{server.control_url}/v1/puppets", json={"group": "g", "topics": ["ordres"]})
    assert (answer.status_code, answer.json()["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert "There is no topic 'ordres'; topics are: " in answer.json()["message"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--lab"], "kafka-shim: A laboratory (--lab) needs a control server"
         " (--control HOST:PORT).\n"),
        (["--config", "group.initial.rebalance.dealy.ms=0"], "kafka-shim: 'group.initial.rebalance.dealy.ms' is not a"
         " setting of this coordinator; did you mean 'group.initial.rebalance.delay.ms'?\n"),
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_served_is_one_sentence(options: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--store", "memory:", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, sentence)


def test_a_taken_control_port_is_named(server: CoordinatorServer) -> None:
    taken = server.control_url.removeprefix("http://")
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--store", "memory:"]
    done = subprocess.run([*command, "--control", taken], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        f"kafka-shim: {taken} cannot be listened on: Address already in use; end the other server"
    )
    assert json.dumps(done.stdout) == '""'
