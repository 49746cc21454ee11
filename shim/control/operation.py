"""An operation of the control API: its path, its body, its answers, and the servers that offer it.

Both the routes (`api.py`) and the OpenAPI document (`openapi.py`) are made of operations, so they agree. Bodies and
answers are typed; the types have bounds and meanings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

MAX_TEXT: Final = 8191
"""Characters of a text at most; Kafka's texts have at most 32,767 bytes."""
MAX_TIMEOUT: Final = 300
TIMEOUT: Final = 10.0
"""Default of the real seconds that a wait takes at most."""


class Body(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body or query of an operation. An unknown field is refused."""


class Answer(Struct, forbid_unknown_fields=True, kw_only=True):
    """The answer of an operation: exactly these fields."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of several types, chosen by a field; without the field it is `default`. `places` finds the objects in a body
    that are of this choice."""

    field: str
    default: type[Struct]
    places: Callable[[Any], Iterable[Any]]

    def fill(self, body: Any) -> None:
        """Write the default type into each of these objects that lacks it."""
        for each in self.places(body):
            if isinstance(each, dict):
                each.setdefault(self.field, self.default.__struct_config__.tag)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation. `do` gets the workbench, the names in the path, then the body and the query if there are any.

    `answers` are the types of its answers; a text answer has none. `problems` are the statuses of its errors, besides
    those of every operation; `lab` operations are for test coordinators alone. `example` is a body, or None.
    """

    method: str
    path: str
    summary: str
    do: Callable[..., Any]
    answers: tuple[Any, ...] = ()
    body: Any = None
    query: Any = None
    problems: tuple[int, ...] = ()
    lab: bool = False
    example: dict[str, Any] | None = None
    media_type: str = "application/json"
    choice: Choice | None = None
    degraded: bool = False
    """True if 503 comes with an answer of the same type."""
    tag: str = "groups"

    @property
    def names(self) -> list[str]:
        """Return the names in the path, in order."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


GroupId = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, description="Group id.")]
TopicName = Annotated[
    str, Meta(pattern=r"^(?!\.\.?$)[a-zA-Z0-9._-]{1,249}$(?!\n)", description="Topic name.", examples=["orders"])
]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
BrokerId = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Id of a broker.")]
Timeout = Annotated[float, Meta(ge=0, le=MAX_TIMEOUT, description="Real seconds to wait at most.")]
ByTopic = dict[TopicName, list[PartitionNumber]]
"""Partitions by topic."""
Owned = dict[str, list[int]]

LARGEST: Final = 2**31 - 1
PATH_TYPES: Final[dict[str, Any]] = {
    "group": GroupId,
    "topic": TopicName,
    "broker": BrokerId,
    "lesson": Annotated[str, Meta(min_length=1, max_length=249, description="Name of a lesson.", examples=["fencing"])],
    "fault": Annotated[int, Meta(ge=0, le=LARGEST, description="Number of a fault.")],
    "barrier": Annotated[int, Meta(ge=0, le=LARGEST, description="Number of a barrier.")],
    "puppet": Annotated[int, Meta(ge=0, le=LARGEST, description="Number of a puppet.")],
    "sandbox": Annotated[int, Meta(ge=0, le=LARGEST, description="Number of a sandbox.")],
}
"""The types of names in paths."""
NUMBERED: Final = ("fault", "barrier", "puppet", "broker", "sandbox")
"""The names in paths that are numbers."""
