"""Lessons and their files: Markdown with a front matter in TOML, and one TOML block, the step, in each `##` section.

`docs/lessons.md` describes the format; `scene.py` plays the steps.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

LESSONS: Final = Path(__file__).parent / "lessons"

_FRONT: Final = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n(.*)\Z", re.S | re.M)
_BLOCK: Final = re.compile(r"^```toml\n(.*?)^```\n?", re.S | re.M)


class Unteachable(Exception):
    """The file is not a lesson; the message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A possible answer of the reader. It is right if the pattern `when` fits after the step; `reply` comments a wrong
    answer.
    """

    text: str
    when: Mapping[str, Any]
    reply: str = ""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: prose, perhaps a question, actions, and claims about their result.

    `happens` and `never` are patterns of events since the step began, `holds` patterns of the state at its end. `show`
    names requests to print beside the story. With a `goal`, a pattern of a state, the learner acts until it fits;
    `do` then reaches it too. `line` is the first line of its TOML in the file, which is `source`.
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
    goal: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
    source: str = ""

    def place(self, text: str = "") -> str:
        """Return the step and the line of `text` in the file, for a message."""
        before, hit, _ = self.source.partition(text)
        return f"Line {self.line + (before.count(chr(10)) if hit else 0)}, step {self.title!r}"


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A lesson. `number` is its place in our list."""

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
        """The library of its members, in real time; empty if the members are puppets."""
        return str(self.scene.get("client", ""))


def read(path: Path) -> Lesson:
    """Read a lesson from a file. Raises Unteachable."""
    try:
        return parse(path.read_text(encoding="utf-8"), path.stem)
    except OSError as error:
        raise Unteachable(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Unteachable(f"{path} is no text in UTF-8.") from None
    except (Unteachable, tomllib.TOMLDecodeError) as error:
        raise Unteachable(f"{path}: {error}") from None


def parse(text: str, name: str) -> Lesson:
    """Parse the text of a lesson. Raises Unteachable, or TOMLDecodeError."""
    match = _FRONT.match(text)
    if match is None:
        raise Unteachable("A lesson begins with a front matter in TOML between two lines of +++.")
    front = tomllib.loads(match[1])
    headings = [*re.finditer(r"^## ", match[2], flags=re.M)]
    ends = [*(each.start() for each in headings), len(match[2])]
    first = text[: match.start(2)].count("\n") + 1
    sections = [
        (match[2][heading.end() : end], first + match[2][: heading.start()].count("\n"))
        for heading, end in zip(headings, ends[1:], strict=True)
    ]
    number, _, rest = name.partition("-")
    try:
        return Lesson(
            name=rest if number.isdecimal() else name,
            number=int(number) if number.isdecimal() else 0,
            intro=match[2][: ends[0]].strip(),
            steps=[_step(section, line) for section, line in sections],
            **front,
        )
    except TypeError as error:
        raise Unteachable(f"A field is missing or unknown: {error}.") from None


def _step(section: str, line: int) -> Step:
    """Parse a step with its heading on this line of the file."""
    title, _, body = section.partition("\n")
    blocks = _BLOCK.findall(body)
    if len(blocks) != 1:
        raise Unteachable(f"Line {line}, step {title!r}: it has {len(blocks)} blocks of TOML and should have one.")
    block = _BLOCK.search(body)
    assert block is not None
    line += body[: block.start()].count("\n") + 2
    before, _, after = (part.strip() for part in _BLOCK.sub("\0", body).partition("\0"))
    try:
        fields = tomllib.loads(blocks[0])
    except tomllib.TOMLDecodeError as error:
        within = re.search(r"at line (\d+)", str(error))
        wrong = line + int(within[1]) - 1 if within else line
        raise Unteachable(f"Line {wrong}, step {title!r}: {error}.") from None
    _check_names(fields, _FIELDS, f"Line {line}, step {title!r}: a step")
    options = fields.pop("options", ())
    for number, option in enumerate(options, 1):
        _check_names(option, _OPTIONS, f"Line {line}, step {title!r}: option {number}")
    return Step(
        title=title.strip(),
        before=before,
        after=after,
        options=[Option(**option) for option in options],
        line=line,
        source=blocks[0],
        **fields,
    )


_FIELDS: Final = ("do", "ask", "options", "happens", "never", "holds", "show", "goal")
_OPTIONS: Final = ("text", "when", "reply")


def _check_names(fields: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    for name in fields.keys() - set(names):
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise Unteachable(f"{where} has no field {name}; {hint}There are {', '.join(names)}.")


def ours() -> list[Lesson]:
    """Return our lessons, in their order."""
    return [read(path) for path in sorted(LESSONS.glob("*.md"))]


def find(name: str) -> Lesson:
    """Return one of our lessons by number or name, or the lesson in a file. Raises Unteachable."""
    for lesson in ours():
        if name in (lesson.name, str(lesson.number)):
            return lesson
    if Path(name).exists():
        return read(Path(name))
    raise Unteachable(f"There is no lesson {name!r}: kafka-shim learn lists them.")
