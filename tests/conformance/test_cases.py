"""The register of cases: ids, levels, versions, and the cells of each case."""

import re

from kafka_shim.conformance.case import Case
from kafka_shim.conformance.cells import Selection, all_cases, cells_of
from kafka_shim.conformance.protocol import BY_NAME
from kafka_shim.conformance.targets.base import PROFILES
from kafka_shim.conformance.targets.secured import SECURITY
from kafka_shim.conformance.verdict import Level


def case_of(case_id: str) -> Case:
    return next(case for case in all_cases() if case.id == case_id)


def test_the_number_of_cases_is_at_least_the_promised_one() -> None:
    assert len(all_cases()) >= 300


def test_ids_are_area_section_number() -> None:
    assert [case.id for case in all_cases() if not re.fullmatch(r"[a-z-]+/[a-z-]+/\d+", case.id)] == []


def test_every_case_has_a_title_and_a_source() -> None:
    for case in all_cases():
        assert len(case.title) > 20, case.id
        assert case.source, case.id


def test_titles_are_unique_within_an_area() -> None:
    titles = [(case.id.split("/")[0], case.title) for case in all_cases()]
    assert len(set(titles)) == len(titles)


def test_apis_versions_and_profiles_exist() -> None:
    for case in all_cases():
        assert case.profile in {*PROFILES, SECURITY}, case.id
        if case.api is not None and case.versions is not None:
            versions = BY_NAME[case.api].request.versions
            assert versions[0] <= case.versions[0] <= case.versions[1] <= versions[-1], case.id


def test_a_case_has_a_cell_for_each_version_both_sides_have() -> None:
    cells = cells_of([case_of("join/first/2")], {11: (2, 7)})
    assert [cell.version for cell in cells] == [4, 5, 6, 7]


def test_a_case_without_a_served_version_keeps_one_cell() -> None:
    assert [cell.version for cell in cells_of([case_of("join/first/2")], {})] == [-1]


def test_repetition_repeats_every_cell() -> None:
    assert [(cell.version, cell.turn) for cell in cells_of([case_of("join/first/10")], {11: (0, 9)}, 3)] == [
        (9, 0),
        (9, 1),
        (9, 2),
    ]


def test_cases_are_chosen_by_pattern_and_level() -> None:
    chosen = Selection(("join/first/*", "sync/round/1"), "must").cases(all_cases())
    assert {case.level for case in chosen} == {Level.MUST}
    assert {case.id.rsplit("/", 1)[0] for case in chosen} == {"join/first", "sync/round"}
