"""Faults: what goes wrong on purpose, for which requests, and how often.

Decides what each action does to a request or its answer, and when a fault is due: the n-th time, so many times, always,
or by chance from a seed. Each fault counts its firings. Which requests are meant is a `Match` (`interception.py`).

    error       answered with an error, without its rule; with applied=True after its rule
    delay       handed to its rule, or answered with applied=True, so many seconds later
    drop        never handed to its rule, never answered
    swallow     handed to its rule, never answered
    close       the connection is closed: `before` the rule, after it (`applied`), or after the answer (`answered`)
    duplicate   handed to its rule twice, as when a client tries again; one answer leaves
    half-open   nothing of this connection is served or answered any more, but it stays open
    slow        the answer leaves in pieces, so many bytes a second

What is dropped or swallowed lets the connection's later requests go on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import count
from typing import Any, Final, Literal, get_args

from kafka_shim.lab.interception import Facts, Interception, Match, Unmatchable, error_code, split_match
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.session import Session

Action = Literal["error", "delay", "drop", "swallow", "close", "duplicate", "half-open", "slow"]
ACTIONS: Final[tuple[str, ...]] = get_args(Action)
CLOSING: Final = ("before", "applied", "answered")
PIECE_SECONDS: Final = 0.02
REMEMBERED_FIRINGS: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a fault does and how often.

    `code` is the error of `error`; `seconds` the time of `delay`; `bytes_per_second` the pace of `slow`; `when` the
    moment of `close`. It is done the first `times` times that the match fits, without end for `times` None; only the
    `nth` time, counted from 1; or with `probability`, drawn from `seed`.
    """

    action: Action
    code: int = 0
    seconds: float = 0.0
    bytes_per_second: float = 100.0
    when: Literal["before", "applied", "answered"] = "before"
    applied: bool = False
    times: int | None = 1
    nth: int | None = None
    probability: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise Unmatchable(unknown_action(self.action))
        if self.action == "delay" and not self.seconds:
            raise Unmatchable("A delay needs seconds, the time to wait, such as seconds=1.5.")
        if self.when not in CLOSING:
            raise Unmatchable(f"A connection is closed before, applied or answered, not {self.when!r}.")
        if self.action == "error":
            error_code(self.code)
            if not self.code:
                raise Unmatchable("An error needs a code that is not 0.")
        for name, least in (("seconds", 0), ("times", 1), ("nth", 1), ("bytes_per_second", 1), ("probability", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool) or value < least):
                raise Unmatchable(f"{name} must be a number from {least} on, not {value!r}.")
        for name in ("times", "nth"):
            if isinstance(getattr(self, name), float):
                raise Unmatchable(f"{name} must be a whole number, not {getattr(self, name)!r}.")
        if self.seconds > 86_400 or (self.probability or 0) > 1:
            raise Unmatchable("A delay is a day at most, a probability 1 at most.")

    @property
    def after_rule(self) -> bool:
        """Whether it is done to the answer and not to the request."""
        match self.action:
            case "swallow" | "slow":
                return True
            case "close":
                return self.when != "before"
            case _:
                return self.applied


@dataclass(frozen=True)
class Firing:
    """One time that a fault was done. `at` is seconds on the coordinator's clock."""

    at: float
    connection: int
    api: str
    group: str
    member: str
    client_id: str


class Fault:
    """A fault in force; an `Intercept`. `number` is what it is called by, `optional` whether it need not fire."""

    def __init__(self, faults: Faults, number: int, match: Match, plan: Plan, optional: bool) -> None:
        self.number = number
        self.match = match
        self.plan = plan
        self.optional = optional
        self.matched = 0
        """How many requests the match fitted."""
        self.fired = 0
        """How many times it was done."""
        self.firings: list[Firing] = []
        """The first of them."""
        self._faults = faults
        self._random = random.Random(plan.seed)

    def __str__(self) -> str:
        matching = " ".join(f"{name}={value}" for name, value in self.match.to_json().items()) or "any request"
        return f"{self.plan.action} for {matching}"

    def to_json(self) -> dict[str, Any]:
        """The fault as the control API shows it."""
        return {
            "fault": self.number,
            **self.match.to_json(),
            **{name: value for name, value in asdict(self.plan).items() if name != "code"},
            **({"code": int(self.plan.code)} if self.plan.code else {}),
            "optional": self.optional,
            "matched": self.matched,
            "fired": self.fired,
        }

    def clear(self) -> None:
        """Let it happen no more. What it holds is let go in its time."""
        self._faults.remove(self)

    # As an intercept

    def request(self, exchange: Exchange, facts: Facts, now: float) -> bool:
        """See `Intercept`."""
        if self.plan.after_rule or not self._is_due(exchange, facts, now):
            return False
        match self.plan.action:
            case "error":
                exchange.substitute(self.plan.code, now)
            case "delay":
                exchange.hold()
                self._faults.interception.later(self.plan.seconds, exchange.run)
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
                self._faults.interception.later(self.plan.seconds, lambda later: exchange.deliver(data, later))
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
            elif not exchange.session.closed:
                exchange.session.transport.send(pieces.pop(0))
                self._faults.interception.later(size / self.plan.bytes_per_second, send)

        send(self._faults.interception.cluster.clock())

    def _is_due(self, exchange: Exchange, facts: Facts, now: float) -> bool:
        plan = self.plan
        if not self.match.fits(facts, exchange.request):
            return False
        self.matched += 1
        if plan.nth is not None:
            due = self.matched == plan.nth
        elif plan.probability is not None:
            due = self._random.random() < plan.probability
        else:
            due = plan.times is None or self.fired < plan.times
        if due:
            self.fired += 1
            if len(self.firings) < REMEMBERED_FIRINGS:
                firing = Firing(now, exchange.session.number, facts.api, facts.group, facts.member, facts.client_id)
                self.firings.append(firing)
            outbox = exchange.session.node.outbox
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
        self._gone: list[Fault] = []

    def __iter__(self) -> Iterator[Fault]:
        return iter(list(self._faults.values()))

    def get(self, number: int) -> Fault | None:
        """A fault in force by its number."""
        return self._faults.get(number)

    def add(self, match: Match, plan: Plan, optional: bool = False) -> Fault:
        """Put a fault in force."""
        fault = Fault(self, next(self._numbers), match, plan, optional)
        self._faults[fault.number] = fault
        self.interception.add(fault)
        return fault

    def declare(self, fields: Mapping[str, Any]) -> Fault:
        """Add a fault from the fields of `Match` and `Plan`. Raises Unmatchable.

        With action `error`, `error` sets the code of the answer unless there is `code`, by name or number.
        """
        keywords = dict(fields)
        if keywords.get("action") not in ACTIONS:
            raise Unmatchable(unknown_action(keywords.get("action")))
        if keywords.get("action") == "error" and "code" not in keywords and "error" in keywords:
            keywords["code"] = keywords.pop("error")
        if "code" in keywords:
            keywords["code"] = int(error_code(keywords["code"]))
        match, rest = split_match(keywords)
        optional = rest.pop("optional", False)
        try:
            plan = Plan(**rest)
        except TypeError as error:
            raise Unmatchable(f"A fault cannot be: {str(error).removeprefix('Plan.__init__() ')}.") from None
        return self.add(match, plan, bool(optional))

    def remove(self, fault: Fault) -> None:
        """Let a fault happen no more; nothing happens if it was removed already."""
        if self._faults.pop(fault.number, None) is not None:
            self._gone.append(fault)
        self.interception.remove(fault)

    def clear(self) -> None:
        """Let none happen any more."""
        for fault in self:
            self.remove(fault)

    def unfired(self) -> list[Fault]:
        """Faults that were to happen and have not, those removed included."""
        return [fault for fault in (*self._gone, *self) if not fault.fired and not fault.optional]


def unknown_action(action: object) -> str:
    """One sentence on what is no action, with those there are."""
    near = get_close_matches(str(action), ACTIONS, 1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"{action!r} is not an action{hint} Actions are {', '.join(ACTIONS)}."


class _Nowhere:
    """The transport of a connection that nobody listens to."""

    peer = "nobody"
    paused = False

    def send(self, data: bytes) -> bool:
        return True

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


def _run_again(exchange: Exchange, now: float) -> None:
    """Hand the request to its rule once more, first; the answer goes to nobody."""
    nowhere = Session(exchange.session.node, _Nowhere(), exchange.client.client_host, exchange.session.number)
    exchange.copy(nowhere).run(now)
