"""The actions of faults are the same in the code, in the documentation and in the client packages."""

import re
from pathlib import Path

import pytest

from kafka_shim.lab import faults
from kafka_shim.trace.events import FAULT_ACTIONS

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = f"{', '.join(FAULT_ACTIONS[:-1])} or {FAULT_ACTIONS[-1]}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("clients/node/index.js", SENTENCE),
        ("clients/node/index.d.ts", " | ".join(f"'{action}'" for action in FAULT_ACTIONS)),
        ("clients/go/kafkashim.go", SENTENCE),
        ("clients/java/src/main/java/kafkashim/Coordinator.java", SENTENCE),
    ],
)
def test_a_client_package_lists_every_action(path: str, text: str) -> None:
    assert f" {text}" in (ROOT / path).read_text()


def test_the_documentation_describes_every_action() -> None:
    section = (ROOT / "docs/testing.md").read_text().partition("## Faults and barriers")[2].partition("\n\n`group`")[0]
    assert tuple(re.findall(r"^\| `([\w-]+)`", section, re.MULTILINE)) == FAULT_ACTIONS


def test_the_module_describes_every_action() -> None:
    assert tuple(re.findall(r"^    ([\w-]+)  ", faults.__doc__ or "", re.MULTILINE)) == FAULT_ACTIONS
