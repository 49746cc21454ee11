"""`kafka-shim trace show|summary|follow|compare|export` on a recording of a real Kafka."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = Path(__file__).parents[1] / "pipeline" / "recordings" / "kafka-4.2" / "trace" / "trace.jsonl.gz"


def trace(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_shim", "trace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_story_has_wall_clock_times() -> None:
    lines = trace("show", TRACE, "--group", "audit", "--utc").stdout.splitlines()
    assert lines[0] == "2026-11-21 14:06:41.196  audit  audit-1 (group.instance.id audit-1) joins from 127.0.0.1"
    assert all("  audit  " in line for line in lines)


def test_the_story_takes_a_range_of_times_or_numbers() -> None:
    since = trace("show", TRACE, "--since", "2026-11-21T14:07:18+00:00", "--json").stdout.splitlines()
    assert {json.loads(line)["group"] for line in since} == {"shipping"}
    events = [json.loads(line) for line in trace("show", TRACE, "--seq", "740-752").stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(740, 753))


def test_the_summary_begins_with_the_costliest_cause() -> None:
    rows = json.loads(trace("summary", TRACE, "--json").stdout)
    assert [(row["group"], row["rebalances"]) for row in rows] == [("billing", 6), ("shipping", 15), ("audit", 3)]
    assert rows[0]["causes"] == {"NEW_MEMBER": 4, "SESSION_EXPIRED": 2}
    text = trace("summary", TRACE).stdout
    assert "4 NEW_MEMBER, 2 SESSION_EXPIRED" in text


def test_compare_puts_two_groups_side_by_side() -> None:
    pair = ["--group", "billing", "--right-group", "shipping"]
    comparison = json.loads(trace("compare", TRACE, TRACE, *pair, "--json").stdout)
    assert comparison["differs_at"] == 2
    total = comparison["rows"][-1]
    assert (total["cause"], total["left"]["rebalances"], total["right"]["rebalances"]) == ("total", 6, 15)
    assert (
        "They first differ at rebalance 3: NEW_MEMBER against COOPERATIVE_FOLLOWUP."
        in trace("compare", TRACE, TRACE, *pair).stdout
    )


def test_export_draws_a_rebalance_as_a_sequence_diagram() -> None:
    lines = trace("export", TRACE, "--group", "audit", "--mermaid").stdout.splitlines()
    assert lines[0] == "sequenceDiagram"
    assert "    audit-1->>coordinator: JoinGroup with its id" in lines
    assert "    coordinator-->>audit-1: REBALANCE_IN_PROGRESS (27)" in lines


def test_export_counts_at_least_the_elements_that_a_trace_shows(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    lines = [json.loads(line) for line in gzip.decompress(TRACE.read_bytes()).splitlines()]
    for each in lines:
        if each["event"] == "exchange" and each["api"] == "SyncGroup" and each["request"]["assignments"]:
            each["left_out"] = 9_000
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    whole, long = (trace("export", each, "--group", "audit", "--mermaid").stdout for each in (TRACE, path))
    assert re.search(r", \d+ assignments", whole)
    assert re.sub(r", (\d+ assignments)", r", at least \1", whole) == long


def test_a_trace_is_followed_while_it_grows_and_is_renamed(tmp_path: Path) -> None:
    lines = gzip.decompress(TRACE.read_bytes()).splitlines(keepends=True)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"".join(lines[:200]))
    command = [sys.executable, "-m", "kafka_shim", "trace", "follow", str(path), "--from-start", "--utc"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert "billing" in following.stdout.readline()
        path.rename(tmp_path / "trace.jsonl.1")
        path.write_bytes(b"".join(lines[700:]))
        for line in following.stdout:
            if "generation 15 is stable" in line:
                break
        else:
            pytest.fail("the end of the second file was not told")
        following.terminate()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["show", TRACE, "--group", "nobody"], 3, "There is no group nobody in"),
        (["show", "missing"], 2, "There is no missing."),
        (["show", TRACE, "--seq", "1-x"], 2, "'1-x' is not of the form FIRST-LAST."),
        (["compare", TRACE, TRACE], 2, "has 3 groups; name one with --group."),
        (["export", TRACE, "--group", "audit", "--mermaid", "--rebalance", "9"], 2, "audit has 3 rebalances, so"),
        (["export", TRACE, "--group", "audit"], 2, "Say in which form: --mermaid or --html FILE."),
        (["follow", "missing"], 2, "missing cannot be read: No such file or directory."),
    ],
)
def test_impossible_arguments_are_refused_in_one_sentence(arguments: list[str], code: int, sentence: str) -> None:
    answer = trace(*arguments)
    assert answer.returncode == code
    assert sentence in answer.stderr
    assert answer.stderr.count("\n") == 1
