"""The distribution as it is published, built once, and fresh environments that have it and no checkout."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.once import made_once

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


class Distribution(NamedTuple):
    """The two files that are published, and their version."""

    sdist: Path
    wheel: Path
    version: str


class Environment(NamedTuple):
    """A virtual environment with the wheel in it; `run` starts one of its programs as a user's shell would."""

    folder: Path
    python: str

    def run(self, *command: str, cwd: Path, code: int = 0) -> str:
        """What a program wrote; it must end with this exit code."""
        ended = subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=cwd,
            env=self.variables(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def variables(self) -> dict[str, str]:
        """The process environment, without what leads to the checkout or tells that a test is running."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        return kept | {"PATH": f"{self.folder / 'bin'}{os.pathsep}{kept['PATH']}"}


def build(source: Path, folder: Path, *options: str, **variables: str) -> None:
    """Build with the locked tools; without options the sdist, and the wheel from that."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), *options, str(source)]
    built = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    assert built.returncode == 0, built.stdout + built.stderr


def interpreter(version: str) -> str | None:
    """A Python of this minor version that starts: ours, one of the PATH, one that pyenv keeps."""
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in (shutil.which(f"python{version}"), *map(str, sorted(kept.glob(f"{version}*/bin/python")))):
        if path and subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
            return path
    return None


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder of all the workers of this run."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "packaging"


@pytest.fixture(scope="session")
def distribution(shared: Path) -> Distribution:
    """The sdist, and the wheel built from the sdist alone."""
    folder = made_once(shared / "dist", lambda: build(ROOT, shared / "dist"))
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    named = re.fullmatch(r"kafka_group_shim-(.+)-py3-none-any\.whl", wheel.name)
    assert named is not None
    return Distribution(sdist, wheel, named[1])


@pytest.fixture(scope="session", params=PYTHONS)
def environment(request: pytest.FixtureRequest, shared: Path, distribution: Distribution) -> Environment:
    """A fresh environment of each Python that is here: the wheel, what it depends on, and pytest."""
    python = interpreter(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} here")
    folder = shared / f"python{request.param}"

    def make() -> None:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # Of all these modules the tests import a part, which Python compiles then.
        pip.append("--no-compile")
        subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "wheel.txt")], check=True)
        subprocess.run([*pip, "--no-deps", str(distribution.wheel)], check=True)

    return Environment(made_once(folder, make), request.param)
