"""Types that rules and the server exchange beside messages.

A rule gets a request, its sender (`Client`) and an opaque object to reply to; it returns its answer, `PARKED` or
`NO_REPLY`, or raises `Refusal` before it has written anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol

from kafka_shim.apis.wire.errors import ErrorCode


class Parked:
    """Type of `PARKED`: no answer yet; the rule puts it into the outbox later."""

    def __repr__(self) -> str:
        return "PARKED"


PARKED: Final = Parked()


class NoReply:
    """Type of `NO_REPLY`: the client expects no answer (Produce with acks 0)."""

    def __repr__(self) -> str:
        return "NO_REPLY"


NO_REPLY: Final = NoReply()


class Refusal(Exception):
    """Refusal of a request: an error code and Kafka's message. Nothing was written."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class More:
    """Type of `MORE`: a computation has more parts."""


MORE: Final = More()


class Computation(Protocol):
    """Computation that takes too long for the event loop. It has copies of all its inputs."""

    @property
    def is_awaited(self) -> bool:
        """False once nothing needs the result: the group or the connection has gone. Then it ends without `finish`."""

    def compute(self) -> Any:
        """Return the result, or `MORE` after a part: other computations go on, then it is called again.

        Runs in another thread, without effects on others, and depends only on this object.
        """

    def finish(self, result: Any, now: float) -> None:
        """Use the result, in the thread of the rules; the result is the exception if `compute` raised one."""


def whole(computation: Computation) -> Any:
    """Compute all parts at once; return the result."""
    while (result := computation.compute()) is MORE:
        pass
    return result


class GroupComputation(Computation, Protocol):
    """Computation for a group, with the requests that wait for it in `queue`."""

    queue: deque[Any]

    def topic_changed(self, topic: str, now: float) -> None:
        """Note a topic that was created, has grown, or was deleted."""

    def abandon(self) -> None:
        """Answer all waiting requests: the group has moved to another coordinator."""


class Client(NamedTuple):
    """Sender of a request: `client_id` of the header, the address in Java's spelling, `/127.0.0.1`, and the principal
    in Kafka's spelling, `User:alice`. `is_proved`: the client has proved its name, and not by a delegation token."""

    client_id: str
    client_host: str
    principal: str = "User:ANONYMOUS"
    is_proved: bool = False


class TopicRights(Protocol):
    """The topics that principals may describe. `of_members`: a pattern shows each member its own, not those of the one
    that had it resolved."""

    of_members: bool

    def described(self, principal: str, host: str, topics: Iterable[str]) -> frozenset[str]:
        """Return those of the topics that a principal at an address, in Java's spelling, may describe."""


class TransactionSupportedOperation(Enum):
    """Treatment of a partition that a producer writes to without adding it to its transaction (KIP-890).

    DEFAULT_ERROR refuses it with INVALID_TXN_STATE (48), GENERIC_ERROR_SUPPORTED with TRANSACTION_ABORTABLE (120),
    ADD_PARTITION adds it. The names are those of Kafka's AddPartitionsToTxnManager.
    """

    DEFAULT_ERROR = auto()
    GENERIC_ERROR_SUPPORTED = auto()
    ADD_PARTITION = auto()


# Rows of the rule tables in readable form, for display. `Kind.row_of` selects the row of a request


class Cell(NamedTuple):
    """Column of a row: a state or situation, and the action in it; `here` if the request was in it."""

    column: str
    does: str
    here: bool


class Row(NamedTuple):
    """Row of a rule table. `does` is the action of the rule that answers, `error` its error code."""

    table: str
    name: str
    cells: tuple[Cell, ...]
    does: str
    error: int


def row(table: str, trigger: Enum, cells: Mapping[Any, Enum], current: Enum, does: str, error: int) -> Row:
    """Return the row of a trigger in a table (trigger, situation) -> rule; `cells` are its rules by situation."""
    row_cells = tuple(Cell(column.value, rule.value, column is current) for column, rule in cells.items())
    return Row(table, trigger.value, row_cells, does, error)


def steps_row(table: str, state: Enum, steps: Mapping[tuple[Any, Any], Enum]) -> Row:
    """Return the row of a member's state in a table of reconciliation (state, situation) -> step.

    No cell is marked: the situation depends on the effect of the heartbeat, which may start a new epoch.
    """
    cells = tuple(Cell(situation.value, step.value, False) for (of, situation), step in steps.items() if of is state)
    return Row(table, f"a heartbeat in {state.name}", cells, "", 0)
