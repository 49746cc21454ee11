"""The designs that Kafka weighed: groups settle, no partition has two owners, and the page has the computed figures."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_shim.commands.designs import designs
from kafka_shim.experiments.designs import report
from kafka_shim.experiments.designs.scenarios import DESIGNS, EVENTS, Laboratory, bills
from kafka_shim.experiments.designs.world import Settings

PAGE = Path(__file__).parents[3] / "docs" / "designs.md"
FEW = Settings(members=7, metadata=1_000)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_group_settles_after_every_event_and_no_partition_has_two_owners(design: str) -> None:
    all_bills = bills(design, FEW)
    assert [bill.event for bill in all_bills] == list(EVENTS)
    for bill in all_bills:
        assert bill.seconds is not None
        assert bill.conflicts == 0
        assert 0 < bill.stopped < 12


@pytest.mark.parametrize("design", DESIGNS)
def test_a_group_survives_the_death_of_its_leader_at_every_step(design: str) -> None:
    steps = list(Laboratory(design, FEW).death_at_steps())
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        assert step.bill.seconds is not None
        # The leader's session or the rebalance timeout has to end first; a join after it has half a second to settle.
        assert 9 < step.bill.seconds < 25
        assert step.bill.conflicts == 0


def test_the_example_of_the_proposal_is_a_gigabyte() -> None:
    """100 members with 100 KB each: 10 MB in each JoinGroup response, 1 GB in all."""
    bill = Laboratory("b", report.SEED_EXAMPLE).form()
    assert bill.largest == pytest.approx(10e6, rel=0.001)
    assert bill.bytes_out == pytest.approx(1e9, rel=0.001)
    assert Laboratory("e", report.SEED_EXAMPLE).form().bytes_out == pytest.approx(10e6, rel=0.01)


def test_bytes_grow_with_the_square_of_the_members_only_where_all_compute() -> None:
    for design in DESIGNS:
        ten, forty = (Laboratory(design, Settings(members=members, metadata=10_000)).form() for members in (10, 40))
        growth = forty.bytes_out / ten.bytes_out
        assert (15 < growth < 17) if design == "b" else (3.5 < growth < 5), design


def test_members_that_disagree_join_again_until_they_agree() -> None:
    late = Laboratory("b", FEW).growth(lag=20.0)
    assert late.rounds > 50
    assert late.seconds is not None
    assert late.seconds >= 20
    assert Laboratory("e", FEW).growth(lag=20.0).rounds == 1


def test_the_same_settings_give_the_same_bill() -> None:
    assert bills("g", FEW) == bills("g", FEW)


def test_the_page_equals_the_computed_sections() -> None:
    text = PAGE.read_text()
    assert report.page_with_sections(text) == text


def test_a_page_without_its_marks_is_one_sentence(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Designs\n")
    done = CliRunner().invoke(designs, ["--page", str(page)])
    assert done.exit_code == 2
    assert "has no part" in done.output
    assert page.read_text() == "# Designs\n"


def test_the_command_prints_every_event_and_json() -> None:
    done = CliRunner().invoke(designs, ["--members", "3", "--metadata", "10"])
    assert done.exit_code == 0
    assert all(meaning in done.output for meaning in EVENTS.values())
    lines = CliRunner().invoke(designs, ["--members", "3", "--design", "f", "--json"]).output.splitlines()
    assert [line.split('"event": "')[1].split('"')[0] for line in lines] == list(EVENTS)
