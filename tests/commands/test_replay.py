"""`kafka-shim serve --journal` and `kafka-shim replay` as they are typed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import httpx
import orjson

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
    assert re.search(r"  error_code +0$", shown, re.M)


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
    answer = shim("serve", "--control", "127.0.0.1:0", "--store", "memory:", "--journal", trace, "--lab")
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "not both" in answer.stderr


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
