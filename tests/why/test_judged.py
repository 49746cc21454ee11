"""`why` names the true causes and few others. docs/why.md has the larger table."""

from __future__ import annotations

import pytest

from tests.why.judged import PAGE, of_generated, of_kafka, renewed, scores

LEAST = 0.95
KINDS = {
    "restart that static members would spare",
    "slow leader",
    "slow member",
    "storm",
    "who brought about POLL_TIMEOUT_REASON",
    "who brought about SESSION_EXPIRED",
}


@pytest.mark.second_stage("its time")
def test_explanations_name_the_causes_put_into_generated_groups() -> None:
    by_kind = scores(*of_generated(2))
    assert {kind for kind in by_kind if not kind.startswith("cause ")} == KINDS
    assert {kind: score for kind, score in by_kind.items() if min(score.precision, score.recall) < LEAST} == {}
    assert all(score.done for score in by_kind.values())


def test_explanations_name_exactly_the_causes_inflicted_on_a_real_kafka() -> None:
    by_kind = scores(*of_kafka())
    assert {(score.precision, score.recall) for score in by_kind.values()} == {(1.0, 1.0)}
    assert sum(score.done for score in by_kind.values()) >= 19


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text()
    assert "| slow member |" in page
    assert renewed(page, ["| here |"]) != page
