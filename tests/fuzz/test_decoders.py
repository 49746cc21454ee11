"""The coverage-guided fuzz run over every decoder: short in `make test`, FUZZ_SECONDS long in `make fuzz`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import EVERYTHING

pytestmark = pytest.mark.second_stage("a fuzzer that runs for as long as it is given")

SHORT = ["--newest", "-runs=60000" if EVERYTHING else "-runs=20000", "-seed=42"]
# The target measures slow inputs by CPU time. By the clock on the wall, only an input that never ends is one.
CLOCK = ["-report_slow_units=200", "-timeout=200"]


def options() -> list[str]:
    seconds = os.environ.get("FUZZ_SECONDS")
    return SHORT if seconds is None else [f"-max_total_time={seconds}", f"-seed={os.environ.get('FUZZ_SEED', 42)}"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="atheris has wheels for Linux alone")
def test_no_bytes_break_a_decoder(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.decoders",
        *options(),
        *CLOCK,
        "-max_len=4096",
        f"-artifact_prefix={tmp_path}/",
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    assert "DONE" in run.stderr
    assert list(tmp_path.iterdir()) == []
