"""HTTP operation that divides the partitions of a group by every assignor, side by side.

The size of the group is bounded. `shim/learn/assignments.py` and the assignors divide it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from kafka_shim.control.operation import Answer, Body, Operation, Owned, TopicName
from kafka_shim.control.problems import Problem
from kafka_shim.control.workbench import Workbench

MOST_TOPICS: Final = 10
MOST_PARTITIONS: Final = 200
MOST_MEMBERS: Final = 50
_Members = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=249)]],
    Meta(min_length=1, max_length=MOST_MEMBERS, extra_json_schema={"uniqueItems": True}),
]


class DivideGroup(Body, kw_only=True):
    """A group that subscribes to topics, before and after a change of its members."""

    topics: Annotated[
        dict[TopicName, Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)]],
        Meta(min_length=1, max_length=MOST_TOPICS, description="Numbers of partitions."),
    ]
    before: Annotated[_Members, Meta(description="The members at first.")]
    after: Annotated[_Members, Meta(description="The members then.")]


class Division(Answer, kw_only=True):
    """An assignor's division before and after the change."""

    assignor: str
    style: Literal["eager", "cooperative", "KIP-848"]
    before: dict[str, Owned]
    after: dict[str, Owned]
    fewest: Annotated[int, Meta(description="Partitions of the member with the fewest.")]
    most: int
    moved: Annotated[int, Meta(description="Partitions that changed hands.")]
    needed: Annotated[int, Meta(description="The fewest that must change hands in any balanced division.")]
    stopped: Annotated[int, Meta(description="Partitions that no member consumes for a while.")]


class Divisions(Answer, kw_only=True):
    """The division of every assignor."""

    divisions: list[Division]


async def _divide(workbench: Workbench, body: DivideGroup) -> Divisions:
    for members in (body.before, body.after):
        if len(set(members)) < len(members):
            raise Problem(400, "INVALID_REQUEST", "Every member has a name of its own.")
    # Imported here because most servers never need it.
    from kafka_shim.learn.assignments import side_by_side

    # In a thread: ten divisions of a large group take longer than clients of the coordinator should wait.
    divisions = await workbench.elsewhere(side_by_side, body.topics, body.before, body.after)
    return Divisions(divisions=msgspec.convert(divisions, list[Division], from_attributes=True))


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/assignments",
        summary="Divide a group by every assignor, and count the cost of a change of its members.",
        do=_divide,
        answers=(Divisions,),
        body=DivideGroup,
        example={"topics": {"orders": 7}, "before": ["a", "b", "c"], "after": ["a", "b", "c", "d"]},
    ),
)
