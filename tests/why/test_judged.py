"""`why` is right: it names what was brought about, and little else. docs/why.md has the larger table."""

from __future__ import annotations

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


def test_what_was_put_into_generated_groups_is_named() -> None:
    found = scores(*of_generated(2))
    assert {kind for kind in found if not kind.startswith("cause ")} == KINDS
    assert {kind: score for kind, score in found.items() if min(score.precision, score.recall) < LEAST} == {}
    assert all(score.done for score in found.values())


def test_what_was_done_to_a_real_kafka_is_named_and_nothing_else() -> None:
    found = scores(*of_kafka())
    assert {(score.precision, score.recall) for score in found.values()} == {(1.0, 1.0)}
    assert sum(score.done for score in found.values()) >= 19


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text()
    assert "| slow member |" in page
    assert renewed(page, ["| here |"]) != page
