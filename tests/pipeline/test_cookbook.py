"""The questions of docs/pipeline-cookbook.md, each asked of a run."""

import re
from pathlib import Path

import pytest

from kafka_shim.pipeline.warehouse import Warehouse

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "pipeline-cookbook.md").read_text()
QUESTIONS = re.findall(r"^(\S[^\n]*\?)\n\n```sql\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)


def test_there_are_as_many_as_the_page_says() -> None:
    assert len(QUESTIONS) == PAGE.count("```sql") == 22


@pytest.fixture(scope="module")
def views(warehouse: Warehouse) -> Warehouse:
    warehouse.views()
    return warehouse


@pytest.mark.parametrize("query", [query for _, query in QUESTIONS], ids=[question for question, _ in QUESTIONS])
def test_a_question_has_an_answer(views: Warehouse, query: str) -> None:
    rows = views.spark.sql(query).collect()
    # The generated data has a case of each, but for ends of partitions and refused commits.
    assert rows or "from lag" in query or "from commits" in query
