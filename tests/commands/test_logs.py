"""`kafka-shim trace from-log` writes a trace from the logs of brokers."""

import gzip
import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from kafka_shim.cli import cli
from tests.sources.broker_lines import Broker, life, uuid


class Ran(NamedTuple):
    returncode: int
    stdout: bytes
    stderr: bytes


def run(*arguments: object, text: bytes = b"") -> Ran:
    result = CliRunner().invoke(cli, list(map(str, arguments)), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Ran(result.exit_code, result.stdout_bytes, result.stderr_bytes)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "server.log"
    file.write_bytes(life("3.9"))
    return file


def test_a_trace_from_a_log_tells_its_story(log: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    made = run("trace", "from-log", log, "--out", trace)
    assert trace.stat().st_mode & 0o777 == 0o600
    assert (made.returncode, made.stdout) == (0, b"")
    assert made.stderr == b"kafka-shim: 20 lines about groups were understood, 0 were not.\n"
    shown = run("trace", "show", trace, "--utc").stdout.decode()
    assert "2026-11-27 09:27:46.123  billing  rebalance begins, cause SESSION_EXPIRED: app-2 sent no heartbeat" in shown
    row = json.loads(run("trace", "summary", trace, "--json").stdout)[0]
    assert (row["group"], row["rebalances"], row["partition_seconds"]) == ("billing", 5, None)
    generation = r"generation 3: 2 members after 1997 ms \(app-1, app-3\), app-1 leads"
    assert re.search(rf"{generation}  \[server\.log:\d+\]\n", shown)


def test_packed_logs_and_standard_input_are_read(tmp_path: Path) -> None:
    (tmp_path / "server.log.2026-11-27-09.gz").write_bytes(gzip.compress(life("4.4")))
    of_folder = run("trace", "from-log", tmp_path).stdout.splitlines()
    of_input = run("trace", "from-log", "-", text=life("4.4")).stdout.splitlines()
    assert len(of_folder) == len(of_input) > 20
    assert json.loads(of_input[1])["where"] == "standard input:1"


def test_a_zone_moves_the_times(log: Path) -> None:
    (first, *_), (utc, *_) = (
        [json.loads(line) for line in run("trace", "from-log", log, *zone).stdout.splitlines()]
        for zone in (["--log-zone", "Europe/Berlin"], [])
    )
    assert utc["wall"] - first["wall"] == 3600
    refused = run("trace", "from-log", log, "--log-zone", "Berlin")
    assert (
        refused.returncode,
        b"'Berlin' is not a time zone: write a name such as Europe/Berlin" in refused.stderr,
    ) == (
        2,
        True,
    )


def test_a_log_without_a_line_of_a_coordinator_is_said(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text("[2026-11-27 09:26:06,123] INFO [KafkaServer id=0] started (kafka.server.KafkaServer)\n")
    ran = run("trace", "from-log", file)
    assert ran.returncode == 1
    assert b"the level of its loggers is WARN. It does not say that no group rebalanced." in ran.stderr


def test_an_absent_or_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(life("4.4"))[:-20])
    assert run("trace", "from-log", tmp_path / "b").stderr == f"Error: There is no {tmp_path}/b.\n".encode()
    assert b"is not a complete gzip file." in run("trace", "from-log", tmp_path / "a.gz").stderr


def test_why_explains_a_group_from_a_log(log: Path) -> None:
    ran = run("why", "billing", "--log", log, "--utc")
    text = " ".join(ran.stdout.decode().split())
    assert (
        "billing classic, 0 members, Empty, generation 5 Rebalanced 5 times in 12 min: app-2 sent no heartbeat" in text
    )
    assert "once: it died or stood still; and app-3 left when its poll interval was over" in text
    assert "[server.log:18 to server.log:20] cause MEMBER_LEFT: app-1 (10.0.0.7) left" in text
    assert "cost does not show: a log has no partitions of members" in text
    assert "2 app-3, client: max.poll.interval.ms 300000 -> longer than its longest batch" in text
    assert "see server.log:14" in text
    assert "Cannot tell from this source: whether app-2 died or stood still; add its log" in text
    assert b"20 lines about billing were understood, 0 were not." in ran.stderr


def test_why_answers_in_json(log: Path) -> None:
    answer = json.loads(run("why", "billing", "--log", log, "--json").stdout)
    assert [each["cause"] for each in answer["rebalances"]] == [
        "NEW_MEMBER", "SESSION_EXPIRED", "NEW_MEMBER", "POLL_TIMEOUT_REASON", "MEMBER_LEFT",
    ]  # fmt: skip
    assert answer["rebalances"][1]["lines"] == ["server.log:7", "server.log:9"]
    assert answer["rebalances"][1]["partition_seconds"] is None
    assert answer["remedies"][0]["lines"] == ["server.log:7"]
    assert len(answer["cannot_tell"]) == 1


def test_why_lists_the_groups_of_a_log_the_sickest_first(log: Path, tmp_path: Path) -> None:
    calm = Broker("3.9", group="calm")
    calm.new_member(0, f"app-1-{uuid(9)}", 0, "Empty")
    calm.round(3, 1, f"app-1-{uuid(9)}", 1)
    other = tmp_path / "b" / "server.log"
    other.parent.mkdir()
    other.write_bytes(calm.text)
    rows = json.loads(run("why", "--log", log, other, "--json").stdout)
    assert [(row["group"], row["rebalances"], row["calm"]) for row in rows] == [
        ("billing", 5, False),
        ("calm", 1, True),
    ]
    text = run("why", "--log", log, "--log", other).stdout.decode()
    assert "kafka-shim why GROUP, with the same options, explains why, and advises." in text


def test_why_names_the_brokers_of_logs_without_the_group(log: Path) -> None:
    ran = run("why", "bilings", "--log", log)
    expected = f"kafka-shim: There is no group bilings in {log} (of broker 0). Did you mean billing?\n"
    assert (ran.returncode, ran.stderr.decode()) == (3, expected)


def test_why_does_not_take_silence_for_calm(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("[2026-11-27 09:26:06,123] WARN disk (kafka.log.LogManager)\n")
    ran = run("why", "billing", "--log", tmp_path)
    assert (ran.returncode, b"It does not say that no group rebalanced." in ran.stderr) == (3, True)


def test_the_commands_of_the_readme_run(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "brokers").mkdir()
    for name in ("orders", "billing"):
        (tmp_path / "brokers" / f"{name}.log").write_bytes(log.read_bytes().replace(b"billing", name.encode()))
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    block = re.search(r"<!-- run: tests/commands/test_logs.py -->\n```sh\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    outputs = [run(*shlex.split(line)[1:]) for line in block[1].splitlines()]
    assert [each.returncode for each in outputs] == [0, 0, 0]
    assert b"app-2 sent no heartbeat" in outputs[0].stdout
    assert (tmp_path / "trace.jsonl").read_bytes().count(b"\n") > 20


def test_a_trace_from_a_log_has_the_places_of_its_lines_and_no_partitions(log: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    for command in (["from-log", str(log), "--out", str(trace)], ["show", str(trace)], ["show", "--json", str(trace)]):
        done = CliRunner().invoke(cli, ["trace", *command])
        assert done.exit_code == 0
        if command[0] == "show" and "--json" not in command:
            assert all(re.search(r"  \[server\.log:\d+\]$", line) for line in done.stdout.splitlines())
    assert all(json.loads(line)["where"].startswith("server.log:") for line in done.stdout.splitlines())
    done = CliRunner().invoke(cli, ["trace", "compare", str(trace), str(trace), "--json"])
    total = json.loads(done.stdout)["rows"][-1]
    assert (total["left"]["partition_seconds"], total["left"]["moved"]) == (None, None)
    assert "not in a log" in CliRunner().invoke(cli, ["trace", "compare", str(trace), str(trace)]).stdout
