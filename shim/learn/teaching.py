"""Plays a lesson: asks the question, shows the events, tells the right answer, and checks each answer of the learner.

The trace determines the right answer, not the author of the lesson.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kafka_shim.learn.lesson import Lesson, Step, Unteachable
from kafka_shim.learn.scene import Scene


@dataclass(frozen=True)
class Output:
    """A piece of output. `kind` is prose (Markdown), title, question, option, right, wrong, story or frame."""

    kind: str
    text: str


Ask = Callable[[Step], int | None]
"""Asks the reader; returns the number of the chosen option, from 0, or None."""

Act = Callable[[Step], str]
"""Asks the reader for a line of `do`; an empty one plays the solution."""


def scene_of(lesson: Lesson) -> Scene:
    """Open the scene of a lesson; the caller closes it. Raises Unteachable."""
    try:
        if not lesson.client:
            return Scene(**lesson.scene)
        # Imported here because a lesson with puppets needs no server.
        from kafka_shim.learn.clients import ClientScene

        return ClientScene(**lesson.scene)
    except TypeError as error:
        raise Unteachable(f"The scene has a wrong option: {error}.") from None


def play(lesson: Lesson, ask: Ask, act: Act | None = None) -> Iterator[Output]:
    """Play a lesson and yield its output; with `act` the learner acts in the steps that have a goal. Raises Unteachable
    if a claim of the lesson fails.
    """
    with scene_of(lesson) as scene:
        yield from _play(scene, lesson, ask, act)


def _play(scene: Scene, lesson: Lesson, ask: Ask, act: Act | None) -> Iterator[Output]:
    yield Output("prose", lesson.intro)
    for step in lesson.steps:
        yield Output("title", step.title)
        yield Output("prose", step.before)
        scene.step()
        chosen = None
        if step.ask:
            yield Output("question", step.ask)
            for number, option in enumerate(step.options, 1):
                yield Output("option", f"{number}  {option.text}")
            chosen = ask(step)
        if step.goal and act is not None:
            yield from _acted(scene, step, act)
        else:
            carry_out(scene, step)
        story = scene.story()
        if story:
            yield Output("story", "\n".join(story))
        for request in step.show:
            yield Output("frame", "\n".join(lines_of(scene, request)))
        check(scene, step)
        if step.ask:
            right = right_option(scene, step)
            if chosen == right:
                yield Output("right", f"Right: {step.options[right].text}")
            else:
                if chosen is not None and step.options[chosen].reply:
                    yield Output("wrong", f"Not {step.options[chosen].text!r}. {step.options[chosen].reply}")
                yield Output("right", f"What happens: {step.options[right].text}")
        yield Output("prose", step.after)


def _acted(scene: Scene, step: Step, act: Act) -> Iterator[Output]:
    """Let the learner act, line by line, until the goal is reached or the solution is wanted."""
    while not scene.fits(step.goal):
        line = act(step).strip()
        if not line:
            yield Output("option", "\n".join(step.do))
            carry_out(scene, step)
            return
        try:
            scene.do(line)
        except Unteachable as error:
            yield Output("wrong", str(error))
            continue
        yield Output("story", "\n".join(scene.story()))
        if not scene.fits(step.goal):
            yield Output("wrong", f"Not yet: {_sentence(scene.truth(step.goal))}")
    yield Output("right", "You did it.")


def carry_out(scene: Scene, step: Step) -> None:
    """Do the lines of a step. Raises Unteachable with the line of the file."""
    for line in step.do:
        try:
            scene.do(line)
        except Unteachable as error:
            raise Unteachable(f"{step.place(line)}: {error}") from None


def _sentence(fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name} is {value!r}" for name, value in fields.items())


def right_option(scene: Scene, step: Step) -> int:
    """Return the number of the option that matches the trace. Raises Unteachable unless exactly one does."""
    right = [number for number, option in enumerate(step.options) if scene.fits(option.when)]
    if len(right) != 1:
        texts = ", ".join(repr(step.options[number].text) for number in right) or "none"
        raise Unteachable(f"{step.place('[[options]]')}: exactly one option should be right; these are: {texts}.")
    return right[0]


def check(scene: Scene, step: Step) -> None:
    """Check the claims of a step. Raises Unteachable if one fails."""
    for claims, fits, kind in (
        (step.happens, True, "happens"),
        (step.never, False, "never"),
        (step.holds, True, "holds"),
        ([step.goal] if step.goal else [], True, "goal"),
    ):
        for pattern in claims:
            if scene.fits(pattern) is not fits:
                truth = f" ({_sentence(scene.truth(pattern))})" if scene.truth(pattern) else ""
                raise Unteachable(f"{step.place(kind)}: a claim of {kind!r} fails: {dict(pattern)}{truth}.")


def lines_of(scene: Scene, request: str) -> list[str]:
    """Return the lines that a step shows for `requests`, `requests API` or `bytes API CLIENT`. Raises Unteachable."""
    match request.split():
        case ["requests"]:
            return scene.exchanges()
        case ["requests", api]:
            return scene.exchanges(api)
        case ["bytes", api, who]:
            return scene.hex(api, who)
    raise Unteachable(f"{request!r} cannot be shown: write requests, requests API, or bytes API CLIENT.")
