"""Requests that clients' logs tell of, as `exchange` events: joins, and those that the coordinator refused.

A broker's log has no line about a refused request, so these are worth telling beside one. A log has few fields of a
request: the others are empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.sources.client_rounds import Members, Round, time_of
from kafka_shim.sources.clients import Client
from kafka_shim.sources.signs import Sign, SignName

_REFUSALS: Final[Mapping[str, ErrorCode]] = {
    "protocol": ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    "session timeout": ErrorCode.INVALID_SESSION_TIMEOUT,
    "sessiontimeout": ErrorCode.INVALID_SESSION_TIMEOUT,
    "maximum size": ErrorCode.GROUP_MAX_SIZE_REACHED,
    "maxsize": ErrorCode.GROUP_MAX_SIZE_REACHED,
    "max size": ErrorCode.GROUP_MAX_SIZE_REACHED,
    "authoriz": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "assignor": ErrorCode.UNSUPPORTED_ASSIGNOR,
}
"""Errors of a refused request to join, by words of the client's text in small letters."""
_GENERATIONS: Final = ("generation", "GENERATION", "stale")
_ENDS: Final = (SignName.THROWN_OUT, SignName.REPLACED)


class ClientRequests:
    """The requests of the clients of a group."""

    def __init__(self, clients: Sequence[Client], members: Members) -> None:
        self._clients = clients
        self._members = members
        self._numbers = {id(client): number for number, client in enumerate(clients, 1)}

    def others(self) -> Iterator[tuple[Sign, dict[str, Any]]]:
        """Yield the refused requests of all clients, and the heartbeats that changed the state of a consumer of
        KIP-848, each with its sign.
        """
        for client in self._clients:
            for sign in client.signs:
                event = self._event(client, sign) if sign.time is not None else None
                if event is not None:
                    yield sign, event

    def _event(self, client: Client, sign: Sign) -> dict[str, Any] | None:
        member = self._members.at(client, sign)
        request: dict[str, Any]
        if sign.name is SignName.TRANSITION and int(sign.fields["epoch"]) > 0:
            request = {"member_epoch": int(sign.fields["epoch"]), "rebalance_timeout_ms": -1}
            event = self.exchange(client, sign, "ConsumerGroupHeartbeat", sign.member, request)
            return event | {"answer": {"heartbeat_interval_ms": None}}
        if sign.name is SignName.REFUSED:
            text = sign.fields["error"].lower()
            error = next((code for words, code in _REFUSALS.items() if words in text), None)
            join: dict[str, Any] = {
                "session_timeout_ms": client.session_timeout_ms,
                "rebalance_timeout_ms": -1,
                "protocols": [],
            }
            return None if error is None else self.exchange(client, sign, "JoinGroup", sign.member, join, error)
        if sign.name is SignName.REPLACED and "unreleased" in sign.fields:
            request = {"member_epoch": 0, "rebalance_timeout_ms": -1, "instance_id": sign.fields["unreleased"]}
            error = ErrorCode.UNRELEASED_INSTANCE_ID
            return self.exchange(client, sign, "ConsumerGroupHeartbeat", sign.member, request, error)
        if sign.name in _ENDS and member:
            return self.exchange(client, sign, "Heartbeat", member, {"member_id": member}, _error_of(sign))
        if sign.name is SignName.COMMIT_FAILED and member:
            error = ErrorCode.UNKNOWN_MEMBER_ID
            return self.exchange(client, sign, "OffsetCommit", member, {"member_id": member}, error)
        return None

    def joins(self, now: Round, asks: Mapping[str, int]) -> Iterator[tuple[Sign, dict[str, Any]]]:
        """Yield the requests to join of a generation, with the times at which they were sent: they show which members
        are of one process.
        """
        for member_id, sign in now.joins.items():
            client = self._members.client(member_id)
            if client is None:
                continue
            request: dict[str, Any] = {
                "session_timeout_ms": client.session_timeout_ms,
                "rebalance_timeout_ms": client.poll_interval_ms,
                "protocols": [],
            }
            event = self.exchange(client, sign, "JoinGroup", member_id, request)
            event["arrived"] = asks.get(member_id, time_of(sign)) / 1000
            event["answer"] = {"generation_id": now.generation}
            yield sign, event

    def exchange(
        self, client: Client, sign: Sign, api: str, member_id: str, request: dict[str, Any], error: int = 0
    ) -> dict[str, Any]:
        """Return the event of a request. A process has one connection, as far as its log shows."""
        return {
            "event": "exchange",
            "conn": self._numbers.get(id(client), 0),
            "node": -1,
            "api": api,
            "version": 0,
            "correlation_id": 0,
            "client_id": client.name,
            "member": member_id or None,
            "arrived": time_of(sign) / 1000,
            "request": request,
            "answer": {},
            "error": int(error),
        }


def _error_of(sign: Sign) -> ErrorCode:
    text = sign.fields.get("error", "")
    if sign.name is SignName.REPLACED or "FENCED" in text:
        return ErrorCode.FENCED_INSTANCE_ID
    if any(word in text for word in _GENERATIONS):
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.UNKNOWN_MEMBER_ID
