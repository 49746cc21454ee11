"""The text that `why` prints on recordings of eight clients, judged by its sentences, and the tables by client."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.why.judged import PAGE
from tests.why.provoked.cases import CONFLUENT, KAFKAJS, KP2
from tests.why.provoked.judge import SETS
from tests.why.provoked.printed import (
    HELD_OUT,
    TABLES,
    first_texts,
    judged,
    of_first,
    printed,
    read,
    renewed,
    scores,
    table,
)

LEAST: Final = 0.9
HELD_OUT_LAST: Final = TABLES["by client"]


def case_of(name: str):
    return next(case for cases in SETS.values() for case in cases if case.name == name)


@pytest.mark.parametrize("name", HELD_OUT)
def test_each_text_is_right(name: str) -> None:
    wrong = {
        (case.name, client, part): (answer, result)
        for case in SETS[name]
        for client in case.clients
        for answer in [read(printed(case, client))]
        for part, result in judged(case, client, answer).items()
        if (result.due or result.given) and not result.right
    }
    assert wrong == {}


def test_the_page_has_the_tables_of_the_first_texts() -> None:
    page = PAGE.read_text()
    for name, sets in TABLES.items():
        assert "\n".join(table(sets)) in page
        assert renewed(page, name, ["| here |"]) != page


def test_the_first_texts_of_each_client_are_precise_and_complete() -> None:
    results = scores(of_first(HELD_OUT_LAST))
    below = {
        (client, part): score
        for client, (_, parts) in results.items()
        for part, score in parts.items()
        if min(score.precision, score.recall) < LEAST
    }
    assert below == {}
    # No false calm.
    assert {client: parts["calm"].precision for client, (_, parts) in results.items()} == dict.fromkeys(results, 1.0)
    assert len(results) == 9


def test_no_first_text_is_lost() -> None:
    count = sum(len(case.clients) for name in HELD_OUT for case in SETS[name])
    assert count == sum(len(first_texts(name)) for name in HELD_OUT) == scores(of_first())["all"][0]


def test_the_reader_rejects_each_wrong_part() -> None:
    case = case_of("the-leader-dies")
    text = printed(case, KP2)
    right = judged(case, KP2, read(text))
    assert [part for part, result in right.items() if result.right] == ["cause", "culprit", "first remedy"]
    for part, before, after in (
        ("cause", "lead died: it sent no heartbeat for its", "the group started, it sent no heartbeat for its"),
        ("culprit", "lead died", "next-1 died"),
        ("first remedy", "lead, operator: the process itself", "lead, client: session_timeout_ms"),
    ):
        changed = (
            " ".join(text.split()).replace(before, after) if part != "first remedy" else text.replace(before, after)
        )
        result = judged(case, KP2, read(changed))[part]
        assert (result.due, result.right) == (True, False), part
    calm = judged(case, KP2, read(f"{text}What to do: nothing"))["calm"]
    assert (calm.due, calm.given, calm.right) == (False, True, False)
    healthy = replace(case, calm=True, culprits=(), remedies=())
    blamed = judged(healthy, KP2, read(text))
    assert (blamed["culprit"].given, blamed["culprit"].right) == (True, False)
    assert (blamed["first remedy"].given, blamed["first remedy"].right) == (True, False)
    assert (blamed["calm"].due, blamed["calm"].given) == (True, False)


def test_the_reader_wants_the_spelling_of_the_client() -> None:
    case = case_of("a-machine-freezes-twice")
    texts = {client: printed(case, client) for client in (KP2, CONFLUENT, KAFKAJS)}
    for client, text in texts.items():
        for other, answer in texts.items():
            result = judged(case, client, read(answer))["first remedy"]
            assert (result.due, result.right) == (True, other == client), (client, other, text)
