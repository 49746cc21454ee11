"""Inference from requests and answers that cross each other on their way."""

from typing import Any

from kafka_shim.apis.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.relay.groups import Group
from kafka_shim.relay.proxied_connection import PendingRequest, ProxiedConnection

JOIN_GROUP = 11


class Seen:
    """A group behind a relay, and the events of it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.group = Group("billing", self.events.append)
        self.connection = ProxiedConnection(
            1, 1, "/127.0.0.1", clock=lambda: 0.0, on_request=self.unread, on_answer=self.unread, note=self.unread
        )

    def unread(self, *_: object) -> None:
        raise AssertionError("no bytes pass here")

    def join(self, at: float, member_id: str) -> PendingRequest:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        pending = PendingRequest(self.connection, JOIN_GROUP, 7, 0)
        pending.request = JoinGroupRequest("billing", 10_000, 60_000, member_id, None, "consumer", protocols)
        pending.arrived = at
        self.group.on_request(pending)
        return pending

    def refused(self, at: float, pending: PendingRequest, member_id: str) -> None:
        answer = JoinGroupResponse(0, ErrorCode.MEMBER_ID_REQUIRED, -1, None, None, "", False, member_id, [])
        self.group.on_join_answer(pending, answer, at, {"event": "exchange"})

    def answered(self, at: float, pending: PendingRequest, generation: int, leader: str, members: list[str]) -> None:
        member_id = pending.request.member_id
        listed = [JoinGroupResponseMember(each, None, b"") for each in members] if member_id == leader else []
        answer = JoinGroupResponse(0, 0, generation, "consumer", "range", leader, False, member_id, listed)
        self.group.on_join_answer(pending, answer, at, {"event": "exchange"})

    def rounds(self) -> list[tuple[Any, ...]]:
        return [
            (event["generation"], event["cause"], event["trigger"], event["started"])
            for event in self.events
            if event["event"] == "round"
        ]


def test_a_join_that_passes_the_answers_of_the_round_before_is_the_cause_of_the_next() -> None:
    seen = Seen()
    first = seen.join(1.0, "a")
    second = seen.join(3.9, "b")
    seen.answered(4.0, first, 1, "a", ["a"])
    seen.group.conclude()
    again = seen.join(4.5, "a")
    seen.answered(5.0, again, 2, "a", ["a", "b"])
    seen.answered(5.0, second, 2, "a", [])
    assert seen.rounds() == [(1, "NEW_MEMBER", "a", 1.0), (2, "NEW_MEMBER", "b", 3.9)]


def test_a_refused_join_causes_no_rebalance() -> None:
    seen = Seen()
    first = seen.join(1.0, "")
    seen.refused(1.1, first, "a")
    seen.answered(4.0, seen.join(1.2, "a"), 1, "a", ["a"])
    assert seen.rounds() == [(1, "NEW_MEMBER", "a", 1.2)]
