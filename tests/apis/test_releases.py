"""The table of what differs by release: each row is a rule of some releases, and code asks it."""

import re
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
