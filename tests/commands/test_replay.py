"""`kafka-shim serve --journal` and `kafka-shim replay` as they are typed."""

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

from kafka_shim.cli import main
from kafka_shim.lab.replay import Replay
from kafka_shim.testing import Simulation


def shim(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_shim", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def record(journal: Path) -> Simulation:
    """Two members, of which one dies and is missed."""
    simulation = Simulation(topics={"orders": 4}, journal=journal)
    assert simulation.journal is not None
    with simulation.journal:
        first, _ = (simulation.puppet("billing", ["orders"], session_timeout=10.0) for _ in range(2))
        simulation.run(20)
        first.crash()
        simulation.run(60)
    return simulation


def test_it_shows_the_groups_at_the_end_and_at_any_moment(tmp_path: Path) -> None:
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
    told = shim("replay", journal, "--until", str(before), "--html", page)
    assert re.search(r"run\.html has the bytes of [1-9]\d* requests\.", told.stderr)
    assert b"window.FRAMES" in page.read_bytes()
    refused = shim("replay", journal, "--html", tmp_path / "none" / "run.html")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)

    shown = shim("replay", journal, "--until", str(before), "--utc")
    assert f"Replayed {before} inputs, to " in shown.stdout
    assert "each as recorded" in shown.stdout
    assert "billing  Stable, generation or epoch 1" in shown.stdout
    assert shown.stdout.count("  session timer fires in ") == 2


def test_the_last_input_is_shown_as_annotated_hex(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    record(journal)
    lines = [orjson.loads(line) for line in journal.read_bytes().splitlines()[1:]]
    heartbeat = next(line for line in lines if line["in"] == "bytes" and b64decode(line["data"])[4:6] == b"\0\x0c")
    shown = shim("replay", journal, "--until", str(heartbeat["seq"]), "--frames").stdout
    request, answer = re.findall(r"^Heartbeat v4, (request|answer) on connection \d+, (\d+) bytes$", shown, re.M)
    assert request == ("request", str(len(b64decode(heartbeat["data"]))))
    assert answer == ("answer", str(heartbeat["out"][0][1]))
    assert re.search(r"^ +\d+  .*  group_id +'billing'$", shown, re.M)
    assert re.search(r"  error_code +0 NONE$", shown, re.M)


def test_a_replay_that_differs_is_exit_code_1_and_one_sentence(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    record(journal)
    first, *rest = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([orjson.dumps(orjson.loads(first) | {"seed": "0"}), *rest]))
    answer = shim("replay", journal)
    assert answer.returncode == 1
    assert answer.stderr.startswith("kafka-shim: After input ")
    assert answer.stderr.count("\n") == 1


def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"event":"trace"}\n')
    answer = shim("replay", trace)
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "not that of a journal" in answer.stderr
    answer = shim("serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--journal", tmp_path / "no" / "journal")
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "cannot be written" in answer.stderr


def test_a_run_that_cannot_go_on_is_refused_in_a_sentence(
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


def test_what_an_operator_does_is_replayed(tmp_path: Path) -> None:
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
        made = httpx.post(f"{control}/v1/topics", json={"topic": "orders", "partitions": 3})
        made_group = httpx.post(f"{control}/v1/groups", json={"group": "billing"})
        offsets = [{"topic": "orders", "partition": 0, "offset": 1}]
        rewound = httpx.post(f"{control}/v1/groups/billing/rewind", json={"offsets": offsets})
        httpx.delete(f"{control}/v1/topics/orders")
        server.send_signal(signal.SIGTERM)
    assert (made.status_code, made_group.status_code, rewound.status_code) == (200, 200, 409)
    assert "journal" in rewound.json()["message"]
    played = shim("replay", journal, "--json")
    assert played.returncode == 0, played.stderr
    assert [(each["group"], each["state"]) for each in orjson.loads(played.stdout)["groups"]] == [("billing", "Empty")]
    names = [line.get("name") for line in map(orjson.loads, journal.read_bytes().splitlines()) if "name" in line]
    assert names == ["create_topic", "create_group", "delete_topic"]


@contextmanager
def serving(*words: str | Path) -> Iterator[httpx.Client]:
    """The control server of a process that serves; the process ends in good order."""
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
    shown = http.get("/v1/groups/billing").json()
    return shown["state"], shown["generation"], len(shown["members"])


def test_a_run_goes_on_from_before_the_kill(tmp_path: Path) -> None:
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


def test_a_laboratory_goes_on_from_its_own_past(tmp_path: Path) -> None:
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
        then = http.post("/v1/clock", json={"advance": 10}).json()
        assert generations(http)[::2] == ("Stable", 2)
        http.post("/v1/puppets/1", json={"do": "crash"})
        http.post("/v1/clock", json={"advance": 20})
        assert generations(http)[::2] == ("Stable", 1)

        moment = datetime.fromtimestamp(then["wall"], UTC).isoformat()
        made = http.post("/v1/sandboxes", json={"until": moment}).json()
        assert [line.partition(" as ")[0] for line in made["members"]] == [f"puppet {n} goes on" for n in range(1, 6)]
        assert http.get("/v1/sandboxes").json() == {"journal": True, "ended": False, "sandboxes": [made]}
        with httpx.Client(base_url=made["control"], timeout=60) as sandbox:
            assert sandbox.get("/v1/clock").json()["frozen"]
            sandbox.post("/v1/clock", json={"advance": 600})
            assert generations(sandbox)[::2] == ("Stable", 2)
            played_on = [sandbox.get(f"/v1/groups/{kind}").json() for kind in others]
            assert [(each["type"], each["state"], len(each["members"])) for each in played_on] == [
                (kind, "Stable", 1) for kind in others
            ]
        # The laboratory itself is where it was.
        assert generations(http)[::2] == ("Stable", 1)
        assert http.delete("/v1/sandboxes/2").status_code == 404
        refused = http.post("/v1/sandboxes", json={"until": "yesterday"})
        assert (refused.status_code, "is no time" in refused.json()["message"]) == (409, True)
        # What a fault does the journal does not have.
        fault = {"action": "error", "api": "Heartbeat", "error": "UNKNOWN_MEMBER_ID", "optional": True}
        http.post("/v1/faults", json=fault)
        assert http.get("/v1/sandboxes").json()["ended"]
        http.post("/v1/clock", json={"advance": 20})
    with pytest.raises(httpx.ConnectError):
        # It ends with its laboratory.
        httpx.get(made["control"] + "/health")
    with journal.open("rb") as lines:
        played = Replay(lines)
        played.run()
    (group,) = [each for each in played.groups() if each["group"] == "billing"]
    assert (group["state"], len(group["members"])) == ("Stable", 1)
