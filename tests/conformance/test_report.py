"""The report leads to the fault: a proxy adds five faults, each is a cause, and all failures belong to them."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from kafka_shim.conformance.cells import Selection, all_cases
from kafka_shim.conformance.cli import cli
from kafka_shim.conformance.expect import Expectations
from kafka_shim.conformance.record import Record
from kafka_shim.conformance.story import NO_ANSWER, Difference, differences
from kafka_shim.conformance.verdict import Verdict
from kafka_shim.testing import CoordinatorServer
from tests.conformance.faulty_proxy import faulty

pytestmark = pytest.mark.second_stage("a long run")

FAST = {
    "group.initial.rebalance.delay.ms": "0",
    # A busy machine needs more than 0.1 s for a round.
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
}
BASELINES = ("run.json", "known.toml")
PATTERNS = ("join/first/*", "sync/round/*", "heartbeat/*/*", "leave/*/*", "commit/*/*", "fetch/*/*")
FAULTS = (
    "JoinGroup.generation_id is 2, Kafka answers 1",
    "Heartbeat.error_code is NONE (0), Kafka answers UNKNOWN_MEMBER_ID (25)",
    "OffsetFetch.groups[].topics[].partitions[].metadata is '', Kafka answers",
    "LeaveGroup.members[].error_code is NONE (0), Kafka answers UNKNOWN_MEMBER_ID (25)",
    "OffsetCommit.topics[].partitions[].error_code is NONE (0), Kafka answers UNKNOWN_TOPIC_OR_PARTITION (3)",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write every report of a run against a broker with five faults."""
    folder = tmp_path_factory.mktemp("reports")
    cases = [word for pattern in PATTERNS for word in ("--case", pattern)]
    files = {"--results": "run.json", "--junit": "run.xml", "--html": "run.html", "--write-baseline": "known.toml"}
    options = [word for option, name in files.items() for word in (option, str(folder / name))]
    with CoordinatorServer(config=FAST) as server:
        host, _, port = server.bootstrap.rpartition(":")
        with faulty((host, int(port))) as address:
            arguments = ["--target", address, "--evidence", str(folder / "evidence"), *options, *cases]
            done = CliRunner().invoke(cli, arguments)
            (folder / "console").write_text(done.output)
            (folder / "address").write_text(address)
            assert done.exit_code == 1, done.output
            again = ["--target", address, "--case", "heartbeat/unknown/*", "--case", "leave/unknown/1"]
            for name in BASELINES:
                done = CliRunner().invoke(cli, [*again, "--baseline", str(folder / name)])
                (folder / f"console-{name}").write_text(f"{done.exit_code}\n{done.output}")
    return folder


def test_the_first_screen_names_each_fault(folder: Path) -> None:
    screen = (folder / "console").read_text().splitlines()[:40]
    for fault in FAULTS:
        (line,) = [each for each in screen if fault in each]
        assert re.match(r"\d\. ", line)


def test_recorded_cases_have_no_other_cause(folder: Path) -> None:
    recorded = Record.of_kafka().stories
    causes = json.loads((folder / "run.json").read_text())["causes"]
    others = [each for each in causes if not each["text"].startswith(FAULTS)]
    assert [each for each in others if recorded.keys() & set(each["cells"])] == []


def test_consequences_of_a_fault_belong_to_its_cause(folder: Path) -> None:
    causes = json.loads((folder / "run.json").read_text())["causes"]
    largest = max(causes, key=lambda each: len(each["cells"]))
    assert largest["text"] == FAULTS[0]
    assert len(largest["cells"]) > 100
    assert "join/first/1@0" in largest["cells"]
    assert "heartbeat/unknown/1@4" not in largest["cells"]


def test_a_cause_has_requirement_source_and_command(folder: Path) -> None:
    lines = (folder / "console").read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if FAULTS[1] in line)
    assert lines[at].endswith("heartbeat/unknown/1@0-4")
    assert lines[at + 1].startswith("   heartbeat/unknown/1: ")
    assert lines[at + 2].startswith("   semantics 2.3")
    address = (folder / "address").read_text()
    command = f"kafka-shim conformance --target {address} --case heartbeat/unknown/1@4 --evidence evidence"
    assert lines[at + 3].strip() == command


def test_evidence_has_annotated_hex_and_kafkas_answer(folder: Path) -> None:
    text = (folder / "evidence" / "heartbeat-unknown-1-v4-0.txt").read_text()
    assert "cause:     " + FAULTS[1] in text
    assert re.search(r"^  ! error_code 0 +error_code 25$", text, re.MULTILINE)
    assert re.search(r"^    0004  00 0c +api_key  12 Heartbeat$", text, re.MULTILINE)
    assert re.search(r"^    0009  00 00 +error_code  0 NONE$", text, re.MULTILINE)
    assert "[GroupMetadataManager" in text


def test_junit_carries_cause_and_evidence(folder: Path) -> None:
    suite = ElementTree.parse(folder / "run.xml").getroot()
    failures = {each.get("name"): each.find("failure") for each in suite if each.find("failure") is not None}
    assert suite.get("failures") == str(len(failures))
    failure = failures["leave/unknown/1@3"]
    assert failure is not None
    assert failure.get("message") == FAULTS[3]
    assert "must hold:" in (failure.text or "")
    assert "correlation_id" in (failure.text or "")


def test_the_page_has_filters_and_the_evidence(folder: Path) -> None:
    page = (folder / "run.html").read_text()
    assert 'id="filters"' in page
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    case = json.loads(data)["servers"][0]["cases"]["leave/unknown/1"]
    assert case["cause"] == FAULTS[3]
    assert "must hold:" in case["evidence"]
    assert "Clients</h2>" not in page


@pytest.mark.parametrize("name", BASELINES)
def test_an_earlier_failure_is_expected(folder: Path, name: str) -> None:
    assert (folder / f"console-{name}").read_text().startswith("0\n")


def test_a_written_file_of_expectations_names_the_causes(folder: Path) -> None:
    expectations = Expectations.read(folder / "known.toml")
    line = expectations.of_cell("heartbeat/unknown/1", 4)
    assert line is not None
    assert line.reason == FAULTS[1]


def test_a_written_file_contains_cells_that_are_not_judged(tmp_path: Path) -> None:
    cases = [word for case in ("share/join/*", "delay/initial/1", "list/filter/[57]") for word in ("--case", case)]
    known = tmp_path / "known.toml"
    with CoordinatorServer(config=FAST, release="2.8") as server:
        command = ["--target", server.bootstrap, *cases]
        assert CliRunner().invoke(cli, [*command, "--write-baseline", str(known)]).exit_code == 0
        done = CliRunner().invoke(cli, [*command, "--baseline", str(known)])
        assert done.exit_code == 0, done.output
        (tmp_path / "none.toml").write_text("")
        done = CliRunner().invoke(cli, [*command, "--baseline", str(tmp_path / "none.toml")])
    assert done.exit_code == 1
    lines = [line for line in done.output.splitlines() if line.startswith(("unimplemented ", "skip "))]
    assert lines == [
        "skip 8 cells, delay/initial/1@0-7: there is no delay before a first round that could be seen: "
        "group.initial.rebalance.delay.ms is 0",
        "unimplemented 2 cells, list/filter/5, list/filter/7: ListGroups 5 is not advertised",
        "unimplemented 6 cells, share/join/1, share/join/2, share/join/3, share/join/4, share/join/5, share/join/6: "
        "ShareGroupHeartbeat is not advertised",
    ]


def test_a_result_worse_than_before_is_unexpected(folder: Path, tmp_path: Path) -> None:
    run = json.loads((folder / "run.json").read_text())
    for cell in run["cells"]:
        cell["verdict"] = "pass" if cell["case"] == "leave/unknown/1" else cell["verdict"]
    (tmp_path / "before.json").write_text(json.dumps(run))
    before = Expectations.of_run(tmp_path / "before.json")
    assert before.surprise("leave/unknown/1", 3, Verdict.FAIL)
    assert before.surprise("heartbeat/unknown/1", 3, Verdict.FAIL) is None


def test_a_record_is_a_reference(tmp_path: Path) -> None:
    record = tmp_path / "ours.json.gz"
    arguments = ["--target", "shim", "--case", "heartbeat/unknown/1", "--write-baseline", str(record)]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    first = record.read_bytes()
    assert CliRunner().invoke(cli, [*arguments, "--baseline", str(record)]).exit_code == 0
    assert record.read_bytes() == first


@pytest.mark.parametrize(
    "content", [b"none", b"{}", b"[project]", b"\x1f\x8b cut"], ids=["text", "json", "toml", "gzip"]
)
def test_an_invalid_baseline_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "baseline").write_bytes(content)
    done = CliRunner().invoke(cli, ["--baseline", str(tmp_path / "baseline")])
    assert done.exit_code == 2
    assert "is not a baseline" in done.output


def test_two_baselines_of_a_kind_are_refused(folder: Path) -> None:
    files = [word for name in BASELINES for word in ("--baseline", str(folder / name))]
    done = CliRunner().invoke(cli, files)
    assert done.exit_code == 2
    assert "known.toml is a second baseline of its kind" in done.output


def heartbeat(code: int, number: int = 1) -> tuple[str, str, int, dict[str, int]]:
    return ("m1", "Heartbeat", number, {"error_code": code})


def test_stories_are_compared_until_they_diverge() -> None:
    ours = [heartbeat(0), heartbeat(27), ("m1", "SyncGroup", 5, {"error_code": 22})]
    kafkas = [heartbeat(0), heartbeat(0), ("m1", "LeaveGroup", 5, {"error_code": 0}), heartbeat(1)]
    assert differences(ours, kafkas) == [Difference(1, "Heartbeat", "error_code", 27, 0)]  # type: ignore[arg-type]


def test_a_missing_answer_is_a_difference() -> None:
    (difference,) = differences([("m1", "Heartbeat", 1, NO_ANSWER)], [heartbeat(0)])  # type: ignore[list-item]
    assert difference.text == "Heartbeat is not answered, where Kafka answers"


def test_every_cell_of_the_suite_can_be_selected_by_its_name() -> None:
    assert {case.id for case in Selection(("*@0",)).cases(all_cases())} == {case.id for case in all_cases()}


@pytest.mark.parametrize(("release", "record_of"), [("4.2", "4.2.2"), ("4.3", "4.4.0"), ("4.4", "4.4.0")])
def test_the_record_of_kafka_covers_the_cases_of_a_release(release: str, record_of: str) -> None:
    record = Record.of_kafka(release)
    ids = {case.id for case in all_cases()}
    recorded = {name.partition("@")[0] for name in record.stories}
    assert recorded <= ids
    assert len(recorded) > 0.9 * len(ids)
    assert record.description == f"Apache Kafka {record_of}"
