"""Makes `kafka-shim` as a program with a Python inside: `python requirements/program.py WHEEL FILE.tar.gz`.

For machines without Python, such as those that test Go. It needs PyInstaller (`program.txt`), and is for the platform
that made it. The archive has a folder and no single file: such a file unpacks itself at each start and runs as two
processes, and a test that kills the first leaves the second alone.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import onefile

MAIN = """\
import runpy
import sys

if sys.argv[1:2] == ["-m"]:
    # Commands start others with `python -m kafka_shim`, and this program is their Python.
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    from kafka_shim.cli import main

    main()
"""


def make(wheel: Path, target: Path) -> None:
    """Writes the archive: the folder `kafka-shim`, and the program `kafka-shim` in it."""
    with tempfile.TemporaryDirectory() as name:
        packages, built, start = Path(name, "packages"), Path(name, "built"), Path(name, "main.py")
        onefile.unpack(wheel, packages)
        start.write_text(MAIN)
        command = [sys.executable, "-m", "PyInstaller", "--log-level", "ERROR", "--name", "kafka-shim", "--paths"]
        command += [str(packages), "--collect-all", "kafka_shim", "--copy-metadata", "kafka_group_shim"]
        command += ["--distpath", str(built), "--workpath", str(Path(name, "work")), "--specpath", name, str(start)]
        subprocess.run(command, check=True, cwd=name, env=os.environ | {"PYTHONPATH": str(packages)})
        with tarfile.open(target, "w:gz") as packed:
            packed.add(built / "kafka-shim", "kafka-shim")


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
