"""The generated pages are fresh, and the schema they show is that of the events."""

from pathlib import Path

import pytest

from kafka_shim.groups import trace
from kafka_shim.groups.documents import PAGES
from tests.why import rules

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_fresh(name):
    assert (DOCS / name).read_text() == PAGES[name](), "run: python -m kafka_shim.groups.documents docs"


def test_field_names_are_unique_and_types_known():
    for event in trace.EVENTS.values():
        names = [field.name for field in (*trace.EVERY_EVENT, *event.fields)]
        assert len(names) == len(set(names))
        assert all(part in trace._IS for field in event.fields for part in field.type.split("|"))


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"event": "nonsense"}, "unknown event 'nonsense'"),
        ({"event": "offsets_expired", "group": "g", "partition": 0}, "offsets_expired lacks offsets"),
        (
            {"event": "offsets_expired", "group": 1, "partition": 0, "offsets": []},
            "offsets_expired.group is no string: 1",
        ),
        (
            {"event": "offsets_expired", "group": "g", "partition": 0, "offsets": [], "x": 1},
            "offsets_expired has x too",
        ),
    ],
)
def test_events_that_break_the_schema_are_told(event, problem):
    assert trace.problems(event) == [problem]


def test_the_page_says_what_the_rules_and_the_semantics_say():
    assert rules.PATH.read_text() == rules.written(), "run python -m tests.why.rules"
