"""The links of docs/semantics: each citation finds its rule, each case its source, each link its chapter."""

import os
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from kafka_shim.conformance import sources
from kafka_shim.conformance.cells import all_cases
from kafka_shim.conformance.clients.catalogue import all_client_cases
from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.conformance.targets.kafka import NEWEST, class_path

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = {page.name: page.read_text() for page in sources.chapters().values()}
TEXT = "\n".join(CHAPTERS.values())
CASES = {case.id: case for case in all_cases()}
SEEN = re.compile(
    r"(KIP|KAFKA)-\d+(, (KIP|KAFKA)-\d+)*$"
    r"|(proved|observed) on (Apache Kafka|Kafka)? ?\d|Kafka \d|GroupMetadataManager\.\w+ "
    r"|(found by a mutant|differential mode|declared against served)$"
)
"""Other sources of a case: Kafka's proposals, tickets and classes, and observations."""


def committed() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in listing.decode().split("\0") if name.endswith((".py", ".md", ".toml", ".html"))]


def test_every_citation_leads_to_a_rule() -> None:
    number = 0
    for path in committed():
        if path.is_file():
            for citation in sources.citations(path.read_text()):
                number += 1
                assert sources.cited_rules(citation), f"{path.relative_to(ROOT)} cites semantics {citation}"
    assert number > 500


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("semantics 2.2 step 4; survey kfake 1", ["2.2 step 4"]),
        ("semantics 1, 7.1 LI1-2. More", ["1", "7.1", "LI1", "LI2"]),
        ("semantics 2.2 to 2.5 and 3.1", ["2.2", "2.5", "3.1"]),
        ("semantics 3.2, 30 of them; the semantics of 5", ["3.2"]),
    ],
)
def test_citations_have_several_forms(text: str, expected: list[str]) -> None:
    assert sources.citations(text) == expected


@pytest.mark.parametrize("citation", ["2.12", "2.2 step 99", "JG99", "10", "2.30"])
def test_a_citation_without_a_rule_leads_nowhere(citation: str) -> None:
    assert sources.cited_rules(citation) == ()


def test_the_document_names_only_existing_cases() -> None:
    assert {name for rule in sources.rules() for name in rule.cases} <= set(CASES)


@pytest.mark.parametrize("case_id", sorted(CASES))
def test_a_case_stands_in_its_source_and_has_a_public_origin(case_id: str) -> None:
    case = CASES[case_id]
    for citation in sources.citations(case.source):
        assert any(case_id in rule.cases for rule in sources.cited_rules(citation)), (
            f"{case_id} cites semantics {citation}, which does not name it: add it to the rule in {sources.FOLDER}"
        )
    assert any(rule.origins for rule in sources.of_case(case)), (
        f"add {case_id} to the rule it proves in {sources.FOLDER}"
    )


def test_every_source_of_a_case_is_public() -> None:
    survey = tomllib.loads((ROOT / "conformance/survey.toml").read_text())["finding"]
    invariants = re.findall(r"^\| (I\d+) \|", (ROOT / "docs/conformance.md").read_text(), re.M)
    places = (
        {f"{each['peer']} {each['line']}" for each in survey} | {each.id for each in all_client_cases()} | {*invariants}
    )
    unknown = []
    for case in CASES.values():
        for source in case.source.split("; "):
            listed = re.fullmatch(r"(?:survey|client cases?|invariant) (.+)", source)
            if listed is not None:
                unknown += [f"{case.id}: {each}" for each in listed[1].split(", ") if each not in places]
            elif not sources.citations(source) and not SEEN.match(source):
                unknown.append(f"{case.id}: {source}")
    assert unknown == []


def test_the_survey_has_every_cited_failure_of_a_peer() -> None:
    survey = tomllib.loads((ROOT / "conformance/survey.toml").read_text())["finding"]
    findings = {(each["peer"], str(each["line"])) for each in survey}
    cited = set()
    for path in (ROOT / "conformance/expect").glob("*.toml"):
        for peer, lines in re.findall(r"survey (kfake|rdkafka-mock) (\d+(?:(?:, | to )\d+)*)", path.read_text()):
            cited |= {(peer, line) for line in re.findall(r"\d+", lines)}
    assert cited
    assert cited <= findings


def test_the_public_source_of_a_case_has_its_rule_and_its_links() -> None:
    text = sources.public_source(CASES["join/first/2"])
    first = text.splitlines()[0]
    assert first.startswith(
        "semantics 2.2 step 12: No member id, no instance id, version 4 or later: a new id is handed out"
    )
    assert first.endswith(
        "[KIP-394; GroupMetadataManager.classicGroupJoinNewDynamicMember; docs/semantics/2-classic-group.md#2.2]"
    )
    assert text.splitlines()[-1].startswith("semantics 7.1 JG2: ")


def test_every_section_has_an_anchor_of_its_number_and_every_link_leads_to_one() -> None:
    anchors = re.findall(r'<a id="([^"]+)"></a>', TEXT)
    assert len(set(anchors)) == len(anchors)
    assert re.findall(r"^##? ([\d.]+) ", TEXT, re.M) == anchors
    for name, text in CHAPTERS.items():
        assert set(re.findall(r'<a id="(\d)', text)) == {name[0]}
    for page in (ROOT / "docs").rglob("*.md"):
        for path, anchor in re.findall(r"\]\(([^)#]*)#(\d[\d.]*)\)", page.read_text()):
            assert f'<a id="{anchor}"></a>' in CHAPTERS[Path(path).name or page.name], f"{page.name}: {path}#{anchor}"


def test_the_index_lists_the_chapters_with_their_titles() -> None:
    index = (ROOT / sources.FOLDER / "index.md").read_text()
    listed = re.findall(r"^\| \[(.*)\]\((.*)\) \|", index, re.M)
    assert [name for _, name in listed] == list(CHAPTERS)
    for title, name in listed:
        assert re.search(rf"^# {title}", CHAPTERS[name], re.M)


def test_steps_are_counted_within_a_section() -> None:
    steps: dict[str, list[int]] = {}
    for rule in sources.rules():
        if " step " in rule.name:
            steps.setdefault(rule.section, []).append(int(rule.name.rpartition(" ")[2]))
    for section, numbers in steps.items():
        assert numbers == list(range(1, len(numbers) + 1)), section


def names_of_kafka() -> set[str]:
    return {
        origin
        for rule in sources.rules()
        for origin in rule.origins
        if not origin.startswith(("KIP-", "KAFKA-")) and not origin.endswith("Test")
    }


def test_the_list_of_sources_equals_the_origins_of_the_rules() -> None:
    classes, proposals = TEXT.split('<a id="9.1"></a>')[1].split('<a id="9.2"></a>')
    listed = {name.strip() for row in re.findall(r"^\| \[.*\| (.*) \|$", classes, re.M) for name in row.split(",")}
    assert listed == {name.split(".")[0] for name in names_of_kafka()}
    listed = set(re.findall(r"^\| (KIP-\d+) \|", proposals, re.M))
    assert listed == set(re.findall(r"KIP-\d+", TEXT.split('<a id="9"></a>')[0]))


@pytest.mark.second_stage("Kafka's classes")
def test_every_class_and_method_exists_in_kafka() -> None:
    try:
        # A rule of an older release may name a method that is gone since.
        both = [_missing(class_path(NEWEST[release])) for release in ("4.2", "4.4")]
    except TargetError as error:
        pytest.skip(str(error))
    assert set.intersection(*both) == set()


def _missing(path: str) -> set[str]:
    """Return the classes and methods of the rules that a release of Kafka lacks."""
    jars = [jar for jar in path.split(os.pathsep) if "/org/apache/kafka/" in jar]
    classes: dict[str, list[str]] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class"):
                    full = name.removesuffix(".class").replace("/", ".")
                    classes.setdefault(full.rpartition(".")[2].replace("$", "."), []).append(full)
    by_class: dict[str, set[str]] = {}
    for name in names_of_kafka():
        owner, _, method = name.rpartition(".") if re.search(r"\.[a-z]", name) else (name, "", "")
        by_class.setdefault(owner, set()).add(method)
    unknown = {owner for owner in by_class if owner not in classes}
    listing = subprocess.run(
        [
            "javap",
            "-p",
            "-cp",
            os.pathsep.join(jars),
            *(full for name in by_class.keys() - unknown for full in classes[name]),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    members: dict[str, str] = {}
    for block in listing.split("\n}"):
        if declared := re.search(r"\b(?:class|interface|enum) ([\w.$]+)", block):
            simple = declared[1].rpartition(".")[2].replace("$", ".")
            members[simple] = members.get(simple, "") + block
    return {
        f"{owner}.{method}"
        for owner, methods in by_class.items()
        for method in methods
        if owner in unknown or (method and not re.search(rf"\b{method}\(", members[owner]))
    }
