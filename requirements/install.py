"""Makes a virtual environment and installs lock files into it by their hashes: with uv, or with pip where uv fails.

    python requirements/install.py [--project] VENV LOCK_FILE...

Needs a Python with pip alone. A second run with the same lock files and the same interpreter compares digests and ends.
Safe to run from several processes at once: the first one works, the others wait for it.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT, PYTHON = "pyproject.toml", "python"
UV = ROOT / "requirements" / "uv.txt"
PIP = ["pip", "install", "--quiet", "--disable-pip-version-check"]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Keeps other runs for the same environment out."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with open(directory.parent / f"{directory.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def system_package(*names: str) -> None:
    """Installs Debian packages if this user may; ends with the command for the user if not."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.exit(f"this Python cannot make virtual environments; install {' or '.join(names)} and try again")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-q"], check=True, env=environment, stdout=sys.stderr)
    subprocess.run(["apt-get", "install", "-q", "-y", names[0]], check=True, env=environment, stdout=sys.stderr)


def create(directory: Path) -> None:
    """Makes the environment. Debian ships the part of Python that does this as a package of its own."""
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        system_package("python{}.{}-venv".format(*sys.version_info), "python3-venv")
    shutil.rmtree(directory, ignore_errors=True)
    venv.create(directory, with_pip=True, symlinks=True)


def install_packages(python: str, *arguments: str) -> None:
    """Installs with uv, which is several times as fast; with pip if uv has no wheel here or cannot reach its index.

    pip has its own settings, such as the index of a company, which uv does not read.
    """
    pip = [python, "-m", *PIP]
    wheel = subprocess.run([*pip, "--only-binary=:all:", "--require-hashes", "-r", str(UV)], stderr=subprocess.DEVNULL)
    uv = [python, "-m", "uv", "pip", "install", "--quiet", "--system-certs", "--python", python]
    if wheel.returncode or subprocess.run([*uv, *arguments]).returncode:
        print("uv cannot install this; trying pip", file=sys.stderr)
        subprocess.run([*pip, *arguments], check=True)


def install(directory: Path, locks: list[Path], project: bool) -> None:
    """Installs the lock files that have changed, and the project itself if `project` is set."""
    stamp = directory / "installed.json"
    names = [os.path.relpath(lock, ROOT) for lock in locks]
    inputs = [*names, PROJECT] if project else names
    expected = {PYTHON: sys.version, **{name: digest(ROOT / name) for name in inputs}}
    present = json.loads(stamp.read_text()) if stamp.exists() else {}
    if expected.items() <= present.items():
        return
    if present.get(PYTHON) != sys.version:
        print(f"making {directory.name} with Python {sys.version.split()[0]}", file=sys.stderr)
        create(directory)
        present = {}
    python = str(directory / "bin" / "python")
    if changed := [name for name in names if present.get(name) != expected[name]]:
        print(f"installing {', '.join(changed)}", file=sys.stderr)
        install_packages(python, "--require-hashes", *(f"--requirement={ROOT / name}" for name in changed))
    if project and present.get(PROJECT) != expected[PROJECT]:
        install_packages(python, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    stamp.write_text(json.dumps({**present, **expected}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", action="store_true", help="install this project too, editable")
    parser.add_argument("venv", type=Path)
    parser.add_argument("locks", type=Path, nargs="+")
    arguments = parser.parse_args()
    directory = arguments.venv.absolute()
    with alone(directory):
        try:
            install(directory, [lock.absolute() for lock in arguments.locks], arguments.project)
        except subprocess.CalledProcessError as failure:
            sys.exit(f"could not install into {directory.name}: {' '.join(map(str, failure.cmd))}")


if __name__ == "__main__":
    main()
