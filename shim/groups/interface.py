"""What rules and those who run them say to each other besides messages.

Decides nothing. A rule gets a request, who sent it (`Client`) and an opaque object to reply to; it returns its answer,
or `PARKED`, or `NO_REPLY`. Rules and the server both import this module; it knows neither.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol


class Parked:
    """The type of `PARKED`: no answer yet; the rule will put it in the outbox later."""

    def __repr__(self) -> str:
        return "PARKED"


PARKED: Final = Parked()


class NoReply:
    """The type of `NO_REPLY`: the client waits for no answer and gets none (Produce with acks 0)."""

    def __repr__(self) -> str:
        return "NO_REPLY"


NO_REPLY: Final = NoReply()


class Computation(Protocol):
    """What takes too long for the event loop. It has copies of all it needs: nothing that others change meanwhile."""

    def compute(self) -> Any:
        """The result. It is called in another thread, has no effects, and depends on nothing but this object."""

    def finish(self, result: Any, now: float) -> None:
        """Go on with the result, in the thread of the rules; that of an exception if `compute` raised one."""


class GroupComputation(Computation, Protocol):
    """One of those that requests about a group wait for in `line`."""

    line: deque[Any]

    def topic_changed(self, topic: str, now: float) -> None:
        """A topic was created, has grown, or is gone."""

    def abandon(self) -> None:
        """The group is not coordinated here any more: answer those in line."""


class Client(NamedTuple):
    """Who sent a request: `client_id` of the header, and the address in Java's spelling, `/127.0.0.1`."""

    client_id: str
    client_host: str


class TransactionSupportedOperation(Enum):
    """What is done about a partition that a producer writes to and has not added to its transaction (KIP-890).

    DEFAULT_ERROR refuses it with INVALID_TXN_STATE (48), GENERIC_ERROR_SUPPORTED with TRANSACTION_ABORTABLE (120),
    ADD_PARTITION adds it. The names are those of Kafka's AddPartitionsToTxnManager.
    """

    DEFAULT_ERROR = auto()
    GENERIC_ERROR_SUPPORTED = auto()
    ADD_PARTITION = auto()
