"""A short run of `python -m bench.crash`: killed and paused servers lose no commit and never overlap."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from bench.crash import Outcome, Process, Run, out_of_lease, postgresql, report, sqlite
from bench.crash_members import Answered, Judge
from tests import postgres

pytestmark = pytest.mark.second_stage("servers killed under load")

ROUNDS = 6


def check(outcome: Outcome, *kinds: str) -> None:
    assert outcome.lost_commits == []
    assert outcome.went_back == []
    assert outcome.two_owners == []
    assert sum(len(outcome.times[kind]) for kind in kinds) == ROUNDS
    assert outcome.commits > 100


def test_a_killed_server_on_sqlite_loses_no_acknowledged_commit() -> None:
    check(trio.run(sqlite, ROUNDS), "kill")


@pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed")
def test_three_killed_and_paused_servers_lose_nothing_and_never_overlap() -> None:
    with postgres.postgres_server() as url:
        check(trio.run(postgresql, ROUNDS, url), "kill", "pause")


# The judge itself.


@pytest.fixture
def judge() -> Judge:
    return Judge(partitions=4)


def test_an_acknowledged_commit_missing_from_a_read_is_lost(judge: Judge) -> None:
    judge.acknowledged[0] = 7
    judge.read(0, 6, judge.floor(), "m")
    assert len(judge.lost_commits) == 1


def test_an_offset_read_after_a_greater_one_went_back(judge: Judge) -> None:
    judge.read(0, 6, judge.floor(), "m")
    judge.read(0, 5, judge.floor(), "m")
    assert judge.lost_commits == []
    assert len(judge.went_back) == 1


def test_a_read_may_miss_commits_acknowledged_after_its_request(judge: Judge) -> None:
    floor = judge.floor()
    judge.acknowledged[0] = 7
    judge.read(0, 6, floor, "m")
    assert judge.lost_commits == judge.went_back == []


def test_the_judge_detects_two_owners_in_a_generation(judge: Judge) -> None:
    judge.assign(1, 0, "a")
    judge.assign(1, 0, "a")
    judge.assign(2, 0, "b")
    assert judge.twice == []
    judge.assign(2, 0, "a")
    assert len(judge.twice) == 1


def test_the_judge_detects_an_answer_outside_the_lease(tmp_path: Path) -> None:
    run = Run([Process("memory:", tmp_path / "log", node) for node in (1, 2)], members=0)
    first, second = (process.address for process in run.processes)
    history = [(10.0, 1), (20.0, 2), (30.0, 1)]
    run.judge.answers += [
        Answered(first, 11.0, 11.1),
        Answered(first, 19.9, 20.5),
        Answered(second, 19.9, 20.5),
        Answered(second, 20.6, 20.7),
        Answered(first, 29.9, 30.2),
    ]
    assert out_of_lease(run, history, 0.0) == []
    run.judge.answers.append(Answered(first, 20.1, 20.2))
    assert len(out_of_lease(run, history, 0.0)) == 1


def test_the_report_counts_violations() -> None:
    summary = report(Outcome("sqlite", {"kill": [1.0, 2.0, 9.0]}, 5, ["a"], [], ["b", "c"]))
    assert (summary["lost"], summary["went_back"], summary["two_owners"]) == (1, 0, 2)
    assert summary["stable_again_s"]["kill"] == {"rounds": 3, "p50": 2.0, "p90": 9.0, "p99": 9.0, "max": 9.0}
