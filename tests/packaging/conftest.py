"""The published distribution, built once, and fresh environments with it and without the checkout."""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.once import made_once

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
THIS = "{}.{}".format(*sys.version_info)


class Distribution(NamedTuple):
    """The two published files, and their version."""

    sdist: Path
    wheel: Path
    version: str


class Environment(NamedTuple):
    """A virtual environment with the wheel; `run` starts one of its programs like a user's shell."""

    folder: Path
    python: str

    def run(self, *command: str, cwd: Path, code: int = 0) -> str:
        """Run a program and return its output; it must end with this exit code."""
        ended = subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=cwd,
            env=self.variables(),
            capture_output=True,
            text=True,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def variables(self) -> dict[str, str]:
        """The process environment, without variables that lead to the checkout or show that a test is running."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        return clean | {"PATH": f"{self.folder / 'bin'}{os.pathsep}{clean['PATH']}"}


def build(source: Path, folder: Path, *options: str, **variables: str) -> None:
    """Build with the locked tools; without options, the sdist and the wheel from it."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), *options, str(source)]
    built = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    assert built.returncode == 0, built.stdout + built.stderr


def interpreter(version: str) -> str | None:
    """Return a working Python of this minor version: ours, one of the PATH, or one of pyenv."""
    if version == THIS:
        return sys.executable
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in (shutil.which(f"python{version}"), *map(str, sorted(versions.glob(f"{version}*/bin/python")))):
        if path and subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
            return path
    return None


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "packaging"


@pytest.fixture(scope="session")
def distribution(shared: Path) -> Distribution:
    """The sdist, and the wheel built from the sdist alone."""
    folder = made_once(shared / "dist", lambda: build(ROOT, shared / "dist"))
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    match = re.fullmatch(r"kafka_group_shim-(.+)-py3-none-any\.whl", wheel.name)
    assert match is not None
    return Distribution(sdist, wheel, match[1])


def marked(version: str) -> Any:
    """Return a parameter; the other Pythons are in `make everything`."""
    return version if version == THIS else pytest.param(version, marks=pytest.mark.everything("other Pythons"))


@pytest.fixture(scope="session", params=[marked(version) for version in PYTHONS])
def environment(request: pytest.FixtureRequest, shared: Path, distribution: Distribution) -> Environment:
    """A fresh environment of each available Python: the wheel with its command, its dependencies, and pytest."""
    python = interpreter(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} here")
    folder = shared / f"python{request.param}"

    return Environment(
        made_once(folder, lambda: install(python, folder, distribution.wheel, "wheel.txt", "cli.txt")), request.param
    )


@pytest.fixture(scope="session")
def base_environment(shared: Path, distribution: Distribution) -> Environment:
    """A fresh environment of this Python: the wheel without extras, its dependencies, and pytest."""
    folder = shared / "base"
    make = partial(install, sys.executable, folder, distribution.wheel, "wheel.txt")
    return Environment(made_once(folder, make), THIS)


def install(python: str, folder: Path, wheel: Path, *locks: str) -> None:
    """Make an environment with these lock files and the wheel."""
    requirements = ROOT / "requirements"
    subprocess.run([python, requirements / "install.py", folder, *(requirements / name for name in locks)], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # The tests import only some of these modules; Python compiles them on import.
    subprocess.run([*pip, "--no-compile", "--no-deps", wheel], check=True)
