"""A rebalance as a Mermaid sequence diagram, for documents and tickets.

It draws the requests of one rebalance between its members and the coordinator, in order, without the times at which
they were parked. Every Mermaid renderer draws the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.causes import clause
from kafka_shim.why.names import Names

DRAWN: Final = frozenset(
    {"JoinGroup", "SyncGroup", "LeaveGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit"}
)
"""APIs to draw; heartbeats and commits only with an error, or with a change."""


def sequence_diagram(
    rebalance: Rebalance, events: Iterable[Mapping[str, Any]], protocol_type: str = ""
) -> Iterator[str]:
    """Yield the lines of a diagram of this rebalance; `events` and `protocol_type` are those of its group."""
    names, steps = Names(), []
    for event in events:
        if event["event"] == "exchange" and event["api"] in DRAWN:
            shift = event["wall"] - event["mono"]
            arrived, answered = event["arrived"] + shift, event["wall"]
            if answered < rebalance.started or arrived > rebalance.started + rebalance.seconds:
                continue
            if event["api"] in ("Heartbeat", "OffsetCommit") and not event["error"]:
                continue
            if event["api"] == "ConsumerGroupHeartbeat" and not _says_something(event):
                continue
            who = names(event["member"]) if event["member"] else event["client_id"]
            steps.append((arrived, f"{_id(who)}->>coordinator: {event['api']}{_outcome(event)}"))
            steps.append((answered, f"coordinator-->>{_id(who)}: {_answer(event)}"))
    steps.sort(key=lambda step: step[0])
    yield "sequenceDiagram"
    yield "    participant coordinator"
    because = clause(rebalance.cause, names(rebalance.trigger), protocol_type)
    yield f"    Note over coordinator: {rebalance.cause or 'unknown'}: {because}"
    for _, step in steps:
        yield f"    {step}"


def _id(name: str) -> str:
    return "".join(character if character.isalnum() or character in "-_" else "_" for character in name) or "client"


def _says_something(event: Mapping[str, Any]) -> bool:
    """True for a heartbeat that joins, leaves, reports its partitions, or gets more than a plain acceptance."""
    request, answer = event["request"], event["answer"]
    return bool(
        event["error"]
        or request["member_epoch"] <= 0
        or request["topic_partitions"] is not None
        or answer["assignment"] is not None
        or answer["member_epoch"] != request["member_epoch"]
    )


def _count(event: Mapping[str, Any], topics: Any) -> str:
    count = sum(len(topic["partitions"]) for topic in topics)
    return f"{_least(event)}{count} partition{'' if count == 1 else 's'}"


def _least(event: Mapping[str, Any]) -> str:
    return "at least " if "left_out" in event else ""


def _outcome(event: Mapping[str, Any]) -> str:
    request = event["request"]
    if event["api"] == "ConsumerGroupHeartbeat":
        epoch = request["member_epoch"]
        if epoch <= 0:
            return ", joins" if epoch == 0 else ", leaves"
        owns = request["topic_partitions"]
        return f", epoch {epoch}" + ("" if owns is None else f", owns {_count(event, owns)}")
    if event["api"] == "JoinGroup":
        return " with its id" if request["member_id"] else " without an id"
    if event["api"] == "SyncGroup":
        count = len(request["assignments"] or ())
        return f", generation {request['generation_id']}" + (f", {_least(event)}{count} assignments" if count else "")
    return ""


def _answer(event: Mapping[str, Any]) -> str:
    if event["error"]:
        return f"{ErrorCode(event['error']).name} ({event['error']})"
    if event["api"] == "ConsumerGroupHeartbeat":
        assigned = event["answer"]["assignment"]
        has = "" if assigned is None else f", has {_count(event, assigned['topic_partitions'])}"
        return f"epoch {event['answer']['member_epoch']}{has}"
    if event["api"] == "JoinGroup":
        answer = event["answer"]
        return f"generation {answer['generation_id']}" + (", leader" if answer["leader"] == event["member"] else "")
    return "assignment" if event["api"] == "SyncGroup" else "accepted"
