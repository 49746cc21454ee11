"""Interception of requests and answers: the one place where tests interfere.

A `Match` selects requests; the first `Intercept` that wants a request takes it over. `faults.py`, `barriers.py` and
`rewind.py` are intercepts. Without an intercept, no session calls anything here.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import trio

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.private import PRIVATE_APIS
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.similar import similar_name
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab.conditions import Conditions
from kafka_shim.server.failures import Border
from kafka_shim.server.trace import error_in

if TYPE_CHECKING:
    from kafka_shim.server.cluster import Cluster
    from kafka_shim.server.exchange import Exchange

Later = Callable[[float, Callable[[float], None]], None]
"""`later(seconds, do)` calls `do(now)` after so many seconds of real time, or of simulated time in a simulation."""


def api_names() -> list[str]:
    """Return the names of all APIs: those of Kafka, and those of the experiments that this process has loaded."""
    return [api.name for api in (*APIS.values(), *PRIVATE_APIS.values())]


class Unmatchable(ValueError):
    """An impossible description of requests, faults or barriers; the message is one sentence."""


class Unreachable(Unmatchable):
    """A possible description of what this group, or the server as it is, will never have."""


class Facts:
    """Properties of a request for a `Match`: its fields, its sender, and the present state of its group."""

    __slots__ = ("api", "broker", "client_id", "error", "generation", "group", "instance", "member", "role", "state")

    def __init__(self, exchange: Exchange) -> None:
        request, response, node = exchange.request, exchange.response, exchange.node
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
    """Selection of requests; a field that is None matches all. Texts may have `*` and `?`.

    `state` and `role` (leader, follower) are the coordinator's when the request arrives, or, for an answer, when it
    leaves; `error` is the code of the answer, and only an answer has one. `where` is any other condition.
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
        if self.api is not None and self.api not in api_names():
            raise Unmatchable(f"{self.api!r} is not an API; {similar(str(self.api), api_names())}")
        if self.role not in (None, "leader", "follower"):
            raise Unmatchable(f"A role must be leader or follower, not {self.role!r}.")
        for name, type_ in _TYPES.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, type_) or isinstance(value, bool)):
                raise Unmatchable(f"{name} must be {_TYPE_NAMES[type_]}, not {value!r}.")

    def fits(self, facts: Facts, request: Message) -> bool:
        """True if this request matches."""
        for name in _TEXTS:
            expected = getattr(self, name)
            if expected is not None:
                value = getattr(facts, name)
                if value is None or (value != expected and not fnmatchcase(value, expected)):
                    return False
        for name in _NUMBERS:
            expected = getattr(self, name)
            if expected is not None and getattr(facts, name) != expected:
                return False
        return self.where is None or self.where(request)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None and name != "where"}


_TEXTS: Final = ("api", "group", "member", "instance", "client_id", "state", "role")
_NUMBERS: Final = ("generation", "broker", "error")
_TYPES: Final[dict[str, type]] = dict.fromkeys(_TEXTS, str) | dict.fromkeys(_NUMBERS, int)
_TYPE_NAMES: Final[dict[type, str]] = {str: "a text", int: "a whole number"}
MATCH_FIELDS: Final = frozenset((*_TEXTS, *_NUMBERS))


def error_code(code: int | str) -> ErrorCode:
    """Return an error by its code or by Kafka's name. Raises Unmatchable."""
    try:
        return ErrorCode[code] if isinstance(code, str) else ErrorCode(code)
    except (KeyError, ValueError):
        hint = f"; {similar(code, ErrorCode.__members__)}" if isinstance(code, str) else "."
        raise Unmatchable(f"{code!r} is not an error of Kafka's protocol{hint}") from None


_WORDS: Final = re.compile("[A-Z]?[a-z0-9]+")
_MANY: Final = 1000


def similar(name: str, names: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the most similar one, or all unless there are very many."""
    names = sorted(names)
    if len(names) > _MANY:
        return f"there are {len(names):,} others."
    # The words may be right and their order wrong: CommitOffset.
    words = sorted(_WORDS.findall(name))
    near = [each for each in names if len(words) > 1 and sorted(_WORDS.findall(each)) == words]
    best = near[0] if near else similar_name(name, names)
    return f"did you mean {best!r}?" if best else f"there are {', '.join(names)}."


class Intercept(Protocol):
    """Takes over requests, answers, or both."""

    def request(self, exchange: Exchange, facts: Facts, now: float) -> bool:
        """Return True to take the exchange over before its rule: the intercept then holds it, or has ended it."""

    def answer(self, exchange: Exchange, facts: Facts, data: bytes, now: float) -> bool:
        """Return True to take the exchange over before its answer `data` leaves; as above."""


class Block(ABC):
    """An effect on the coordinator, such as a fault, a barrier or killed clients, until its own method ends it or a
    `with` block does."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    @abstractmethod
    def _end(self) -> None:
        """End the effect; a second call does nothing."""


class Interception:
    """The intercepts of a cluster; the `Interceptor` of its sessions while there are any.

    `later` calls back after some time. `conditions` are checked whenever an intercept has acted. A journal notes faults
    and barriers, and the moment of each delayed act.
    """

    def __init__(self, cluster: Cluster, later: Later) -> None:
        self.cluster = cluster
        self.later = later
        self.conditions = Conditions()
        self.intercepts: list[Intercept] = []
        self._delayed: dict[int, Callable[[float], None]] = {}
        self._numbers = count(1)

    def add(self, intercept: Intercept) -> None:
        """Add an intercept: it sees all requests and answers from now on."""
        self.intercepts.append(intercept)
        if len(self.intercepts) == 1:
            self.cluster.intercept(self)

    def remove(self, intercept: Intercept) -> None:
        """Remove an intercept; a second call does nothing."""
        if intercept in self.intercepts:
            self.intercepts.remove(intercept)
            if not self.intercepts:
                self.cluster.intercept(None)

    def end_journal(self, reason: str) -> None:
        """End the journal, if there is one: it cannot note the acts that follow."""
        if self.cluster.config.journal is not None:
            self.cluster.config.journal.end(reason)

    def delay(self, seconds: float, act: Callable[[float], None]) -> None:
        """Call `act(now)` after `seconds`, as an input of the journal."""
        number = next(self._numbers)
        self._delayed[number] = act
        self.later(seconds, lambda now: self.act(number, now))

    def act(self, number: int, now: float) -> None:
        """Do the delayed act of this number; they are counted from 1."""
        act = self._delayed.pop(number)
        with self.cluster.inputs.input("act", now, number=number):
            act(now)

    # `Interceptor` of the sessions

    def requested(self, exchange: Exchange, now: float) -> bool:
        """See `Interceptor`."""
        facts = Facts(exchange)
        takes = any(intercept.request(exchange, facts, now) for intercept in list(self.intercepts))
        if takes:
            exchange.let_go(now)
        return takes

    def answering(self, exchange: Exchange, data: bytes, now: float) -> bool:
        """See `Interceptor`."""
        facts = Facts(exchange)
        return any(intercept.answer(exchange, facts, data, now) for intercept in list(self.intercepts))

    def settle(self) -> None:
        """Settle the effects of released requests, and wake the tasks that wait for them."""
        self.cluster.settle(self.cluster.clock())
        self.conditions.check()

    async def until(self, condition: Callable[[], bool], timeout: float = inf) -> bool:
        """See `Conditions.until`."""
        return await self.conditions.until(condition, timeout)


def later_in(nursery: trio.Nursery, cluster: Cluster) -> Later:
    """Return a `Later` of real time, by tasks of a nursery."""

    async def sleep(seconds: float, do: Callable[[float], None]) -> None:
        await trio.sleep(seconds)
        now = cluster.clock()
        try:
            do(now)
        except Exception as error:
            cluster.failures.note(Border.LABORATORY, "the delayed act of a fault", error)
        cluster.settle(now)

    return lambda seconds, do: nursery.start_soon(sleep, seconds, do)


def split_match(fields: Mapping[str, Any]) -> tuple[Match, dict[str, Any]]:
    """Return the `Match` in these fields, and the other fields. Raises Unmatchable."""
    matching = {name: value for name, value in fields.items() if name in MATCH_FIELDS or name == "where"}
    return Match(**matching), {name: value for name, value in fields.items() if name not in matching}
