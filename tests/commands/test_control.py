"""The commands over the control API, as a person and as a program use them."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.cli import main
from kafka_shim.commands.asking import TOKEN
from kafka_shim.commands.faults import _ACTIONS
from kafka_shim.lab.faults import ACTIONS
from kafka_shim.testing import CoordinatorServer

SHIM = Path(sys.executable).parent / "kafka-shim"


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 4}, control=True) as server:
        yield server


class Shell:
    """The command line, run in this process."""

    def __init__(self, control: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch
        monkeypatch.setenv("KAFKA_SHIM_CONTROL", control)
        monkeypatch.delenv(TOKEN, raising=False)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        self._monkeypatch.setattr(sys, "argv", ["kafka-shim", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        return int(ended.value.code or 0), out, err

    def output(self, *arguments: str) -> str:
        code, out, err = self.run(*arguments)
        assert (code, err) == (0, "")
        return out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.output(*arguments, "--json"))

    def refused(self, *arguments: str) -> str:
        """One sentence on standard error, exit code 2."""
        code, out, err = self.run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("kafka-shim: ")
        assert len(err.splitlines()) == 1
        return err.removeprefix("kafka-shim: ").strip()


@pytest.fixture
def shell(server: CoordinatorServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(server.control_url, capsys, monkeypatch)


def test_groups_are_made_seen_rewound_and_deleted(server: CoordinatorServer, shell: Shell) -> None:
    assert shell.output("groups", "create", "b", "--ephemeral", "--heartbeat-bound-ms", "9000") == "b is made.\n"
    puppet = server.puppet("b", ["orders"], client_id="[bold]x")
    found = server.group("b").stable(members=1)
    assert shell.json("groups", "list")[0]["protocol"] == "range"
    assert shell.output("groups", "list").splitlines()[1].split() == ["b", "Stable", "1", "1", "range", "1"]
    output = shell.output("groups", "describe", "b")
    assert "protocol range" in output
    assert "it goes with its last member, a member is silent for 9000 ms at most" in output
    assert found.members[0].member_id in output
    assert "orders 0,1,2,3" in output
    assert shell.json("groups", "describe", "b")["heartbeat_bound_ms"] == 9000
    assert shell.output("groups", "rewind", "b", "orders:1=0") == "b is rewound; of 1 members all have begun anew.\n"
    assert shell.refused("groups", "delete", "b") == "The group has members."
    server.group("b").stable(members=1)
    puppet.leave()
    server.group("b").next("group", change="deleted")
    assert shell.refused("groups", "delete", "b") == "There is no such group."


def test_faults_are_added_listed_and_cleared(shell: Shell) -> None:
    assert shell.output("faults", "list") == "There is none.\n"
    output = shell.output(
        "faults", "add", "error", "api=Heartbeat", "error=NOT_COORDINATOR", "group=77", "optional=true"
    )
    assert "group=77" in output
    assert shell.json("faults", "list")[0]["group"] == "77"
    number = shell.json("faults", "list")[0]["fault"]
    assert "happened 0 times" in shell.output("faults", "clear", str(number))
    assert shell.output("faults", "clear") == "There was none.\n"


def test_every_action_of_a_fault_is_known() -> None:
    assert _ACTIONS == ACTIONS


def test_topics_are_created_listed_and_deleted(shell: Shell) -> None:
    assert shell.output("topics", "create", "bills", "--partitions", "2") == "bills:2\n"
    assert "bills:2" in shell.output("topics", "list").splitlines()
    assert {"topic": "bills", "partitions": 2} in shell.json("topics", "list")
    assert shell.refused("topics", "create", "bills") == "There is such a topic already."
    assert shell.output("topics", "delete", "bills") == "bills is deleted.\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["groups", "describe", "nobody"], "There is no such group."),
        (["groups", "describe", ""], "A name is not empty."),
        (["groups", "rewind", "b", "orders:0"], "'orders:0' is not of the form TOPIC:PARTITION=OFFSET."),
        (["groups", "rewind", "b", "orders:0=x"], "'orders:0=x' is not of the form TOPIC:PARTITION=OFFSET."),
        (["groups", "rewind", "nobody", "orders:0=1"], "There is no such group."),
        (["faults", "add", "error", "api=Heartbeat"], "Object missing required field 'error'."),
        (["faults", "add", "drop", "colour=red"], "Object contains unknown field 'colour'."),
        (["faults", "add", "drop", "times"], "'times' is not of the form NAME=VALUE."),
        (["faults", "add", "explode"], "'explode' is not one of"),
        (["faults", "clear", "99"], "There is no such fault."),
        (["topics", "create", "a b"], "Expected a name of 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-' in 'topic'."),
        (["topics", "delete", "nope"], "There is no such topic."),
    ],
)
def test_what_cannot_be_is_one_sentence(shell: Shell, arguments: list[str], sentence: str) -> None:
    assert sentence in shell.refused(*arguments)


def test_who_cannot_be_asked_is_named(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        control = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    output = shell.refused("groups", "list", "--control", control)
    assert output.startswith(
        f"Nothing answers at {control}: start `kafka-shim serve --control HOST:PORT`, or say where"
    )
    for address in ("no where", "ftp://127.0.0.1"):
        assert "is no address of a control server" in shell.refused("topics", "list", "--control", address)


def test_another_server_is_told_from_ours(shell: Shell) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path.endswith("topics") else 404)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        control = f"http://127.0.0.1:{other.server_port}"
        output = shell.refused("groups", "list", "--control", control)
        assert output == f"{control} is no control server of kafka-shim: it answers 404."
        assert shell.refused("topics", "list", "--control", control) == f"{control} is no control server of kafka-shim."
        other.shutdown()


def test_the_token_is_asked_for(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with CoordinatorServer() as guarded:
        control = guarded.wait(guarded.kit.serve_control, "127.0.0.1", 0, "s3cret")
        monkeypatch.setenv("KAFKA_SHIM_CONTROL", control)
        assert shell.refused("groups", "list") == f"{control} needs its token: put it into {TOKEN}."
        monkeypatch.setenv(TOKEN, "wrong")
        assert shell.refused("groups", "list") == f"The token in {TOKEN} is not that of {control}."
        monkeypatch.setenv(TOKEN, "s3cret")
        assert shell.json("groups", "list") == []
        monkeypatch.setenv(TOKEN, "s3\ncret")
        assert shell.refused("groups", "list") == f"What is in {TOKEN} is no token."


def watching(server: CoordinatorServer, *arguments: str) -> subprocess.Popen[str]:
    """`groups watch`, as soon as it has shown something."""
    command = [SHIM, "groups", "watch", "--control", server.control_url, *arguments]
    # Whoever runs the tests in the background of a shell has let their children ignore interrupts.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    watch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    assert watch.stdout is not None
    stop = threading.Event()

    def make_topics_change() -> None:
        while not stop.wait(0.05):
            server.call(server.kit.create_group, f"g{len(server.kit.cluster.nodes[1].groups.groups)}")

    making = threading.Thread(target=make_topics_change)
    making.start()
    assert watch.stdout.readline()
    stop.set()
    making.join()
    return watch


def test_watching_ends_with_the_first_interrupt(server: CoordinatorServer) -> None:
    watch = watching(server)
    watch.send_signal(signal.SIGINT)
    out, err = watch.communicate(timeout=20)
    assert (watch.returncode, err) == (0, "")
    assert all("the group is created" in line for line in out.splitlines())


def test_watching_ends_with_the_server() -> None:
    with CoordinatorServer(control=True) as brief:
        watch = watching(brief, "--json")
    out, err = watch.communicate(timeout=20)
    assert (watch.returncode, err) == (0, f"{brief.control_url} has stopped.\n")
    assert all(json.loads(line)["event"] for line in out.splitlines())


def test_watching_ends_when_nobody_reads(server: CoordinatorServer) -> None:
    watch = watching(server)
    assert watch.stdout is not None
    assert watch.stderr is not None
    watch.stdout.close()
    server.call(server.kit.create_group, "unread")
    assert watch.wait(20) == 0
    assert watch.stderr.read() == ""
    watch.stderr.close()
