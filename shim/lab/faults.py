"""Faults: deliberate failures of requests or answers that match, and how often they happen.

A fault happens the n-th time, a number of times, always, or by chance from a seed, and counts its firings.
`interception.py` has the `Match`.

    error       answered with an error, without its rule; with applied=True after its rule. UNKNOWN_MEMBER_ID (25) and
                FENCED_INSTANCE_ID (82) remove the member from its group, unless evict=False
    delay       handed to its rule, or answered with applied=True, so many seconds later
    drop        never handed to its rule, never answered
    swallow     handed to its rule, never answered
    close       the connection is closed: `before` the rule, after it (`applied`), or after the answer (`answered`)
    duplicate   handed to its rule twice, as when a client tries again; one answer leaves
    half-open   nothing of this connection is served or answered any more, but it stays open
    slow        the answer leaves in pieces, so many bytes a second

After a dropped or swallowed request, later requests of its connection are served.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from math import inf
from typing import Any, Final, Literal

from kafka_shim.apis.similar import similar_name
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab.interception import (
    MATCH_FIELDS,
    Block,
    Facts,
    Interception,
    Match,
    Unmatchable,
    error_code,
    similar,
    split_match,
)
from kafka_shim.lab.sessions import end_sessions, sessions_of
from kafka_shim.server.connection import State
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.session import Session
from kafka_shim.trace.events import FAULT_ACTIONS, FaultAction

CLOSE_MOMENTS: Final = ("before", "applied", "answered")
PIECE_SECONDS: Final = 0.02
MAX_FIRINGS: Final = 1000
OF_EVICTED: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
"""The errors by which a coordinator says that the group does not have the member. A client joins again as another
member, or ends, and a group that still had the first one would wait for it until the end of its session.
"""
_LEAST: Final = {"seconds": 0, "times": 1, "nth": 1, "bytes_per_second": 1, "probability": 0, "for_s": 0}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Action of a fault, and its frequency.

    `code` is the error of `error`; `seconds` the time of `delay`; `bytes_per_second` the rate of `slow`; `when` the
    moment of `close`. The fault happens on the first `times` matches, on all if `times` is None; only on the `nth`
    match, counted from 1; or with `probability`, drawn from `seed`. With `for_s` it happens only during so many seconds
    of the coordinator's time after its first time, from the `nth` match on if both are given. An `error` of
    `OF_EVICTED` removes the member from its group before the answer; `evict=False` or `applied` lets it stay there.
    """

    action: FaultAction
    code: int = 0
    seconds: float = 0.0
    bytes_per_second: float = 100.0
    when: Literal["before", "applied", "answered"] = "before"
    applied: bool = False
    evict: bool = True
    times: int | None = 1
    nth: int | None = None
    probability: float | None = None
    seed: int = 0
    for_s: float | None = None

    def __post_init__(self) -> None:
        if self.action not in FAULT_ACTIONS:
            raise Unmatchable(unknown_action(self.action))
        if self.action == "delay" and not self.seconds:
            raise Unmatchable("A delay needs seconds, the time to wait, such as seconds=1.5.")
        if self.when not in CLOSE_MOMENTS:
            raise Unmatchable(f"when must be before, applied or answered, not {self.when!r}.")
        if self.action == "error":
            error_code(self.code)
            if not self.code:
                raise Unmatchable(
                    "The fault 'error' needs an error, such as error=\"NOT_COORDINATOR\", and not NONE (0)."
                )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool) or value < least):
                raise Unmatchable(f"{name} must be a number of at least {least}, not {value!r}.")
        for name in ("times", "nth"):
            if isinstance(getattr(self, name), float):
                raise Unmatchable(f"{name} must be a whole number, not {getattr(self, name)!r}.")
        if self.seconds > 86_400 or (self.probability or 0) > 1:
            raise Unmatchable("A delay may be at most a day, a probability at most 1.")

    @property
    def after_rule(self) -> bool:
        """True if it acts on the answer and not on the request."""
        match self.action:
            case "swallow" | "slow":
                return True
            case "close":
                return self.when != "before"
            case _:
                return self.applied


@dataclass(frozen=True)
class Firing:
    """One firing of a fault. `at` is seconds on the coordinator's clock."""

    at: float
    connection: int
    api: str
    group: str
    member: str
    client_id: str


class Fault(Block):
    """A declared fault, until `clear` or the end of a `with` block; an `Intercept`.

    `number` is its id; an `optional` fault need not happen.
    """

    def __init__(self, faults: Faults, number: int, match: Match, plan: Plan, optional: bool) -> None:
        self.number = number
        self.match = match
        self.plan = plan
        self.optional = optional
        self.matched = 0
        """Number of requests that matched."""
        self.fired = 0
        """Number of times it happened."""
        self.firings: list[Firing] = []
        """The first of these times."""
        self._ends = inf
        self._faults = faults
        self._random = random.Random(plan.seed)

    def __str__(self) -> str:
        matching = " ".join(f"{name}={value}" for name, value in self.match.to_json().items()) or "any request"
        return f"{self.plan.action} for {matching}"

    def to_json(self) -> dict[str, Any]:
        """Return the fault in the form of the control API."""
        return {
            "fault": self.number,
            **self.match.to_json(),
            **{name: value for name, value in asdict(self.plan).items() if name not in ("code", "evict", "for_s")},
            **({} if self.plan.evict else {"evict": False}),
            **({} if self.plan.for_s is None else {"for_s": self.plan.for_s}),
            **({"code": int(self.plan.code)} if self.plan.code else {}),
            "optional": self.optional,
            "matched": self.matched,
            "fired": self.fired,
        }

    def clear(self) -> None:
        """Remove it. Requests that it delays continue at their time."""
        self._faults.remove(self)

    _end = clear

    # `Intercept`

    def request(self, exchange: Exchange, facts: Facts, now: float) -> bool:
        """See `Intercept`."""
        if self.plan.after_rule or not self._is_due(exchange, facts, now):
            return False
        match self.plan.action:
            case "error":
                if self.plan.evict and self.plan.code in OF_EVICTED and facts.member:
                    end_sessions(exchange.node, sessions_of([exchange.node], facts.group, [facts.member]), now)
                exchange.substitute(self.plan.code, now)
            case "delay":
                exchange.hold()
                self._faults.interception.delay(self.plan.seconds, exchange.run)
            case "close":
                exchange.session.transport.close()
            case "duplicate":
                _run_again(exchange, now)
                return False
            case "half-open":
                exchange.hold()
        return True

    def answer(self, exchange: Exchange, facts: Facts, data: bytes, now: float) -> bool:
        """See `Intercept`."""
        if not self.plan.after_rule or not self._is_due(exchange, facts, now):
            return False
        match self.plan.action:
            case "error":
                exchange.deliver(exchange.error_frame(self.plan.code), now)
            case "delay":
                exchange.hold()
                self._faults.interception.delay(self.plan.seconds, lambda later: exchange.deliver(data, later))
            case "close":
                if self.plan.when == "answered":
                    exchange.session.send(data)
                exchange.session.transport.close()
            case "slow":
                exchange.hold()
                self._trickle(exchange, data)
        return True

    def _trickle(self, exchange: Exchange, data: bytes) -> None:
        size = max(1, int(self.plan.bytes_per_second * PIECE_SECONDS))
        pieces = [data[start : start + size] for start in range(0, len(data), size)]

        def send(now: float) -> None:
            if len(pieces) == 1:
                exchange.deliver(pieces[0], now)
            elif exchange.session.state is not State.CLOSED:
                exchange.session.transport.send(pieces.pop(0))
                self._faults.interception.delay(size / self.plan.bytes_per_second, send)

        send(self._faults.interception.cluster.clock())

    def _is_due(self, exchange: Exchange, facts: Facts, now: float) -> bool:
        plan = self.plan
        if not self.match.fits(facts, exchange.request) or now >= self._ends:
            return False
        self.matched += 1
        if plan.nth is not None:
            due = self.matched == plan.nth or (plan.for_s is not None and self.matched > plan.nth)
        elif plan.probability is not None:
            due = self._random.random() < plan.probability
        else:
            due = plan.times is None or self.fired < plan.times
        if due:
            self.fired += 1
            if plan.for_s is not None and self.fired == 1:
                self._ends = now + plan.for_s
            if len(self.firings) < MAX_FIRINGS:
                firing = Firing(now, exchange.session.number, facts.api, facts.group, facts.member, facts.client_id)
                self.firings.append(firing)
            outbox = exchange.node.outbox
            if outbox.listening:
                outbox.event(
                    "fault",
                    group=facts.group,
                    member=facts.member,
                    client_id=facts.client_id,
                    conn=exchange.session.number,
                    api=facts.api,
                    action=plan.action,
                    error=int(plan.code),
                )
            self._faults.interception.conditions.check()
        return due


class Faults:
    """The faults of a cluster."""

    def __init__(self, interception: Interception) -> None:
        self.interception = interception
        self._numbers = count(1)
        self._faults: dict[int, Fault] = {}
        self._removed: list[Fault] = []

    def __iter__(self) -> Iterator[Fault]:
        return iter(list(self._faults.values()))

    def get(self, number: int) -> Fault | None:
        """Return a fault in force by its number."""
        return self._faults.get(number)

    def add(self, match: Match, plan: Plan, optional: bool = False) -> Fault:
        """Put a fault in force."""
        if match.where is not None:
            self.interception.end_journal("a function of the test chooses the requests of a fault")
        with self.interception.cluster.inputs.input("fault", match=match.to_json(), plan=asdict(plan)):
            fault = Fault(self, next(self._numbers), match, plan, optional)
            self._faults[fault.number] = fault
            self.interception.add(fault)
        return fault

    def declare(self, fields: Mapping[str, Any]) -> Fault:
        """Add a fault from the fields of `Match` and `Plan`. Raises Unmatchable.

        With action `error`, the field `error` sets the code of the answer, by name or number, unless there is `code`.
        """
        keywords = dict(fields)
        if keywords.get("action") not in FAULT_ACTIONS:
            raise Unmatchable(unknown_action(keywords.get("action")))
        if keywords.get("action") == "error" and "code" not in keywords and "error" in keywords:
            keywords["code"] = keywords.pop("error")
        if "code" in keywords:
            keywords["code"] = int(error_code(keywords["code"]))
        match, rest = split_match(keywords)
        optional = rest.pop("optional", False)
        if rest.get("for_s") is not None:
            rest.setdefault("times", None)
        if unknown := sorted(set(rest) - set(Plan.__dataclass_fields__)):
            names = (*MATCH_FIELDS, *Plan.__dataclass_fields__, "optional", "where")
            raise Unmatchable(f"A fault has no {', '.join(unknown)}; {similar(unknown[0], names)}")
        plan = Plan(**rest)
        return self.add(match, plan, bool(optional))

    def remove(self, fault: Fault) -> None:
        """Remove a fault; a second call does nothing."""
        if self._faults.pop(fault.number, None) is not None:
            self._removed.append(fault)
            with self.interception.cluster.inputs.input("fault-removed", number=fault.number):
                self.interception.remove(fault)

    def clear(self) -> None:
        """Remove all faults."""
        for fault in self:
            self.remove(fault)

    def unfired(self) -> list[Fault]:
        """Return the faults that should have happened and did not, including removed ones."""
        return [fault for fault in (*self._removed, *self) if not fault.fired and not fault.optional]


def unknown_action(action: object) -> str:
    """Return a sentence on an unknown action, with the list of actions."""
    near = similar_name(str(action), FAULT_ACTIONS)
    hint = f"; did you mean {near!r}?" if near else "."
    return f"{action!r} is not an action{hint} Actions are {', '.join(FAULT_ACTIONS)}."


class _NoTransport:
    """Transport without a client: answers to it are dropped."""

    peer = "nobody"
    paused = False

    def send(self, data: bytes) -> bool:
        return True

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


def _run_again(exchange: Exchange, now: float) -> None:
    """Run the request's rule once more, before the request itself; its answer is dropped."""
    session = Session(exchange.node, _NoTransport(), exchange.client.client_host, exchange.session.number)
    exchange.copy(session).run(now)
