"""A lesson as it is played: question, what happens, which answer was right, and whether every claim holds.

Decides the order in which a reader sees things. The trace says which answer is right, not the author of the lesson. It
does not know where text is shown, or from where an answer comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafka_shim.learn.lesson import Lesson, Step, Unteachable
from kafka_shim.learn.scene import Scene


@dataclass(frozen=True)
class Shown:
    """Something for the reader. `kind` is prose (Markdown), title, question, option, right, wrong, story or frame."""

    kind: str
    text: str


Ask = Callable[[Step], int | None]
"""The number of the option that the reader takes, from 0 on, or None."""


def scene_of(lesson: Lesson) -> Scene:
    """The scene of a lesson, to be closed. Raises Unteachable."""
    try:
        if not lesson.client:
            return Scene(**lesson.scene)
        # Imported here because a lesson with puppets needs no server.
        from kafka_shim.learn.clients import ClientScene

        return ClientScene(**lesson.scene)
    except TypeError as error:
        raise Unteachable(f"A scene is not set so: {error}.") from None


def play(lesson: Lesson, ask: Ask) -> Iterator[Shown]:
    """Play a lesson, and show what a reader sees. Raises Unteachable if something that it claims is not so."""
    with scene_of(lesson) as scene:
        yield from _play(scene, lesson, ask)


def _play(scene: Scene, lesson: Lesson, ask: Ask) -> Iterator[Shown]:
    yield Shown("prose", lesson.intro)
    for step in lesson.steps:
        yield Shown("title", step.title)
        yield Shown("prose", step.before)
        scene.step()
        chosen = None
        if step.ask:
            yield Shown("question", step.ask)
            for number, option in enumerate(step.options, 1):
                yield Shown("option", f"{number}  {option.text}")
            chosen = ask(step)
        for line in step.do:
            scene.do(line)
        story = scene.story()
        if story:
            yield Shown("story", "\n".join(story))
        for what in step.show:
            yield Shown("frame", "\n".join(_shown(scene, what)))
        check(scene, step)
        if step.ask:
            right = right_option(scene, step)
            if chosen == right:
                yield Shown("right", f"Right: {step.options[right].text}")
            else:
                if chosen is not None and step.options[chosen].reply:
                    yield Shown("wrong", f"Not {step.options[chosen].text!r}. {step.options[chosen].reply}")
                yield Shown("right", f"What happens: {step.options[right].text}")
        yield Shown("prose", step.after)


def right_option(scene: Scene, step: Step) -> int:
    """The number of the option that is so. Raises Unteachable unless it is exactly one."""
    right = [number for number, option in enumerate(step.options) if scene.fits(option.when)]
    if len(right) != 1:
        texts = ", ".join(repr(step.options[number].text) for number in right) or "none"
        raise Unteachable(f"In step {step.title!r} exactly one option should be so, and these are: {texts}.")
    return right[0]


def check(scene: Scene, step: Step) -> None:
    """Raises Unteachable if something that the step claims is not so."""
    for claims, fits, word in ((step.happens, True, "is"), (step.never, False, "is not"), (step.holds, True, "is")):
        for pattern in claims:
            if scene.fits(pattern) is not fits:
                raise Unteachable(f"In step {step.title!r} it is claimed that this {word} so: {dict(pattern)}.")


def _shown(scene: Scene, what: str) -> list[str]:
    match what.split():
        case ["requests"]:
            return scene.exchanges()
        case ["requests", api]:
            return scene.exchanges(api)
        case ["bytes", api, who]:
            return scene.hex(api, who)
    raise Unteachable(f"{what!r} cannot be shown: write requests, requests API, or bytes API CLIENT.")
