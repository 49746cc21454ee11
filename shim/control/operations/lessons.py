"""HTTP operations of the lessons: list them, and return the recording of one.

The first request for a lesson runs it in its own thread; later requests get the same recording. The lessons are in
`shim/learn/`.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final

import orjson
from msgspec import Meta
from starlette.responses import Response

from kafka_shim.control.operation import Answer, Operation
from kafka_shim.control.operations.frames import ExchangeFrames
from kafka_shim.control.problems import Problem
from kafka_shim.control.workbench import Workbench


class LessonSummary(Answer, kw_only=True):
    """A lesson in the list of lessons."""

    lesson: str
    number: int
    title: str
    minutes: int


class Lessons(Answer, kw_only=True):
    """The lessons, in their order."""

    lessons: list[LessonSummary]


class LessonOption(Answer, kw_only=True):
    """An answer for a reader to choose. `right` if it did happen; else `reply` is the reason against it."""

    text: str
    reply: str
    right: bool


class RequestNumber(Answer, kw_only=True):
    """A request, by the numbers in its `exchange` event."""

    connection: int
    correlation_id: int
    arrived: float | None
    api: str


class PlayedStep(Answer, kw_only=True):
    """A step: prose before, perhaps a question, the events, prose after. Prose is HTML."""

    title: str
    before: str
    after: str
    ask: Annotated[str, Meta(description="The question, empty if there is none.")]
    options: list[LessonOption]
    story: Annotated[list[str], Meta(description="The events of the step, in lines for a person.")]
    requests: Annotated[list[str], Meta(description="Requests to look at, in such lines.")]
    bytes: Annotated[list[RequestNumber], Meta(description="Requests to look at byte by byte.")]
    events: Annotated[list[dict[str, Any]], Meta(description="As docs/trace.md has them; times since the beginning.")]


class PlayedLesson(Answer, kw_only=True):
    """A lesson as it was played."""

    lesson: str
    number: int
    title: str
    minutes: int
    sources: list[str]
    intro: str
    steps: list[PlayedStep]
    frames: Annotated[list[ExchangeFrames], Meta(description="The bytes of requests.")]


def _list(workbench: Workbench) -> Lessons:
    return Lessons(
        lessons=[
            LessonSummary(lesson=each.name, number=each.number, title=each.title, minutes=each.minutes)
            for each in _ours().values()
        ]
    )


async def _show(workbench: Workbench, name: str) -> Response:
    if name not in _ours():
        raise Problem(404, "NOT_FOUND", "There is no such lesson.")
    return Response(await workbench.elsewhere(_played, name), media_type="application/json")


# Imported within functions because most servers never need it.


@cache
def _ours() -> dict[str, Any]:
    from kafka_shim.learn.lesson import ours

    # A lesson with real clients is for a terminal: it takes time, and its events differ each time.
    return {lesson.name: lesson for lesson in ours() if not lesson.client}


@cache
def _played(name: str) -> bytes:
    from kafka_shim.learn.played import played

    return orjson.dumps(played(_ours()[name]), option=orjson.OPT_NON_STR_KEYS)


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/lessons",
        summary="The lessons.",
        do=_list,
        answers=(Lessons,),
        tag="lessons",
    ),
    Operation(
        method="GET",
        path="/v1/lessons/{lesson}",
        summary="A lesson as it is played: questions, answers, events and bytes.",
        do=_show,
        answers=(PlayedLesson,),
        tag="lessons",
    ),
)
