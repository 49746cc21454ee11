"""The pages of `why --explain`: one for each cause and each finding."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Final

import pytest

from kafka_shim.trace.causes import MEANING, Cause
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.pages import PAGES, page_of

SOURCES: Final = Path(__file__).parents[1] / "sources"


def test_every_cause_and_finding_has_a_page() -> None:
    assert set(PAGES) == {*Cause, *Diagnosis}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_an_example_signs_a_remedy_and_a_price(name: str) -> None:
    lines = list(page_of(name))
    assert lines[0].startswith(f"{name}: ")
    for title in ("For example", "In its requests", "In logs", "What to do", "What that costs"):
        assert lines[lines.index(title) + 1].startswith("  ")
    assert max(map(len, lines)) <= 80


def test_a_page_of_a_cause_has_the_meaning_of_the_trace() -> None:
    text = " ".join(page_of(Cause.POLL_TIMEOUT_REASON))
    assert MEANING[Cause.POLL_TIMEOUT_REASON] in text
    for client in ("Java", "librdkafka", "kafka-python", "aiokafka"):
        assert f"{client}: " in text


def test_lines_of_logs_are_those_that_programs_log() -> None:
    """Each quotation is in a recorded log of a real broker or client, or in a line of the tests of readers."""
    texts = [gzip.decompress(path.read_bytes()).decode(errors="replace") for path in SOURCES.rglob("*.log.gz")]
    texts += [re.sub(r'"\s+f?"', "", path.read_text()) for path in SOURCES.glob("*.py")]
    quoted = {words for page in PAGES.values() for text in page.logs.values() for words in re.findall('"(.+?)"', text)}
    assert len(quoted) > 30
    assert {words for words in quoted if not any(words in text for text in texts)} == set()
