"""The schema of the trace: its check of events, its builders and its readers (`docs/adding-events.md`)."""

import re
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.pipeline.schemas import EVENTS as COLUMNS
from kafka_shim.pipeline.schemas import NO_COLUMN, TRACE_FIELDS
from kafka_shim.server import group_log
from kafka_shim.trace import schema
from kafka_shim.trace.events import KINDS, Reader, begins_rebalance, read_by
from kafka_shim.trace.history import GroupHistory
from kafka_shim.why.narration import Narrator

ROOT = Path(__file__).resolve().parents[2]
BUILDERS = [
    path for folder in ("groups", "experiments", "server", "lab") for path in (ROOT / "shim" / folder).rglob("*.py")
]
MODEL = ROOT / "shim" / "why" / "page" / "model.js"
RENAMED = {"member", "partition", "group", "from", "to"}


def test_field_names_are_unique_and_types_known() -> None:
    for event in schema.EVENTS.values():
        names = [field.name for field in (*schema.EVERY_EVENT, *event.fields)]
        assert len(names) == len(set(names))
        assert all(part in schema._IS for field in event.fields for part in field.type.split("|"))
        assert event.when
        assert all(field.meaning for field in event.fields)


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
def test_the_check_names_each_error_of_an_event(event: dict[str, Any], problem: str) -> None:
    assert schema.problems(event) == [problem]


@pytest.mark.parametrize("name", KINDS)
def test_every_event_has_a_builder(name: str) -> None:
    built = re.compile(rf'event\(\s*"{name}"|"event": "{name}"')
    assert any(built.search(path.read_text()) for path in BUILDERS)


@pytest.mark.parametrize(("reader", "code"), [("fold", GroupHistory), ("story", Narrator)])
def test_a_reader_handles_exactly_the_events_that_name_it(reader: Reader, code: type) -> None:
    assert {name for name in KINDS if hasattr(code, f"_{name}")} == read_by(reader)


def test_the_log_handles_exactly_the_events_that_name_it() -> None:
    assert group_log._LINES.keys() == read_by("log")


@pytest.mark.parametrize(
    ("event", "begins"),
    [
        ({"event": "epoch", "generation": 2}, True),
        ({"event": "state", "from": "Stable", "to": "PreparingRebalance"}, True),
        ({"event": "state", "from": "Stable", "to": "Registering"}, True),
        ({"event": "state", "from": "PreparingRebalance", "to": "CompletingRebalance"}, False),
        ({"event": "round", "generation": 2}, False),
    ],
)
def test_a_rebalance_begins_with_an_epoch_or_with_members_that_must_come(event: dict[str, Any], begins: bool) -> None:
    assert begins_rebalance(event) is begins


def test_the_page_handles_exactly_the_events_that_name_it() -> None:
    handled = re.findall(r'case "(\w+)":|event\.event === "(\w+)"', MODEL.read_text())
    # The page skips `parked` by name.
    assert {name for pair in handled for name in pair if name in KINDS} - {"parked"} == read_by("page")


def test_every_field_is_a_column_or_named_as_none() -> None:
    assert TRACE_FIELDS.keys() - RENAMED - set(COLUMNS.names) == NO_COLUMN
