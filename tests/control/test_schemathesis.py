"""What Schemathesis makes of the OpenAPI document, sent to a running server: nothing is answered but what it says."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_shim.control.api import operations
from kafka_shim.testing import CoordinatorServer

HERE = Path(__file__).parent
SECONDS = os.environ.get("SCHEMATHESIS_SECONDS", "20")


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    """One of which nobody minds the faults that never happen."""
    server = CoordinatorServer(topics={"orders": 4}, brokers=2, control=True)
    server.start()
    yield server
    server.stop()


@pytest.mark.timeout(120 + int(SECONDS) * 2)
def test_nothing_is_found(server: CoordinatorServer) -> None:
    server.puppet("alive", ["orders"])
    server.group("alive").stable(members=1)
    command = [Path(sys.executable).parent / "schemathesis", "--config-file", HERE / "schemathesis.toml"]
    options = ["--max-time", SECONDS, "--request-timeout", "10", "--max-failures", "5", "--seed", "1"]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "tests.control.hooks", "PYTHONPATH": ".", "NO_COLOR": "1"}
    done = subprocess.run(
        [*command, "run", f"{server.control_url}/v1/openapi.json", *options],
        capture_output=True,
        text=True,
        cwd=HERE.parent.parent,
        env=environment,
    )
    # What is generated may be very long.
    output = "\n".join(line[:500] for line in done.stdout.splitlines()) + done.stderr
    assert done.returncode == 0, output
    tested = re.search(r"Tested: (\d+)", output)
    assert tested is not None, output
    assert int(tested[1]) == len(operations(lab=True)), output
