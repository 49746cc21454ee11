"""The queries of docs/pipeline-cookbook.md: on generated faults, and on a recorded day in Spark and in DuckDB."""

import json
import re
import tomllib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from kafka_shim.pipeline.warehouse import Warehouse

from .conftest import LOGS, RECORDED_LOGS, RECORDINGS

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGE = (DOCS / "pipeline-cookbook.md").read_text()
QUESTIONS = dict(re.findall(r"^(\S[^\n?]*\?)(?: [^`]*?)?\n\n```sql\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))
STATEMENTS = re.findall(r"^    ((?:set variable|create view) .*;)$", (DOCS / "pipeline.md").read_text(), re.MULTILINE)
"""The statements for DuckDB: the newest run, table `events`, and any other table."""
TOPICS = {"orders": 6, "shipments": 6, "payments": 4}
NOTHING = (
    "Which offsets went back?",
    "Which commits were refused?",
    "Which invariants were violated?",
    "Which input is missing, and which could not be read?",
)
"""Events that the recorded day lacks."""
QUESTIONS_ON_LOGS = (
    "Which groups rebalance most, and why?",
    "Which deploys cost how long?",
    "Which hosts lose members?",
)


def test_every_query_of_the_page_has_a_question() -> None:
    assert len(QUESTIONS) == PAGE.count("```sql") == 25


@pytest.fixture(scope="module")
def views(warehouse: Warehouse) -> Warehouse:
    warehouse.views()
    return warehouse


@pytest.mark.parametrize("query", QUESTIONS.values(), ids=QUESTIONS)
def test_a_query_of_the_page_runs(views: Warehouse, query: str) -> None:
    rows = views.spark.sql(query).collect()
    # The generated data has an example of each, except end offsets and refused commits.
    assert rows or "from lag" in query or "from commits" in query


@pytest.fixture(scope="module")
def day(recorded_day: Warehouse) -> Warehouse:
    """The recorded day with its views, in a session of its own."""
    warehouse = Warehouse(recorded_day.spark.newSession(), recorded_day.path)
    warehouse.views()
    return warehouse


@pytest.fixture(scope="module")
def outside(day: Warehouse) -> duckdb.DuckDBPyConnection:
    """A database over the folder of the recorded day, by the statements of docs/pipeline.md and nothing of ours."""
    out = day.path.removeprefix("file:")
    latest = (Path(out) / "latest").read_text().strip()
    variable, events, rounds = (line.strip().replace("out/", f"{out}/") for line in STATEMENTS)
    database = duckdb.connect()
    for statement in ("set timezone = 'UTC'", variable, events):
        database.execute(statement)
    for folder in (Path(out) / "data").iterdir():
        # A table without rows has no files.
        if folder.name != "mixed" and any((folder / latest).rglob("*.parquet")):
            database.execute(rounds.replace("rounds", folder.name))
    return database


def plain(value: Any) -> Any:
    """Return a value that is the same from two engines."""
    if isinstance(value, (Decimal, float)):
        return round(float(value), 6)
    return tuple(map(plain, value)) if isinstance(value, list) else value


def query_of(question: str) -> str:
    """Return a query without its limit: of rows in one place of the order, any may be the last."""
    return re.sub(r" limit \d+$", "", QUESTIONS[question], flags=re.MULTILINE)


def in_spark(day: Warehouse, question: str) -> list[tuple[Any, ...]]:
    rows = day.spark.sql(query_of(question)).toArrow().to_pylist()
    return [tuple(map(plain, row.values())) for row in rows]


@pytest.mark.parametrize("question", QUESTIONS)
def test_duckdb_answers_as_spark_does(day: Warehouse, outside: duckdb.DuckDBPyConnection, question: str) -> None:
    of_query = set(re.findall(r"(\w+) as \(", QUESTIONS[question]))
    tables = set(re.findall(r"\b(?:from|join) (\w+)", QUESTIONS[question])) - of_query
    there = {name for (name,) in outside.sql("show tables").fetchall()}
    # A table without rows has no files, so no view.
    rows = outside.sql(query_of(question)).to_arrow_table().to_pylist() if tables <= there else []
    assert Counter(tuple(map(plain, row.values())) for row in rows) == Counter(in_spark(day, question))


def test_the_answers_are_those_of_the_day(day: Warehouse) -> None:
    story = json.loads((RECORDINGS / "kafka-4.2" / "story.json").read_text())
    causes = {"started": "NEW_MEMBER", "killed": "SESSION_EXPIRED", "closed": "MEMBER_LEFT"}
    caused = Counter((step["group"], causes[step["what"]]) for step in story if step["rounds"])
    why = {(group, cause): rounds for group, cause, rounds, _ in in_spark(day, "Why did they?")}
    assert why.pop(("shipping", "COOPERATIVE_FOLLOWUP")) > 0
    assert why == caused
    there = {step["member_id"] for step in story} - {step["member_id"] for step in story if step["what"] != "started"}
    owned = in_spark(day, "Which partitions does each member own at the end?")
    assert {member for _, member, _, _ in owned} == there
    assert Counter(topic for _, _, topic, partitions in owned for _ in partitions) == TOPICS
    silent = in_spark(day, "Which members were expelled for silence, and how long had they been there?")
    killed = {step["member_id"] for step in story if step["what"] == "killed" and step["rounds"]}
    assert {member for _, _, member, _, _ in silent} == killed
    behind = in_spark(day, "How far behind is each group now?")
    assert {(topic, offsets) for _, topic, offsets, _ in behind} == {(topic, 0) for topic in TOPICS}
    for question in NOTHING:
        assert in_spark(day, question) == []


def test_the_questions_on_logs_have_the_answers_of_the_recordings(recorded_logs: Warehouse) -> None:
    """A rolling restart and a deploy at once; a member that is killed, and one that misses its poll three times."""
    logs = Warehouse(recorded_logs.spark.newSession(), recorded_logs.path)
    logs.views()
    truths = [tomllib.loads((RECORDED_LOGS / name / "truth.toml").read_text()) for name in LOGS]
    rolling, at_once, killed, overran, modern = (truth["group"] for truth in truths)
    why = {(group, cause): rounds for group, cause, rounds, _, _ in in_spark(logs, QUESTIONS_ON_LOGS[0])}
    assert {cause: rounds for (group, cause), rounds in why.items() if group == modern} == {
        "NEW_MEMBER": 3,
        "SESSION_EXPIRED": 1,
        "MEMBER_LEFT": 2,
    }
    assert {(group, cause): rounds for (group, cause), rounds in why.items() if group != modern} == {
        (rolling, "NEW_MEMBER"): 4,
        (rolling, "MEMBER_LEFT"): 3,
        (at_once, "NEW_MEMBER"): 2,
        (at_once, "MEMBER_LEFT"): 1,
        (killed, "NEW_MEMBER"): 1,
        (killed, "SESSION_EXPIRED"): 1,
        (overran, "NEW_MEMBER"): 4,
        (overran, "POLL_TIMEOUT_REASON"): 3,
    }
    deploys = {group: rest for group, _, _, *rest in in_spark(logs, QUESTIONS_ON_LOGS[1])}
    assert deploys == {rolling: [3, 6, 3625.0], at_once: [3, 2, 4147.0]}
    losses = {client: (silent, missed) for _, client, silent, missed, _ in in_spark(logs, QUESTIONS_ON_LOGS[2])}
    (dead,), (slow,) = (truth["culprits"] for truth in truths[2:4])
    assert losses == {dead: (1, 0), slow: (0, 3), None: (1, 0)}


def test_pyarrow_reads_a_table_alone(day: Warehouse) -> None:
    """As pandas does."""
    out = Path(day.path.removeprefix("file:"))
    rounds = pq.read_table(out / "data" / "rounds" / (out / "latest").read_text().strip())
    expected = day.read("rounds").select("group_id", "generation", "cause").collect()
    assert Counter(
        zip(*(rounds[name].to_pylist() for name in ("group_id", "generation", "cause")), strict=True)
    ) == Counter(tuple(row) for row in expected)
