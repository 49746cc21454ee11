"""Makes `kafka-shim` as one file: `python requirements/onefile.py WHEEL FILE`.

The file is a zip archive that Python runs. It has the wheel and the packages of `cli.txt`, some of them compiled: so it
is for the minor version of Python and the platform that made it. At its first start it unpacks itself into the user's
cache, since compiled modules cannot be imported from an archive.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MAIN = """\
import os
import platform
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

if (sys.version_info[:2], sys.platform, platform.machine()) != {made_for!r}:
    sys.exit("kafka-shim: This file is for Python {python} on {system}: start it with that one, or install with pip.")
archive = Path(__file__).parent
cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-shim"
home = cache / f"{{archive.name}}-{{archive.stat().st_size}}-{{archive.stat().st_mtime_ns}}"
if not home.is_dir():
    cache.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(dir=cache)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    try:
        os.rename(folder, home)
    except OSError:  # another process was first
        shutil.rmtree(folder)
sys.path[0] = str(home)
# Commands start others with `python -m kafka_shim`.
os.environ["PYTHONPATH"] = os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])])

from kafka_shim.cli import main

main()
"""


def unpack(wheel: Path, folder: Path) -> None:
    """Puts the wheel and the packages of `cli.txt` into a folder."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    pip += ["--target", str(folder)]
    subprocess.run([*pip, "--require-hashes", "--requirement", str(ROOT / "requirements" / "cli.txt")], check=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    shutil.rmtree(folder / "bin", ignore_errors=True)


def make(wheel: Path, target: Path) -> None:
    """Writes the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(wheel, folder)
        made_for = (sys.version_info[:2], sys.platform, platform.machine())
        python, system = "{}.{}".format(*sys.version_info), f"{sys.platform} {platform.machine()}"
        text = MAIN.format(made_for=made_for, python=python, system=system)
        (folder / "__main__.py").write_text(text)
        with open(target, "wb") as file:
            file.write(b"#!/usr/bin/env python%d.%d\n" % sys.version_info[:2])
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
                for path in sorted(folder.rglob("*")):
                    packed.write(path, path.relative_to(folder))
    os.chmod(target, 0o755)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
