"""What an operation of the control API is: its place, what it takes and answers, and who may have it done.

Decides nothing: routes (`api.py`) and the OpenAPI document (`openapi.py`) are both made of these, so that neither can
say what the other does not. Bodies and answers are typed; the types say bounds and meanings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

MAX_TEXT: Final = 8191
"""Characters of a text; Kafka's have 32,767 bytes at most."""
MAX_TIMEOUT: Final = 300
TIMEOUT: Final = 10.0
"""Default of the real seconds that a wait takes at most."""


class Body(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body or query of an operation. An unknown field is refused."""


class Answer(Struct, forbid_unknown_fields=True, kw_only=True):
    """What an operation answers: exactly these fields."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of several types, named by a field that may be left out: then it is `meant`. `places` finds the objects
    in a body that are such."""

    field: str
    meant: type[Struct]
    places: Callable[[Any], Iterable[Any]]

    def fill(self, body: Any) -> None:
        """Say in each of these objects what it is, where it does not."""
        for each in self.places(body):
            if isinstance(each, dict):
                each.setdefault(self.field, self.meant.__struct_config__.tag)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation. `do` gets the workbench, what the path names, then the body and the query if they are taken.

    `answers` are the types of what it may answer; of text there is none. `problems` are the statuses that it may answer
    beside those of every operation; `lab` ones are for test coordinators alone. `example` is a body, or None.
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
    """Whether 503 comes with an answer of the same kind."""
    tag: str = "groups"

    @property
    def names(self) -> list[str]:
        """What the path names, in order."""
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
"""What paths name."""
NUMBERED: Final = ("fault", "barrier", "puppet", "broker", "sandbox")
"""What is named by a number."""
