"""Where a requirement comes from: the rules of docs/semantics.md, with the proposals, classes and methods they name.

Decides how that document is read, what a citation such as `semantics 2.2 step 4` leads to, and which rules a case is
about. It runs nothing and knows no report. The document is part of the package, so an installed one has it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafka_shim.conformance.case import Case

PAGE: Final = "docs/semantics.md"
"""Where the document stands in the repository."""

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
    """One rule of the document: an item of a list, a row of a table, or a paragraph."""

    section: str
    """The number of its section, such as `2.3`."""
    name: str
    """How it is cited: `2.2 step 4`, `7.1 JG8`, or the section where it has no number of its own."""
    text: str
    """What must hold, in one line, without sources."""
    origins: tuple[str, ...]
    """KIPs, tickets, and Kafka's classes and methods: `KIP-394`, `GroupMetadataManager.classicGroupJoin`."""
    cases: tuple[str, ...]
    """The ids of the cases that prove it."""

    @property
    def link(self) -> str:
        """Where a reader opens it."""
        return f"{PAGE}#{self.section}"

    def __str__(self) -> str:
        return f"semantics {self.name}: {self.text} [{'; '.join((*self.origins, self.link))}]"


def of_case(case: Case) -> tuple[Rule, ...]:
    """The rules that name the case as their proof: first those it cites, last those of Kafka's own tests."""
    cited = set(citations(case.source))
    return tuple(
        sorted(
            _by_case().get(case.id, ()),
            key=lambda rule: (rule.section.startswith("7"), cited.isdisjoint({rule.section, rule.name})),
        )
    )


def public_source(case: Case) -> str:
    """What the case demands and by which public source: a line for each rule, or the case's own words if no rule
    names it."""
    found = [rule for rule in of_case(case) if rule.origins] or of_case(case)
    return "\n".join(map(str, found)) or case.source


def citations(text: str) -> list[str]:
    """What `text` cites as `semantics ...`: `2.3`, `2.2 step 4`, `JG8`, in that order and form."""
    found: list[str] = []
    for start in re.finditer(r"\bsemantics(?=\s+\d)", text):
        position = start.end()
        while match := _CITED.match(text, position):
            if match["section"]:
                found.append(f"{match['section']} step {match['step']}" if match["step"] else match["section"])
            else:
                found += _row_ids(match["row"])
            position = match.end()
    return found


def cited_rules(citation: str) -> tuple[Rule, ...]:
    """The rules a citation leads to: those of a section and its subsections, or the one; none if it leads nowhere."""
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
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the document."""
    text = (resources.files("kafka_shim.conformance") / "semantics.md").read_text(encoding="utf-8")
    parts = _ANCHOR.split(text)[1:]
    return tuple(rule for number, body in zip(parts[::2], parts[1::2], strict=True) for rule in _rules_of(number, body))


@cache
def _by_case() -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for rule in rules():
        for case_id in rule.cases:
            found.setdefault(case_id, []).append(rule)
    return found


def _rules_of(section: str, body: str) -> Iterator[Rule]:
    """The rules of a section; those without an origin have that of the next line `Source:`."""
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
    """`LI1-2` is LI1 and LI2."""
    match = _ROW_ID.fullmatch(text)
    if match is None:
        return []
    if match[1] is None:
        return [text]
    return [f"{match[1]}{number}" for number in range(int(match[2]), int(match[3] or match[2]) + 1)]
