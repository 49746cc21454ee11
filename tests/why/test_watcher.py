"""`why --control` and `why` on a trace: a server's memory without every request gives the same answer."""

from __future__ import annotations

import gzip
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.sync_group import SyncGroupRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.security.config import STANDARD_AUTHORIZER
from kafka_shim.server.events import is_of_request
from kafka_shim.server.rare import RareExchanges
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.explanation import Explanation, explain
from tests.server.wire import Client, Wire, cluster, request
from tests.why.provoked.cases import Case
from tests.why.provoked.judge import recording_of
from tests.why.test_provoked import RECORDINGS


def watched(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of a trace that a server keeps without a listener to every request."""
    rare, chosen = RareExchanges(), []
    for event in events:
        if event["event"] == "exchange":
            key = ApiKey[re.sub(r"(?<!^)(?=[A-Z])", "_", event["api"]).upper()]
            number = rare.number(key, event["client_id"], SimpleNamespace(**event["request"]), event["error"])
            if number:
                chosen.append(event | {"nth": number})
        elif not is_of_request(event):
            chosen.append(event)
    return chosen


def explained(events: list[dict[str, Any]], group: str) -> Explanation | None:
    history = History()
    for event in events:
        history.add(event)
    return None if group not in history.groups else answer_of(history.groups[group])


def answer_of(history: GroupHistory) -> Explanation | None:
    return explain(history, list(history.rebalances))


def judgement(explanation: Explanation | None) -> Any:
    assert explanation is not None
    findings = [(each.code, each.client) for each in explanation.troubles]
    # Repetitions are counted up to a power of two.
    return findings, explanation.is_calm, re.sub(r"\d+ times", "N times", explanation.verdict)


@pytest.mark.parametrize(
    ("case", "client"), [pytest.param(*each.values, id=each.id) for each in RECORDINGS if len(each.values) == 2]
)
def test_a_watcher_gives_the_answer_of_the_trace(case: Case, client: str) -> None:
    with gzip.open(recording_of(case, client)) as lines:
        events = [json.loads(line) for line in lines]
    group = f"{case.name}-{client}"
    assert judgement(explained(watched(events), group)) == judgement(explained(events, group))


def join(member_id: str = "", instance_id: str | None = None, session_ms: int = 30_000) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest("billing", session_ms, 60_000, member_id, instance_id, "consumer", protocols)


async def test_a_watcher_of_a_server_hears_of_refusals_and_fences() -> None:
    first = Wire(cluster(topics={"orders": 1}))
    everything: list[dict[str, Any]] = []
    of_groups: list[dict[str, Any]] = []
    events = first.cluster.events
    for heard, requests in ((everything, True), (of_groups, False)):

        def hear(new: list[dict[str, Any]], now: float, heard: list[dict[str, Any]] = heard) -> None:
            heard.extend(each | {"mono": now, "wall": now, "seq": len(heard) + n} for n, each in enumerate(new))

        events.listen(hear, requests=requests)
    before = ""
    for number in range(3):
        now = 100.0 + 10 * number
        first.receive(request(join(instance_id="worker-0"), 5, client_id=f"pod-{number}"), now)
        first.cluster.ticks.fire(now + 1)
        member_id = first.answer(JoinGroupResponse, 5)[1].member_id
        if before:
            # The older process still runs.
            sync = SyncGroupRequest("billing", 1, before, group_instance_id="worker-0", assignments=[])
            first.receive(request(sync, 3, client_id="pod"), now + 2)
            first.answers()
        before = member_id
    for number in range(37):
        first.receive(request(join(session_ms=1), 5, client_id="hasty"), 140.0 + number)
        first.answers()
    answers = [explained(heard, "billing") for heard in (everything, of_groups)]
    assert judgement(answers[0]) == judgement(answers[1])
    for answer, count in zip(answers, (37, 32), strict=True):
        assert answer is not None
        assert {(each.code, each.client, each.count) for each in answer.troubles} >= {
            ("DUPLICATE_INSTANCE_ID", "worker-0", 2),
            ("JOIN_REFUSED", "hasty", count),
        }
    # The first, the second, the fourth and so on of 37.
    refused = [each for each in of_groups if each["event"] == "exchange" and each["client_id"] == "hasty"]
    assert [each.get("nth", 1) for each in refused] == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("epoch", [-1, -2])
def test_each_late_departure_of_a_member_is_kept(epoch: int) -> None:
    """A consumer that misses its poll again and again leaves too late each time, under one member id."""
    rare, numbers = RareExchanges(), []
    for _ in range(5):
        leaving = SimpleNamespace(group_id="billing", member_id="m", member_epoch=epoch, rebalance_timeout_ms=-1)
        joining = SimpleNamespace(group_id="billing", member_id="m", member_epoch=0, rebalance_timeout_ms=7_000)
        number = rare.number(ApiKey.CONSUMER_GROUP_HEARTBEAT, "report", leaving, ErrorCode.UNKNOWN_MEMBER_ID)
        numbers += [number, rare.number(ApiKey.CONSUMER_GROUP_HEARTBEAT, "report", joining, 0)]
    assert numbers == [1] * 10


def test_a_client_that_may_not_find_its_coordinator_belongs_to_its_group() -> None:
    config = {"listeners": "PLAINTEXT://127.0.0.1:0", "authorizer.class.name": STANDARD_AUTHORIZER}
    with CoordinatorServer(config=config) as server, Client(server.bootstrap) as client:
        client.ask(FindCoordinatorRequest("billing"), 2, FindCoordinatorResponse)
        client.ask(FindCoordinatorRequest(coordinator_keys=["billing"]), 4, FindCoordinatorResponse)
        events = [event | {"mono": 0.0, "wall": 0.0} for event in server.events("billing")]
    assert [each["api"] for each in events] == ["FindCoordinator"] * 2
    answer = explained(events, "billing")
    assert answer is not None
    assert [(each.code, each.error) for each in answer.troubles] == [
        (Diagnosis.JOIN_REFUSED, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    ]
    assert [each.key for each in answer.advice.remedies] == ["the rights of the client"]
