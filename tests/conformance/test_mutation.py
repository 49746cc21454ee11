"""The mutants: each still changes what it names; one of them is run."""

from pathlib import Path

import pytest

from kafka_shim.conformance.mutation.mutant import Mutant
from kafka_shim.conformance.mutation.mutants import MUTANTS
from kafka_shim.conformance.mutation.run import ROOT, copy, mutated, surprises


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_mutant_changes_is_there_once(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    changed = mutated(source, mutant)
    assert changed != source
    compile(changed, mutant.file, "exec")


def test_a_mutant_whose_rule_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        mutated("pass\n", MUTANTS[0])


def test_there_are_forty_at_least() -> None:
    assert len({mutant.name for mutant in MUTANTS}) >= 40


def test_a_mutant_is_noticed_where_the_sources_as_they_are_pass(tmp_path: Path) -> None:
    mutant = next(each for each in MUTANTS if each.name == "a group with members can be deleted")
    copy(tmp_path)
    assert surprises(tmp_path, mutant.areas) == ()
    path = tmp_path / mutant.file
    path.write_text(mutated(path.read_text(), mutant))
    assert surprises(tmp_path, mutant.areas)
