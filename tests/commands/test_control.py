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
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.streams_group_topology_description_update import (
    GlobalStore,
    Node,
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    Subtopology,
    TopologyDescription,
)
from kafka_shim.cli import main
from kafka_shim.commands.asking import TOKEN
from kafka_shim.control.operations.acts import (
    ConsumerManner,
    CreateConsumerPuppet,
    CreatePuppet,
    CreateSharePuppet,
    CreateStreamsPuppet,
    Manner,
)
from kafka_shim.lab.faults import Plan
from kafka_shim.lab.interception import MATCH_FIELDS
from kafka_shim.testing import CoordinatorServer
from tests.server.wire import Client

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
        """One sentence on standard error; exit code 3 for a group that the server has not, and 2 for other errors."""
        code, out, err = self.run(*arguments)
        assert (code, out) == (3 if "There is no " in err else 2, "")
        assert err.startswith("kafka-shim: ")
        assert len(err.splitlines()) == 1
        return err.removeprefix("kafka-shim: ").strip()


@pytest.fixture
def shell(server: CoordinatorServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(server.control_url, capsys, monkeypatch)


def test_groups_are_created_shown_rewound_and_deleted(server: CoordinatorServer, shell: Shell) -> None:
    assert shell.output("groups", "create", "b", "--ephemeral", "--heartbeat-bound-ms", "9000") == "b is created.\n"
    puppet = server.puppet("b", ["orders"], client_id="[bold]x")
    state = server.group("b").stable(members=1)
    assert shell.json("groups", "list")[0]["protocol"] == "range"
    assert shell.output("groups", "list").splitlines()[1].split() == ["b", "Stable", "1", "1", "range", "1"]
    output = shell.output("groups", "describe", "b")
    assert "protocol range" in output
    assert "it goes with its last member, a member is silent for 9000 ms at most" in output
    assert state.members[0].member_id in output
    assert "orders 0,1,2,3" in output
    assert shell.json("groups", "describe", "b")["heartbeat_bound_ms"] == 9000
    assert shell.output("groups", "rewind", "b", "orders:1=0") == "b is rewound; of 1 members all have restarted.\n"
    assert shell.refused("groups", "delete", "b") == "The group has members."
    server.group("b").stable(members=1)
    puppet.leave()
    server.group("b").next("group", change="deleted")
    assert shell.refused("groups", "delete", "b") == "There is no group 'b'; `kafka-shim groups list` shows all."


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


def test_the_help_of_a_fault_names_its_fields(shell: Shell) -> None:
    output = shell.output("faults", "add", "--help")
    for field in (
        *MATCH_FIELDS - {"error"},
        *(set(Plan.__dataclass_fields__) - {"action", "code"}),
        "optional",
        "error",
    ):
        assert f"{field}=" in output
    assert "KAFKA_SHIM_CONTROL" in output


def test_the_help_of_a_puppet_names_its_fields(shell: Shell) -> None:
    output = shell.output("puppets", "start", "--help")
    kinds = (CreatePuppet, CreateConsumerPuppet, CreateSharePuppet, CreateStreamsPuppet)
    for field in {name for kind in kinds for name in kind.__struct_fields__} - {"group", "topics"}:
        assert f"{field}=" in output
    for manner in (*Manner.__struct_fields__, *ConsumerManner.__struct_fields__):
        assert manner in output


def test_the_clock_moves(shell: Shell) -> None:
    assert ", frozen, " in shell.output("clock", "freeze")
    before = shell.json("clock")["now"]
    assert shell.json("clock", "advance", "10")["now"] == pytest.approx(before + 10)
    assert ", running, " in shell.output("clock", "resume")
    assert shell.refused("clock", "advance").startswith("Seconds belong to")


def test_brokers_stop_and_start(shell: Shell) -> None:
    assert shell.json("brokers", "list")[0]["up"] is True
    assert shell.output("brokers", "kill", "1").strip().endswith(" down")
    assert shell.refused("brokers", "stop", "1") == "Broker 1 is down already."
    assert shell.output("brokers", "restart", "1").strip().endswith(" up")


def test_puppets_join_and_crash(shell: Shell, server: CoordinatorServer) -> None:
    assert shell.output("puppets", "list") == "There is none.\n"
    puppet = shell.json("puppets", "start", "crowd", "orders", "client_id=7", "kind=consumer")
    assert (puppet["client_id"], puppet["kind"]) == ("7", "consumer")
    server.group("crowd").stable(members=["7"])
    shell.output("puppets", "do", str(puppet["puppet"]), "leave")
    server.group("crowd").empty()
    assert shell.refused("puppets", "do", "999", "leave").startswith(
        "There is no puppet 999; `kafka-shim puppets list`"
    )


def test_topics_are_created_listed_and_deleted(shell: Shell) -> None:
    assert shell.output("topics", "create", "bills", "--partitions", "2") == "bills:2\n"
    assert "bills:2" in shell.output("topics", "list").splitlines()
    assert {"topic": "bills", "partitions": 2} in shell.json("topics", "list")
    assert shell.refused("topics", "create", "bills") == "There is such a topic already."
    assert shell.output("topics", "delete", "bills") == "bills is deleted.\n"


def test_records_are_produced_described_and_consumed(
    server: CoordinatorServer, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.create_topic("letters", 2, {"max.message.bytes": 9999})
    assert shell.output("produce", "letters", "one", "two", "--key", "k", "--partition", "1", "--header", "h=x") == (
        "letters:1=0\nletters:1=1\n"
    )
    monkeypatch.setattr(sys, "stdin", StringIO("three\nfour\n"))
    assert shell.json("produce", "letters", "--partition", "0") == [
        {"partition": 0, "offset": 0},
        {"partition": 0, "offset": 1},
    ]
    server.produce("letters", b"\xff", None, partition=1)
    described = shell.json("topics", "describe", "letters")
    assert [(each["start_offset"], each["end_offset"]) for each in described["partitions"]] == [(0, 2), (0, 4)]
    assert "settings of its own: max.message.bytes=9999" in shell.output("topics", "describe", "letters")
    assert shell.output("consume", "letters").splitlines() == [
        "letters:0=0 three",
        "letters:0=1 four",
        "letters:1=0 k: one",
        "letters:1=1 k: two",
        "letters:1=2 /w==",
        "letters:1=3 (null)",
    ]
    output = shell.output("consume", "letters", "--partition", "1", "--from", "1", "--json")
    first, second, _ = map(json.loads, output.splitlines())
    assert (first["key"], first["headers"], first["base64"]) == ("k", [["h", "x"]], False)
    assert (second["value"], second["base64"]) == ("/w==", True)
    code, out, err = shell.run("consume", "letters", "--most", "1")
    assert (code, out, err) == (0, "letters:0=0 three\n", "There are more: --from and --most choose others.\n")


def test_the_lag_of_a_group_is_shown(server: CoordinatorServer, shell: Shell) -> None:
    shell.output("groups", "create", "empty")
    assert shell.output("groups", "lag", "empty") == "It has committed no offset.\n"
    server.create_topic("backlog")
    server.produce("backlog", "a", "b", "c")
    server.seed_offsets("late", {("backlog", 0): 1})
    assert shell.json("groups", "lag", "late") == [{"topic": "backlog", "partition": 0, "offset": 1, "lag": 2}]
    assert shell.output("groups", "lag", "late").splitlines()[1:] == ["backlog  0          1       2  ", "2 in all"]
    server.create_topic("unread", 2)
    server.produce("unread", "a", "b", partition=1)
    puppet = server.puppet("fresh", ["unread"])
    server.group("fresh").stable(members=1)
    assert server.lag("fresh") == {("unread", 0): 0, ("unread", 1): 2}
    assert shell.json("groups", "lag", "fresh") == [
        {"topic": "unread", "partition": 0, "offset": None, "lag": 0},
        {"topic": "unread", "partition": 1, "offset": None, "lag": 2},
    ]
    assert shell.output("groups", "lag", "fresh").splitlines()[1:] == [
        "unread  0          -       0  ",
        "unread  1          -       2  ",
        "2 in all",
    ]
    puppet.commit({("unread", 1): 2})
    server.group("fresh").committed("unread", 1)
    assert [(each["offset"], each["lag"]) for each in shell.json("groups", "lag", "fresh")] == [(None, 0), (2, 0)]


def test_a_group_with_epochs_shows_its_wait_for_the_assignment_interval(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"group.consumer.assignment.interval.ms": "1000"}
    with CoordinatorServer(topics={"orders": 4}, control=True, config=config) as server:
        shell, group = Shell(server.control_url, capsys, monkeypatch), server.group("billing")
        server.clock.freeze()
        server.consumer_puppet("billing", ["orders"], client_id="one")
        group.next("epoch", generation=2)
        assert shell.output("groups", "describe", "billing").startswith(
            "billing: Stable, group epoch 2, assignment epoch 2, protocol uniform, coordinated by node 1\n"
        )
        server.consumer_puppet("billing", ["orders"], client_id="two")
        group.next("epoch", generation=3)
        server.clock.advance(0.25)
        assert shell.output("groups", "describe", "billing").splitlines()[:2] == [
            "billing: Assigning, group epoch 3, assignment epoch 2, protocol uniform, coordinated by node 1",
            "waits 750 ms for the assignment interval",
        ]
        found = shell.json("groups", "describe", "billing")
        assert (found["generation"], found["assignment_epoch"], found["assignment_wait_ms"]) == (3, 2, 750)
        server.clock.advance(1)
        server.clock.resume()
        group.stable(members=2)
        found = shell.json("groups", "describe", "billing")
        assert (found["generation"], found["assignment_epoch"], found["assignment_wait_ms"]) == (3, 3, None)
        assert "waits" not in shell.output("groups", "describe", "billing")


def test_the_described_topology_of_a_streams_group_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
    config = {"group.streams.topology.description.plugin.class": plugin}
    nodes = [
        Node("lines", 1, ["orders"], None, [], ["split"]),
        Node("split", 2, [], None, ["counts"], ["out"]),
        Node("out", 3, [], "totals", [], []),
    ]
    everywhere = GlobalStore(Node("prices", 1, ["prices"], None, [], ["keep"]), Node("keep", 2, [], None, ["all"], []))
    with CoordinatorServer(topics={"orders": 4}, control=True, config=config) as server:
        shell = Shell(server.control_url, capsys, monkeypatch)
        server.streams_puppet("words", ["orders"])
        (member,) = server.group("words").stable(members=1).members
        assert shell.json("groups", "describe", "words")["topology"] == []
        description = TopologyDescription([Subtopology("0", nodes)], [everywhere])
        update = StreamsGroupTopologyDescriptionUpdateRequest("words", member.member_id, 0, description)
        with Client(server.bootstrap) as client:
            assert client.ask(update, 0, StreamsGroupTopologyDescriptionUpdateResponse).error_code == 0
        found = [tuple(node.values()) for node in shell.json("groups", "describe", "words")["topology"]]
        assert found == [
            ("0", "lines", "source", ["orders"], [], ["split"]),
            ("0", "split", "processor", [], ["counts"], ["out"]),
            ("0", "out", "sink", ["totals"], [], []),
            ("", "prices", "source", ["prices"], [], ["keep"]),
            ("", "keep", "processor", [], ["all"], []),
        ]
        lines = [line.split() for line in shell.output("groups", "describe", "words").splitlines()]
        assert lines[lines.index(["subtopology", "name", "type", "topics", "stores", "successors"]) + 1 :] == [
            ["0", "lines", "source", "orders", "split"],
            ["0", "split", "processor", "counts", "out"],
            ["0", "out", "sink", "totals"],
            ["prices", "source", "prices", "keep"],
            ["keep", "processor", "all"],
        ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["groups", "describe", "nobody"], "There is no group 'nobody'; `kafka-shim groups list` shows all."),
        (["groups", "describe", ""], "A name must not be empty."),
        (["groups", "rewind", "b", "orders:0"], "'orders:0' is not of the form TOPIC:PARTITION=OFFSET."),
        (["groups", "rewind", "b", "orders:0=x"], "'orders:0=x' is not of the form TOPIC:PARTITION=OFFSET."),
        (
            ["groups", "rewind", "nobody", "orders:0=1"],
            "There is no group 'nobody'; `kafka-shim groups list` shows all.",
        ),
        (["faults", "add", "error", "api=Heartbeat"], "The field 'error' is missing."),
        (["faults", "add", "drop", "apis=Fetch"], "'apis' is not a field; did you mean 'api'?"),
        (["faults", "add", "drop", "api=fech"], "'fech' is not a valid api; did you mean 'Fetch'?"),
        (["faults", "add", "error", "error=NOT_COORDINATER"], "is not a valid error; did you mean 'NOT_COORDINATOR'?"),
        (["faults", "add", "drop", "role=boss"], "'boss' is not a valid role; there are follower, leader."),
        (["faults", "add", "drop", "times"], "'times' is not of the form NAME=VALUE, such as group=billing."),
        (["faults", "add", "explode"], "'explode' is not one of"),
        (["faults", "clear", "99"], "There is no fault 99; `kafka-shim faults list` shows all."),
        (["topics", "create", "a b"], "Expected a name of 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-' in 'topic'."),
        (["topics", "delete", "nope"], "There is no topic 'nope'; `kafka-shim topics list` shows all."),
        (["topics", "describe", "nope"], "There is no topic 'nope'; `kafka-shim topics list` shows all."),
        (["groups", "lag", "nobody"], "There is no group 'nobody'; `kafka-shim groups list` shows all."),
        (["produce", "nope", "x"], "There is no topic 'nope'; `kafka-shim topics list` shows all."),
        (["produce", "orders", "x", "--partition", "4"], "There is no partition 4; the topic has 4."),
        (["produce", "orders", "x", "--header", "h"], "'h' is not of the form NAME=VALUE."),
        (
            ["produce", "__consumer_offsets", "x"],
            "There is no topic '__consumer_offsets'; `kafka-shim topics list` shows all.",
        ),
        (["consume", "orders", "--partition", "9"], "There is no partition 9; the topic has 4."),
    ],
)
def test_impossible_arguments_are_refused_in_one_sentence(shell: Shell, arguments: list[str], sentence: str) -> None:
    assert sentence in shell.refused(*arguments)


def test_the_port_for_clients_is_no_control_server(server: CoordinatorServer, shell: Shell) -> None:
    output = shell.refused("groups", "list", "--control", f"http://{server.bootstrap}")
    assert "is not a control server of kafka-shim: name the address of `serve --control`." in output


def test_a_trace_is_read_where_the_environment_names_a_server(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text("x\n")
    output = shell.refused("trace", "show", str(tmp_path / "trace.jsonl"))
    assert output == f"Line 1 of {tmp_path / 'trace.jsonl'} is not an event of a trace."


def test_an_unreachable_server_is_named(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        control = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    output = shell.refused("groups", "list", "--control", control)
    assert output.startswith(
        f"Nothing answers at {control}: start `kafka-shim serve --control HOST:PORT`, or name its address"
    )
    for address in ("no where", "ftp://127.0.0.1"):
        assert "is not the address of a control server" in shell.refused("topics", "list", "--control", address)


def test_another_http_server_is_recognised(shell: Shell) -> None:
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
        assert output == f"{control} is not a control server of kafka-shim: it answers 404."
        assert (
            shell.refused("topics", "list", "--control", control) == f"{control} is not a control server of kafka-shim."
        )
        other.shutdown()


def test_a_missing_token_is_requested(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with CoordinatorServer() as guarded:
        control = guarded.wait(guarded.kit.serve_control, "127.0.0.1", 0, "s3cret")
        monkeypatch.setenv("KAFKA_SHIM_CONTROL", control)
        assert shell.refused("groups", "list") == f"{control} needs its token: put it into {TOKEN}."
        monkeypatch.setenv(TOKEN, "wrong")
        assert shell.refused("groups", "list") == f"{control} refuses the token in {TOKEN}."
        monkeypatch.setenv(TOKEN, "s3cret")
        assert shell.json("groups", "list") == []
        monkeypatch.setenv(TOKEN, "s3\ncret")
        assert shell.refused("groups", "list") == f"{TOKEN} is not a valid token: it must be printable ASCII."


def watching(server: CoordinatorServer, *arguments: str) -> subprocess.Popen[str]:
    """Start `groups watch`, and yield it after its first line."""
    command = [SHIM, "groups", "watch", "--control", server.control_url, *arguments]
    # A shell lets the children of its background jobs ignore interrupts.
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


def test_watching_ends_when_its_output_is_closed(server: CoordinatorServer) -> None:
    watch = watching(server)
    assert watch.stdout is not None
    assert watch.stderr is not None
    watch.stdout.close()
    server.call(server.kit.create_group, "unread")
    assert watch.wait(20) == 0
    assert watch.stderr.read() == ""
    watch.stderr.close()
