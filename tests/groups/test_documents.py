"""The generated pages are fresh, and the schema they show is that of the events."""

from pathlib import Path

import pytest

from kafka_shim.groups.documents import PAGES
from tests.why import rules

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_fresh(name):
    assert (DOCS / name).read_text() == PAGES[name](), "run: python -m kafka_shim.groups.documents docs"


def test_the_page_agrees_with_the_rules_and_the_semantics():
    assert rules.PATH.read_text() == rules.written(), "run python -m tests.why.rules"
