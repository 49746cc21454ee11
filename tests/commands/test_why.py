"""`kafka-shim why`, run as a command."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_shim.testing import CoordinatorServer

TRACE = Path(__file__).parents[1] / "pipeline" / "recordings" / "kafka-4.2" / "trace" / "trace.jsonl.gz"


def why(
    *arguments: str,
    stdin: bytes | None = None,
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_shim", "why", *arguments]
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, env=env)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_why_prints_cause_phases_cost_and_advice() -> None:
    answer = why("billing", str(TRACE), "--utc")
    assert answer.returncode == 0
    assert "cause     SESSION_EXPIRED: kafka-python-3.0-1" in answer.stdout
    assert "generation 5 -> 6, 14:07:12.677 to 14:07:12.822, 146 ms   [seq 740-745]" in answer.stdout
    assert "3 of 6 partitions; 2 had to" in answer.stdout
    assert "What to do" in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) <= 80


def test_why_reads_standard_input() -> None:
    for stdin in (TRACE.read_bytes(), gzip.decompress(TRACE.read_bytes())):
        answer = why("billing", "-", "--brief", "--utc", stdin=stdin)
        assert answer.returncode == 0
        assert sum(line.startswith("14:0") for line in answer.stdout.splitlines()) == 6


def test_why_prints_the_last_rebalances_in_full() -> None:
    answer = why("billing", str(TRACE), "--last", "2", "--no-replay")
    assert answer.stdout.count("  cause     ") == 2


def test_the_last_rebalances_narrow_the_view_and_not_the_judgement() -> None:
    everything, last = (why("shipping", str(TRACE), *last, "--no-replay").stdout for last in ((), ("--last", "1")))
    assert last.count("  cause     ") == 1
    assert last.partition("\n\n")[0] in everything
    assert last.partition("What to do")[2] == everything.partition("What to do")[2]


def test_an_only_group_needs_no_name(tmp_path: Path) -> None:
    lines = [line for line in gzip.decompress(TRACE.read_bytes()).splitlines() if b'"group":"billing"' in line]
    trace = tmp_path / "one.jsonl"
    trace.write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "trace.jsonl").write_bytes(trace.read_bytes())
    by_name = why("billing", str(trace), "--utc", "--no-replay", "--brief")
    assert by_name.returncode == 0
    assert why(str(trace), "--utc", "--no-replay", "--brief").stdout == by_name.stdout
    # Which events a filter has left out is said by the name of the source.
    rebalances = by_name.stdout.partition("\n\n")[2]
    assert rebalances.count("generation") == 6
    for answer in (
        why("--utc", "--no-replay", "--brief", cwd=tmp_path),
        why("-", "--utc", "--no-replay", "--brief", stdin=trace.read_bytes()),
    ):
        assert answer.stdout.partition("\n\n")[2] == rebalances


def test_no_line_is_wider_than_80_columns(tmp_path: Path) -> None:
    for group in ("billing", "shipping"):
        for options in ((), ("--brief",), ("--last", "20")):
            answer = why(group, str(TRACE), *options, "--no-replay", environment={"COLUMNS": "200"})
            assert answer.returncode == 0
            assert max(map(len, answer.stdout.splitlines())) <= 80


def test_why_prints_json_for_programs() -> None:
    answer = json.loads(why("shipping", str(TRACE), "--json", "--no-replay").stdout)
    assert len(answer["rebalances"]) == 15
    assert {"group", "verdict", "remedies", "patterns", "would_not_help"} <= set(answer)


def test_why_takes_a_range_of_time() -> None:
    answer = why(
        "billing", str(TRACE), "--since", "2026-11-21T14:06:45+00:00", "--until", "2026-11-21T14:07:00+00:00", "--json"
    )
    assert [each["generation"] for each in json.loads(answer.stdout)["rebalances"]] == [4, 5]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["nobody", str(TRACE)], 3, "There is no group nobody in "),
        (
            ["billing", str(TRACE), "--since", "2030-01-01"],
            4,
            "billing did not rebalance in that time; its 6 rebalances are",
        ),
        (["billing", "no-such-file"], 2, "There is no no-such-file."),
        (["billing", str(TRACE), "--since", "yesterday"], 2, "'yesterday' is not a time"),
        ([str(TRACE)], 2, "Name a group: "),
        (["biling", str(TRACE)], 3, ". Did you mean billing?"),
        (["xyz", str(TRACE)], 3, ". Groups are "),
        (["--explain", "NEW_MEMBERS"], 2, "NEW_MEMBERS is not a cause; did you mean NEW_MEMBER?"),
        (["--explain", "xyz"], 2, "xyz is not a cause; causes are NEW_MEMBER, "),
    ],
)
def test_an_unanswerable_question_is_refused_in_one_sentence(arguments: list[str], code: int, sentence: str) -> None:
    answer = why(*arguments)
    assert (answer.returncode, answer.stdout) == (code, "")
    assert answer.stderr.startswith("kafka-shim: ")
    assert sentence in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_why_explains_a_cause() -> None:
    assert why("--explain", "poll_timeout_reason").stdout.startswith("POLL_TIMEOUT_REASON: A member left because")


def test_why_asks_a_running_server(tmp_path: Path) -> None:
    config = {"group.initial.rebalance.delay.ms": "0"}
    with CoordinatorServer(topics={"orders": 2}, config=config, control=True) as server:
        server.puppet("billing", ["orders"], client_id="first")
        server.group("billing").stable(members=1)
        server.puppet("billing", ["orders"], client_id="second")
        server.group("billing").stable(members=2)
        answer = why("billing", "--control", server.control_url, cwd=tmp_path)
        assert answer.returncode == 0
        assert "cause     NEW_MEMBER: second (127.0.0.1) is new" in answer.stdout
        assert "generation 1 -> 2" in answer.stdout
        unknown = why("nobody", "--control", server.control_url, cwd=tmp_path)
        assert (unknown.returncode, unknown.stderr) == (
            3,
            f"kafka-shim: There is no group nobody in {server.control_url}. Groups are billing.\n",
        )
    result = why("billing", "--control", server.control_url, cwd=tmp_path)
    assert result.returncode == 2
    assert "Nothing answers at" in result.stderr


PLAIN = gzip.decompress(TRACE.read_bytes())


def without(first: int, last: int) -> bytes:
    """Return the trace without its lines from the first to the last."""
    lines = PLAIN.splitlines(keepends=True)
    return b"".join(lines[: first - 1] + lines[last:])


def test_events_that_are_not_in_a_trace_are_said_beside_the_verdict(tmp_path: Path) -> None:
    trace = tmp_path / "gap.jsonl"
    trace.write_bytes(without(20, 40))
    for options in ((), ("--brief",), ("--last", "1")):
        answer = why("billing", str(trace), "--no-replay", *options)
        assert answer.returncode == 0
        text = " ".join(answer.stdout.split())
        assert f"Not complete: 21 events between seq 19 and 41 are not in {trace}." in text
    assert json.loads(why("billing", str(trace), "--no-replay", "--json").stdout)["missing"] == [
        f"21 events between seq 19 and 41 are not in {trace}"
    ]
    answer = subprocess.run([sys.executable, "-m", "kafka_shim", "trace", "show", str(trace)], capture_output=True)
    assert answer.stderr.decode() == f"kafka-shim: 21 events between seq 19 and 41 are not in {trace}.\n"


def test_a_whole_trace_misses_nothing() -> None:
    answer = why("billing", str(TRACE), "--no-replay")
    assert "Not complete" not in answer.stdout
    assert answer.stderr == ""
    assert json.loads(why("billing", str(TRACE), "--no-replay", "--json").stdout)["missing"] == []


def test_calm_is_not_said_without_a_limit_over_a_gap(tmp_path: Path) -> None:
    # The group has only started by line 100.
    lines = PLAIN.splitlines(keepends=True)[:100]
    trace = tmp_path / "calm.jsonl"
    trace.write_bytes(b"".join(lines))
    assert "What to do: nothing; joining" in why("billing", str(trace)).stdout
    assert json.loads(why("billing", str(trace), "--json").stdout)["calm"] is True
    trace.write_bytes(b"".join(lines[:90] + lines[91:]))
    text = " ".join(why("billing", str(trace)).stdout.split())
    assert f"1 event between seq 90 and 92 is not in {trace}." in text
    assert "What to do: nothing that the events here show, but some are missing;" in text
    assert json.loads(why("billing", str(trace), "--json").stdout)["calm"] is None


def test_a_line_that_is_no_event_is_refused_whatever_its_group(tmp_path: Path) -> None:
    lines = PLAIN.splitlines(keepends=True)
    trace = tmp_path / "bad.jsonl"
    trace.write_bytes(b"".join([*lines[:19], b"{bad/\n", *lines[20:]]))
    answer = why("billing", str(trace))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(f"kafka-shim: Line 20 of {trace} is not an event of a trace")


def test_a_trace_that_was_cut_or_is_empty_is_called_so(tmp_path: Path) -> None:
    trace = tmp_path / "cut.jsonl"
    trace.write_bytes(PLAIN[:3000])
    assert f"{trace} ends in the middle of line 7" in why("billing", str(trace)).stderr
    trace.write_bytes(b"".join(PLAIN.splitlines(keepends=True)[:100]) + b'{"event":"mem')
    answer = why("billing", str(trace))
    assert f"Not complete: {trace} ends in the middle of line 101" in " ".join(answer.stdout.split())
    trace.write_bytes(b"")
    assert f"{trace} is empty" in why("billing", str(trace)).stderr
