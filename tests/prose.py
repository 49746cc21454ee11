"""A check for plain English: `python -m tests.prose [PATH ...]`.

Counts words that mark a roundabout sentence in docstrings, comments and pages, and participles that stand as names.
`[tool.prose]` in pyproject.toml has a limit for each folder. A low count proves little by itself; a high one shows that
a reader stumbles.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
MARKERS: Final = re.compile(
    r"(?<![\w'])(?:wh(?:at|o|om|ose|oever|omever|atever|ichever)|(?:no|some|any|every)(?:body|one)|that which|"
    r"anew|meanwhile|besides|theirs|thereby|thereof|therein|likewise|hitherto|for want of)(?![\w'])",
    re.IGNORECASE,
)
PARTICIPLES: Final = frozenset(
    {
        "asked",
        "begun",
        "come",
        "drawn",
        "found",
        "given",
        "gone",
        "heard",
        "held",
        "kept",
        "known",
        "left",
        "lost",
        "made",
        "meant",
        "met",
        "moved",
        "named",
        "read_back",
        "said",
        "shown",
        "sought",
        "taken",
        "told",
        "turned",
        "wanted",
        "written_back",
    }
)
WORD: Final = re.compile(r"[A-Za-z']+")
COMMENT: Final = re.compile(r"(?:^|\s)#(?:\s.*|$)")
CODE: Final = re.compile(r"`[^`]*`")
NOT_PROSE: Final = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]*>")
SHORT: Final = 40
"""Words. The limit for one file does not hold for a shorter text: one marker would break it."""


@dataclass(frozen=True)
class Count:
    """Markers among the words of one file with their lines, and the participles among its names."""

    path: Path
    words: int
    lines: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def rate(self) -> float:
        """Markers per 1,000 words."""
        return 1000 * len(self.lines) / self.words if self.words else 0.0


def prose(text: str, tree: ast.AST | None) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a Python file, or the paragraphs of a page, each with its line."""
    if tree is None:
        yield from _paragraphs(text)
        return
    strings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, CODE.sub(" ", node.value.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    # A tokenizer would take most of the time of the check.
    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT.search(line)
        if comment and number not in strings:
            yield number, CODE.sub(" ", comment[0])


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Lines of prose; code, tables and titles are left out."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        opening = re.match(r"\s*(`{3,}|~{3,})", line)
        if opening and (not fence or opening[1].startswith(fence)):
            fence = "" if fence else opening[1]
        elif not fence and not line.lstrip().startswith(("|", "#")):
            yield number, NOT_PROSE.sub(" ", line)


def count(path: Path) -> Count:
    """Count the markers and the participles of one file."""
    content = path.read_text()
    tree = ast.parse(content) if path.suffix == ".py" else None
    words, lines = 0, []
    for number, text in prose(content, tree):
        words += len(WORD.findall(text))
        lines += [number + text.count("\n", 0, match.start()) for match in MARKERS.finditer(text)]
    return Count(path, words, tuple(sorted(lines)), tuple(participles(tree)) if tree else ())


def participles(tree: ast.AST) -> Iterator[str]:
    """Functions, parameters and variables whose name is a participle alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        if name.strip("_") in PARTICIPLES:
            yield name


def files(path: Path) -> list[Path]:
    """The Python files and pages below a folder, or the file itself."""
    if path.is_file():
        return [path]
    every = (each for suffix in ("*.py", "*.md") for each in path.rglob(suffix))
    return sorted(each for each in every if not each.is_symlink() and "node_modules" not in each.parts)


def problems(root: Path, settings: dict[str, Any]) -> Iterator[str]:
    """One line for each limit of `[tool.prose]` that is broken."""
    limits: dict[str, float] = settings["limits"]
    names: Counter[str] = Counter()
    for folder, limit in limits.items():
        counts = [count(each) for each in files(root / folder)]
        words = sum(each.words for each in counts)
        rate = 1000 * sum(len(each.lines) for each in counts) / max(words, 1)
        if rate > limit:
            worst = sorted(counts, key=lambda each: -len(each.lines))[:5]
            places = ", ".join(f"{each.path.relative_to(root)} {len(each.lines)}" for each in worst)
            yield f"{folder}: {rate:.1f} markers per 1,000 words, the limit is {limit}; most in {places}"
        for each in counts:
            if each.words > SHORT and each.rate > settings["file"]:
                where = ", ".join(map(str, each.lines[:8]))
                yield f"{each.path.relative_to(root)}: {each.rate:.1f} per 1,000 words (lines {where})"
            if folder in settings["names"]:
                names.update(each.names)
    if names.total() > settings["participles"]:
        most = ", ".join(f"{name} {number}" for name, number in names.most_common(8))
        yield f"{names.total()} participles are names, the limit is {settings['participles']}: {most}"


def main(arguments: list[str]) -> int:
    """Print the markers of the given paths, or check the limits of the repository."""
    if arguments:
        for path in map(Path, arguments):
            for each in map(count, files(path)):
                print(f"{each.rate:5.1f}  {each.path}  {' '.join(map(str, each.lines))}")
        return 0
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["prose"]
    broken = list(problems(ROOT, settings))
    print(*broken, sep="\n", end="\n" if broken else "")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
