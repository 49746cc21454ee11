"""What a lesson is, and how its file is read.

Decides the form: Markdown with a front matter in TOML, and in each section of second rank one block of TOML, the step.
`docs/lessons.md` describes it. It does not know how a step is played: `scene.py` does.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

LESSONS: Final = Path(__file__).parent / "lessons"

_FRONT: Final = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n(.*)\Z", re.S | re.M)
_BLOCK: Final = re.compile(r"^```toml\n(.*?)^```\n?", re.S | re.M)


class Unteachable(Exception):
    """The file is no lesson; the message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """An answer that a reader may give. It is right if `when`, a pattern, is so afterwards; else there is a `reply`."""

    text: str
    when: Mapping[str, Any]
    reply: str = ""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: prose, perhaps a question, what is done, and what is so then.

    `happens` and `never` are patterns of events since the step began, `holds` of the state at its end. `show` says what
    the reader sees of it beside the story.
    """

    title: str
    before: str
    after: str
    do: Sequence[str] = ()
    ask: str = ""
    options: Sequence[Option] = ()
    happens: Sequence[Mapping[str, Any]] = ()
    never: Sequence[Mapping[str, Any]] = ()
    holds: Sequence[Mapping[str, Any]] = ()
    show: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A lesson. `number` is its place among ours."""

    name: str
    title: str
    minutes: int
    sources: Sequence[str]
    intro: str
    steps: Sequence[Step]
    number: int = 0
    scene: Mapping[str, Any] = field(default_factory=dict)

    @property
    def client(self) -> str:
        """The library whose consumers are its members, in real time; empty if they are puppets."""
        return str(self.scene.get("client", ""))


def read(path: Path) -> Lesson:
    """The lesson in a file. Raises Unteachable."""
    try:
        return parse(path.read_text(), path.stem)
    except OSError as error:
        raise Unteachable(f"{path} cannot be read: {error.strerror}.") from None
    except (Unteachable, tomllib.TOMLDecodeError) as error:
        raise Unteachable(f"{path}: {error}") from None


def parse(text: str, name: str) -> Lesson:
    """The lesson that a text is. Raises Unteachable, or TOMLDecodeError."""
    found = _FRONT.match(text)
    if found is None:
        raise Unteachable("A lesson begins with a front matter in TOML between two lines of +++.")
    front = tomllib.loads(found[1])
    intro, *sections = re.split(r"^## ", found[2], flags=re.M)
    number, _, rest = name.partition("-")
    try:
        return Lesson(
            name=rest if number.isdecimal() else name,
            number=int(number) if number.isdecimal() else 0,
            intro=intro.strip(),
            steps=[_step(section) for section in sections],
            **front,
        )
    except TypeError as error:
        raise Unteachable(f"A field is missing, or is one that lessons do not have: {error}.") from None


def _step(section: str) -> Step:
    title, _, body = section.partition("\n")
    blocks = _BLOCK.findall(body)
    if len(blocks) != 1:
        raise Unteachable(f"The step {title!r} has {len(blocks)} blocks of TOML and should have one.")
    before, _, after = (part.strip() for part in _BLOCK.sub("\0", body).partition("\0"))
    fields = tomllib.loads(blocks[0])
    options = [Option(**option) for option in fields.pop("options", ())]
    return Step(title=title.strip(), before=before, after=after, options=options, **fields)


def ours() -> list[Lesson]:
    """Our lessons, in their order."""
    return [read(path) for path in sorted(LESSONS.glob("*.md"))]


def find(name: str) -> Lesson:
    """One of ours by its number or name, or that in a file. Raises Unteachable."""
    for lesson in ours():
        if name in (lesson.name, str(lesson.number)):
            return lesson
    if Path(name).exists():
        return read(Path(name))
    raise Unteachable(f"There is no lesson {name!r}: kafka-shim learn lists them.")
