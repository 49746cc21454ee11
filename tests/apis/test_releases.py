"""The table of differences between releases: each row is a rule of some releases, and code asks it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import kafka_shim
from kafka_shim.apis.releases import DEFAULT_RELEASE, DEFAULT_RULES, RELEASES, Rules, rules_of


def rules_since(release: str) -> set[str]:
    return {row.name for row in fields(Rules) if row.metadata["since"] == release}


@pytest.mark.parametrize("row", fields(Rules), ids=lambda row: row.name)
def test_a_row_begins_and_ends_with_a_release(row) -> None:
    assert row.metadata["since"] in RELEASES
    assert row.metadata["until"] in ("", *RELEASES)
    assert any(getattr(rules_of(release), row.name) for release in RELEASES)


def test_code_asks_every_row() -> None:
    package = Path(kafka_shim.__file__).parent
    folders = [path.resolve() for path in package.iterdir() if path.is_dir()]
    sources = [path.read_text() for folder in folders for path in folder.rglob("*.py") if path.name != "releases.py"]
    words = {word for source in sources for word in re.findall(r'(?:rules\.|")([a-z_]+)', source)}
    assert {row.name for row in fields(Rules)} - words == set()


def test_rules_come_with_their_release() -> None:
    for release in RELEASES:
        on = {row.name for row in fields(Rules) if getattr(rules_of(release), row.name)}
        assert on == set().union(*(rules_since(each) for each in RELEASES[: RELEASES.index(release) + 1]))


def test_the_default_release_has_the_default_rules() -> None:
    assert rules_of(DEFAULT_RELEASE) == DEFAULT_RULES


def test_no_module_compares_releases() -> None:
    """A module may ask whether a release is known, `release in RELEASES`, and a case names its first one, `since=`."""
    package = Path(kafka_shim.__file__).parent
    folders = [package / "conformance" / "cases"]
    folders += [each for each in package.iterdir() if each.is_dir() and each.name not in _OTHERS]
    sources = {
        path: text
        for folder in folders
        for path in folder.resolve().rglob("*.py")
        if "release" in (text := path.read_text()) or any(f'"{each}"' in text for each in RELEASES)
    }
    assert [f"{path}:{line}" for path, text in sources.items() for line in numbers_of_releases(ast.parse(text))] == []


_OTHERS = {"apis", "conformance", "pipeline"}
"""The table itself, the suite of cases, and versions of Spark."""


def numbers_of_releases(tree: ast.AST) -> Iterator[int]:
    """The lines that compare the release of a broker, or have the number of one."""
    first = {each.value for each in ast.walk(tree) if isinstance(each, ast.keyword) and each.arg == "since"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in first and node.value in RELEASES:
            yield node.lineno
        elif isinstance(node, ast.Compare) and not all(isinstance(each, (ast.In, ast.NotIn)) for each in node.ops):
            names = {getattr(each, "attr", getattr(each, "id", "")) for each in (node.left, *node.comparators)}
            if "release" in names:
                yield node.lineno


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('newer = t.peer.release >= "4"', True),
        ("if release == other: f()", True),
        ('rules_of("4.3")', True),
        ('case("a/b/1", since="4.3")', False),
        ("known = before.release in RELEASES", False),
        ("rules.batched_assignments", False),
    ],
)
def test_a_comparison_of_releases_is_found(source: str, found: bool) -> None:
    assert bool([*numbers_of_releases(ast.parse(source))]) is found
