"""The matrix: the reduced reports, the page, and the tables of the README, which must match the data."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_shim.conformance.cli import cli
from kafka_shim.conformance.expect import Expectation, Expectations, Kind
from kafka_shim.conformance.matrix.data import TARGETS, counted, excused, matrix_of, with_earlier
from kafka_shim.conformance.matrix.page import page_of
from kafka_shim.conformance.matrix.tables import BEGIN, END, tables, with_tables
from kafka_shim.conformance.plain import ranges
from kafka_shim.conformance.verdict import Verdict


def cell(case: str, version: int | None, verdict: str, reason: str = "") -> dict[str, Any]:
    cell = {"title": f"what {case} wants", "source": "KIP-62", "level": "must", "surprise": None, "expected": None}
    return {**cell, "case": case, "version": version, "verdict": verdict, "reason": reason}


CELLS = [
    cell("join/a/1", 0, "pass"),
    cell("join/a/1", 1, "fail", "it says </script> & more"),
    cell("join/a/1", 2, "skip", "cannot be"),
    cell("sync/b/1", None, "pass"),
]
SERVER = {"target": "kfake", "description": "kfake 1", "seconds": 3.2, "violations": [], "cells": CELLS}
CLIENT = {
    "target": "shim",
    "description": "ours",
    "seconds": 9.0,
    "results": [
        {
            "client": "kafkajs",
            "case": "R20",
            "title": "is called back",
            "source": "R20",
            "verdict": "fail",
            "reason": "?",
        },
        {"client": "kafkajs", "case": "R01", "title": "joins", "source": "R01", "verdict": "pass", "reason": ""},
    ],
}


@pytest.fixture(scope="module")
def matrix() -> dict[str, Any]:
    return matrix_of([(SERVER, "2026-01-02"), (CLIENT, "2026-01-02")], "2026-01-03", "abc")


def test_versions_are_printed_as_ranges() -> None:
    assert ranges([7, 0, 1, 2, 3]) == "0-3, 7"


def test_a_case_keeps_its_verdicts_by_version_and_the_reason(matrix: dict[str, Any]) -> None:
    case = matrix["servers"][0]["cases"]["join/a/1"]
    assert case["versions"] == {"pass": "0", "fail": "1", "skip": "2"}
    assert case["why"] == "it says </script> & more"


def test_skipped_cells_do_not_count(matrix: dict[str, Any]) -> None:
    assert counted(matrix["servers"][0], ["join"]).text == "1/2"
    assert counted(matrix["servers"][0], ["*"]).text == "2/3"
    assert counted(matrix["servers"][0], ["leave"]).text == "–"


def test_the_page_shows_areas_cases_and_scenarios_and_how_to_repeat_them(matrix: dict[str, Any]) -> None:
    page = page_of(matrix)
    assert "kafka-shim conformance --target kfake --case &#x27;join/*&#x27;" in page
    assert "kafka-shim conformance --target shim --client all" in page
    assert '<tr data-case="join/a/1" data-level="must" data-verdicts="fail pass skip"' in page
    assert 'aria-label="fail, 1 of 2 passed"' in page
    embedded = re.search(r'id="data">(.*?)</script>', page)
    assert embedded
    assert json.loads(embedded[1])["servers"][0]["cases"]["join/a/1"]["why"] == "it says </script> & more"


def test_the_readme_gets_its_tables_between_the_marks(matrix: dict[str, Any]) -> None:
    readme = with_tables(f"before\n{BEGIN}\nold\n{END}\nafter\n", matrix)
    assert readme.startswith("before\n")
    assert readme.endswith("\nafter\n")
    assert "| JoinGroup | 1/2 |" in readme
    assert "kafkajs 1/2" in readme
    assert "old" not in readme


def test_excused_results_are_listed_and_do_not_count() -> None:
    lines = [
        Expectation(("join/a/1@1",), frozenset({Verdict.FAIL}), "a preview", Kind.OFF),
        Expectation(("sync/b/1",), frozenset({Verdict.FAIL}), "another way since 4.0", Kind.LATER),
    ]
    cells = [*CELLS, cell("sync/b/1", 1, "fail", "no")]
    made = matrix_of([({**SERVER, "cells": cells}, "2026-01-02")], "2026-01-03", "abc", Expectations(lines))
    (run,) = made["servers"]
    assert run["cases"]["join/a/1"]["counts"] == {"pass": 1, "off": 1, "skip": 1}
    assert counted(run, ["*"]).text == "2/2"
    assert excused(run) == 2
    assert "on purpose later | 2 |" in with_tables(f"{BEGIN}\n{END}", made)
    assert "<td>2/2</td><td>2</td>" in page_of(made)


def test_client_runs_are_merged() -> None:
    other = {**CLIENT, "results": [{**each, "client": "sarama"} for each in CLIENT["results"]]}
    (run,) = matrix_of([(CLIENT, "2026-01-02"), (other, "2026-01-04")], "2026-01-05", "abc")["clients"]
    assert (list(run["clients"]), run["date"]) == (["kafkajs", "sarama"], "2026-01-04")


def test_the_matrix_lists_runs_that_did_not_start_in_time(tmp_path: Path) -> None:
    (tmp_path / "kfake.json").write_text(json.dumps(SERVER))
    arguments = ["matrix", "--target", "kfake", "--target", "tansu", "--client", "none", "--within", "0"]
    done = CliRunner().invoke(cli, [*arguments, "--reports", str(tmp_path), "--data", str(tmp_path / "matrix.json")])
    assert (done.exit_code, "not started; run the same command again: tansu" in done.output) == (2, True)
    assert [run["target"] for run in json.loads((tmp_path / "matrix.json").read_text())["servers"]] == ["kfake"]


def test_areas_without_a_row_of_their_own_have_one_together(matrix: dict[str, Any]) -> None:
    assert "| others |" not in tables(matrix)
    new = {**SERVER, "cells": [cell("flight/a/1", 0, "pass"), cell("flight/a/2", 0, "fail")]}
    assert "| others | 1/2 |" in tables(matrix_of([(new, "2026-01-02")], "2026-01-03", "abc"))


def test_targets_and_clients_without_a_new_run_keep_the_earlier_one(matrix: dict[str, Any]) -> None:
    ours = {**SERVER, "target": "shim", "cells": [cell("join/b/1", 0, "pass")]}
    sarama = {**CLIENT, "results": [{**each, "client": "sarama"} for each in CLIENT["results"]]}
    new = matrix_of([(ours, "2026-02-03"), (sarama, "2026-02-03")], "2026-02-03", "def")
    both = with_earlier(new, matrix)
    assert [(run["target"], run["date"]) for run in both["servers"]] == [
        ("shim", "2026-02-03"),
        ("kfake", "2026-01-02"),
    ]
    assert list(both["cases"]) == ["join/a/1", "join/b/1", "sync/b/1"]
    assert list(both["clients"][0]["clients"]) == ["kafkajs", "sarama"]
    assert both["clients"][0]["date"] == "2026-01-02 to 2026-02-03"
    assert "Of an earlier day, and without the cases that were new after it: kfake 1 (2026-01-02)." in tables(both)
    assert with_earlier(new, new) == new


def test_a_readme_without_marks_is_refused(matrix: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no lines"):
        with_tables("nothing here", matrix)


def test_one_command_makes_it_from_the_reports_of_its_runs(tmp_path: Path) -> None:
    reports, page, data = tmp_path / "reports", tmp_path / "page.html", tmp_path / "matrix.json"
    reports.mkdir()
    (reports / "kfake.json").write_text(json.dumps(SERVER))
    arguments = ["matrix", "--target", "kfake", "--client", "none", "--reports", str(reports)]
    done = CliRunner().invoke(cli, [*arguments, "--html", str(page), "--data", str(data)])
    assert done.exit_code == 0, done.output
    assert json.loads(data.read_text())["servers"][0]["target"] == "kfake"
    assert "join/a/1" in page.read_text()


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    made: dict[str, Any] = json.loads((ROOT / "docs" / "matrix.json").read_text())
    return made


def test_the_tables_match_the_data(published: dict[str, Any]) -> None:
    readme = (ROOT / "docs/results.md").read_text()
    assert with_tables(readme, published) == readme


def test_the_published_matrix_has_every_target_and_nothing_unexpected(published: dict[str, Any]) -> None:
    # `kafka:4.2` is the newest release of that line.
    targets = {run["target"] for run in published["servers"]}
    assert [name for name in TARGETS if not any(f"{target}.".startswith(f"{name}.") for target in targets)] == []
    assert len(targets) == len(TARGETS)
    assert [(run["target"], run["news"]) for run in published["servers"] if run["news"]] == []
