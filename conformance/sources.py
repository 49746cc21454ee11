"""Finds the sources of a case: the rules of docs/semantics, with the KIPs and the classes of Kafka that they cite.

Parses its chapters, resolves a citation such as `semantics 2.2 step 4`, and finds the rules of a case. The chapters are
part of the package, so an installed suite has them too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafka_shim.conformance.case import Case

FOLDER: Final = "docs/semantics"
"""The folder of the chapters in the repository: a page each, `2-classic-group.md` has chapter 2."""

_ANCHOR: Final = re.compile(r'<a id="([\d.]+)"></a>')
_STEP: Final = re.compile(r"(\d+)\. ")
_ROW_ID: Final = re.compile(r"([A-Z]{2})(\d+)(?:-(\d+))?|GroupCoordinatorServiceTest")
_CASES: Final = re.compile(r"`([a-z-]+/[a-z-]+)/(\d+(?:[,-]\d+)*)`")
_ORIGIN: Final = re.compile(r"KIP-\d+|KAFKA-\d+|`[A-Z][A-Za-z]*[a-z][A-Za-z]*(?:\.\w+)*`")
_TAIL: Final = re.compile(rf"(?:[\s;,]*(?:{_ORIGIN.pattern}|{_CASES.pattern}))+[\s.]*$")
_CITED: Final = re.compile(
    r"[\s,]*(?:\b(?:and|to)\s+)?"
    r"(?:(?P<section>\d(?:\.\d+)?)(?:\s+step\s+(?P<step>\d+))?(?![\d.]*\d)|(?P<row>" + _ROW_ID.pattern + r")(?!\w))"
)


@dataclass(frozen=True)
class Rule:
    """One rule of a chapter: an item of a list, a row of a table, or a paragraph."""

    section: str
    """The number of its section, such as `2.3`."""
    name: str
    """Its form in citations: `2.2 step 4`, `7.1 JG8`, or the section for a rule without a number."""
    text: str
    """The requirement in one line, without sources."""
    origins: tuple[str, ...]
    """KIPs, tickets, and Kafka's classes and methods: `KIP-394`, `GroupMetadataManager.classicGroupJoin`."""
    cases: tuple[str, ...]
    """The ids of the cases that test it."""

    @property
    def link(self) -> str:
        """The path and anchor of its section."""
        return f"{FOLDER}/{chapters()[self.section[0]].name}#{self.section}"

    def __str__(self) -> str:
        return f"semantics {self.name}: {self.text} [{'; '.join((*self.origins, self.link))}]"


def of_case(case: Case) -> tuple[Rule, ...]:
    """Return the rules that list the case: first those it cites, last those of Kafka's own tests."""
    cited = set(citations(case.source))
    return tuple(
        sorted(
            _by_case().get(case.id, ()),
            key=lambda rule: (rule.section.startswith("7"), cited.isdisjoint({rule.section, rule.name})),
        )
    )


def public_source(case: Case) -> str:
    """Return the requirement and its public sources: a line for each rule, or the case's own source without a rule."""
    listed = [rule for rule in of_case(case) if rule.origins] or of_case(case)
    return "\n".join(map(str, listed)) or case.source


def citations(text: str) -> list[str]:
    """Return the `semantics ...` citations in `text`, in order: `2.3`, `2.2 step 4`, `JG8`."""
    names: list[str] = []
    for start in re.finditer(r"\bsemantics(?=\s+\d)", text):
        position = start.end()
        while match := _CITED.match(text, position):
            if match["section"]:
                names.append(f"{match['section']} step {match['step']}" if match["step"] else match["section"])
            else:
                names += _row_ids(match["row"])
            position = match.end()
    return names


def cited_rules(citation: str) -> tuple[Rule, ...]:
    """Return the rules of a citation: those of a section and its subsections, or one rule; none for an unknown one."""
    inside = f"{citation}."
    return tuple(
        rule
        for rule in rules()
        if citation == rule.section
        or rule.section.startswith(inside)
        or citation == rule.name
        or citation in _row_ids(rule.name.rpartition(" ")[2])
    )


@cache
def chapters() -> dict[str, Traversable]:
    """Return the pages of the chapters by their numbers, in order."""
    pages = (resources.files("kafka_shim.conformance") / "semantics").iterdir()
    numbered = sorted((page for page in pages if page.name[0].isdigit()), key=lambda page: page.name)
    return {page.name.partition("-")[0]: page for page in numbered}


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules, in the order of the chapters."""
    text = "\n\n".join(page.read_text(encoding="utf-8") for page in chapters().values())
    parts = _ANCHOR.split(text)[1:]
    return tuple(rule for number, body in zip(parts[::2], parts[1::2], strict=True) for rule in _rules_of(number, body))


@cache
def _by_case() -> dict[str, list[Rule]]:
    rules_by_case: dict[str, list[Rule]] = {}
    for rule in rules():
        for case_id in rule.cases:
            rules_by_case.setdefault(case_id, []).append(rule)
    return rules_by_case


def _rules_of(section: str, body: str) -> Iterator[Rule]:
    """Yield the rules of a section; those without an origin get that of the next `Source:` line."""
    waiting: list[Rule] = []
    for block in re.split(r"\n\s*\n", body):
        if block.lstrip().startswith("Source:"):
            origins = _origins(block)
            yield from (rule if rule.origins else replace(rule, origins=origins) for rule in waiting)
            waiting = []
        else:
            waiting += _rules_in(section, block.strip())
    yield from waiting


def _rules_in(section: str, block: str) -> Iterator[Rule]:
    if block.startswith("|"):
        yield from _rows(section, block)
    elif _STEP.match(block):
        for item in re.split(r"\n(?=\d+\. )", block):
            number, _, text = item.partition(". ")
            yield _rule(section, f"{section} step {number}", text)
    elif block and not block.startswith(("#", "- ", "```")):
        yield _rule(section, section, block)


def _rows(section: str, table: str) -> Iterator[Rule]:
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    for row in rows:
        cells = [f"{head}: {cell}" for head, cell in zip(heads[1:], row[1:], strict=True) if cell and head != "cases"]
        if row[0] and _ROW_ID.fullmatch(row[0]):
            name, text = f"{section} {row[0]}", row[2]
        else:
            name, text = section, f"{heads[0]}, {row[0]}: {'; '.join(cells)}"
        yield replace(_rule(section, name, text), cases=_case_ids(" ".join(row)), origins=_origins(" ".join(row)))


def _rule(section: str, name: str, text: str) -> Rule:
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", _TAIL.sub("", text))
    plain = re.sub(r"[*`]", "", " ".join(plain.split()))
    return Rule(section, name, plain, _origins(text), _case_ids(text))


def _origins(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.strip("`") for each in _ORIGIN.findall(text)))


def _case_ids(text: str) -> tuple[str, ...]:
    return tuple(f"{area}/{number}" for area, numbers in _CASES.findall(text) for number in _numbers(numbers))


def _numbers(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _row_ids(text: str) -> list[str]:
    """Expand `LI1-2` to LI1 and LI2."""
    match = _ROW_ID.fullmatch(text)
    if match is None:
        return []
    if match[1] is None:
        return [text]
    return [f"{match[1]}{number}" for number in range(int(match[2]), int(match[3] or match[2]) + 1)]
