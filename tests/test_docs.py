"""docs/: links lead to files, commands and their options exist, and the lists of options and settings are whole."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest

from kafka_shim.cli import cli
from kafka_shim.groups.config import GroupConfig, kafka_name

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
IDS = [str(page.relative_to(ROOT / "docs")) for page in PAGES]


MADE = ("matrix.html",)
"""Files that the build of the documentation makes."""


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if link not in MADE and not (page.parent / link).exists()] == []


def commands(text: str) -> list[list[str]]:
    """Return the words of every `kafka-shim` command: lines of code blocks, and code within sentences."""
    lines = re.findall(r"^(?: {4}|\$ )?((?:\.venv/bin/)?kafka-shim [^|\n]*)$", text, re.M)
    lines += [code for code in re.findall(r"`(kafka-shim [^`|]*)`", text) if "\n" not in code]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=[*IDS, "README.md"])
def test_commands_and_their_options_exist(page: Path) -> None:
    for words in commands(page.read_text()):
        command: click.Command = cli
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            if command.get_command(click.Context(command), words[0]) is None and command.invoke_without_command:
                break
            inner = command.get_command(click.Context(command), words[0])
            assert inner is not None, f"{command.name} has no command {words[0]}"
            command, words = inner, words[1:]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        options |= {"--help", "-h", "--version"}
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= options, f"{command.name}: {used - options}"


def test_the_page_of_the_server_has_every_option_and_no_other() -> None:
    text = (ROOT / "docs/running.md").read_text()
    rows = re.findall(r"^\| `(--[^|]*)` \|", text, re.M)
    listed = {word for row in rows for word in row.split() if word.startswith("--")} | {"--trace"}
    serve = cli.get_command(click.Context(cli), "serve")
    assert serve is not None
    assert listed == {each.opts[0] for each in serve.params if isinstance(each, click.Option) and not each.hidden}


def test_the_page_of_the_server_has_every_setting_of_groups_with_its_default() -> None:
    text = (ROOT / "docs/running.md").read_text()
    settings = dict(re.findall(r"^\| `([a-z.]+\.[a-z.]+)` \| `([^`]*)` \|", text, re.M))
    assert settings.items() >= {kafka_name(field.name): str(field.default) for field in fields(GroupConfig)}.items()
