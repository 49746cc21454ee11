"""Two processes with one `group.instance.id` that join at the same time: the older is fenced before it is a member."""

from __future__ import annotations

import pytest

from kafka_shim.trace.history import History
from kafka_shim.trace.reading import read
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.explanation import explain
from tests.why.provoked.judge import RECORDINGS

NAME = "two-of-three-have-one-identity-from-the-start"


@pytest.mark.parametrize("client", ["kafka-python-3.0", "confluent-kafka-2.16"])
@pytest.mark.parametrize(("older", "is_fight"), [("left", True), ("right", False)])
def test_one_fence_in_the_first_round_is_a_fight_of_two_client_ids(client: str, older: str, is_fight: bool) -> None:
    """With one client id it may be one process that was started again."""
    history = History()
    fences = 0
    for event in read([RECORDINGS / "eight_again" / f"{NAME}-{client}.jsonl.gz"]):
        changed = event | ({"client_id": older} if event.get("client_id") == "left" else {})
        fences += changed["event"] == "exchange" and changed["error"] == 82
        history.add(changed)
    group = history.groups[f"{NAME}-{client}"]
    explanation = explain(group, list(group.rebalances))
    assert explanation is not None
    assert fences == 1
    assert (Diagnosis.DUPLICATE_INSTANCE_ID in {each.code for each in explanation.troubles}) is is_fight
    assert explanation.is_calm is not is_fight
