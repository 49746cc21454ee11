"""The examples for Java, Go and Node: tests of a real client of the language that use the coordinator by HTTP alone.

They run as their users would run them, in a copy that keeps downloaded packages from run to run.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_shim.conformance.targets.kafka import cache_folder
from tests.testing.test_recipes import RECIPES

pytestmark = pytest.mark.second_stage("Java, Go and Node.js")

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
PUBLIC = ROOT / "tests/testing/public"
"""Tests that people asked for in public."""
SHIM = Path(sys.executable).parent / "kafka-shim"
LONGEST = 15
SCENARIOS = {
    "java": ("src/test/java/example/BillingTest.java", r"^    void (a\w+|r\d\d_\w+)\(.*?^    \}$"),
    "go": ("billing_test.go", r"^func (Test[AR]\w+)\(.*?^\}$"),
    "node": ("billing.test.js", r"^test\('(.+?)'.*?^\}\)$"),
}


def example(language: str) -> Path:
    """A copy of the example beside one of its package, as they stand here. The copy keeps earlier builds."""
    home = cache_folder() / f"languages-{language}"
    for each in ("clients", "examples"):
        copy(ROOT / each / language, home / each / language)
    return home / "examples" / language


def copy(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    return to


def run(command: Sequence[str | Path], folder: Path) -> str:
    environment = os.environ | {"KAFKA_SHIM": str(SHIM), "CGO_ENABLED": "0", "NO_COLOR": "1", "GOTOOLCHAIN": "local"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return done.stdout


def program(name: str, *places: str) -> str:
    path = shutil.which(name) or next((f"{place}/{name}" for place in places if Path(place, name).exists()), None)
    if path is None:
        pytest.skip(f"there is no {name} here")
    return path


@pytest.mark.everything("Go and Node.js")
def test_go() -> None:
    go = program("go", "/usr/local/go/bin")
    folder = example("go")
    needed = re.search(r"^go (\d+)\.(\d+)", (folder / "go.mod").read_text(), re.MULTILINE)
    version = re.search(r"go(\d+)\.(\d+)", run([go, "env", "GOVERSION"], folder.parent))
    assert needed is not None
    assert version is not None
    if tuple(map(int, version.groups())) < tuple(map(int, needed.groups())):
        pytest.skip(f"franz-go needs Go {'.'.join(needed.groups())}, here is {'.'.join(version.groups())}")
    output = run([go, "test", "-count=1", "-v", "./..."], folder)
    assert len(re.findall(r"^--- PASS", output, re.MULTILINE)) == len(scenarios("go"))


@pytest.mark.everything("Go and Node.js")
def test_node() -> None:
    node, npm = program("node"), program("npm")
    version = run([node, "--version"], EXAMPLES)
    if int(version[1:].partition(".")[0]) < 18:
        pytest.skip(f"Node.js has a test runner since 18, here is {version.strip()}")
    folder = example("node")
    if not all((folder / "node_modules" / each).exists() for each in ("kafkajs", "kafka-group-shim")):
        run([npm, "ci", "--silent", "--no-audit", "--no-fund"], folder)
    (folder / "orders.test.js").write_text(RECIPES["Node's test runner"][1])
    shutil.copy(PUBLIC / "seek.test.js", folder)
    output = run([npm, "test", "--silent"], folder)
    assert re.search(rf"^# pass {len(scenarios('node')) + 2}$", output, re.MULTILINE), output


def scenarios(language: str) -> dict[str, str]:
    path, pattern = SCENARIOS[language]
    text = (EXAMPLES / language / path).read_text()
    return {match[1]: match[0] for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL)}


@pytest.mark.parametrize("language", SCENARIOS)
def test_every_language_has_several_scenarios_each_short(language: str) -> None:
    by_name = scenarios(language)
    assert len([name for name in by_name if re.search(r"[rR]\d\d", name)]) >= 5
    assert {name: len(text.splitlines()) for name, text in by_name.items() if len(text.splitlines()) > LONGEST} == {}
