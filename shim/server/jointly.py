"""Changes of ACLs and users by processes that share them: each runs on a copy, as those of topics do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafka_shim.apis.wire import Message
from kafka_shim.broker.broker import Shared
from kafka_shim.broker.topics import Topics
from kafka_shim.groups.interface import PARKED, Parked


class _Jointly(NamedTuple):
    """A change of the settings of topics. Implements `Change`."""

    apply: Callable[[Topics], Message]


def change_together(shared: Shared, exchange: object, rule: Callable[[Topics], Message]) -> Parked:
    """Make a change in all processes. The exchange gets the answer of `rule`, which may run several times."""
    shared.change(_Jointly(rule), exchange)
    return PARKED
