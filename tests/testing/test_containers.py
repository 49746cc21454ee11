"""The Testcontainers module by its recipe, against a stand-in for the engine: the image's entry point and its ports."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.engine import engine
from tests.testing.test_recipes import CONTAINERS, PLUGIN, run, saved

pytestmark = pytest.mark.second_stage("real clients in separate runs of pytest")


def test_a_client_outside_finds_its_way_by_the_published_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(tmp_path, CONTAINERS, "test_container.py")
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
    with engine() as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        assert "1 passed" in run(folder, sys.executable, "-m", "pytest", *PLUGIN, "test_container.py")


def test_a_missing_testcontainers_is_named() -> None:
    code = "import sys; sys.modules['testcontainers.core.container'] = None; import kafka_shim.testing.containers"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().endswith("pip install 'kafka-group-shim[containers]'")
