"""`kafka-shim why GROUP TRACE` gives the answer of `kafka-shim why TRACE` where the trace has one group."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from kafka_shim.cli import cli
from tests.why.simulated import Recorded, recorded
from tests.why.test_unreleased import killed


def stalled() -> Recorded:
    """A member with a heartbeat each second stands still for 9 s, for less than its session, while another joins."""
    with recorded() as record:
        simulation = record.simulation
        members = [
            simulation.puppet("billing", ["orders"], client_id=name, session_timeout=30.0, heartbeat_interval=1.0)
            for name in "ab"
        ]
        simulation.run(30)
        script = members[1].script
        members[1].script = replace(script, heartbeat_interval=9.0)
        simulation.run(1)
        simulation.puppet("billing", ["orders"], client_id="c", session_timeout=30.0, heartbeat_interval=1.0)
        simulation.run(9)
        members[1].script = script
        simulation.run(30)
    return record


def refused() -> Recorded:
    """A static consumer was killed; its successor is refused, and its partitions have no running owner."""
    return killed(8.0, seconds=6.4)


def why(*words: object) -> str:
    result = CliRunner().invoke(cli, ["why", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("group", "trouble", "remedy"),
    [(stalled, "up to 9.0 s for b", "no heartbeat for 9.0 s"), (refused, "6 partitions had no", "its old process is")],
)
def test_the_name_of_the_only_group_changes_no_answer(
    group: Callable[[], Recorded], trouble: str, remedy: str, tmp_path: Path
) -> None:
    record = group()
    trace = record.write(tmp_path / "trace.jsonl")
    named = orjson.loads(why("billing", trace, "--json"))
    assert named == orjson.loads(why(trace, "--json"))
    assert why("billing", trace) == why(trace)
    assert trouble in named["verdict"]
    assert named["remedies"][0]["seen"].startswith(remedy)
    # The accepted heartbeats after the last rebalance prove nothing about it.
    proof = record.events[named["rebalances"][-1]["last_seq"] - 1]
    assert proof["api"] == "SyncGroup" or proof["error"]
