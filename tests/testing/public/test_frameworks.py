"""Tests that people asked for in public, with frameworks that have an environment of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.everything("an environment of frameworks")

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = ROOT / ".venvs" / "frameworks"
LOCKS = ("requirements/wheel.txt", "requirements/old/frameworks.txt")
PLUGINS = ("-p", "kafka_shim.testing.plugin", "-p", "no:cacheprovider")


@pytest.mark.parametrize(("framework", "count"), [("faststream", 2), ("faust", 1)])
def test_each_wanted_test_passes(framework: str, count: int, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "requirements/install.py", ENVIRONMENT, *LOCKS], cwd=ROOT, check=True)
    shutil.copy(Path(__file__).with_name(f"with_{framework}.py"), tmp_path / "test_it.py")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    command = [ENVIRONMENT / "bin/python", "-m", "pytest", *PLUGINS, "test_it.py"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{count} passed" in ran.stdout
