"""A played lesson as plain data, for display step by step: prose, questions, events, and the bytes of requests.

It keeps every event, and the frames of all requests except accepted heartbeats. Times are seconds since the lesson
began.
"""

from __future__ import annotations

from typing import Any, Final

from markdown_it import MarkdownIt

from kafka_shim.learn.lesson import Lesson, Step
from kafka_shim.learn.scene import Scene
from kafka_shim.learn.teaching import carry_out, check, lines_of, right_option
from kafka_shim.server.frames import FramePair
from kafka_shim.server.history import Entry

MOST_FRAMES: Final = 200
"""Number of requests of a lesson with their bytes."""
_PROSE: Final = MarkdownIt("commonmark", {"html": False}).enable("table")
_QUIET: Final = frozenset({"Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"})


def played(lesson: Lesson) -> dict[str, Any]:
    """Play the lesson and return it as plain data; prose is HTML. Raises Unteachable if a claim of the lesson fails."""
    scene = Scene(**lesson.scene)
    steps = [_step(scene, step) for step in lesson.steps]
    printed = {id(frames) for step in steps for frames in step.pop("_pairs")}
    others = [pair for pair in scene.frames if id(pair) not in printed and pair.api and not _is_quiet(pair)]
    selected = {id(pair) for pair in others[: max(0, MOST_FRAMES - len(printed))]} | printed
    return {
        "lesson": lesson.name,
        "number": lesson.number,
        "title": lesson.title,
        "minutes": lesson.minutes,
        "sources": list(lesson.sources),
        "intro": _PROSE.render(lesson.intro),
        "steps": steps,
        "frames": [pair.as_dict() for pair in scene.frames if id(pair) in selected],
    }


def _step(scene: Scene, step: Step) -> dict[str, Any]:
    scene.step()
    began = scene.simulation.history.seen
    carry_out(scene, step)
    check(scene, step)
    right = right_option(scene, step) if step.ask else None
    pairs = [scene.frames_of(*words[1:]) for words in map(str.split, step.show) if words[0] == "bytes"]
    return {
        "title": step.title,
        "before": _PROSE.render(step.before),
        "after": _PROSE.render(step.after),
        "ask": step.ask,
        "options": [
            {"text": option.text, "reply": option.reply, "right": number == right}
            for number, option in enumerate(step.options)
        ],
        "story": scene.story(),
        "requests": [line for each in step.show if each.split()[0] != "bytes" for line in lines_of(scene, each)],
        "bytes": [_number(pair) for pair in pairs],
        "events": [_event(scene, entry) for entry in scene.simulation.history.since(began)],
        "_pairs": pairs,
    }


def _event(scene: Scene, entry: Entry) -> dict[str, Any]:
    return entry.event | {"seq": entry.number, "mono": entry.now, "wall": scene.since_beginning(entry.now)}


def _number(pair: FramePair) -> dict[str, Any]:
    return {
        "connection": pair.connection,
        "correlation_id": pair.correlation_id,
        "arrived": pair.arrived,
        "api": pair.api,
    }


def _is_quiet(pair: FramePair) -> bool:
    return pair.api in _QUIET and len(pair.answer) <= len(pair.request)
