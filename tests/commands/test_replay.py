"""`kafka-shim serve --journal` and `kafka-shim replay`, run as commands."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import orjson
import pytest

from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.cli import main
from kafka_shim.lab.replay import Replay
from kafka_shim.testing import Simulation
from tests.server.wire import Client


def shim(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_shim", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def record(journal: Path) -> Simulation:
    """Record two members, one of which dies and expires."""
    simulation = Simulation(topics={"orders": 4}, journal=journal)
    assert simulation.journal is not None
    with simulation.journal:
        first, _ = (simulation.puppet("billing", ["orders"], session_timeout=10.0) for _ in range(2))
        simulation.run(20)
        first.crash()
        simulation.run(60)
    return simulation


@pytest.mark.second_stage("many processes")
def test_replay_shows_the_groups_at_the_end_and_at_any_moment(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    record(journal)
    lines = [orjson.loads(line) for line in journal.read_bytes().splitlines()[1:]]
    whole = orjson.loads(shim("replay", journal, "--json").stdout)
    assert whole["seq"] == lines[-1]["seq"]
    (group,) = whole["groups"]
    assert (group["state"], group["generation"], len(group["members"])) == ("Stable", 2, 1)
    assert group["members"][0]["owned"] == {"orders": [0, 1, 2, 3]}

    before = next(line["seq"] for line in lines if line["in"] == "lost")
    (group,) = orjson.loads(shim("replay", journal, "--json", "--until", str(before)).stdout)["groups"]
    assert (group["state"], group["generation"], len(group["members"])) == ("Stable", 1, 2)
    assert {timer["purpose"] for timer in group["timers"]} == {"session"}
    assert all(0 < timer["in"] <= 10 for timer in group["timers"])

    page = tmp_path / "run.html"
    result = shim("replay", journal, "--until", str(before), "--html", page)
    assert re.search(r"run\.html has the bytes of [1-9]\d* requests\.", result.stderr)
    assert b"window.FRAMES" in page.read_bytes()
    refused = shim("replay", journal, "--html", tmp_path / "none" / "run.html")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)

    result = shim("replay", journal, "--until", str(before), "--utc")
    assert f"Replayed {before} inputs, to " in result.stdout
    assert "each as recorded" in result.stdout
    assert "billing  Stable, generation or epoch 1" in result.stdout
    assert result.stdout.count("  session timer fires in ") == 2


def test_replay_prints_the_last_input_as_annotated_hex(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    record(journal)
    lines = [orjson.loads(line) for line in journal.read_bytes().splitlines()[1:]]
    heartbeat = next(line for line in lines if line["in"] == "bytes" and b64decode(line["data"])[4:6] == b"\0\x0c")
    text = shim("replay", journal, "--until", str(heartbeat["seq"]), "--frames").stdout
    request, answer = re.findall(r"^Heartbeat v4, (request|answer) on connection \d+, (\d+) bytes$", text, re.M)
    assert request == ("request", str(len(b64decode(heartbeat["data"]))))
    assert answer == ("answer", str(heartbeat["out"][0][1]))
    assert re.search(r"^ +\d+  .*  group_id +'billing'$", text, re.M)
    assert re.search(r"  error_code +0 NONE$", text, re.M)


def test_a_replay_that_differs_is_exit_code_1_and_one_sentence(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    record(journal)
    first, *rest = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([orjson.dumps(orjson.loads(first) | {"seed": "0"}), *rest]))
    answer = shim("replay", journal)
    assert answer.returncode == 1
    assert answer.stderr.startswith("kafka-shim: After input ")
    assert answer.stderr.count("\n") == 1


def test_an_impossible_replay_is_refused_in_one_sentence(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"event":"trace"}\n')
    answer = shim("replay", trace)
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "not that of a journal" in answer.stderr
    answer = shim("serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--journal", tmp_path / "no" / "journal")
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "cannot be written" in answer.stderr


def test_an_impossible_continuation_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "journal.jsonl"
    record(journal)
    for words, expected in (
        (["--until", "0", "--serve", "127.0.0.1:0", "--control", "127.0.0.1:0"], "choose a later one"),
        (["--serve", "127.0.0.1:0", "--control", "0.0.0.0:0"], "needs a token"),
        (["--serve", "127.0.0.1:0", "--trace", str(tmp_path / "trace")], "not both"),
        (["--serve", "here"], "not of the form HOST:PORT"),
    ):
        monkeypatch.setattr(sys, "argv", ["kafka-shim", "replay", str(journal), *words])
        with pytest.raises(SystemExit) as ended:
            main()
        error = capsys.readouterr().err
        assert (ended.value.code, error.count("\n")) == (2, 1)
        assert expected in error


def test_replay_repeats_the_actions_of_an_operator(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    words = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--control",
        "127.0.0.1:0",
        "--store",
        "memory:",
        "--log-level",
        "error",
    ]
    command = [sys.executable, "-m", "kafka_shim", *words, "--journal", str(journal)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        control = server.stdout.readline().partition("control=")[2].strip()
        topic = httpx.post(f"{control}/v1/topics", json={"topic": "orders", "partitions": 3})
        made_group = httpx.post(f"{control}/v1/groups", json={"group": "billing"})
        offsets = [{"topic": "orders", "partition": 0, "offset": 1}]
        rewound = httpx.post(f"{control}/v1/groups/billing/rewind", json={"offsets": offsets})
        httpx.delete(f"{control}/v1/topics/orders")
        server.send_signal(signal.SIGTERM)
    assert (topic.status_code, made_group.status_code, rewound.status_code) == (200, 200, 409)
    assert "journal" in rewound.json()["message"]
    played = shim("replay", journal, "--json")
    assert played.returncode == 0, played.stderr
    assert [(each["group"], each["state"]) for each in orjson.loads(played.stdout)["groups"]] == [("billing", "Empty")]
    names = [line.get("name") for line in map(orjson.loads, journal.read_bytes().splitlines()) if "name" in line]
    assert names == ["create_topic", "create_group", "delete_topic"]


@contextmanager
def serving(*words: str | Path) -> Iterator[httpx.Client]:
    """Yield the control server of a serving process, and end the process in good order."""
    command = [sys.executable, "-m", "kafka_shim", *map(str, words), "--control", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        ready = next((line for line in server.stdout if line.startswith("ready ")), "")
        try:
            with httpx.Client(base_url=ready.partition("control=")[2].strip(), timeout=60) as http:
                yield http
        finally:
            server.send_signal(signal.SIGTERM)
            errors = server.communicate(timeout=30)[1]
    assert server.returncode == 0, errors


def generations(http: httpx.Client) -> tuple[str, int, int]:
    group = http.get("/v1/groups/billing").json()
    return group["state"], group["generation"], len(group["members"])


def test_a_run_continues_from_the_moment_before_the_kill(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    record(journal)
    before = next(
        line["seq"] for line in map(orjson.loads, journal.read_bytes().splitlines()) if "lost" in line.values()
    )
    with serving("replay", journal, "--until", str(before - 1), "--serve", "127.0.0.1:0") as http:
        assert http.post("/v1/clock", json={"advance": 600}).json()["frozen"]
        assert generations(http) == ("Stable", 1, 2)
        assert "billing" in http.get("/v1/events?since=0&form=story&seconds=0").text
        http.post("/v1/puppets", json={"group": "billing", "topics": ["orders"]})
        http.post("/v1/clock", json={"advance": 10})
        assert generations(http) == ("Stable", 2, 3)
        assert len(http.get("/v1/puppets").json()["puppets"]) == 3
        answer = http.post("/v1/sandboxes", json={})
        assert (answer.status_code, "no journal" in answer.json()["message"]) == (409, True)


@pytest.mark.second_stage("many processes")
def test_a_laboratory_continues_from_its_own_past(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    words = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--topic", "orders:4", "--lab"]
    with serving(*words, "--config", "group.initial.rebalance.delay.ms=0", "--journal", journal) as http:
        http.post("/v1/clock", json={"frozen": True})
        puppet = {"group": "billing", "topics": ["orders"], "session_timeout": 10, "heartbeat_interval": 3}
        http.post("/v1/puppets", json=puppet)
        http.post("/v1/puppets", json=puppet)
        others = ("consumer", "share", "streams")
        for kind in others:
            assert http.post("/v1/puppets", json={"kind": kind, "group": kind, "topics": ["orders"]}).is_success
        (broker,) = http.get("/v1/brokers").json()["brokers"]
        with Client(f"{broker['host']}:{broker['port']}") as worker:
            join = JoinGroupRequest("workers", 60_000, 60_000, protocol_type="connect")
            join.protocols = [JoinGroupRequestProtocol("default", b"")]
            assert worker.ask(join, 1, JoinGroupResponse).error_code == 0
            then = http.post("/v1/clock", json={"advance": 10}).json()
        assert generations(http)[::2] == ("Stable", 2)
        http.post("/v1/puppets/1", json={"do": "crash"})
        http.post("/v1/clock", json={"advance": 20})
        assert generations(http)[::2] == ("Stable", 1)

        moment = datetime.fromtimestamp(then["wall"], UTC).isoformat()
        sandbox_of_http = http.post("/v1/sandboxes", json={"until": moment}).json()
        *played, not_played = sandbox_of_http["members"]
        assert [line.partition(" as ")[0] for line in played] == [f"puppet {n} continues" for n in range(1, 6)]
        assert not_played.startswith("no puppet for ")
        assert not_played.endswith(" of workers: it is not a consumer but a connect")
        assert http.get("/v1/sandboxes").json() == {
            "journal": True,
            "ended": False,
            "end_reason": "",
            "sandboxes": [sandbox_of_http],
        }
        with httpx.Client(base_url=sandbox_of_http["control"], timeout=60) as sandbox:
            assert sandbox.get("/v1/clock").json()["frozen"]
            sandbox.post("/v1/clock", json={"advance": 600})
            assert generations(sandbox)[::2] == ("Stable", 2)
            played_on = [sandbox.get(f"/v1/groups/{kind}").json() for kind in others]
            assert [(each["type"], each["state"], len(each["members"])) for each in played_on] == [
                (kind, "Stable", 1) for kind in others
            ]
        # The laboratory itself is unchanged.
        assert generations(http)[::2] == ("Stable", 1)
        assert http.delete("/v1/sandboxes/2").status_code == 404
        refused = http.post("/v1/sandboxes", json={"until": "yesterday"})
        assert (refused.status_code, "is not a time" in refused.json()["message"]) == (409, True)
        fault = {"action": "error", "api": "Heartbeat", "error": "UNKNOWN_MEMBER_ID", "times": 1}
        http.post("/v1/faults", json=fault)
        http.post("/v1/clock", json={"advance": 20})
        faults = http.get("/v1/faults").json()["faults"]
        assert [each["fired"] for each in faults] == [1]
        assert not http.get("/v1/sandboxes").json()["ended"]
        generation = http.get("/v1/groups/billing").json()["generation"]
        # The journal has no input for a store that fails.
        assert http.post("/v1/store/fail", json={}).is_success
        assert http.get("/v1/sandboxes").json()["ended"]
    with pytest.raises(httpx.ConnectError):
        # The sandbox ends with its laboratory.
        httpx.get(sandbox_of_http["control"] + "/health")
    with journal.open("rb") as lines:
        played = Replay(lines)
        played.run()
    (group,) = [each for each in played.groups() if each["group"] == "billing"]
    assert (group["state"], len(group["members"])) == ("Stable", 1)
    # The refused member has joined again.
    assert group["generation"] == generation
