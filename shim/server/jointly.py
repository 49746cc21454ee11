"""Changes of ACLs, users and tokens: answered once the store has them, and made by all processes that share it.

Processes that share a store run a change on a copy of their settings, as those of topics do (`catalogue.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from kafka_shim.apis.wire import Message
from kafka_shim.broker.broker import Shared
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import Topics
from kafka_shim.groups.interface import PARKED, Parked


class PartOfSettings(Protocol):
    """ACLs, users or tokens: they are kept with the settings of topics."""

    def at(self, settings: Settings) -> Self:
        """Return the same in other settings."""


_P = TypeVar("_P", bound=PartOfSettings)


class _Jointly(NamedTuple):
    """A change of the settings of topics. Implements `Change`."""

    apply: Callable[[Topics], Message]


def change_together(shared: Shared, exchange: object, rule: Callable[[Topics], Message]) -> Parked:
    """Make a change in all processes. The exchange gets the answer of `rule`, which may run several times."""
    shared.change(_Jointly(rule), exchange)
    return PARKED


def change_durably(exchange: Any, part: _P, rule: Callable[[_P], Message]) -> Message | Parked:
    """Change a part of the settings, here or in all processes. The answer waits until the store has it."""
    shared = exchange.broker.shared
    if shared is not None:
        return change_together(shared, exchange, lambda topics: rule(part.at(topics.settings)))
    return once_durable(exchange, rule(part))


def once_durable(exchange: Any, response: Message) -> Message:
    """Let an answer wait until the store has the newest change of settings. Return it."""
    outbox = exchange.node.outbox
    outbox.required_batch = max(outbox.required_batch, exchange.broker.topics.batch)
    return response
