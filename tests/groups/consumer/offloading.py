"""A coordinator without sockets that leaves large computations to others; `Elsewhere` leaves all of them."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_shim.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    error,
)
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.groups import regex
from kafka_shim.groups.consumer import target
from kafka_shim.groups.interface import PARKED, Client, whole
from tests.groups.consumer.context import GROUP, HOST, Cluster
from tests.groups.context import Reply, subscription


class Offloading(Cluster):
    """A coordinator that leaves large computations to others: `compute` is the worker thread."""

    def start(self) -> None:
        super().start()
        self.outbox.offloads = True

    def ask(self, member_id: str, epoch: int, **fields: Any) -> Reply:
        request = ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch)
        for name, value in fields.items():
            setattr(request, name, value)
        reply = self._reply()
        return self._answered(
            reply,
            self.service.ask(request, error, Client(member_id, HOST), reply, self.now),
        )

    def joins(self, member_id: str, **fields: Any) -> Reply:
        return self.ask(
            member_id,
            0,
            **{
                "rebalance_timeout_ms": 9000,
                "subscribed_topic_names": ["t"],
                "server_assignor": "range",
                "topic_partitions": [],
            }
            | fields,
        )

    def joins_as_classic_member(self, member_id: str) -> Reply:
        request = JoinGroupRequest(
            GROUP, 10_000, 10_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", subscription("t"))]
        )
        reply = self._reply()
        answer = self.service.ask(
            request, join_refused, self.client, reply, self.now, member_id_required=True, skip_assignment_supported=True
        )
        return self._answered(reply, answer)

    def compute(self) -> None:
        """Compute the offloaded assignments, and let the rules go on with them."""
        computations, self.outbox.computations = self.outbox.computations, []
        assert computations
        for each in computations:
            each.finish(whole(each), self.now)
        self.settle()

    def assigned(self) -> dict[str, int]:
        """Partitions of the target assignment, by member."""
        targets = self.consumer_group.targets
        return {member_id: sum(map(len, target.values())) for member_id, target in targets.items()}

    def _reply(self) -> Reply:
        reply = Reply(1, self.client, self.now, self.service, self.broker)
        self.parked.add(reply)
        return reply

    def _answered(self, reply: Reply, answer: object) -> Reply:
        if answer is not PARKED:
            self.parked.remove(reply)
            reply.response = answer
        self.settle()
        return reply


class Elsewhere(Offloading):
    """Everything is computed elsewhere, however small, and each heartbeat is answered before the next is sent."""

    listens = True

    def beat(self, request: ConsumerGroupHeartbeatRequest, client_id: str = "c") -> ConsumerGroupHeartbeatResponse:
        reply = self._reply()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target, "LARGE", 0)
            client = Client(client_id, HOST)
            answer = self.service.ask(request, error, client, reply, self.now)
            self._answered(reply, answer)
            self.drain()
        self.advance(0)
        response: ConsumerGroupHeartbeatResponse = reply.response
        return response

    def advance(self, ms: float) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(regex, "LARGE", 0)
            super().advance(ms)
            self.drain()

    def drain(self) -> None:
        while self.outbox.computations:
            self.compute()
