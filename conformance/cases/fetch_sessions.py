"""Cases about fetch sessions that do not exist, or not with the client's epoch (KIP-227)."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

NEW, NONE = 0, -1
"""The epochs of a full fetch that opens a session, and of one that ends it."""

session_case = partial(
    case, api="Fetch", source="semantics 6.3", level=Level.SHOULD, versions=(7, 18), uses=("Metadata",)
)


def fetch(t: Trial, topic: str, session_id: int, epoch: int, *, names: bool = True) -> Any:
    """Fetch one partition, or, without `names`, the partitions of the session."""
    topic_id = t.topic_id(topic)
    topics = [FetchTopic("" if t.version >= 13 else topic, topic_id, [FetchPartition(0, fetch_offset=0)])]
    request = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=topics if names else [])
    endpoint = t.peer.routes.of(FetchRequest(topics=[FetchTopic(topic, topic_id, [FetchPartition(0)])]), "Fetch", "")
    return t.connect_to(endpoint, "fetch").call(request, t.version)


def opened(t: Trial, topic: str) -> int:
    """Open a session and return its id."""
    answer = t.until(
        lambda: fetch(t, topic, 0, NEW),
        lambda got: got.error_code == 0 and got.responses[0].partitions[0].error_code == 0,
        "the partition cannot be fetched",
    )
    t.check(answer.session_id > 0, f"the id of the session is {answer.session_id}")
    return int(answer.session_id)


@session_case("fetch-session/unknown/1", "A session that was never there: FETCH_SESSION_ID_NOT_FOUND (70)")
def never(t: Trial) -> None:
    topic = t.topic(1)
    other = opened(t, topic) ^ 0x5A5A5A
    t.expect(fetch(t, topic, other, 1), error_code=E.FETCH_SESSION_ID_NOT_FOUND, session_id=0, responses=[])


@session_case("fetch-session/unknown/2", "A session that its client has ended is not there (70)")
def ended(t: Trial) -> None:
    topic = t.topic(1)
    session_id = opened(t, topic)
    t.expect(fetch(t, topic, session_id, 1, names=False), error_code=0, session_id=session_id)
    t.expect(fetch(t, topic, session_id, NONE), error_code=0, session_id=0)
    t.expect(fetch(t, topic, session_id, 2, names=False), error_code=E.FETCH_SESSION_ID_NOT_FOUND)


@session_case("fetch-session/epoch/1", "Another epoch than the next one: INVALID_FETCH_SESSION_EPOCH (71)")
def epoch(t: Trial) -> None:
    topic = t.topic(1)
    session_id = opened(t, topic)
    for wrong in (2, 5):
        answer = fetch(t, topic, session_id, wrong, names=False)
        t.expect(answer, error_code=E.INVALID_FETCH_SESSION_EPOCH, session_id=0)
    t.expect(fetch(t, topic, session_id, 1, names=False), error_code=0, session_id=session_id)
