"""The examples for Java, Go and Node: tests of a real client of the language, which know the coordinator by HTTP alone.

They run as their users would run them, in a copy that keeps what the language's registry gave from run to run.
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

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SHIM = Path(sys.executable).parent / "kafka-shim"
LONGEST = 15
SCENARIOS = {
    "java": ("src/test/java/example/BillingTest.java", r"^    void (a\w+|r\d\d_\w+)\(.*?^    \}$"),
    "go": ("billing_test.go", r"^func (Test[AR]\w+)\(.*?^\}$"),
    "node": ("billing.test.js", r"^test\('(.+?)'.*?^\}\)$"),
}


def copied(language: str, origin: Path = EXAMPLES) -> Path:
    """The example, where what was built before is still there."""
    folder = cache_folder() / f"{origin.name}-{language}"
    shutil.copytree(origin / language, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    return folder


def run(command: Sequence[str | Path], folder: Path) -> str:
    environment = os.environ | {"KAFKA_SHIM": str(SHIM), "CGO_ENABLED": "0", "NO_COLOR": "1", "GOTOOLCHAIN": "local"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return done.stdout


def program(name: str, *places: str) -> str:
    found = shutil.which(name) or next((f"{place}/{name}" for place in places if Path(place, name).exists()), None)
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


@pytest.mark.timeout(400)
def test_java() -> None:
    maven = program("mvn")
    program("javac")
    folder = copied("java")
    run([maven, "-q", "-B", "test"], folder)
    (report,) = (folder / "target" / "surefire-reports").glob("*.xml")
    output = report.read_text()
    assert f'tests="{len(scenarios("java"))}" errors="0" skipped="0" failures="0"' in output


@pytest.mark.timeout(400)
def test_go() -> None:
    go = program("go", "/usr/local/go/bin")
    folder = copied("go")
    needed = re.search(r"^go (\d+)\.(\d+)", (folder / "go.mod").read_text(), re.MULTILINE)
    version = re.search(r"go(\d+)\.(\d+)", run([go, "env", "GOVERSION"], folder.parent))
    assert needed is not None
    assert version is not None
    if tuple(map(int, version.groups())) < tuple(map(int, needed.groups())):
        pytest.skip(f"franz-go needs Go {'.'.join(needed.groups())}, here is {'.'.join(version.groups())}")
    output = run([go, "test", "-count=1", "-v", "./..."], folder)
    assert len(re.findall(r"^--- PASS", output, re.MULTILINE)) == len(scenarios("go"))


@pytest.mark.timeout(400)
def test_node() -> None:
    node, npm = program("node"), program("npm")
    version = run([node, "--version"], EXAMPLES)
    if int(version[1:].partition(".")[0]) < 18:
        pytest.skip(f"Node.js has a test runner since 18, here is {version.strip()}")
    folder = copied("node")
    if not (folder / "node_modules" / "kafkajs").exists():
        run([npm, "ci", "--silent", "--no-audit", "--no-fund"], folder)
    output = run([npm, "test", "--silent"], folder)
    assert re.search(rf"^# pass {len(scenarios('node'))}$", output, re.MULTILINE), output


def scenarios(language: str) -> dict[str, str]:
    path, pattern = SCENARIOS[language]
    text = (EXAMPLES / language / path).read_text()
    return {found[1]: found[0] for found in re.finditer(pattern, text, re.MULTILINE | re.DOTALL)}


@pytest.mark.parametrize("language", SCENARIOS)
def test_every_language_has_several_scenarios_each_short(language: str) -> None:
    found = scenarios(language)
    assert len([name for name in found if re.search(r"[rR]\d\d", name)]) >= 5
    assert {name: len(text.splitlines()) for name, text in found.items() if len(text.splitlines()) > LONGEST} == {}
