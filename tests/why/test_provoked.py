"""`why` on recordings of real clients: the finding, the member, the first remedy and the calm of every provoked case.

The rules were written or mended with these recordings at hand, so a pass says that nothing was lost, and not how right
`why` is. docs/why.md has the first judgement of the recordings that were held out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kafka_shim.trace.causes import Cause
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.trace.reading import read
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.explanation import Explanation, explain
from kafka_shim.why.remedies import Remedy
from kafka_shim.why.text import lines
from tests.why.provoked.before import table
from tests.why.provoked.cases import CASES, JAVA, KP2, KP3, Case
from tests.why.provoked.judge import RECORDINGS as RECORDINGS_OF_CASES
from tests.why.provoked.judge import SETS, explained, judged, recording_of
from tests.why.provoked.texts import contradictions

WRONG = {
    ("session-timeout-too-short-and-alone", KP2): "a refused kafka-python 2 shows nothing that librdkafka does not",
}
"""Recordings with a wrong answer, and the reason."""

RECORDINGS = [
    pytest.param(
        case,
        client,
        id=f"{case.name}-{client}",
        marks=[pytest.mark.xfail(reason=WRONG[case.name, client], strict=True)] if (case.name, client) in WRONG else [],
    )
    for cases in SETS.values()
    for case in cases
    for client in case.clients
]


@pytest.mark.parametrize(("case", "client"), RECORDINGS)
def test_why_gives_the_true_answer(case: Case, client: str) -> None:
    answer = judged(case, client)
    assert answer.is_right, answer


def first_remedy(name: str, client: str) -> Remedy:
    case = next(each for cases in SETS.values() for each in cases if each.name == name)
    explanation = explained(case, client)
    assert explanation is not None
    return explanation.advice.remedies[0]


def test_a_dead_member_came_back_or_did_not() -> None:
    assert first_remedy("killed-for-good", KP3).seen == "silent, and did not come back"
    assert re.fullmatch(
        r"silent, and back 1\d\.\d s later", first_remedy("killed-and-back-after-its-session", KP3).seen
    )


def test_a_session_that_ran_out_is_not_denied() -> None:
    case = next(each for each in SETS["provoked"] if each.name == "one-instance-id-twice")
    explanation = explained(case, JAVA)
    assert explanation is not None
    assert Cause.SESSION_EXPIRED in {each.cause for each in explanation.rebalances}
    assert explanation.advice.would_not_help == ()


@pytest.mark.parametrize("name", SETS)
def test_every_recording_is_judged(name: str) -> None:
    paths = {recording_of(case, client) for case in SETS[name] for client in case.clients}
    assert {path for folder in {each.parent for each in paths} for path in folder.iterdir()} == paths


def test_the_header_counts_the_owned_partitions_alone_if_a_topic_has_no_owner() -> None:
    headers = {}
    for name in ("two-services-in-one-group", "two-services-behind-a-relay", "another-assignor-in-front-of-kafka"):
        case = next(each for cases in SETS.values() for each in cases if each.name == name)
        explanation = explained(case, case.clients[0])
        assert explanation is not None
        headers[name] = " ".join(lines(explanation)).partition("Rebalanced")[0]
    owned = {name for name, header in headers.items() if re.search(r", \d+ partitions owned", header)}
    assert owned == {"two-services-in-one-group", "two-services-behind-a-relay"}


def test_the_header_has_the_newest_state_and_generation() -> None:
    checked = 0
    for path in sorted((RECORDINGS_OF_CASES / "provoked").iterdir()):
        events = list(read([path], group=path.name.removesuffix(".jsonl.gz")))
        states = [each for each in events if each["event"] == "state"]
        history = History()
        for event in events:
            history.add(event)
        (group,) = history.groups.values()
        explanation = explain(group, list(group.rebalances))
        assert explanation is not None
        generations = [(each.generation_before, each.generation) for each in group.rebalances]
        if states:
            word = "generation" if group.epochs is None else "epoch"
            header = " ".join(lines(explanation)).partition("Rebalanced")[0].partition("STORM")[0]
            assert f", {states[-1]['to']}, {word} {states[-1]['generation']}" in header, path
            assert ("0 members, 0 partitions, Empty" in header) is (states[-1]["to"] == "Empty")
            assert all(before[1] == after[0] for before, after in pairwise(generations)), path
            checked += 1
    assert checked > 60


def test_the_page_has_the_fourteen_cases() -> None:
    assert "\n".join(table()) in (Path(__file__).parents[2] / "docs" / "why.md").read_text()


def test_the_judge_reads_the_text_for_contradictions() -> None:
    def changed(name: str, client: str, **advice: tuple[str, ...]) -> Explanation:
        case = next(each for cases in SETS.values() for each in cases if each.name == name)
        explanation = explained(case, client)
        assert explanation is not None
        return replace(explanation, advice=replace(explanation.advice, **advice))

    refused = "session-timeout-too-long"
    assert contradictions(changed(refused, KP3)) == []
    for useless in ("session.timeout.ms (no session ran out)", "session_timeout_ms"):
        sentence = "session_timeout_ms is a remedy and would not help"
        assert sentence in contradictions(changed(refused, KP3, would_not_help=(useless,)))
    foreign = contradictions(changed(refused, KP3, would_not_help=("sessionTimeout",)))
    assert foreign == ["the text has sessionTimeout, no setting of kafka-python"]
    history = GroupHistory("g")
    rebalance = Rebalance("g", Cause.ADMIN_REMOVED, "", 10.0, 16.0, 1, 2, ended=16.0, assigned=16.0, members=("a",))
    history.rebalances.append(rebalance)
    waited = explain(history, [rebalance])
    assert waited is not None
    assert contradictions(waited) == []
    assert any("why knows no reason" in each for each in contradictions(waited, is_healthy=True))


def test_the_judge_rejects_each_wrong_answer() -> None:
    case = next(each for each in CASES if each.name == "poll-interval-exceeded")
    client = case.clients[0]
    assert judged(case, client).is_right
    for wrong in (
        replace(case, causes=("SCALE_IN",)),
        replace(case, culprits=("report-1",)),
        replace(case, remedies=("group.instance.id",)),
        replace(case, calm=True),
    ):
        assert not judged(wrong, client).is_right
    calm = next(each for each in CASES if each.name == "clean-start-and-stop")
    assert not judged(replace(calm, calm=False), calm.clients[0]).is_right
