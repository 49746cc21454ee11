"""The report leads to the fault: five faults put in by a proxy are each named, and everything else hangs on them."""

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

FAST = {
    "group.initial.rebalance.delay.ms": "0",
    # A busy machine needs more than a tenth of a second for a round.
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
}
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
    """Every report of a run against a broker with five faults."""
    folder = tmp_path_factory.mktemp("reports")
    cases = [word for pattern in PATTERNS for word in ("--case", pattern)]
    files = {"--json": "run.json", "--junit": "run.xml", "--html": "run.html", "--write-expect": "known.toml"}
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
            for option, name in (("--compare", "run.json"), ("--expect", "known.toml")):
                done = CliRunner().invoke(cli, [*again, option, str(folder / name)])
                (folder / f"console{option}").write_text(f"{done.exit_code}\n{done.output}")
    return folder


def test_each_fault_is_named_in_the_first_screen(folder: Path) -> None:
    screen = (folder / "console").read_text().splitlines()[:40]
    for fault in FAULTS:
        (line,) = [each for each in screen if fault in each]
        assert re.match(r"\d\. ", line)


def test_there_is_no_other_cause_where_kafkas_answers_are_recorded(folder: Path) -> None:
    recorded = Record.of_kafka().stories
    causes = json.loads((folder / "run.json").read_text())["causes"]
    others = [each for each in causes if not each["text"].startswith(FAULTS)]
    assert [each for each in others if recorded.keys() & set(each["cells"])] == []


def test_what_follows_from_a_fault_hangs_on_it(folder: Path) -> None:
    causes = json.loads((folder / "run.json").read_text())["causes"]
    largest = max(causes, key=lambda each: len(each["cells"]))
    assert largest["text"] == FAULTS[0]
    assert len(largest["cells"]) > 100
    assert "join/first/1@0" in largest["cells"]
    assert "heartbeat/unknown/1@4" not in largest["cells"]


def test_a_cause_says_what_must_hold_by_which_source_and_how_to_see_it_again(folder: Path) -> None:
    lines = (folder / "console").read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if FAULTS[1] in line)
    assert lines[at].endswith("heartbeat/unknown/1@0-4")
    assert lines[at + 1].startswith("   heartbeat/unknown/1: ")
    assert lines[at + 2].startswith("   semantics 2.3")
    address = (folder / "address").read_text()
    command = f"kafka-shim conformance --target {address} --case heartbeat/unknown/1@4 --evidence evidence"
    assert lines[at + 3].strip() == command


def test_evidence_is_hex_with_names_and_the_answer_beside_kafkas(folder: Path) -> None:
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


@pytest.mark.parametrize("option", ["--compare", "--expect"])
def test_what_failed_before_is_no_news(folder: Path, option: str) -> None:
    assert (folder / f"console{option}").read_text().startswith("0\n")


def test_a_written_file_of_expectations_names_the_causes(folder: Path) -> None:
    expectations = Expectations.read(folder / "known.toml")
    line = expectations.of_cell("heartbeat/unknown/1", 4)
    assert line is not None
    assert line.reason == FAULTS[1]


def test_what_cannot_be_judged_is_in_a_written_file_too(tmp_path: Path) -> None:
    cases = [word for case in ("share/join/*", "delay/initial/1", "list/filter/[57]") for word in ("--case", case)]
    known = tmp_path / "known.toml"
    with CoordinatorServer(config=FAST, release="2.8") as server:
        command = ["--target", server.bootstrap, *cases]
        assert CliRunner().invoke(cli, [*command, "--write-expect", str(known)]).exit_code == 0
        done = CliRunner().invoke(cli, [*command, "--expect", str(known)])
        assert done.exit_code == 0, done.output
        (tmp_path / "none.toml").write_text("")
        done = CliRunner().invoke(cli, [*command, "--expect", str(tmp_path / "none.toml")])
    assert done.exit_code == 1
    lines = [line for line in done.output.splitlines() if line.startswith(("unimplemented ", "skip "))]
    assert lines == [
        "skip 8 cells, delay/initial/1@0-7: there is no delay before a first round that could be seen: "
        "group.initial.rebalance.delay.ms is 0",
        "unimplemented 2 cells, list/filter/5, list/filter/7: ListGroups 5 is not advertised",
        "unimplemented 4 cells, share/join/1, share/join/2, share/join/3, share/join/4: "
        "ShareGroupHeartbeat is not advertised",
    ]


def test_what_is_worse_than_before_is_news(folder: Path, tmp_path: Path) -> None:
    run = json.loads((folder / "run.json").read_text())
    for cell in run["cells"]:
        cell["verdict"] = "pass" if cell["case"] == "leave/unknown/1" else cell["verdict"]
    (tmp_path / "before.json").write_text(json.dumps(run))
    before = Expectations.of_run(tmp_path / "before.json")
    assert before.surprise("leave/unknown/1", 3, Verdict.FAIL)
    assert before.surprise("heartbeat/unknown/1", 3, Verdict.FAIL) is None


def test_a_record_is_a_reference(tmp_path: Path) -> None:
    record = tmp_path / "ours.json.gz"
    arguments = ["--target", "shim", "--case", "heartbeat/unknown/1", "--record", str(record)]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    first = record.read_bytes()
    assert CliRunner().invoke(cli, [*arguments, "--reference", str(record)]).exit_code == 0
    assert record.read_bytes() == first


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "record").write_text("none")
    done = CliRunner().invoke(cli, ["--reference", str(tmp_path / "record")])
    assert done.exit_code == 2
    assert "is no record" in done.output


def heartbeat(code: int, number: int = 1) -> tuple[str, str, int, dict[str, int]]:
    return ("m1", "Heartbeat", number, {"error_code": code})


def test_stories_are_compared_until_they_part() -> None:
    ours = [heartbeat(0), heartbeat(27), ("m1", "SyncGroup", 5, {"error_code": 22})]
    kafkas = [heartbeat(0), heartbeat(0), ("m1", "LeaveGroup", 5, {"error_code": 0}), heartbeat(1)]
    assert differences(ours, kafkas) == [Difference(1, "Heartbeat", "error_code", 27, 0)]  # type: ignore[arg-type]


def test_an_answer_that_never_came_is_a_difference() -> None:
    (found,) = differences([("m1", "Heartbeat", 1, NO_ANSWER)], [heartbeat(0)])  # type: ignore[list-item]
    assert found.text == "Heartbeat is not answered, where Kafka answers"


def test_every_cell_of_the_suite_can_be_selected_by_its_name() -> None:
    assert {case.id for case in Selection(("*@0",)).cases(all_cases())} == {case.id for case in all_cases()}


def test_the_record_of_kafka_is_of_these_cases() -> None:
    record = Record.of_kafka()
    ids = {case.id for case in all_cases()}
    recorded = {name.partition("@")[0] for name in record.stories}
    assert recorded <= ids
    assert len(recorded) > 0.9 * len(ids)
    assert record.description.startswith("Apache Kafka 4.2")
