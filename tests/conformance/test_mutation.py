"""The mutants: each still changes its rule; one of them is run."""

from pathlib import Path

import pytest

from kafka_shim.conformance.mutation.mutant import Mutant
from kafka_shim.conformance.mutation.mutants import MUTANTS
from kafka_shim.conformance.mutation.run import ROOT, copy, mutated, unexpected_cells

pytestmark = pytest.mark.second_stage("mutants")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_changes_its_source_exactly_once(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    changed = mutated(source, mutant)
    assert changed != source
    compile(changed, mutant.file, "exec")


def test_a_mutant_of_a_removed_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs 0 times"):
        mutated("pass\n", MUTANTS[0])


def test_at_least_forty_mutants_exist() -> None:
    assert len({mutant.name for mutant in MUTANTS}) >= 40


def test_cases_catch_a_mutant_and_pass_without_it(tmp_path: Path) -> None:
    mutant = next(each for each in MUTANTS if each.name == "a group with members can be deleted")
    copy(tmp_path)
    assert unexpected_cells(tmp_path, mutant.areas) == ()
    path = tmp_path / mutant.file
    path.write_text(mutated(path.read_text(), mutant))
    assert unexpected_cells(tmp_path, mutant.areas)
