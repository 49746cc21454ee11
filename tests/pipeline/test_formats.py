"""Delta and Iceberg tables of a run and of streams, opened by other libraries.

`lakes.py` runs in its own environment, because the connectors are published for an older Spark.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.store import s3

pytestmark = pytest.mark.everything("another release of Spark")

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venvs" / "spark-4.1"


@pytest.mark.timeout(1800)
def test_lake_tables_have_the_rows_of_a_run_and_other_libraries_open_them(tmp_path: Path) -> None:
    install = [sys.executable, "requirements/install.py", str(ENVIRONMENT), "requirements/old/spark-4.1.txt"]
    subprocess.run(install, cwd=ROOT, check=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with s3() as store:
        command = [ENVIRONMENT / "bin" / "python", "-m", "tests.pipeline.lakes", tmp_path, store.address]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    merged = ["delta", "iceberg:lake.kafka"]
    expected = [
        "s3a://nobody/out cannot be written",
        "same 3", "same 4",
        *(
            f"{what} {kind}{more}"
            for kind in merged
            for what, more in (("merged", ""), ("went back", ""), ("made small", " membership rounds"))
        ),
        "same 4", "same 2",
        *(f"expired {kind}" for kind in merged),
        "united offset_history gaps quarantine",
        "same 2",
        *(f"opened {name} {kind}" for name in ("rounds", "membership") for kind in ("delta", "iceberg", merged[1])),
    ]  # fmt: skip
    # Spark also prints the package repositories that it uses, and more.
    words = {line.split()[0] for line in expected}
    checks = [line for line in done.stdout.splitlines() if line.partition(" ")[0] in words]
    assert checks == expected, done.stdout
