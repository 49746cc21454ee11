"""Requests and answers on their way, seen by rules that may take them over: the one place where tests interfere.

Decides which requests a `Match` means and which `Intercept` gets them: the first one added that wants them. What is
done with them is in `faults.py`, `barriers.py` and `rewind.py`. While there is no `Intercept`, no session asks, and
nothing here runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab.conditions import Conditions
from kafka_shim.server.trace import error_in

if TYPE_CHECKING:
    from kafka_shim.server.cluster import Cluster
    from kafka_shim.server.exchange import Exchange

API_NAMES: Final = {api.name: key for key, api in APIS.items()} | {key.api_name: key for key in ExperimentalKey}

Later = Callable[[float, Callable[[float], None]], None]
"""`later(seconds, do)` calls `do(now)` after so many seconds of real time, or of simulated time in a simulation."""


class Unmatchable(ValueError):
    """A description of requests, faults or barriers that cannot be; the message is one sentence."""


class Facts:
    """What a `Match` can ask about a request: what it says, who sent it, and its group as it is now."""

    __slots__ = ("api", "broker", "client_id", "error", "generation", "group", "instance", "member", "role", "state")

    def __init__(self, exchange: Exchange) -> None:
        request, response, node = exchange.request, exchange.response, exchange.session.node
        self.api = exchange.endpoint.api.name
        self.broker = node.id
        self.client_id = exchange.client.client_id
        row = exchange.endpoint.row
        self.group = next(iter(row.groups_of(request)), "")
        self.member, self.instance, self.generation = row.sender(request)
        if not self.member and isinstance(response, JoinGroupResponse | ConsumerGroupHeartbeatResponse):
            # The first request of a member may come without an id.
            self.member = response.member_id or ""
        group: Any = node.groups.groups.get(self.group)
        self.state = "" if group is None else str(group.state.value)
        self.role = "" if group is None or not self.member else _role(group, self.member)
        self.error = None if response is None else error_in(response)


def _role(group: Any, member: str) -> str:
    return "leader" if getattr(group, "leader", None) == member else "follower"


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which requests match; a field that is None matches all. Texts may have `*` and `?`.

    `state` and `role` (leader, follower) are those the coordinator has when the request arrives, or, for an answer,
    when it leaves; `error` is that of the answer, by code, and only an answer has one. `where` is any other condition.
    """

    api: str | None = None
    group: str | None = None
    member: str | None = None
    instance: str | None = None
    client_id: str | None = None
    generation: int | None = None
    state: str | None = None
    role: str | None = None
    broker: int | None = None
    error: int | None = None
    where: Callable[[Message], bool] | None = None

    def __post_init__(self) -> None:
        if self.api is not None and self.api not in API_NAMES:
            raise Unmatchable(f"{self.api!r} is not an API; there are {', '.join(sorted(API_NAMES))}.")
        if self.role not in (None, "leader", "follower"):
            raise Unmatchable(f"A role is leader or follower, not {self.role!r}.")
        for name, type_ in _TYPES.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, type_) or isinstance(value, bool)):
                raise Unmatchable(f"{name} must be {_TYPE_NAMES[type_]}, not {value!r}.")

    def fits(self, facts: Facts, request: Message) -> bool:
        """Whether this request is meant."""
        for name in _TEXTS:
            expected = getattr(self, name)
            if expected is not None:
                found = getattr(facts, name)
                if found is None or (found != expected and not fnmatchcase(found, expected)):
                    return False
        for name in _NUMBERS:
            expected = getattr(self, name)
            if expected is not None and getattr(facts, name) != expected:
                return False
        return self.where is None or self.where(request)

    def to_json(self) -> dict[str, Any]:
        """The fields that are set, by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if value is not None and name != "where"}


_TEXTS: Final = ("api", "group", "member", "instance", "client_id", "state", "role")
_NUMBERS: Final = ("generation", "broker", "error")
_TYPES: Final[dict[str, type]] = dict.fromkeys(_TEXTS, str) | dict.fromkeys(_NUMBERS, int)
_TYPE_NAMES: Final[dict[type, str]] = {str: "a text", int: "a whole number"}
MATCH_FIELDS: Final = frozenset((*_TEXTS, *_NUMBERS))


def error_code(code: int | str) -> ErrorCode:
    """An error by its code or by Kafka's name. Raises Unmatchable."""
    try:
        return ErrorCode[code] if isinstance(code, str) else ErrorCode(code)
    except (KeyError, ValueError):
        raise Unmatchable(f"{code!r} is not an error of Kafka's protocol.") from None


class Intercept(Protocol):
    """Something that takes requests over, or answers, or both."""

    def request(self, exchange: Exchange, facts: Facts, now: float) -> bool:
        """Whether it has taken the exchange over before its rule: it holds it, or has ended it."""

    def answer(self, exchange: Exchange, facts: Facts, data: bytes, now: float) -> bool:
        """Whether it has taken the exchange over before its answer `data` leaves; the same."""


class Interception:
    """The intercepts of a cluster; the `Interceptor` of its sessions while there are any.

    `later` calls back after some time. `conditions` are checked whenever an intercept has done something.
    """

    def __init__(self, cluster: Cluster, later: Later) -> None:
        self.cluster = cluster
        self.later = later
        self.conditions = Conditions()
        self._intercepts: list[Intercept] = []

    def add(self, intercept: Intercept) -> None:
        """Let it see all requests and answers from now on. What it does no journal has, so that ends."""
        if self.cluster.config.journal is not None:
            self.cluster.config.journal.end("a fault, a barrier or a rewind is in force")
        self._intercepts.append(intercept)
        if len(self._intercepts) == 1:
            self.cluster.intercept(self)

    def remove(self, intercept: Intercept) -> None:
        """Let it see nothing more; nothing happens if it was removed already."""
        if intercept in self._intercepts:
            self._intercepts.remove(intercept)
            if not self._intercepts:
                self.cluster.intercept(None)

    # As the sessions' interceptor

    def requested(self, exchange: Exchange, now: float) -> bool:
        """See `Interceptor`."""
        facts = Facts(exchange)
        return any(intercept.request(exchange, facts, now) for intercept in list(self._intercepts))

    def answering(self, exchange: Exchange, data: bytes, now: float) -> bool:
        """See `Interceptor`."""
        facts = Facts(exchange)
        return any(intercept.answer(exchange, facts, data, now) for intercept in list(self._intercepts))

    def settle(self) -> None:
        """Hand on what came of requests that were let go, and wake who waits for it."""
        self.cluster.settle(self.cluster.clock())
        self.conditions.check()

    async def until(self, condition: Callable[[], bool], timeout: float = inf) -> bool:
        """See `Conditions.until`."""
        return await self.conditions.until(condition, timeout)


def later_in(nursery: trio.Nursery, cluster: Cluster) -> Later:
    """Real time, by tasks of a nursery."""

    async def sleep(seconds: float, do: Callable[[float], None]) -> None:
        await trio.sleep(seconds)
        now = cluster.clock()
        do(now)
        cluster.settle(now)

    return lambda seconds, do: nursery.start_soon(sleep, seconds, do)


def split_match(fields: Mapping[str, Any]) -> tuple[Match, dict[str, Any]]:
    """The `Match` among these fields, and the fields left over. Raises Unmatchable."""
    matching = {name: value for name, value in fields.items() if name in MATCH_FIELDS or name == "where"}
    return Match(**matching), {name: value for name, value in fields.items() if name not in matching}
