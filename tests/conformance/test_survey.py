"""Our survey of peers: every finding has cases that fail on the peer, or a reason why none does."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from kafka_shim import conformance
from kafka_shim.conformance.cells import all_cases
from kafka_shim.conformance.expect import NOT_RUN, Expectations
from kafka_shim.conformance.verdict import Verdict

FINDINGS: list[dict[str, Any]] = tomllib.loads(Path(conformance.__file__).with_name("survey.toml").read_text())[
    "finding"
]
LINES = {"rdkafka-mock": 27, "kfake": 17}
NOTICED = frozenset(Verdict) - NOT_RUN - {Verdict.PASS, Verdict.HARNESS_ERROR}


def test_every_line_of_the_survey_exists_once() -> None:
    for peer, count in LINES.items():
        assert [each["line"] for each in FINDINGS if each["peer"] == peer] == list(range(1, count + 1))


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda each: f"{each['peer']}-{each['line']}")
def test_every_finding_has_failing_cases_or_a_reason(finding: dict[str, Any]) -> None:
    assert ("cases" in finding) != ("beyond" in finding)
    known = {case.id for case in all_cases()}
    expected = Expectations.of_target(finding["peer"])
    for case_id in finding.get("cases", ()):
        assert case_id in known
        lines = [expected.of_cell(case_id, version) for version in range(17)]
        assert any(line is not None and line.verdicts <= NOTICED for line in lines), case_id
