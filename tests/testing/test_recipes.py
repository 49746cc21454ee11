"""The programs of docs/recipes/test_frameworks.md run as the page says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.second_stage("separate test runners")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/recipes/test_frameworks.md"
_SECTIONS = {
    title: re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for title, text in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
}
RECIPES = {title: blocks[0] for title, blocks in _SECTIONS.items()}
"""The program of each section, with its language."""
POMS = {title: text for title, blocks in _SECTIONS.items() for language, text in blocks if language == "xml"}
GO = "Go's `testing`"
WORKER = "A worker that is a process"
NODE = "Node's test runner"
CONTAINERS = "Testcontainers"
ELSEWHERE = ("JUnit 5", "Spring Boot", NODE)
"""`languages/` runs them; `test_containers.py` runs that of containers."""
PLUGIN = ("-p", "no:kafka-shim", "-p", "kafka_shim.testing.plugin", "-p", "no:cacheprovider", "-p", "no:trio")


def run(folder: Path, *command: str) -> str:
    """Run a command that must succeed, and return its output."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def saved(folder: Path, title: str, name: str) -> Path:
    (folder / name).write_text(RECIPES[title][1])
    return folder


def test_the_tests_cover_every_program_of_the_page() -> None:
    here = ["unittest", "Django", "FastAPI", "asyncio", "pytest-xdist", WORKER, CONTAINERS, GO]
    assert list(RECIPES) == [*here, *ELSEWHERE]


def test_unittest(tmp_path: Path) -> None:
    folder = saved(tmp_path, "unittest", "test_orders.py")
    assert "Ran 1 test" in run(folder, sys.executable, "-m", "unittest", "test_orders.py")


def test_django(tmp_path: Path) -> None:
    folder = saved(tmp_path, "Django", "test_shop.py")
    assert "Ran 1 test" in run(folder, sys.executable, "test_shop.py")


def test_fastapi(tmp_path: Path) -> None:
    folder = saved(tmp_path, "FastAPI", "test_app.py")
    assert "1 passed" in run(folder, sys.executable, "-m", "pytest", *PLUGIN, "test_app.py")


def test_asyncio(tmp_path: Path) -> None:
    """Under anyio, since our tests need that package anyway."""
    program = RECIPES["asyncio"][1].replace("@pytest.mark.asyncio", "@pytest.mark.anyio")
    (tmp_path / "test_billing.py").write_text(
        f"{program}\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    )
    assert "1 passed" in run(tmp_path, sys.executable, "-m", "pytest", *PLUGIN, "test_billing.py")


def test_xdist(tmp_path: Path) -> None:
    folder = saved(tmp_path, "pytest-xdist", "test_many.py")
    assert "4 passed" in run(folder, sys.executable, "-m", "pytest", *PLUGIN, "-n", "2", "test_many.py")


def test_worker(tmp_path: Path) -> None:
    folder = saved(tmp_path, WORKER, "test_worker.py")
    assert "1 passed" in run(folder, sys.executable, "-m", "pytest", *PLUGIN, "test_worker.py")


@pytest.mark.everything("Go and Node.js")
@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(tmp_path, GO, "billing_test.go")
    (folder / "go.mod").write_text("module example.com/billing\n\ngo 1.21\n")
    (folder / "kafkashim").mkdir()
    shutil.copy(ROOT / "clients/go/kafkashim.go", folder / "kafkashim")
    command = folder / "kafka-shim"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafka_shim "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("KAFKA_SHIM", str(command))
    assert "ok" in run(folder, "go", "test", "./...")
