"""Expectation files: the expected and the unexpected results."""

from fnmatch import filter
from pathlib import Path

import pytest

import kafka_shim.conformance.expect
from kafka_shim.conformance.cells import all_cases
from kafka_shim.conformance.expect import Expectations
from kafka_shim.conformance.verdict import Verdict

FILES = sorted(Path(kafka_shim.conformance.expect.__file__).parent.glob("*.toml"))

TEXT = """
[[expected]]
cells = ["join/first/*", "sync/round/1@3"]
verdicts = ["fail"]
reason = "it is so"
"""


@pytest.fixture
def expectations(tmp_path: Path) -> Expectations:
    path = tmp_path / "some.toml"
    path.write_text(TEXT)
    return Expectations.read(path)


def test_a_pass_needs_no_line(expectations: Expectations) -> None:
    assert expectations.surprise("leave/member/1", 0, Verdict.PASS) is None


def test_a_failure_without_a_line_is_unexpected(expectations: Expectations) -> None:
    assert expectations.surprise("leave/member/1", 0, Verdict.FAIL) is not None


def test_an_expected_failure_is_not_reported(expectations: Expectations) -> None:
    assert expectations.surprise("join/first/2", 4, Verdict.FAIL) is None


def test_a_pass_in_place_of_an_expected_failure_is_unexpected(expectations: Expectations) -> None:
    assert "it is so" in (expectations.surprise("join/first/2", 4, Verdict.PASS) or "")


def test_a_line_may_name_one_version(expectations: Expectations) -> None:
    assert expectations.surprise("sync/round/1", 3, Verdict.FAIL) is None
    assert expectations.surprise("sync/round/1", 2, Verdict.FAIL) is not None


def test_a_target_finds_the_file_of_the_shortest_name() -> None:
    assert Expectations.of_target("kafka:3.9.2").lines == Expectations.of_target("kafka:3.9").lines != []
    assert Expectations.of_target("kafka:4.2.2").lines == []
    assert Expectations.of_target("localhost:9092").lines == []


def test_a_file_amends_the_lines_of_another(tmp_path: Path, expectations: Expectations) -> None:
    path = tmp_path / "like.toml"
    path.write_text(
        'like = "some"\n[[expected]]\ncells = ["join/first/2@4"]\nverdicts = ["pass"]\nreason = "not so here"\n'
    )
    amended = Expectations.read(path)
    assert amended.lines[:-1] == expectations.lines
    assert amended.surprise("join/first/2", 3, Verdict.FAIL) is None
    assert amended.surprise("join/first/2", 4, Verdict.PASS) is None
    assert "not so here" in (amended.surprise("join/first/2", 4, Verdict.FAIL) or "")


@pytest.mark.parametrize("release", ["2.8", "3.9"])
def test_ours_of_an_older_release_is_expected_to_answer_as_that_release(release: str) -> None:
    ours, kafka = (Expectations.of_target(f"{kind}:{release}").lines for kind in ("shim", "kafka"))
    assert ours[: len(kafka)] == kafka != []
    assert Expectations.of_target(f"shim:{release}:sqlite:").lines == ours


def test_a_file_with_an_unknown_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("alike = 'other'")
    with pytest.raises(ValueError, match="the only names are like and expected, not alike"):
        Expectations.read(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_line_of_every_file_covers_a_case_and_has_a_reason(path: Path) -> None:
    cases = all_cases()
    names = {case.id for case in cases} | {f"{case.id}@{version}" for case in cases for version in range(20)}
    for line in Expectations.read(path).lines:
        assert line.reason
        for pattern in line.cells:
            assert pattern in names or filter(names, pattern), pattern
