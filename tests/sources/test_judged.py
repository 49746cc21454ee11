"""`why --log` on the recordings of logs: no false calm, and the tables of docs/logs.md are true.

The recordings that are set aside were first judged when the rules had been written; docs/logs.md has that judgement.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from functools import cache
from pathlib import Path

import pytest

from kafka_shim.sources.mixture import PROGRAMS
from kafka_shim.sources.reading import Reading
from tests.sources.judge import BROKER, CLIENTS, PAGE, TOGETHER, Judged, Mark, all_judged, renewed
from tests.sources.recordings import ASIDE, FOLDER, RECORDINGS, Recording, recorded


@cache
def results() -> tuple[Judged, ...]:
    return tuple(all_judged(recorded()))


def of(source: str) -> Iterator[Judged]:
    return (each for each in results() if each.source == source)


def test_every_recording_is_there() -> None:
    names = {f"{each.release}/{each.name}" for each in RECORDINGS}
    assert {f"{each.release}/{each.name}" for each in recorded()} == names
    folders = {str(each.parent.relative_to(FOLDER)) for each in Path(FOLDER).glob("*/*/truth.toml")}
    assert folders == names
    aside = set(ASIDE.read_text().split())
    assert aside < names
    assert len(aside) == round(len(names) / 3) or len(aside) * 3 >= len(names) - 3


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: f"{each.release}/{each.name}")
def test_every_line_about_groups_is_understood(recording: Recording) -> None:
    reading = Reading(PROGRAMS, zone=UTC)
    assert list(reading.signs(sorted(recording.folder.glob("*.gz"))))
    assert (reading.unknown, reading.example) == (0, "")


def test_no_group_is_called_calm_that_is_not() -> None:
    assert [(each.recording.name, each.source) for each in results() if each.is_false_calm] == []


@pytest.mark.parametrize(("source", "share"), [(BROKER, 0.6), (CLIENTS, 0.9), (TOGETHER, 0.8)])
def test_most_causes_are_right(source: str, share: float) -> None:
    answers = [each.marks["cause"] for each in of(source) if each.marks["cause"] is not Mark.SILENT]
    assert answers.count(Mark.RIGHT) >= share * len(answers)


def test_the_page_has_the_tables() -> None:
    page = PAGE.read_text()
    assert renewed(page, results()) == page
